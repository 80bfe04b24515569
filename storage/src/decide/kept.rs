//! What a storage that is there keeps, whatever a new resource says of it.
//!
//! The definition lets nobody lower the copies or change what two of them never
//! share, but it compares with the resource before. One that is made anew over
//! a storage that was let go has none before it: here the pool tells.

use hypercloud_api::{FailureDomain, HyperCloudStorageSpec};

use crate::object::{Key, Seen};
use crate::state::Problem;
use crate::{BLOCK, ROOK_NAMESPACE};

/// The key of the block pool.
pub(super) fn pool() -> Key {
    Key::namespaced("ceph.rook.io/v1", "CephBlockPool", ROOK_NAMESPACE, BLOCK)
}

/// What is asked for with the pool's copies, where they are more, and its
/// failure domain; and what people are told of it.
pub(super) fn spec(
    asked: &HyperCloudStorageSpec,
    seen: &Seen,
) -> (HyperCloudStorageSpec, Vec<Problem>) {
    let mut spec = asked.clone();
    let mut problems = Vec::new();
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

    #[test]
    fn where_nothing_is_all_is_as_asked() {
        let asked = HyperCloudStorageSpec::default();
        let (spec, problems) = super::spec(&asked, &Seen::default());
        assert_eq!((spec, problems.len()), (asked, 0));
    }
}
