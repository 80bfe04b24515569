//! The whole course of a storage, in a cluster that lives by itself, with a
//! coordinator that dies before any of its effects.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod removal;
mod rook;
mod upgrade;
mod world;

use hypercloud_api::{ComponentState, StorageState};
use hypercloud_storage::health::cluster_key;
use proptest::prelude::*;
use world::{Files, Trouble, World, spec};

const NEW: &str = "1.20.6";
const OLD: &str = "1.19.10";
const ALL: usize = usize::MAX;

const STORY: &[&str] = &[
    "Installing 0/11 snapshot-definitions: CustomResourceDefinition snapshot.storage.k8s.io-volumesnapshotclasses is being applied",
    "Installing 1/11 snapshot-controller: snapshot-definitions comes first",
    "Installing 1/11 snapshot-controller: ServiceAccount kube-system/snapshot-controller is being applied",
    "Installing 2/11 rook-definitions: snapshot-controller comes first",
    "Installing 2/11 rook-definitions: CustomResourceDefinition cephclusters is being applied",
    "Installing 3/11 rook-common: rook-definitions comes first",
    "Installing 3/11 rook-common: Namespace rook-ceph is being applied",
    "Installing 4/11 csi-operator: rook-common comes first",
    "Installing 4/11 csi-operator: CustomResourceDefinition drivers is being applied",
    "Installing 5/11 rook-operator: csi-operator comes first",
    "Installing 5/11 rook-operator: Driver rook-ceph/rook-ceph.rbd.csi.ceph.com is being applied",
    "Installing 6/11 ceph-cluster: rook-operator comes first",
    "Installing 6/11 ceph-cluster: CephCluster rook-ceph/rook-ceph is being applied",
    "Installing 6/11 ceph-cluster: Rook works on the CephCluster",
    "Installing 7/11 csi-drivers: ceph-cluster comes first",
    "Installing 8/11 block-storage: csi-drivers comes first",
    "Installing 8/11 block-storage: CephBlockPool rook-ceph/hypercloud-block is being applied",
    "Installing 9/11 object-store: block-storage comes first",
    "Installing 9/11 object-store: CephObjectStore rook-ceph/hypercloud-objects is being applied",
    "Installing 10/11 toolbox: object-store comes first",
    "Installing 10/11 toolbox: Deployment rook-ceph/rook-ceph-tools is being applied",
    "OK 11/11 ",
];

/// Looks and lives until the storage is in a state, or for too long.
fn until(world: &mut World, state: StorageState) {
    for _ in 0..200 {
        world.coordinate(ALL);
        world.live();
        world.pass(5);
        if world.state() == state {
            return;
        }
    }
    panic!("not {state:?}: {}", world.message());
}

fn installed(rook: &str) -> World {
    let mut world = World::new(rook);
    until(&mut world, StorageState::Ok);
    world
}

#[test]
fn an_installation_ends_well_in_order() {
    let world = installed(NEW);
    assert_eq!(
        world.log,
        [
            "snapshot-definitions",
            "snapshot-controller",
            "rook-definitions",
            "rook-common",
            "csi-operator",
            "rook-operator",
            "ceph-cluster",
            "block-storage",
            "object-store",
            "toolbox"
        ]
    );
    let status = world.resource.status.clone().unwrap();
    assert_eq!(status.ready.as_deref(), Some("11/11"));
    assert_eq!(status.versions.unwrap().rook.as_deref(), Some(NEW));
    assert_eq!(world.devices().len(), 3);
    // The same look again says the same.
    let again = world.look();
    assert_eq!(
        Some(&again.status.components),
        world.resource.status.as_ref().map(|s| &s.components)
    );
    assert!(again.notices.is_empty() && again.remove.is_empty());
}

/// What `kubectl get` shows while it is installed.
#[test]
fn an_installation_tells_its_story() {
    let mut world = World::new(NEW);
    let mut story: Vec<String> = Vec::new();
    for _ in 0..100 {
        world.coordinate(ALL);
        world.live();
        world.pass(5);
        let status = world.resource.status.clone().unwrap();
        let line = format!(
            "{} {} {}",
            world.state().as_str(),
            status.ready.unwrap(),
            status.message.unwrap_or_default()
        );
        if story.last() != Some(&line) {
            story.push(line);
        }
    }
    let shown: Vec<&str> = story.iter().map(String::as_str).collect();
    assert_eq!(shown, STORY, "{story:#?}");
}

#[test]
fn devices_are_written_down_before_ceph_has_them() {
    let mut world = World::new(NEW);
    for _ in 0..200 {
        world.coordinate(ALL);
        let status = world.resource.status.clone().unwrap();
        for (host, by_id) in world.devices() {
            let written =
                |d: &hypercloud_api::SettledDevice| d.hostname == host && d.by_id == by_id;
            assert!(status.devices.iter().any(written));
        }
        world.live();
        world.pass(5);
    }
    assert_eq!(world.state(), StorageState::Ok);
}

#[test]
fn names_that_change_places_change_nothing() {
    let mut world = installed(NEW);
    let before = world.devices();
    for host in ["a", "b", "c"] {
        world.reboot(host);
    }
    until(&mut world, StorageState::Ok);
    assert_eq!(world.devices(), before);
}

#[test]
fn a_node_joins_and_none_leaves_unasked() {
    let mut world = installed(NEW);
    world.change(|s| s.storage = spec(NEW, &["a", "b", "c", "d"]).storage);
    world.coordinate(ALL);
    let told = world.look();
    assert_eq!(told.notices[0].reason, "NodeAdded");
    until(&mut world, StorageState::Ok);
    assert_eq!(world.devices().len(), 4);
    world.change(|s| s.storage = spec(NEW, &["a", "b", "c"]).storage);
    until(&mut world, StorageState::Error);
    assert!(
        world.message().contains("cannot just go"),
        "{}",
        world.message()
    );
    assert_eq!(world.devices().len(), 4);
}

#[test]
fn copies_without_room_are_an_error_that_says_so() {
    let mut world = World::new(NEW);
    world.change(|s| *s = spec(NEW, &["a"]));
    for _ in 0..60 {
        world.coordinate(ALL);
        world.live();
        world.pass(5);
    }
    assert_eq!(world.state(), StorageState::Error);
    let message = "3 copies go to another node each, and 1 of them";
    assert!(world.message().contains(message), "{}", world.message());
    world.change(|s| *s = spec(NEW, &["a", "b", "c"]));
    until(&mut world, StorageState::Ok);
}

#[test]
fn a_ceph_that_runs_is_moved_to_no_other_network() {
    let mut world = installed(NEW);
    let network = hypercloud_api::StorageNetwork {
        host_network: Some(true),
        encryption: Some(true),
        ..Default::default()
    };
    world.change(|s| s.storage.network = Some(network));
    for _ in 0..5 {
        world.coordinate(ALL);
        world.live();
        world.pass(5);
    }
    assert_eq!(world.state(), StorageState::Error);
    let told = "the network of a Ceph that runs is not changed";
    assert!(world.message().contains(told), "{}", world.message());
    let network = &world.seen.get(&cluster_key()).unwrap()["spec"]["network"];
    assert!(network["provider"].is_null(), "{network}");
    // What goes over it is free.
    assert_eq!(network["connections"]["encryption"]["enabled"], true);
    world.change(|s| s.storage.network = None);
    until(&mut world, StorageState::Ok);
}

#[test]
fn no_cluster_is_made_of_some_of_its_devices() {
    let mut world = World::new(NEW);
    world.change(|s| *s = spec(NEW, &["a", "b", "z"]));
    for _ in 0..50 {
        world.coordinate(ALL);
        world.live();
        world.pass(5);
    }
    assert_eq!(world.state(), StorageState::Error);
    assert!(
        world.message().contains("kubernetes.io/hostname=z"),
        "{}",
        world.message()
    );
    assert!(!world.seen.has(&cluster_key()));
    world.change(|s| *s = spec(NEW, &["a", "b", "c"]));
    until(&mut world, StorageState::Ok);
}

#[test]
fn a_ceph_cluster_that_is_lost_is_not_made_anew() {
    let mut world = installed(NEW);
    let devices = world.resource.status.clone().unwrap().devices;
    let key = hypercloud_storage::health::cluster_key();
    let cluster = world.seen.get(&key).unwrap().clone();
    world.seen.remove(&key);
    until(&mut world, StorageState::Error);
    for _ in 0..20 {
        world.coordinate(ALL);
        world.live();
    }
    assert!(!world.seen.has(&key));
    assert!(
        world.message().contains("is not made anew"),
        "{}",
        world.message()
    );
    let status = world.resource.status.clone().unwrap();
    assert_eq!(status.devices, devices);
    // Somebody restores it.
    world.seen.insert(cluster);
    until(&mut world, StorageState::Ok);
    assert_eq!(world.devices().len(), 3);
}

#[test]
fn files_that_are_not_at_hand_are_fetched_and_change_nothing() {
    let mut world = World::new(NEW);
    world.files = Files::None;
    world.coordinate(ALL);
    let look = world.look();
    // Those of every stage, the first one's first.
    assert_eq!(look.fetch.len(), 13);
    assert!(look.fetch[0].file.contains("volumesnapshotclasses"));
    assert!(look.apply.is_empty());
    let mut world = installed(NEW);
    world.files = Files::None;
    world.coordinate(ALL);
    assert_eq!(world.state(), StorageState::Ok, "{}", world.message());
    assert!(!world.look().fetch.is_empty());
    world.files = Files::Wrong;
    world.coordinate(ALL);
    assert_eq!(world.state(), StorageState::Error);
    assert!(
        world
            .message()
            .contains("it is not the file that was released")
    );
    world.files = Files::All;
    until(&mut world, StorageState::Ok);
}

#[test]
fn what_takes_too_long_is_an_error_and_may_still_come() {
    let mut world = World::new(NEW);
    world.trouble = Trouble::OperatorDown;
    for _ in 0..20 {
        world.coordinate(ALL);
        world.live();
        world.pass(5);
    }
    assert_eq!(world.state(), StorageState::Installing);
    world.pass(300);
    world.coordinate(ALL);
    assert_eq!(world.state(), StorageState::Error);
    assert!(
        world.message().contains("not done within 5 minutes"),
        "{}",
        world.message()
    );
    world.trouble = Trouble::None;
    until(&mut world, StorageState::Ok);
}

#[test]
fn what_is_asked_for_no_more_goes_where_it_holds_no_data() {
    let mut world = installed(NEW);
    world.change(|s| s.storage.toolbox = Some(false));
    for _ in 0..5 {
        world.coordinate(ALL);
        world.live();
    }
    assert_eq!(world.state(), StorageState::Ok);
    assert!(!world.seen.keys().any(|key| key.name == "rook-ceph-tools"));
    assert_eq!(
        world.resource.status.clone().unwrap().ready.as_deref(),
        Some("10/10")
    );
}

#[test]
fn what_is_let_go_is_taken_up_again() {
    let mut world = installed(OLD);
    let (objects, devices) = (world.seen.clone(), world.devices());
    world.delete(false);
    for _ in 0..5 {
        world.coordinate(ALL);
        world.live();
    }
    assert!(world.gone);
    let keys = |seen: &hypercloud_storage::object::Seen| seen.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&world.seen), keys(&objects));

    // Another one, which names no version, and disks that changed places.
    let mut fresh = World::new(OLD);
    fresh.resource.spec.versions = None;
    fresh.seen = world.seen;
    fresh.now = world.now;
    fresh.reboot("a");
    // `/dev/sda` of that node is another disk by now.
    fresh.resource.spec.storage.nodes[0].devices = vec!["/dev/sdb".into()];
    until(&mut fresh, StorageState::Ok);
    assert_eq!(fresh.devices(), devices);
    let versions = fresh.resource.status.clone().unwrap().versions.unwrap();
    assert_eq!(versions.rook.as_deref(), Some(OLD));
    let changed = fresh.log.iter().any(|line| line.contains(':'));
    assert!(!changed, "{:?}", fresh.log);
}

#[test]
fn a_deletion_leaves_nothing() {
    let mut world = installed(NEW);
    world.users.claims = vec!["team/disk".into()];
    world.delete(true);
    for _ in 0..5 {
        world.coordinate(ALL);
        world.live();
    }
    assert_eq!(world.state(), StorageState::Deleting);
    let status = world.resource.status.clone().unwrap();
    assert_eq!(
        status.deletion_blockers,
        ["PersistentVolumeClaim team/disk"]
    );
    assert!(world.seen.has(&cluster_key()));
    world.users.claims.clear();
    for _ in 0..100 {
        world.coordinate(ALL);
        world.live();
    }
    assert!(world.gone);
    let left: Vec<String> = world.seen.keys().map(ToString::to_string).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn troubles() -> impl Strategy<Value = Trouble> {
    prop::sample::select(vec![
        Trouble::None,
        Trouble::None,
        Trouble::HealthErr,
        Trouble::OsdDown,
        Trouble::OperatorDown,
        Trouble::ReconcileFailed,
        Trouble::PoolFailed,
        Trouble::DriverDown,
        Trouble::NoLook,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Killed before any effect, at any stage, again and again: it converges.
    #[test]
    fn it_converges_whenever_the_coordinator_dies(
        deaths in prop::collection::vec((0usize..6, any::<bool>()), 0..50),
        deleted in any::<bool>(),
    ) {
        let mut world = World::new(NEW);
        for (effects, lives) in &deaths {
            world.coordinate(*effects);
            if *lives {
                world.live();
            }
            world.pass(5);
        }
        until(&mut world, StorageState::Ok);
        prop_assert_eq!(world.devices().len(), 3);
        if deleted {
            world.delete(true);
            for (effects, lives) in &deaths {
                world.coordinate(*effects);
                if *lives {
                    world.live();
                }
            }
            for _ in 0..100 {
                world.coordinate(ALL);
                world.live();
            }
            prop_assert!(world.gone);
            prop_assert_eq!(world.seen.keys().count(), 0);
        }
    }

    /// Whatever goes wrong and comes back: OK is never said of what is not
    /// well once Rook said so, ERROR is said at once, and it comes back.
    #[test]
    fn ok_is_never_said_of_what_is_not_well(
        events in prop::collection::vec((troubles(), 1usize..6), 1..12),
    ) {
        let mut world = installed(NEW);
        for (trouble, looks) in events {
            world.trouble = trouble;
            // A look that never comes is noticed when the last is old.
            world.pass(if trouble == Trouble::NoLook { 130 } else { 5 });
            for _ in 0..looks {
                world.live();
                world.coordinate(ALL);
                world.pass(5);
                match world.is_well() {
                    true => prop_assert_eq!(world.state(), StorageState::Ok, "{}", world.message()),
                    false => prop_assert_eq!(
                        world.state(), StorageState::Error, "{:?} {}", trouble, world.message()
                    ),
                }
            }
            let status = world.resource.status.clone().unwrap();
            let failed = status.components.iter().any(|c| c.state == ComponentState::Failed);
            prop_assert_eq!(failed, !world.is_well());
        }
    }
}
