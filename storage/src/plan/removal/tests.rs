//! Giving up a device, with a coordinator that forgets everything between two
//! looks.

use hypercloud_api::StorageNode;
use proptest::prelude::*;

use super::*;
use crate::health::Verdict;

fn device(hostname: &str, by_id: &str) -> SettledDevice {
    SettledDevice {
        hostname: hostname.into(),
        device: by_id.into(),
        by_id: by_id.into(),
        device_class: None,
    }
}

fn osd(id: u32, hostname: &str, by_id: &str) -> Osd {
    Osd {
        id,
        hostname: hostname.into(),
        device: by_id.into(),
        is_in: true,
        runs: true,
        safe_to_destroy: Some(false),
    }
}

fn storage(policy: Option<RemovalPolicy>, replicas: i32) -> StorageCluster {
    StorageCluster {
        replicas,
        nodes: Vec::<StorageNode>::new(),
        removal: policy,
        ..Default::default()
    }
}

/// A cluster of Ceph in which a device is given up.
struct World {
    storage: StorageCluster,
    wanted: Vec<SettledDevice>,
    cluster: Vec<SettledDevice>,
    removing: Vec<SettledDevice>,
    osds: Vec<Osd>,
    sick: bool,
    unknown: bool,
}

impl World {
    fn new(policy: Option<RemovalPolicy>, replicas: i32) -> Self {
        let all: Vec<SettledDevice> = ["a", "b", "c", "d"].map(|n| device(n, n)).to_vec();
        Self {
            storage: storage(policy, replicas),
            wanted: all[..3].to_vec(),
            osds: (0..4)
                .map(|n| osd(n, &all[n as usize].hostname, &all[n as usize].by_id))
                .collect(),
            cluster: all,
            removing: Vec::new(),
            sick: false,
            unknown: false,
        }
    }

    fn known(&self) -> Osds {
        match self.unknown {
            true => Osds::unknown(Problem {
                reason: "OsdsAsked",
                message: "Ceph is asked".into(),
                waiting: true,
            }),
            false => Osds::known(self.osds.clone()),
        }
    }

    fn plan(&self) -> Plan {
        let dropped: Vec<SettledDevice> = self
            .cluster
            .iter()
            .filter(|device| !is_listed(&self.wanted, device))
            .cloned()
            .collect();
        let ceph = match self.sick {
            false => Judgement::healthy(),
            true => Judgement {
                verdict: Verdict::Unhealthy,
                reason: "CephFails",
                message: "Ceph fails".into(),
            },
        };
        plan(&View {
            storage: &self.storage,
            wanted: &self.wanted,
            dropped: &dropped,
            removing: &self.removing,
            osds: &self.known(),
            ceph: &ceph,
        })
    }

    fn osd(&mut self, id: u32) -> &mut Osd {
        self.osds.iter_mut().find(|osd| osd.id == id).unwrap()
    }

    /// Does what the plan says; `applied` is whether the CephCluster was too.
    fn act(&mut self, applied: bool) -> Option<Action> {
        let plan = self.plan();
        if applied {
            self.cluster = self.wanted.iter().chain(&plan.kept).cloned().collect();
        }
        match plan.action.clone()? {
            Action::WriteDown(device) => self.removing.push(device),
            Action::MarkOut(id) => self.osd(id).is_in = false,
            Action::MarkIn(id) => self.osd(id).is_in = true,
            Action::Stop(id) => {
                assert_eq!(
                    self.osd(id).safe_to_destroy,
                    Some(true),
                    "stopped with data"
                );
                self.osd(id).runs = false;
            }
            Action::Purge(id) => {
                assert!(!self.osd(id).runs, "purged while it runs");
                self.osds.retain(|osd| osd.id != id);
            }
            Action::Forget(device) => self.removing.retain(|other| *other != device),
        }
        plan.action
    }
}

#[test]
fn nothing_goes_that_was_not_asked_to() {
    let world = World::new(None, 3);
    let plan = world.plan();
    assert_eq!(plan.kept, [device("d", "d")]);
    assert_eq!(plan.action, None);
    assert_eq!(plan.problems[0].reason, "DeviceRemovalRefused");
    assert!(plan.problems[0].message.contains("PurgeOsds"));
    assert!(!plan.problems[0].waiting);
}

#[test]
fn copies_need_room() {
    let mut world = World::new(Some(RemovalPolicy::PurgeOsds), 4);
    assert_eq!(world.plan().problems[0].reason, "TooFewDevicesLeft");
    assert_eq!(world.plan().action, None);
    world.storage.replicas = 3;
    assert!(world.plan().action.is_some());
}

#[test]
fn nothing_begins_while_ceph_is_sick() {
    let mut world = World::new(Some(RemovalPolicy::PurgeOsds), 3);
    world.sick = true;
    let plan = world.plan();
    assert_eq!((plan.action, plan.kept.len()), (None, 1));
    assert!(plan.problems[0].waiting);
}

#[test]
fn a_device_goes_step_by_step() {
    let mut world = World::new(Some(RemovalPolicy::PurgeOsds), 3);
    assert_eq!(world.act(true), Some(Action::WriteDown(device("d", "d"))));
    // The CephCluster is told first.
    assert_eq!(world.act(true), None);
    assert_eq!(world.act(true), Some(Action::MarkOut(3)));
    assert_eq!(world.act(true), None);
    world.osd(3).safe_to_destroy = Some(true);
    assert_eq!(world.act(true), Some(Action::Stop(3)));
    assert_eq!(world.act(true), Some(Action::Purge(3)));
    assert_eq!(world.act(true), Some(Action::Forget(device("d", "d"))));
    assert_eq!(world.plan(), Plan::default());
}

#[test]
fn a_device_that_is_wanted_again_stays() {
    let mut world = World::new(Some(RemovalPolicy::PurgeOsds), 3);
    for _ in 0..3 {
        world.act(true);
    }
    assert!(!world.osds[3].is_in);
    world.wanted.push(device("d", "d"));
    assert_eq!(world.act(true), Some(Action::MarkIn(3)));
    assert_eq!(world.act(true), Some(Action::Forget(device("d", "d"))));
    assert!(world.plan().action.is_none() && world.osds.len() == 4);
}

#[test]
fn what_began_stops_where_it_is_not_asked_for_any_more() {
    let mut world = World::new(Some(RemovalPolicy::PurgeOsds), 3);
    while world.osds[3].is_in {
        world.act(true);
    }
    world.osd(3).safe_to_destroy = Some(true);
    world.storage.removal = None;
    let plan = world.plan();
    assert_eq!(plan.action, None);
    assert!(plan.problems[0].message.contains("Refuse"));
    world.storage.removal = Some(RemovalPolicy::PurgeOsds);
    assert_eq!(world.act(true), Some(Action::Stop(3)));
}

#[test]
fn what_is_not_known_is_waited_for() {
    let mut world = World::new(Some(RemovalPolicy::PurgeOsds), 3);
    world.act(true);
    world.act(true);
    world.unknown = true;
    let plan = world.plan();
    assert_eq!(plan.action, None);
    assert_eq!(plan.problems[0].reason, "OsdsAsked");
    assert_eq!(world.removing, [device("d", "d")]);
}

proptest! {
    /// Whatever the order of looks, of Ceph's work and of failures to apply:
    /// it ends, only the one OSD is gone, and it was safe (see `act`).
    #[test]
    fn it_ends_and_only_the_one_is_gone(
        looks in prop::collection::vec(
            (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
            0..40,
        ),
    ) {
        let mut world = World::new(Some(RemovalPolicy::PurgeOsds), 3);
        for (applied, sick, moved, unknown) in looks {
            world.sick = sick;
            world.unknown = unknown;
            if moved && let Some(osd) = world.osds.iter_mut().find(|osd| !osd.is_in) {
                osd.safe_to_destroy = Some(true);
            }
            world.act(applied);
            prop_assert!(world.osds.iter().filter(|osd| osd.id < 3).all(|osd| osd.is_in && osd.runs));
        }
        world.sick = false;
        world.unknown = false;
        for _ in 0..12 {
            if let Some(osd) = world.osds.iter_mut().find(|osd| !osd.is_in) {
                osd.safe_to_destroy = Some(true);
            }
            world.act(true);
        }
        prop_assert_eq!(world.osds.len(), 3);
        prop_assert_eq!(world.plan(), Plan::default());
        prop_assert_eq!(world.cluster.len(), 3);
    }
}
