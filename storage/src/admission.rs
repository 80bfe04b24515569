//! What of a specification is refused when it is applied, beyond what the
//! definition's own rules see: that takes the cluster's nodes, their devices
//! and what runs.
//!
//! Only what a change brings is refused: a device that failed since is no
//! reason to refuse that something else is changed. What passes by itself is
//! left to the status.

use hypercloud_api::{HyperCloudStorageSpec, RemovalPolicy, StorageNode};

use crate::device::{self, DeviceProblem, Known};
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
