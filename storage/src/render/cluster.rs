//! The CephCluster.

use hypercloud_api::{HyperCloudStorageSpec, StorageCluster, StorageNetwork};
use hypercloud_inventory::rook::Storage;
use serde_json::{Value, json};

use super::ceph_image;
use crate::version::Target;
use crate::{CEPH_CLUSTER, ROOK_CONFIRMATION, ROOK_NAMESPACE};

/// How often Rook asks Ceph how it is. Its own minute would hide a failure
/// for twice as long as this system may.
const STATUS_INTERVAL: &str = "15s";

/// Where monitors keep their data.
pub const DATA_DIR: &str = "/var/lib/rook";

/// What becomes of the data when the CephCluster is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// It stays on the devices. Nothing is said to Rook, so that what somebody
    /// else said is seen.
    Kept,
    /// It is destroyed. Rook does nothing else for the cluster from then on.
    Destroyed,
}

/// How many monitors there are.
#[must_use]
pub fn monitors(storage: &StorageCluster) -> i32 {
    storage
        .mons
        .unwrap_or(if storage.nodes.len() >= 3 { 3 } else { 1 })
}

/// The CephCluster of a specification, on these devices and no others. Of
/// monitors and managers it has no fewer than there are `now`, unless that is
/// asked for: nodes may be taken away whose data has not moved yet.
#[must_use]
pub fn ceph_cluster(
    spec: &HyperCloudStorageSpec,
    target: &Target,
    devices: &Storage,
    now: Option<&Value>,
    data: Data,
) -> Value {
    let storage = &spec.storage;
    let had = |daemon: &str| {
        let count = now.and_then(|now| now["spec"][daemon]["count"].as_i64());
        count
            .and_then(|count| i32::try_from(count).ok())
            .unwrap_or(0)
    };
    let managers = if storage.nodes.len() > 1 { 2 } else { 1 };
    let managers = had("mgr").max(managers);
    let monitors = match storage.mons {
        Some(mons) => mons,
        None => had("mon").max(monitors(storage)),
    };
    let mut cluster = json!({
        "apiVersion": "ceph.rook.io/v1",
        "kind": "CephCluster",
        "metadata": {"name": CEPH_CLUSTER, "namespace": ROOK_NAMESPACE},
        "spec": {
            "cephVersion": {"image": ceph_image(target.ceph), "allowUnsupported": false},
            "dataDirHostPath": storage.data_dir_host_path.as_deref().unwrap_or(DATA_DIR),
            "skipUpgradeChecks": false,
            "continueUpgradeAfterChecksEvenIfNotHealthy": false,
            "mon": {"count": monitors, "allowMultiplePerNode": false},
            "mgr": {"count": managers, "allowMultiplePerNode": false},
            "dashboard": {"enabled": true, "ssl": true},
            "crashCollector": {"disable": false},
            "priorityClassNames": {
                "mon": "system-node-critical",
                "osd": "system-node-critical",
                "mgr": "system-cluster-critical",
            },
            "storage": devices,
            "disruptionManagement": {"managePodBudgets": true},
            "cleanupPolicy": cleanup_policy(spec, data),
            "healthCheck": {"daemonHealth": {"status": {"interval": STATUS_INTERVAL}}},
        },
    });
    let body = &mut cluster["spec"];
    if !storage.resources.is_empty() {
        body["resources"] = json!(storage.resources);
    }
    if let Some(network) = &storage.network {
        body["network"] = self::network(network);
    }
    cluster
}

/// What Rook does with the data when the CephCluster goes.
fn cleanup_policy(spec: &HyperCloudStorageSpec, data: Data) -> Value {
    let sanitize = spec
        .cleanup
        .as_ref()
        .and_then(|cleanup| cleanup.sanitize)
        .unwrap_or_default();
    let mut policy = json!({
        "sanitizeDisks": {
            "method": sanitize.as_rook(),
            "dataSource": "zero",
            "iteration": 1,
        },
        "allowUninstallWithVolumes": false,
    });
    if data == Data::Destroyed {
        policy["confirmation"] = json!(ROOK_CONFIRMATION);
    }
    policy
}

/// The change of the CephCluster by which Rook is told to destroy its data.
#[must_use]
pub fn confirmation(spec: &HyperCloudStorageSpec) -> Value {
    json!({"spec": {"cleanupPolicy": cleanup_policy(spec, Data::Destroyed)}})
}

/// The change by which Rook is told to keep it after all.
#[must_use]
pub fn withdrawal() -> Value {
    json!({"spec": {"cleanupPolicy": {"confirmation": null}}})
}

fn network(network: &StorageNetwork) -> Value {
    let mut rendered = json!({});
    if network.host_network == Some(true) {
        rendered["provider"] = json!("host");
        let mut ranges = json!({});
        for (name, range) in [
            ("public", &network.public_ranges),
            ("cluster", &network.cluster_ranges),
        ] {
            if let Some(range) = range {
                ranges[name] = json!(range);
            }
        }
        if ranges != json!({}) {
            rendered["addressRanges"] = ranges;
        }
    }
    let mut connections = json!({});
    if let Some(encryption) = network.encryption {
        connections["encryption"] = json!({"enabled": encryption});
    }
    if let Some(compression) = network.compression {
        connections["compression"] = json!({"enabled": compression});
    }
    if let Some(msgr2) = network.require_msgr2 {
        connections["requireMsgr2"] = json!(msgr2);
    }
    if connections != json!({}) {
        rendered["connections"] = connections;
    }
    if let Some(family) = network.ip_family {
        rendered["ipFamily"] = json!(family);
    }
    rendered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::{Running, target};

    fn count(nodes: usize, mons: Option<i32>, now: Option<&Value>) -> (Value, Value) {
        let mut spec = HyperCloudStorageSpec::default();
        spec.storage.nodes = vec![hypercloud_api::StorageNode::default(); nodes];
        spec.storage.mons = mons;
        let target = target(&spec, Running::default(), None).unwrap();
        let devices = hypercloud_inventory::rook::storage(Vec::new());
        let cluster = ceph_cluster(&spec, &target, &devices, now, Data::Kept);
        let count = |daemon: &str| cluster["spec"][daemon]["count"].clone();
        (count("mon"), count("mgr"))
    }

    #[test]
    fn monitors_do_not_become_fewer_by_themselves() {
        assert_eq!(count(1, None, None), (json!(1), json!(1)));
        assert_eq!(count(3, None, None), (json!(3), json!(2)));
        let now = json!({"spec": {"mon": {"count": 3}, "mgr": {"count": 2}}});
        assert_eq!(count(1, None, Some(&now)), (json!(3), json!(2)));
        assert_eq!(count(1, Some(1), Some(&now)), (json!(1), json!(2)));
        let fewer = json!({"spec": {"mon": {"count": 1}, "mgr": {"count": 1}}});
        assert_eq!(count(3, None, Some(&fewer)), (json!(3), json!(2)));
    }
}
