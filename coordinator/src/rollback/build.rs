//! The objects that are made for a rollback. Pure.
//!
//! They are owned by the rollback, but do not block its deletion: work that
//! began is finished after the deletion was asked for, with what it takes.

use std::collections::BTreeMap;

use hypercloud_api::{VirtualMachineVolumeRollback, names, quantity};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, TypedLocalObjectReference,
    VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;

use super::observation::TargetSeen;
use crate::holder::{HeldVolume, HolderPod};
use crate::volume::snapshot;

/// Annotation of a claim by which a provisioner knows where its volume is
/// needed.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The claim that the snapshot is restored to, like `target` and asking for
/// `size` bytes, for `node` if that has to be said.
pub fn restored(
    rollback: &VirtualMachineVolumeRollback,
    target: &TargetSeen,
    size: u64,
    node: Option<&str>,
) -> PersistentVolumeClaim {
    let uid = rollback.metadata.uid.as_deref().unwrap_or_default();
    let mut labels = labels(rollback);
    labels.insert(names::LABEL_MANAGED_BY.into(), names::MANAGED_BY.into());
    labels.insert(names::LABEL_ROLE.into(), names::ROLE_RESTORED.into());
    let storage = ("storage".to_owned(), quantity::from_bytes(size));
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(names::restored_claim(uid)),
            namespace: rollback.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: node.map(|node| [(SELECTED_NODE.to_owned(), node.to_owned())].into()),
            owner_references: Some(vec![owner(rollback)]),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(target.access_modes.clone()),
            data_source: Some(TypedLocalObjectReference {
                api_group: Some(snapshot::GROUP.to_owned()),
                kind: "VolumeSnapshot".to_owned(),
                name: rollback.spec.volume_snapshot_name.clone(),
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

/// The holder pod of `rollback` for try `attempt`.
pub fn holder(
    rollback: &VirtualMachineVolumeRollback,
    target: Option<&TargetSeen>,
    attempt: u32,
) -> HolderPod {
    let uid = rollback.metadata.uid.as_deref().unwrap_or_default();
    let kind = target.map(|target| target.mode).unwrap_or_default().into();
    let volume = |name, claim: &str, read_only| HeldVolume {
        name,
        claim: claim.to_owned(),
        kind,
        read_only,
    };
    HolderPod {
        name: names::rollback_holder(uid, attempt),
        namespace: rollback.metadata.namespace.clone(),
        labels: labels(rollback),
        annotations: BTreeMap::new(),
        owner: Some(owner(rollback)),
        volumes: vec![
            volume("source", &names::restored_claim(uid), true),
            volume("target", &rollback.spec.pvc_name, false),
        ],
        node: None,
    }
}

/// Labels that say whose an object is.
fn labels(rollback: &VirtualMachineVolumeRollback) -> BTreeMap<String, String> {
    let uid = rollback.metadata.uid.clone().unwrap_or_default();
    [(names::LABEL_ROLLBACK_UID.to_owned(), uid)].into()
}

fn owner(rollback: &VirtualMachineVolumeRollback) -> OwnerReference {
    OwnerReference {
        api_version: VirtualMachineVolumeRollback::api_version(&()).into_owned(),
        kind: VirtualMachineVolumeRollback::kind(&()).into_owned(),
        name: rollback.metadata.name.clone().unwrap_or_default(),
        uid: rollback.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        // A deletion in the foreground would take these away first, again and
        // again.
        block_owner_deletion: Some(false),
    }
}
