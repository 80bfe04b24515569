//! What a storage that is there keeps, whatever a new resource says of it.
//!
//! The definition lets nobody lower the copies or change what two of them never
//! share, but it compares with the resource before. One that is made anew over
//! a storage that was let go has none before it: here the pool tells, and the
//! CephCluster of its network, which no Ceph that runs is moved from.

use hypercloud_api::{FailureDomain, HyperCloudStorageSpec, IpFamily, StorageNetwork};
use serde_json::{Value, json};

use crate::health::cluster_key;
use crate::object::{Key, Seen};
use crate::state::Problem;
use crate::{BLOCK, ROOK_NAMESPACE};

/// The key of the block pool.
pub(super) fn pool() -> Key {
    Key::namespaced("ceph.rook.io/v1", "CephBlockPool", ROOK_NAMESPACE, BLOCK)
}

/// What is asked for with the pool's copies, where they are more, its failure
/// domain and the CephCluster's network; and what people are told of it.
pub(super) fn spec(
    asked: &HyperCloudStorageSpec,
    seen: &Seen,
) -> (HyperCloudStorageSpec, Vec<Problem>) {
    let mut spec = asked.clone();
    let mut problems = Vec::new();
    if let Some(cluster) = seen.get(&cluster_key()) {
        problems.extend(network(&mut spec, cluster));
    }
    let Some(pool) = seen.get(&pool()) else {
        return (spec, problems);
    };
    let copies = pool["spec"]["replicated"]["size"].as_i64();
    let copies = copies.and_then(|copies| i32::try_from(copies).ok());
    if let Some(copies) = copies.filter(|copies| *copies > asked.storage.replicas) {
        problems.push(Problem {
            reason: "ReplicasLowered",
            message: format!(
                "the storage that is there keeps {copies} copies and would lose some with {}: set storage.replicas to {copies}, or more",
                asked.storage.replicas
            ),
            waiting: false,
        });
        spec.storage.replicas = copies;
    }
    let wanted = asked.storage.failure_domain.unwrap_or_default();
    let kept = [FailureDomain::Host, FailureDomain::Osd]
        .into_iter()
        .find(|domain| pool["spec"]["failureDomain"] == domain.as_ceph());
    if let Some(kept) = kept.filter(|kept| *kept != wanted) {
        problems.push(Problem {
            reason: "FailureDomainChanged",
            message: format!(
                "the storage that is there keeps its copies apart by {}: set storage.failureDomain to that",
                kept.as_ceph()
            ),
            waiting: false,
        });
        spec.storage.failure_domain = Some(kept);
    }
    (spec, problems)
}

/// Takes the network of the Ceph that is there, but for what goes over it.
fn network(spec: &mut HyperCloudStorageSpec, cluster: &Value) -> Option<Problem> {
    let asked = spec.storage.network.clone().unwrap_or_default();
    let live = live(&cluster["spec"]["network"]);
    if settled(&asked) == settled(&live) {
        return None;
    }
    let message = format!(
        "the network of a Ceph that runs is not changed: put storage.network back to {}",
        settled(&live)
    );
    spec.storage.network = Some(StorageNetwork {
        host_network: live.host_network,
        public_ranges: live.public_ranges,
        cluster_ranges: live.cluster_ranges,
        ip_family: live.ip_family,
        ..asked
    });
    Some(Problem {
        reason: "NetworkChanged",
        message,
        waiting: false,
    })
}

/// The network of a CephCluster. One of Rook's other providers is none of the
/// node's own, and is left alone.
fn live(network: &Value) -> StorageNetwork {
    let ranges = |name: &str| {
        let ranges = network["addressRanges"][name].as_array()?;
        let ranges = ranges.iter().filter_map(Value::as_str);
        let ranges: Vec<String> = ranges.map(str::to_owned).collect();
        Some(ranges).filter(|ranges| !ranges.is_empty())
    };
    let is_host = network["provider"] == "host";
    StorageNetwork {
        host_network: Some(is_host),
        public_ranges: ranges("public").filter(|_| is_host),
        cluster_ranges: ranges("cluster").filter(|_| is_host),
        ip_family: match network["ipFamily"].as_str() {
            Some("IPv6") => Some(IpFamily::IPv6),
            Some("IPv4") => Some(IpFamily::IPv4),
            _ => None,
        },
        ..StorageNetwork::default()
    }
}

/// What is settled of a network, with what Rook takes where nothing is said.
fn settled(network: &StorageNetwork) -> Value {
    let mut settled = json!({
        "hostNetwork": network.host_network.unwrap_or_default(),
        "ipFamily": network.ip_family.unwrap_or(IpFamily::IPv4),
    });
    for (name, ranges) in [
        ("publicRanges", &network.public_ranges),
        ("clusterRanges", &network.cluster_ranges),
    ] {
        if let Some(ranges) = ranges {
            settled[name] = json!(ranges);
        }
    }
    settled
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kept(copies: i64, domain: &str, asked: i32) -> (HyperCloudStorageSpec, Vec<&'static str>) {
        let seen = Seen::from_iter([json!({
            "apiVersion": "ceph.rook.io/v1", "kind": "CephBlockPool",
            "metadata": {"name": BLOCK, "namespace": ROOK_NAMESPACE},
            "spec": {"failureDomain": domain, "replicated": {"size": copies}},
        })]);
        let mut spec = HyperCloudStorageSpec::default();
        spec.storage.replicas = asked;
        let (spec, problems) = super::spec(&spec, &seen);
        (
            spec,
            problems.iter().map(|problem| problem.reason).collect(),
        )
    }

    #[test]
    fn copies_are_never_fewer_than_there_are() {
        let (spec, problems) = kept(3, "host", 2);
        assert_eq!(
            (spec.storage.replicas, problems),
            (3, vec!["ReplicasLowered"])
        );
        let (spec, problems) = kept(2, "host", 3);
        assert_eq!((spec.storage.replicas, problems), (3, vec![]));
    }

    #[test]
    fn the_failure_domain_stays() {
        let (spec, problems) = kept(3, "osd", 3);
        assert_eq!(spec.storage.failure_domain, Some(FailureDomain::Osd));
        assert_eq!(problems, ["FailureDomainChanged"]);
    }

    fn networked(asked: Value, live: Value) -> (Value, Vec<Problem>) {
        let seen = Seen::from_iter([json!({
            "apiVersion": "ceph.rook.io/v1", "kind": "CephCluster",
            "metadata": {"name": crate::CEPH_CLUSTER, "namespace": ROOK_NAMESPACE},
            "spec": {"network": live},
        })]);
        let mut spec = HyperCloudStorageSpec::default();
        spec.storage.network = serde_json::from_value(asked).unwrap();
        let (spec, problems) = super::spec(&spec, &seen);
        (json!(spec.storage.network), problems)
    }

    #[test]
    fn the_network_of_a_ceph_that_runs_stays() {
        let host = json!({"provider": "host", "addressRanges": {"public": ["10.1.0.0/16"]}});
        let as_host = json!({"hostNetwork": true, "publicRanges": ["10.1.0.0/16"]});
        for asked in [
            json!(null),
            json!({"hostNetwork": true}),
            json!({"hostNetwork": true, "publicRanges": ["10.2.0.0/16"]}),
            json!({"hostNetwork": true, "publicRanges": ["10.1.0.0/16"], "ipFamily": "IPv6"}),
        ] {
            let (kept, problems) = networked(asked, host.clone());
            assert_eq!(kept, as_host);
            assert_eq!(problems[0].reason, "NetworkChanged");
            assert!(!problems[0].waiting);
            let message = &problems[0].message;
            assert!(
                message.contains(r#""publicRanges":["10.1.0.0/16"]"#),
                "{message}"
            );
        }
        let (kept, problems) = networked(as_host.clone(), json!(null));
        assert_eq!((kept, problems.len()), (json!({"hostNetwork": false}), 1));
        let asked = json!({"ipFamily": "IPv4", "encryption": true});
        let (kept, problems) = networked(asked, json!({"ipFamily": "IPv6"}));
        let six = json!({"hostNetwork": false, "encryption": true, "ipFamily": "IPv6"});
        assert_eq!((kept, problems.len()), (six, 1));
    }

    #[test]
    fn a_network_that_means_the_same_is_as_asked() {
        let host = json!({"provider": "host", "addressRanges": {"public": ["10.1.0.0/16"]}});
        let same =
            json!({"hostNetwork": true, "publicRanges": ["10.1.0.0/16"], "ipFamily": "IPv4"});
        let multus = json!({"provider": "multus", "selectors": {"public": "a/b"}});
        let over = json!({"encryption": true, "compression": false, "requireMsgr2": true});
        for (asked, live) in [
            (same, host),
            (json!(null), json!(null)),
            (json!(null), json!({"provider": "", "ipFamily": "IPv4"})),
            (json!({"hostNetwork": false}), multus),
            (
                over,
                json!({"connections": {"encryption": {"enabled": false}}}),
            ),
        ] {
            assert_eq!(networked(asked.clone(), live), (asked, vec![]));
        }
    }

    #[test]
    fn where_nothing_is_all_is_as_asked() {
        let asked = HyperCloudStorageSpec::default();
        let (spec, problems) = super::spec(&asked, &Seen::default());
        assert_eq!((spec, problems.len()), (asked, 0));
    }
}
