//! A Rook that is told how to be.
//!
//! The images of Rook, Ceph, the CSI operator and CDI are not to be had on the
//! test cluster. One program stands in for all of them: the real Deployments
//! of the real manifests run it, under the real service accounts and their
//! rights, and it does to the API server what the real programs do: statuses,
//! finalizers, daemons, drivers, jobs, secrets. There is no Ceph behind it:
//! no byte is stored, and volumes of its drivers are never made.
//!
//! How it is, is said by a ConfigMap ([`ORDERS`] in [`NAMESPACE`], read by
//! [`orders::Orders`]); without one everything is well, at once.
//!
//! - [`orders`] is what can be asked for.
//! - [`role`] is which of the programs it is.
//! - [`status`], [`daemon`], [`osd`], [`command`] are what Rook and Ceph would
//!   say and make, as values.
//! - `operator`, `csi`, `cdi`, `pod` act on it.

pub mod command;
pub mod daemon;
pub mod orders;
pub mod osd;
pub mod role;
pub mod status;

mod api;
mod bucket;
mod cdi;
mod cleanup;
mod csi;
mod follow;
mod key;
mod operator;
mod pod;
mod probe;
mod program;

pub use program::run;

use serde_json::{Value, json};

/// Namespace of the orders, and of what Ceph remembers.
pub const NAMESPACE: &str = "simulated-rook";
/// ConfigMap of the orders.
pub const ORDERS: &str = "orders";
/// ConfigMap of what Ceph remembers: which OSDs are out.
pub const MEMORY: &str = "ceph";

/// What has to be there before orders are given: the namespace, the right of
/// the programs to read the orders, and the priority of CDI's operator. The
/// derived copy of its manifest names one that KubeVirt brings along.
#[must_use]
pub fn objects() -> Vec<Value> {
    let group = |namespace: &str| {
        json!({
            "apiGroup": "rbac.authorization.k8s.io", "kind": "Group",
            "name": format!("system:serviceaccounts:{namespace}"),
        })
    };
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": NAMESPACE, "namespace": NAMESPACE},
            "rules": [{
                "apiGroups": [""],
                "resources": ["configmaps"],
                "verbs": ["get", "list", "watch", "create", "update", "patch"],
            }],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": NAMESPACE, "namespace": NAMESPACE},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAMESPACE,
            },
            "subjects": [group("rook-ceph"), group("cdi")],
        }),
        json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "kubevirt-cluster-critical"},
            "value": 1_000_000_000,
        }),
    ]
}

/// Every image of the manifests that the program stands in for. The snapshot
/// controller is a real one and not among them.
#[must_use]
pub fn images() -> Vec<String> {
    let fixed = [
        "quay.io/cephcsi/ceph-csi-operator:v0.6.0",
        "quay.io/cephcsi/ceph-csi-operator:v1.0.4",
        "quay.io/cephcsi/cephcsi:v3.16.2",
        "quay.io/cephcsi/cephcsi:v3.17.0",
        "quay.io/ceph/ceph:v19",
        "quay.io/ceph/ceph:v20",
        "quay.io/kubevirt/cdi-operator:v1.66.0",
        "quay.io/kubevirt/cdi-operator@sha256:45964f62a027e09463c8dd48a2cbaf063c0afe771edb18e505f4461d0915984c",
    ];
    let mut names: Vec<String> = fixed.map(str::to_owned).into();
    for release in hypercloud_storage::version::table::ROOK {
        names.push(format!("docker.io/rook/ceph:v{}", release.version));
        let ceph = release.ceph.iter();
        names.extend(ceph.map(|version| format!("quay.io/ceph/ceph:v{version}")));
    }
    // As a cluster without internet has them.
    let mirrored: Vec<String> = names
        .iter()
        .map(|name| format!("{MIRROR}/{name}"))
        .collect();
    names.extend(mirrored);
    names.sort();
    names.dedup();
    names
}

/// A registry that is a mirror of all others: `mirror.test/quay.io/...`.
pub const MIRROR: &str = "mirror.test";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_is_named_once_with_a_tag_or_a_digest() {
        let names = images();
        assert!(names.contains(&"docker.io/rook/ceph:v1.20.6".to_owned()));
        assert!(names.contains(&"quay.io/ceph/ceph:v20.2.4".to_owned()));
        for name in &names {
            let last = name.rsplit('/').next().unwrap_or_default();
            assert!(last.contains(':') || last.contains('@'), "{name}");
        }
    }
}
