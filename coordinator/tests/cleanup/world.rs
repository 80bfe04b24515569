//! A node with an agent, and cleanups of its devices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hypercloud_api::conditions::find;
use hypercloud_api::{CleanupDevice, CleanupPhase, NodeDeviceCleanup};
use hypercloud_coordinator::again::Again;
use hypercloud_coordinator::agents::devices::{
    Cleaned, CleaningOrder, DeviceLink, DevicesSeen, Told,
};
use hypercloud_coordinator::agents::{AgentState, Failure};
use hypercloud_coordinator::cleanup::observation::{Observation, OtherSeen, age, is_over};
use hypercloud_coordinator::cleanup::plan::{judge, plan};
use hypercloud_coordinator::cleanup::status;
use hypercloud_coordinator::cleanup::verdict::{Action, Verdict};
use hypercloud_coordinator::inventory::observation::NodeSeen;
use hypercloud_inventory::{Device, Explanation, Inventory};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::devices::{at, device};
use super::drive::Simulated;

/// When the world begins.
const BEGIN: i64 = 1_000_000;
/// How long the agent takes for a device, in seconds.
const WORK: u32 = 12;

/// Something that the agent is at.
pub struct Work {
    pub order: CleaningOrder,
    left: u32,
}

pub struct World {
    pub now: i64,
    pub node: bool,
    /// When the node was made, where it was made anew.
    pub node_made: Option<i64>,
    /// Since when the agent is away, where it is.
    pub away: Option<i64>,
    pub inventory: Inventory,
    pub cleanups: BTreeMap<String, NodeDeviceCleanup>,
    pub work: Vec<Work>,
    /// How cleanings ended, by their references.
    pub answers: BTreeMap<String, Result<Cleaned, Failure>>,
    /// How the next cleanings end.
    pub failures: Vec<Failure>,
    /// What was cleaned, in order.
    pub cleaned: Vec<CleaningOrder>,
    /// Names of devices that somebody uses since.
    pub used: Vec<String>,
    /// Links of devices that are the storage's.
    pub storage: BTreeSet<String>,
    fuse: Option<u32>,
    effects: u32,
    dead: bool,
}

impl World {
    /// A node with `sda`, which it needs, `sdb` and `sdc`, which carry
    /// leftovers, and `sdd`, which is mounted.
    pub fn new() -> Self {
        let mut sda = device("sda", false);
        let mut sdd = device("sdd", false);
        let reason = |reason: &str, message: &str| Explanation {
            reason: reason.into(),
            message: message.into(),
        };
        sda.reasons
            .push(reason("BacksSystem", "the node's / is on it"));
        sda.reasons.push(reason("Mounted", "mounted at /"));
        sdd.reasons.push(reason("Mounted", "mounted at /data"));
        let inventory = Inventory {
            hostname: None,
            boot_id: Some("boot".into()),
            devices: vec![sda, device("sdb", false), device("sdc", false), sdd],
        };
        Self {
            now: BEGIN,
            node: true,
            node_made: None,
            away: None,
            inventory,
            cleanups: BTreeMap::new(),
            work: vec![],
            answers: BTreeMap::new(),
            failures: vec![],
            cleaned: vec![],
            used: vec![],
            storage: BTreeSet::new(),
            fuse: None,
            effects: 0,
            dead: false,
        }
    }

    pub fn ask(&mut self, name: &str, device: &str) {
        let cleanup = serde_json::from_value(json!({
            "apiVersion": "hypercloud.tmaxanc.com/v1alpha1", "kind": "NodeDeviceCleanup",
            "metadata": {"name": name, "uid": format!("uid-{name}"), "generation": 1,
                "creationTimestamp": self.time().to_string()},
            "spec": {"nodeName": "n1", "device": device, "confirmation": "yes-really-destroy-data"}
        }))
        .unwrap();
        self.cleanups.insert(name.to_owned(), cleanup);
    }

    pub fn phase(&self, name: &str) -> Option<CleanupPhase> {
        self.cleanups.get(name)?.status.as_ref()?.phase
    }

    pub fn reason(&self, name: &str) -> String {
        let status = self.cleanups.get(name).and_then(|it| it.status.as_ref());
        let condition = status.and_then(|status| find(&status.conditions, "Complete"));
        condition.map_or_else(String::new, |condition| condition.reason.clone())
    }

    /// Paths of what was cleaned.
    pub fn paths(&self) -> Vec<&str> {
        let paths = self.cleaned.iter().map(|order| order.device.path.as_str());
        paths.collect()
    }

    fn time(&self) -> Timestamp {
        at(self.now)
    }

    fn observe(&self, name: &str) -> Option<Observation> {
        let cleanup = self.cleanups.get(name)?.clone();
        let others = self.cleanups.values().filter(|other| {
            other.metadata.uid != cleanup.metadata.uid
                && other.spec.node_name == cleanup.spec.node_name
                && !is_over(other)
        });
        let others = others.map(|other| OtherSeen {
            name: other.metadata.name.clone().unwrap(),
            age: age(other),
            asked: other.spec.device.clone(),
            device: other.status.as_ref().and_then(|it| it.device.clone()),
        });
        let told = Told {
            revision: 1,
            inventory: self.inventory.clone(),
        };
        let heard = self.away.unwrap_or(self.now);
        let (agent, link) = match self.away {
            None => (
                AgentState::Synced,
                DeviceLink::Following { since: at(BEGIN) },
            ),
            Some(since) => {
                let since = at(since);
                (AgentState::Away { since }, DeviceLink::Away { since })
            }
        };
        Some(Observation {
            node: self.node.then(|| NodeSeen {
                created: self.node_made.map(at),
                ..NodeSeen::default()
            }),
            agent,
            devices: DevicesSeen {
                link,
                told: Some((Arc::new(told), at(heard))),
            },
            others: others.collect(),
            storage: self.storage.clone(),
            cleanup,
        })
    }

    /// Whether the coordinator lives to have another effect.
    fn effect(&mut self) -> bool {
        if self.fuse == Some(0) {
            self.dead = true;
            return false;
        }
        self.fuse = self.fuse.map(|left| left - 1);
        self.effects += 1;
        true
    }

    /// The agent is asked; nothing where it is at it.
    fn clean(&mut self, name: &str, order: CleaningOrder) -> Option<Result<Cleaned, Failure>> {
        let status = self.cleanups[name].status.as_ref().unwrap();
        assert_eq!(
            status.device.as_ref(),
            Some(&order.device),
            "not written down"
        );
        assert_eq!(status.phase, Some(CleanupPhase::Cleaning));
        if let Some(answer) = self.answers.get(&order.reference) {
            let answer = answer.clone();
            // What may work at another time is tried at another time.
            if answer.as_ref().is_err_and(|failure| failure.retryable) {
                self.answers.remove(&order.reference);
            }
            return Some(answer);
        }
        if self.work.iter().any(|work| work.order == order) {
            return None;
        }
        let at_it = |work: &&Work| work.order.device.serial == order.device.serial;
        let other = self.work.iter().find(at_it).map(|work| &work.order);
        assert_eq!(other, None, "{order:?} is asked for meanwhile");
        let is_it = |device: &&Device| device.identity.serial == order.device.serial;
        let device = self.inventory.devices.iter().find(is_it);
        let used = device.is_some_and(|device| self.used.contains(&device.name));
        assert!(!used, "{order:?} is asked for, and it is in use again");
        self.work.push(Work { order, left: WORK });
        None
    }

    /// The agent does its work.
    fn work(&mut self) {
        for work in &mut self.work {
            work.left -= 1;
        }
        let (going, done) = std::mem::take(&mut self.work)
            .into_iter()
            .partition::<Vec<Work>, _>(|work| work.left > 0);
        self.work = going;
        for Work { order, .. } in done {
            let is_it = |device: &&Device| device.identity.serial == order.device.serial;
            let device = self.inventory.devices.iter().find(is_it);
            let mounted = |device: &Device| device.reasons.iter().any(|it| it.code() == "Mounted");
            let answer = if device.is_some_and(mounted) {
                Err(failure("Mounted", false))
            } else if self.failures.is_empty() {
                self.cleaned.push(order.clone());
                Ok(Cleaned {
                    removed: vec!["ext4 at byte 1080".into()],
                    discarded: true,
                })
            } else {
                Err(self.failures.remove(0))
            };
            self.answers.insert(order.reference, answer);
        }
    }

    /// One reconcile of one cleanup.
    fn reconcile(&mut self, name: &str) {
        for _ in 0..8 {
            let Some(seen) = self.observe(name) else {
                return;
            };
            let plan = plan(&seen, self.time());
            let (mut verdict, mut again) = (plan.verdict, plan.again);
            for Action::Clean(device) in plan.actions {
                let order = CleaningOrder {
                    device,
                    reference: seen.reference(),
                };
                if !self.effect() {
                    return;
                }
                if let Some(answer) = self.clean(name, order) {
                    verdict = match answer {
                        Ok(cleaned) => Verdict::Cleaned(cleaned),
                        Err(failure) => judge(seen.status(), failure),
                    };
                    again = Again::Now;
                }
            }
            let now = self.time();
            let next = status::next(&seen.cleanup, &verdict, now);
            if seen.cleanup.status.as_ref() != Some(&next) {
                let former = seen.status().and_then(|status| status.device.clone());
                assert!(former.is_none() || former == next.device, "another device");
                if !self.effect() {
                    return;
                }
                self.cleanups.get_mut(name).unwrap().status = Some(next);
            }
            if again != Again::Now {
                return;
            }
        }
    }
}

impl Simulated for World {
    fn fuse(&mut self) -> &mut Option<u32> {
        &mut self.fuse
    }

    fn effects(&self) -> u32 {
        self.effects
    }

    fn look(&mut self) -> bool {
        let names: Vec<String> = self.cleanups.keys().cloned().collect();
        for name in names {
            self.reconcile(&name);
            if std::mem::take(&mut self.dead) {
                return false;
            }
        }
        true
    }

    fn pass(&mut self) {
        self.now += 1;
        if self.away.is_none() {
            self.work();
        }
    }

    fn told(&self) -> String {
        let cleanups: Vec<_> = self
            .cleanups
            .keys()
            .map(|name| (name, self.phase(name), self.reason(name)))
            .collect();
        format!("{cleanups:?}, cleaned {:?}", self.paths())
    }
}

/// A failure, as an agent says it.
pub fn failure(reason: &str, retryable: bool) -> Failure {
    Failure {
        reason: reason.into(),
        message: "for people".into(),
        retryable,
    }
}

/// What is written down of a device of the world's.
pub fn written(world: &World, name: &str) -> Option<CleanupDevice> {
    world.cleanups.get(name)?.status.as_ref()?.device.clone()
}
