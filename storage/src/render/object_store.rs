//! The object store, its user, and the bucket that images and exports use
//! where they name none.

use hypercloud_api::StorageCluster;
use serde_json::{Value, json};

use super::block::pool;
use crate::{BUCKET_CLASS, OBJECT_STORE, ROOK_NAMESPACE, SYSTEM_NAMESPACE};

/// The store, its user, and the bucket's class and claim.
#[must_use]
pub fn objects(storage: &StorageCluster) -> Vec<Value> {
    let store = storage.object_store.clone().unwrap_or_default();
    let mut gateway = json!({"port": 80, "instances": store.instances.unwrap_or(1)});
    if let Some(resources) = &store.resources {
        gateway["resources"] = json!(resources);
    }
    vec![
        json!({
            "apiVersion": "ceph.rook.io/v1",
            "kind": "CephObjectStore",
            "metadata": {"name": OBJECT_STORE, "namespace": ROOK_NAMESPACE},
            "spec": {
                "metadataPool": pool(storage),
                "dataPool": pool(storage),
                "preservePoolsOnDelete": false,
                "gateway": gateway,
            },
        }),
        json!({
            "apiVersion": "ceph.rook.io/v1",
            "kind": "CephObjectStoreUser",
            "metadata": {"name": OBJECT_STORE, "namespace": ROOK_NAMESPACE},
            "spec": {"store": OBJECT_STORE, "displayName": "HyperCloud Storage"},
        }),
        json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": BUCKET_CLASS},
            "provisioner": format!("{ROOK_NAMESPACE}.ceph.rook.io/bucket"),
            "parameters": {
                "objectStoreName": OBJECT_STORE,
                "objectStoreNamespace": ROOK_NAMESPACE,
            },
            "reclaimPolicy": "Delete",
        }),
        json!({
            "apiVersion": "objectbucket.io/v1alpha1",
            "kind": "ObjectBucketClaim",
            "metadata": {"name": OBJECT_STORE, "namespace": SYSTEM_NAMESPACE},
            "spec": {"bucketName": OBJECT_STORE, "storageClassName": BUCKET_CLASS},
        }),
    ]
}
