//! The objects that are made for a disk. Pure.

use std::collections::BTreeMap;

use hypercloud_api::{DiskMethod, GROUP, VERSION, VirtualMachinePvc, VolumeMode, names, quantity};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, TypedLocalObjectReference,
    TypedObjectReference, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use serde_json::{Value, json};

use super::observation::source_namespace;
use super::verdict::{NewClaim, NewHolder, NewPrime};
use crate::agents::VolumeKind;
use crate::holder::{HeldVolume, HolderPod};

/// Annotation by which a claim's volume is made for a node.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotation of a volume that was given to the claim of the disk of this
/// UID.
pub const HANDED_OVER: &str = "hypercloud.tmaxanc.com/handed-over";
/// API group of snapshots.
pub const SNAPSHOT_GROUP: &str = "snapshot.storage.k8s.io";

/// The claim of `disk`.
pub fn claim(disk: &VirtualMachinePvc, new: &NewClaim) -> PersistentVolumeClaim {
    let asked = disk.spec.pvc.as_ref();
    // The system's own come last: nothing takes their place.
    let mut labels = new.carried.clone();
    labels.extend(asked.map(|pvc| pvc.labels.clone()).unwrap_or_default());
    labels.extend(ours(disk, names::ROLE_DISK));
    if let Some(uid) = &new.image_uid {
        labels.insert(names::LABEL_SOURCE_IMAGE_UID.into(), uid.clone());
    }
    let mut annotations = asked.map(|pvc| pvc.annotations.clone()).unwrap_or_default();
    if new.mode == VolumeMode::Filesystem {
        annotations.insert(names::ANNOTATION_CONTENT_TYPE.into(), "kubevirt".into());
    }
    let name = disk.metadata.name.clone().unwrap_or_default();
    let from_storage = |group: Option<&str>, kind: &str| TypedLocalObjectReference {
        api_group: group.map(str::to_owned),
        kind: kind.to_owned(),
        name: new.from.clone(),
    };
    let (data_source, data_source_ref) = match new.method {
        DiskMethod::Clone => (Some(from_storage(None, "PersistentVolumeClaim")), None),
        DiskMethod::Restore => (
            Some(from_storage(Some(SNAPSHOT_GROUP), "VolumeSnapshot")),
            None,
        ),
        // Of our own kind: every provisioner leaves it to us.
        DiskMethod::CloneAndHandOver | DiskMethod::Copy => (
            None,
            Some(TypedObjectReference {
                api_group: Some(GROUP.to_owned()),
                kind: VirtualMachinePvc::kind(&()).into_owned(),
                name: name.clone(),
                namespace: None,
            }),
        ),
    };
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: disk.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations).filter(|list| !list.is_empty()),
            owner_references: Some(vec![OwnerReference {
                api_version: format!("{GROUP}/{VERSION}"),
                kind: VirtualMachinePvc::kind(&()).into_owned(),
                name,
                uid: disk.metadata.uid.clone().unwrap_or_default(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            data_source,
            data_source_ref,
            ..spec(&new.class, new.mode, &new.access_modes, new.size)
        }),
        status: None,
    }
}

/// The claim that is filled for `disk`, beside its source. It has no owner:
/// that may be in another namespace, where Kubernetes knows none.
pub fn prime(disk: &VirtualMachinePvc, new: &NewPrime) -> PersistentVolumeClaim {
    let uid = disk.metadata.uid.as_deref().unwrap_or_default();
    let mut annotations = whose(disk);
    if let Some(node) = &new.node {
        annotations.insert(SELECTED_NODE.to_owned(), node.clone());
    }
    let mut labels = ours(disk, names::ROLE_PRIME);
    // The image's deletion waits for what is made from it.
    let source = disk
        .status
        .as_ref()
        .and_then(|status| status.source.as_ref());
    if let Some(image) = source.filter(|source| source.kind == "VirtualMachineImage") {
        labels.insert(names::LABEL_SOURCE_IMAGE_UID.into(), image.uid.clone());
    }
    let data_source = new.from.as_ref().map(|claim| TypedLocalObjectReference {
        api_group: None,
        kind: "PersistentVolumeClaim".to_owned(),
        name: claim.clone(),
    });
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(names::prime_claim(uid)),
            namespace: Some(source_namespace(disk).to_owned()),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            data_source,
            ..spec(&new.class, new.mode, &new.access_modes, new.size)
        }),
        status: None,
    }
}

/// The holder of try `attempt` for `disk`; with nothing to hold, only where
/// it is and whose.
pub fn holder(disk: &VirtualMachinePvc, attempt: u32, new: Option<&NewHolder>) -> HolderPod {
    let uid = disk.metadata.uid.as_deref().unwrap_or_default();
    let volumes = new.map_or_else(Vec::new, |new| {
        vec![
            HeldVolume {
                name: "source",
                claim: new.source.clone(),
                kind: VolumeKind::from(new.from),
                read_only: true,
            },
            HeldVolume {
                name: "target",
                claim: names::prime_claim(uid),
                kind: VolumeKind::from(new.to),
                read_only: false,
            },
        ]
    });
    HolderPod {
        name: names::prime_holder(uid, attempt),
        namespace: Some(source_namespace(disk).to_owned()),
        labels: BTreeMap::from([(names::LABEL_DISK_UID.to_owned(), uid.to_owned())]),
        annotations: whose(disk),
        owner: None,
        volumes,
        node: new.and_then(|new| new.node.clone()),
    }
}

/// The change that gives a volume, as it was seen, to the claim of `disk`.
pub fn hand_over(disk: &VirtualMachinePvc, resource_version: &str, claim_uid: &str) -> Value {
    let meta = &disk.metadata;
    json!({
        "metadata": {
            "resourceVersion": resource_version,
            "annotations": {HANDED_OVER: meta.uid},
        },
        "spec": {"claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": claim_uid,
            // That of the former claim.
            "resourceVersion": null,
        }},
    })
}

/// The change that has the consumer of a claim, as it was seen, placed again.
pub fn place_again(resource_version: &str, node: Option<&str>) -> Value {
    json!({"metadata": {
        "resourceVersion": resource_version,
        "annotations": {SELECTED_NODE: node},
    }})
}

/// Labels of what belongs to `disk`.
fn ours(disk: &VirtualMachinePvc, role: &str) -> BTreeMap<String, String> {
    let uid = disk.metadata.uid.clone().unwrap_or_default();
    BTreeMap::from([
        (names::LABEL_MANAGED_BY.into(), names::MANAGED_BY.into()),
        (names::LABEL_DISK_UID.into(), uid),
        (names::LABEL_ROLE.into(), role.into()),
    ])
}

/// Whose it is, for people and for the watch.
fn whose(disk: &VirtualMachinePvc) -> BTreeMap<String, String> {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    let (namespace, name) = (part(&disk.metadata.namespace), part(&disk.metadata.name));
    BTreeMap::from([(
        names::ANNOTATION_DISK.to_owned(),
        format!("{namespace}/{name}"),
    )])
}

fn spec(
    class: &str,
    mode: VolumeMode,
    access_modes: &[String],
    size: u64,
) -> PersistentVolumeClaimSpec {
    let storage: Quantity = quantity::from_bytes(size);
    PersistentVolumeClaimSpec {
        access_modes: Some(access_modes.to_vec()),
        resources: Some(VolumeResourceRequirements {
            requests: Some(BTreeMap::from([("storage".to_owned(), storage)])),
            limits: None,
        }),
        storage_class_name: Some(class.to_owned()),
        volume_mode: Some(mode.as_str().to_owned()),
        ..PersistentVolumeClaimSpec::default()
    }
}
