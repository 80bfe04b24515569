//! The block pool, its storage class and its snapshot class.

use hypercloud_api::StorageCluster;
use serde_json::{Value, json};

use crate::{BLOCK, RBD_DRIVER, ROOK_NAMESPACE};

/// By which KubeVirt and CDI know the class of virtual machines' disks.
const DEFAULT_FOR_MACHINES: &str = "storageclass.kubevirt.io/is-default-virt-class";
/// By which Kubernetes knows the class of claims that name none.
const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// Secrets that Rook makes for the CSI driver, by who uses them.
const SECRETS: [(&str, &str); 4] = [
    ("provisioner", "rook-csi-rbd-provisioner"),
    ("controller-expand", "rook-csi-rbd-provisioner"),
    ("controller-publish", "rook-csi-rbd-provisioner"),
    ("node-stage", "rook-csi-rbd-node"),
];

/// A pool of as many copies as are asked for.
#[must_use]
pub fn pool(storage: &StorageCluster) -> Value {
    json!({
        "failureDomain": storage.failure_domain.unwrap_or_default().as_ceph(),
        "replicated": {
            "size": storage.replicas,
            "requireSafeReplicaSize": storage.replicas > 1,
        },
    })
}

/// The pool and its classes.
#[must_use]
pub fn objects(storage: &StorageCluster) -> Vec<Value> {
    let block = storage.block.as_ref();
    let mut parameters = json!({
        "clusterID": ROOK_NAMESPACE,
        "pool": BLOCK,
        "imageFormat": "2",
        "imageFeatures": "layering",
        "csi.storage.k8s.io/fstype": "ext4",
    });
    if let Some(block) = block {
        for (name, value) in &block.parameters {
            parameters[name] = json!(value);
        }
    }
    for (who, secret) in SECRETS {
        parameters[format!("csi.storage.k8s.io/{who}-secret-name")] = json!(secret);
        parameters[format!("csi.storage.k8s.io/{who}-secret-namespace")] = json!(ROOK_NAMESPACE);
    }
    let is_default = block.and_then(|block| block.default_class).unwrap_or(false);
    let mut annotations = json!({DEFAULT_FOR_MACHINES: "true"});
    if is_default {
        annotations[DEFAULT] = json!("true");
    }
    vec![
        json!({
            "apiVersion": "ceph.rook.io/v1",
            "kind": "CephBlockPool",
            "metadata": {"name": BLOCK, "namespace": ROOK_NAMESPACE},
            "spec": pool(storage),
        }),
        json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": BLOCK, "annotations": annotations},
            "provisioner": RBD_DRIVER,
            "parameters": parameters,
            "allowVolumeExpansion": true,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
        }),
        json!({
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotClass",
            "metadata": {"name": BLOCK},
            "driver": RBD_DRIVER,
            "parameters": {
                "clusterID": ROOK_NAMESPACE,
                "csi.storage.k8s.io/snapshotter-secret-name": "rook-csi-rbd-provisioner",
                "csi.storage.k8s.io/snapshotter-secret-namespace": ROOK_NAMESPACE,
            },
            "deletionPolicy": "Delete",
        }),
    ]
}
