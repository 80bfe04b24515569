//! The objects that are made for an export. Pure.
//!
//! They are owned by the export, but do not block its deletion.

use std::collections::BTreeMap;

use hypercloud_api::{ExportReadFrom, VirtualMachineVolumeExport, names, quantity};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, Secret, TypedLocalObjectReference,
    VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::api::DynamicObject;
use serde_json::json;

use crate::agents::VolumeKind;
use crate::agents::source::SignedAddress;
use crate::holder::{HeldVolume, HolderPod};
use crate::volume::claim::TargetSeen;
use crate::volume::snapshot;

/// Key of the address in its Secret.
pub const URL: &str = "url";

/// The snapshot of the claim, of the class called `class`.
pub fn snapshot(export: &VirtualMachineVolumeExport, class: &str) -> DynamicObject {
    let uid = export.metadata.uid.as_deref().unwrap_or_default();
    let name = names::exported_claim(uid);
    let claim = &export.spec.pvc_name;
    let mut object = DynamicObject::new(&name, &snapshot::snapshots());
    object.metadata = made(export, name);
    object.data = json!({"spec": {
        "volumeSnapshotClassName": class,
        "source": {"persistentVolumeClaimName": claim},
    }});
    object
}

/// The claim that the snapshot is restored to, like `target` and asking for
/// `size` bytes.
pub fn restored(
    export: &VirtualMachineVolumeExport,
    target: &TargetSeen,
    size: u64,
) -> PersistentVolumeClaim {
    let uid = export.metadata.uid.as_deref().unwrap_or_default();
    let name = names::exported_claim(uid);
    let storage = ("storage".to_owned(), quantity::from_bytes(size));
    PersistentVolumeClaim {
        metadata: made(export, name.clone()),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(target.access_modes.clone()),
            data_source: Some(TypedLocalObjectReference {
                api_group: Some(snapshot::GROUP.to_owned()),
                kind: "VolumeSnapshot".to_owned(),
                name,
            }),
            resources: Some(VolumeResourceRequirements {
                requests: Some([storage].into()),
                limits: None,
            }),
            storage_class_name: target.storage_class.clone(),
            volume_mode: Some(target.mode.as_str().to_owned()),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    }
}

/// The holder pod of `export` for try `attempt`: it has the volume read-only.
pub fn holder(
    export: &VirtualMachineVolumeExport,
    read_from: Option<ExportReadFrom>,
    kind: VolumeKind,
    attempt: u32,
) -> HolderPod {
    let uid = export.metadata.uid.as_deref().unwrap_or_default();
    let claim = match read_from {
        Some(ExportReadFrom::Snapshot) => names::exported_claim(uid),
        Some(ExportReadFrom::Volume) | None => export.spec.pvc_name.clone(),
    };
    HolderPod {
        name: names::export_holder(uid, attempt),
        namespace: export.metadata.namespace.clone(),
        labels: labels(export),
        annotations: BTreeMap::new(),
        owner: Some(owner(export)),
        volumes: vec![HeldVolume {
            name: "disk",
            claim,
            kind,
            read_only: true,
        }],
        node: None,
    }
}

/// The Secret with the `address` of the object, which is good until `expires`.
pub fn secret(
    export: &VirtualMachineVolumeExport,
    address: &SignedAddress,
    expires: Timestamp,
) -> Secret {
    let name = export.metadata.name.as_deref().unwrap_or_default();
    let mut labels = labels(export);
    labels.insert(names::LABEL_MANAGED_BY.into(), names::MANAGED_BY.into());
    let until = (names::ANNOTATION_EXPIRES.to_owned(), expires.to_string());
    let value = ByteString(address.reveal().as_bytes().to_vec());
    Secret {
        metadata: ObjectMeta {
            name: Some(names::download_secret(name)),
            namespace: export.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some([until].into()),
            owner_references: Some(vec![owner(export)]),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some([(URL.to_owned(), value)].into()),
        ..Secret::default()
    }
}

/// What the snapshot, and the claim that it is restored to, are called and
/// known by.
fn made(export: &VirtualMachineVolumeExport, name: String) -> ObjectMeta {
    let mut labels = labels(export);
    labels.insert(names::LABEL_MANAGED_BY.into(), names::MANAGED_BY.into());
    labels.insert(names::LABEL_ROLE.into(), names::ROLE_EXPORTED.into());
    ObjectMeta {
        name: Some(name),
        namespace: export.metadata.namespace.clone(),
        labels: Some(labels),
        owner_references: Some(vec![owner(export)]),
        ..ObjectMeta::default()
    }
}

/// Labels that say whose an object is.
fn labels(export: &VirtualMachineVolumeExport) -> BTreeMap<String, String> {
    let uid = export.metadata.uid.clone().unwrap_or_default();
    [(names::LABEL_EXPORT_UID.to_owned(), uid)].into()
}

fn owner(export: &VirtualMachineVolumeExport) -> OwnerReference {
    OwnerReference {
        api_version: VirtualMachineVolumeExport::api_version(&()).into_owned(),
        kind: VirtualMachineVolumeExport::kind(&()).into_owned(),
        name: export.metadata.name.clone().unwrap_or_default(),
        uid: export.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        // A deletion in the foreground would take these away first, again and
        // again.
        block_owner_deletion: Some(false),
    }
}
