//! What of a specification is refused when it is applied, beyond what the
//! definition's own rules see: that takes the cluster's nodes, their devices
//! and what runs.
//!
//! Only what a change brings is refused: a device that failed since is no
//! reason to refuse that something else is changed. What passes by itself is
//! left to the status, and whoever applies is warned of it, and of what the
//! change will cost.

use std::collections::BTreeMap;

use hypercloud_api::{HyperCloudStorageSpec, RemovalPolicy, SettledDevice, StorageNode};

use crate::device::{self, DeviceProblem, Known};
use crate::plan::change::{self, Change};
use crate::version::{self, KubernetesVersion, Running};

/// Why a specification is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One CamelCase word.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// What the cluster is like.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// Its nodes and devices.
    pub known: &'a Known,
    /// What runs.
    pub running: Running,
    /// The cluster's Kubernetes.
    pub kubernetes: Option<KubernetesVersion>,
}

/// Whether `new` in the place of `old` is anything that the cluster has a say
/// in. What is not is never refused, and needs no look at it.
#[must_use]
pub fn concerns(old: Option<&HyperCloudStorageSpec>, new: &HyperCloudStorageSpec) -> bool {
    old.is_none_or(|old| {
        old.versions != new.versions
            || old.cdi != new.cdi
            || old.storage.nodes != new.storage.nodes
            || old.storage.removal != new.storage.removal
    })
}

/// Why `new` is refused in the place of `old`; nothing where it is not.
#[must_use]
pub fn refusals(
    old: Option<&HyperCloudStorageSpec>,
    new: &HyperCloudStorageSpec,
    ground: Ground<'_>,
) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let is_new = old.is_none_or(|old| old.versions != new.versions || old.cdi != new.cdi);
    if is_new && let Err(error) = version::target(new, ground.running, ground.kubernetes) {
        refusals.push(Refusal {
            reason: error.reason(),
            message: error.to_string(),
        });
    }
    let had: &[StorageNode] = old.map_or(&[], |old| &old.storage.nodes);
    if had == new.storage.nodes && old.map(|old| old.storage.removal) == Some(new.storage.removal) {
        return refusals;
    }
    let before = device::settle(had, ground.known);
    let after = device::settle(&new.storage.nodes, ground.known);
    let brought = after
        .problems
        .iter()
        .filter(|problem| is_definite(problem) && !before.problems.contains(problem));
    refusals.extend(brought.map(|problem| Refusal {
        reason: problem.reason(),
        message: problem.to_string(),
    }));
    if new.storage.removal.unwrap_or_default() == RemovalPolicy::Refuse {
        let dropped = after
            .dropped
            .iter()
            .filter(|device| !before.dropped.contains(device));
        // Before there was a specification nothing was asked for, or dropped.
        let dropped = dropped.filter(|_| old.is_some());
        refusals.extend(dropped.map(|device| Refusal {
            reason: "DeviceRemovalRefused",
            message: format!(
                "{} of {} is Ceph's and cannot just go: leave it in storage.nodes, or set storage.removal to PurgeOsds, by which its data moves away first",
                device.device, device.hostname
            ),
        }));
    }
    refusals
}

/// What whoever applies `new` in the place of `old` is told: what is waited
/// for, and what the change costs.
#[must_use]
pub fn warnings(
    old: Option<&HyperCloudStorageSpec>,
    new: &HyperCloudStorageSpec,
    known: &Known,
) -> Vec<String> {
    let mut told = Vec::new();
    let had: &[StorageNode] = old.map_or(&[], |old| &old.storage.nodes);
    if had != new.storage.nodes {
        let before = device::settle(had, known);
        let after = device::settle(&new.storage.nodes, known);
        let waited = after
            .problems
            .iter()
            .filter(|problem| !is_definite(problem) && !before.problems.contains(problem));
        told.extend(waited.map(ToString::to_string));
        let added = |devices| {
            let change = Change {
                in_cluster: &known.in_cluster,
                devices,
                replicas: (None, new.storage.replicas),
            };
            change::notices(&change)
        };
        let known_before = added(&before.devices);
        let added = added(&after.devices).into_iter();
        let added = added.filter(|notice| !known_before.contains(notice));
        told.extend(added.map(|notice| notice.message));
        let shared_before = shared(&before.devices, known);
        let shared = shared(&after.devices, known).into_iter();
        told.extend(shared.filter(|told| !shared_before.contains(told)));
        if new.storage.removal == Some(RemovalPolicy::PurgeOsds) && old.is_some() {
            let dropped = after.dropped.iter();
            let dropped = dropped.filter(|device| !before.dropped.contains(device));
            told.extend(dropped.map(|device| {
                format!(
                    "{} of {} is given up: its data moves to other devices first, then its OSD is removed for good",
                    device.device, device.hostname
                )
            }));
        }
    }
    let Some(old) = old else {
        return told;
    };
    if new.storage.removal == Some(RemovalPolicy::PurgeOsds)
        && old.storage.removal != new.storage.removal
    {
        told.push(
            "with removal PurgeOsds, devices that are taken out of storage.nodes are emptied and given up"
                .to_owned(),
        );
    }
    let had = i64::from(old.storage.replicas);
    told.extend(change::raised(had, new.storage.replicas).map(|notice| notice.message));
    told
}

/// Devices of two nodes that say the same of themselves: one that both reach
/// would be written to by two OSDs. Nobody but its owner knows whether it is
/// one, so it is only told.
fn shared(devices: &[SettledDevice], known: &Known) -> Vec<String> {
    let mut first: BTreeMap<&str, &SettledDevice> = BTreeMap::new();
    let mut told = Vec::new();
    for device in devices {
        let Some(wwn) = wwn(device, known) else {
            continue;
        };
        match first.get(wwn) {
            Some(other) if other.hostname != device.hostname => told.push(format!(
                "{} of {} and {} of {} have the world wide name {wwn}: if that is one disk which both nodes reach, name it on one of them, or its data is lost",
                other.device, other.hostname, device.device, device.hostname
            )),
            Some(_) => {}
            None => drop(first.insert(wwn, device)),
        }
    }
    told
}

fn wwn<'a>(device: &SettledDevice, known: &'a Known) -> Option<&'a str> {
    let node = known.inventories.get(&device.hostname)?;
    let mut devices = node.inventory.devices.iter().map(|found| &found.identity);
    let identity = devices.find(|identity| identity.by_id.as_ref() == Some(&device.by_id))?;
    identity.wwn.as_deref()
}

/// Whether a problem is told from what is known for certain.
fn is_definite(problem: &DeviceProblem) -> bool {
    match problem {
        DeviceProblem::UnknownHostname { .. }
        | DeviceProblem::Refused { .. }
        | DeviceProblem::Duplicate { .. } => true,
        DeviceProblem::InventoryPending { .. } | DeviceProblem::InventoryStale { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypercloud_api::{DeviceName, InventoryState, StorageVersions};
    use hypercloud_inventory::Inventory;
    use serde_json::json;
    use std::collections::{BTreeMap, BTreeSet};

    fn link(name: &str) -> String {
        format!("/dev/disk/by-id/wwn-{name}")
    }

    /// A node with the disk sda, which Ceph has, the disk sdb, which is free,
    /// and the disk sdc, which is mounted.
    fn known() -> Known {
        let disk = |name: &str, reason: Option<&str>| {
            let reasons: Vec<_> = reason
                .map(|reason| json!({"reason": reason, "message": reason}))
                .into_iter()
                .collect();
            serde_json::from_value(json!({
                "name": name, "path": format!("/dev/{name}"), "kind": "disk",
                "available": reasons.is_empty(), "reasons": reasons, "size": 1_u64 << 40,
                "identity": {"byId": link(name), "links": [link(name)]}}))
            .unwrap()
        };
        let inventory = Inventory {
            hostname: None,
            boot_id: None,
            devices: vec![
                disk("sda", Some("BlueStore")),
                disk("sdb", None),
                disk("sdc", Some("Mounted")),
            ],
        };
        Known {
            hostnames: BTreeSet::from(["n".to_owned()]),
            inventories: BTreeMap::from([(
                "n".to_owned(),
                crate::device::NodeDevices {
                    state: InventoryState::Current,
                    inventory,
                },
            )]),
            settled: Vec::new(),
            in_cluster: BTreeSet::from([("n".to_owned(), link("sda"))]),
            removing: Vec::new(),
        }
    }

    fn spec(hostname: &str, names: &[&str]) -> HyperCloudStorageSpec {
        let mut spec = HyperCloudStorageSpec::default();
        spec.storage.nodes = vec![StorageNode {
            hostname: hostname.to_owned(),
            devices: names.iter().map(|name| DeviceName::from(*name)).collect(),
        }];
        spec
    }

    fn reasons(
        old: Option<&HyperCloudStorageSpec>,
        new: &HyperCloudStorageSpec,
    ) -> Vec<&'static str> {
        let known = known();
        let ground = Ground {
            known: &known,
            running: Running {
                rook: Some(version::Version::new(1, 20, 6)),
                ceph: None,
            },
            kubernetes: None,
        };
        refusals(old, new, ground)
            .iter()
            .map(|r| r.reason)
            .collect()
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_reason() {
        let none: [&str; 0] = [];
        assert_eq!(reasons(None, &spec("n", &["sda", "sdb"])), none);
        assert_eq!(
            reasons(None, &spec("n", &["sda", "sdc"])),
            ["DeviceNotAvailable"]
        );
        assert_eq!(reasons(None, &spec("n", &["sdz"])), ["DeviceNotThere"]);
        assert_eq!(reasons(None, &spec("m", &["sda"])), ["HostnameUnknown"]);
        let twice = spec("n", &["sdb", &link("sdb")]);
        assert_eq!(reasons(None, &twice), ["DeviceDuplicate"]);
    }

    #[test]
    fn only_what_a_change_brings_is_refused() {
        let old = spec("n", &["sda", "sdc"]);
        let mut new = old.clone();
        new.storage.replicas = 3;
        assert!(reasons(Some(&old), &new).is_empty());
        let more = spec("n", &["sda", "sdc", "sdb"]);
        assert!(reasons(Some(&old), &more).is_empty());
        let worse = spec("n", &["sda", "sdc", "sdz"]);
        assert_eq!(reasons(Some(&old), &worse), ["DeviceNotThere"]);
    }

    #[test]
    fn devices_do_not_just_go() {
        let old = spec("n", &["sda", "sdb"]);
        let mut new = spec("n", &["sdb"]);
        assert_eq!(reasons(Some(&old), &new), ["DeviceRemovalRefused"]);
        new.storage.removal = Some(RemovalPolicy::PurgeOsds);
        assert!(reasons(Some(&old), &new).is_empty());
        // By another name it is still there.
        assert!(reasons(Some(&old), &spec("n", &[&link("sda"), "sdb"])).is_empty());
    }

    #[test]
    fn people_are_told_what_is_waited_for_and_what_it_costs() {
        let told = |old: Option<&HyperCloudStorageSpec>, new: &HyperCloudStorageSpec| {
            warnings(old, new, &known())
        };
        let old = spec("n", &["sda"]);
        assert!(told(Some(&old), &old).is_empty());
        let added = told(Some(&old), &spec("n", &["sda", "sdb"]));
        assert_eq!(added.len(), 1);
        assert!(added[0].contains("data moves"), "{added:?}");

        let mut waits = known();
        let sda = waits.inventories.get_mut("n").unwrap();
        sda.state = InventoryState::Stale;
        let waited = warnings(Some(&old), &spec("n", &["sda", "sdb"]), &waits);
        assert!(waited[0].contains("not heard of"), "{waited:?}");
        let mut fresh = Known::default();
        fresh.hostnames.insert("n".to_owned());
        let waited = warnings(None, &old, &fresh);
        assert!(waited[0].contains("not known yet"), "{waited:?}");

        let mut more = old.clone();
        more.storage.replicas = 3;
        assert!(told(Some(&old), &more)[0].contains("copies"));

        let mut purged = spec("n", &["sdb"]);
        purged.storage.removal = Some(RemovalPolicy::PurgeOsds);
        let given_up = told(Some(&old), &purged);
        let says = |words| given_up.iter().any(|told| told.contains(words));
        assert!(says("sda of n is given up"), "{given_up:?}");
        assert!(says("emptied and given up"), "{given_up:?}");
        assert!(told(None, &purged).len() < given_up.len());
    }

    #[test]
    fn a_disk_that_two_nodes_reach_is_told() {
        let mut known = known();
        known.in_cluster.clear();
        let mut disk = known.inventories["n"].inventory.devices[1].clone();
        disk.identity.wwn = Some("5000c500a1b2c3d4".to_owned());
        for hostname in ["m", "n"] {
            known.hostnames.insert(hostname.to_owned());
            let mut node = known.inventories["n"].clone();
            node.inventory.devices = vec![disk.clone()];
            known.inventories.insert(hostname.to_owned(), node);
        }
        let mut both = spec("m", &["sdb"]);
        assert!(warnings(None, &both, &known).is_empty());
        both.storage.nodes.extend(spec("n", &["sdb"]).storage.nodes);
        let told = warnings(None, &both, &known);
        assert!(told[0].contains("5000c500a1b2c3d4"), "{told:?}");
        assert!(warnings(Some(&both), &both, &known).is_empty());
    }

    #[test]
    fn the_cluster_is_asked_only_about_what_it_has_a_say_in() {
        let old = spec("n", &["sda"]);
        assert!(concerns(None, &old));
        let mut new = old.clone();
        new.storage.replicas = 3;
        new.cleanup = Some(hypercloud_api::StorageCleanup::default());
        assert!(!concerns(Some(&old), &new));
        assert!(concerns(Some(&old), &spec("n", &["sda", "sdb"])));
        new.versions = Some(StorageVersions::default());
        assert!(concerns(Some(&old), &new));
    }

    #[test]
    fn downgrades_are_refused() {
        let old = spec("n", &["sda"]);
        let mut new = old.clone();
        new.versions = Some(StorageVersions {
            rook: Some("1.19.10".into()),
            ceph: None,
        });
        assert_eq!(reasons(Some(&old), &new), ["DowngradeRefused"]);
    }
}
