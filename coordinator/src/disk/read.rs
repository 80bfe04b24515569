//! Reads the API's objects into what deciding needs. Pure.

use std::collections::BTreeMap;

use hypercloud_api::conditions::find;
use hypercloud_api::{VirtualMachineImage, VolumeMode, names, quantity};
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::build::{HANDED_OVER, SELECTED_NODE};
use super::observation::{
    ClaimSeen, Class, ClassSeen, ImageSeen, OriginSeen, PrimeSeen, Provisioning, VolumeSeen,
};
use crate::holder::read::is_controlled_by;

/// Annotation of a StorageClass by which its operator has data copied.
const CLONE_STRATEGY: &str = "hypercloud.tmaxanc.com/clone-strategy";
/// Labels that a disk's claim carries on, for KubeVirt's defaults.
const CARRIED_LABELS: &str = "instancetype.kubevirt.io/default-";

/// An image, seen from `namespace`.
pub fn image(image: &VirtualMachineImage, namespace: &str) -> ImageSeen {
    let meta = &image.metadata;
    let status = image.status.as_ref();
    let ready = status.and_then(|status| find(&status.conditions, crate::image::READY));
    let own = meta.namespace.as_deref() == Some(namespace);
    ImageSeen {
        uid: meta.uid.clone().unwrap_or_default(),
        shared: own || image.spec.is_shared_with(namespace),
        deleting: meta.deletion_timestamp.is_some(),
        phase: status.and_then(|status| status.phase),
        ready: ready.map(|ready| (ready.reason.clone(), ready.message.clone())),
    }
}

/// A claim that a disk is made from.
pub fn origin(claim: &PersistentVolumeClaim) -> OriginSeen {
    let meta = claim.meta();
    let spec = claim.spec.as_ref();
    let status = claim.status.as_ref();
    let phase = status.and_then(|status| status.phase.clone());
    let phase = phase.unwrap_or_else(|| "Pending".to_owned());
    let capacity = status
        .and_then(|status| status.capacity.as_ref())
        .and_then(storage);
    OriginSeen {
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        volume_name: bound_volume(claim),
        phase,
        class: spec
            .and_then(|spec| spec.storage_class_name.clone())
            .filter(|class| !class.is_empty()),
        mode: mode(spec.and_then(|spec| spec.volume_mode.as_deref())),
        access_modes: spec
            .and_then(|spec| spec.access_modes.clone())
            .unwrap_or_default(),
        capacity: capacity.max(Some(requested(claim))).unwrap_or(0),
        carried: carried(meta),
        users: Vec::new(),
        rolled_back_by: None,
        csi: false,
        nodes: None,
    }
}

/// The claim of the disk with this UID, or one that has its name.
pub fn claim(claim: &PersistentVolumeClaim, disk_uid: &str) -> ClaimSeen {
    let meta = claim.meta();
    let spec = claim.spec.as_ref();
    let status = claim.status.as_ref();
    let source = spec.and_then(|spec| spec.data_source_ref.as_ref());
    ClaimSeen {
        uid: meta.uid.clone().unwrap_or_default(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        ours: is_controlled_by(meta, disk_uid),
        since: meta.creation_timestamp.as_ref().map(|time| time.0),
        deleting: meta.deletion_timestamp.is_some(),
        lost: is_lost(claim),
        volume_name: bound_volume(claim),
        capacity: status
            .and_then(|status| status.capacity.as_ref())
            .and_then(storage),
        requested: requested(claim),
        selected_node: annotation(meta, SELECTED_NODE),
        handed: source
            .is_some_and(|source| source.api_group.as_deref() == Some(hypercloud_api::GROUP)),
        filled_by_others: false,
        provisioning: Provisioning::default(),
    }
}

/// The prime claim of the disk with this UID, or one that has its name.
/// Nobody but the coordinator makes a claim of such a name, and its label
/// says for whom.
pub fn prime(
    claim: &PersistentVolumeClaim,
    volume: Option<&PersistentVolume>,
    disk_uid: &str,
) -> PrimeSeen {
    let meta = claim.meta();
    let spec = claim.spec.as_ref();
    let label = |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key));
    let ours = label(names::LABEL_DISK_UID).is_some_and(|uid| uid == disk_uid)
        && label(names::LABEL_MANAGED_BY).is_some_and(|by| by == names::MANAGED_BY)
        && label(names::LABEL_ROLE).is_some_and(|role| role == names::ROLE_PRIME);
    PrimeSeen {
        uid: meta.uid.clone().unwrap_or_default(),
        ours,
        since: meta.creation_timestamp.as_ref().map(|time| time.0),
        deleting_since: meta.deletion_timestamp.as_ref().map(|time| time.0),
        lost: is_lost(claim),
        cloned: spec.is_some_and(|spec| spec.data_source.is_some()),
        bound: bound_volume(claim).is_some(),
        node: annotation(meta, SELECTED_NODE),
        volume: volume.map(self::volume),
        provisioning: Provisioning::default(),
    }
}

fn volume(volume: &PersistentVolume) -> VolumeSeen {
    let meta = volume.meta();
    let owner = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    VolumeSeen {
        name: meta.name.clone().unwrap_or_default(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        claim_uid: owner.and_then(|owner| owner.uid.clone()),
        bound: volume
            .status
            .as_ref()
            .is_some_and(|status| status.phase.as_deref() == Some("Bound")),
    }
}

/// Whether a CSI driver has the volume.
pub fn is_csi(volume: &PersistentVolume) -> bool {
    volume.spec.as_ref().is_some_and(|spec| spec.csi.is_some())
}

/// Whether the volume was handed over to the disk with this UID.
pub fn is_handed_over(volume: &PersistentVolume, disk_uid: &str) -> bool {
    annotation(volume.meta(), HANDED_OVER).is_some_and(|uid| uid == disk_uid)
}

/// A storage class.
pub fn class(class: &StorageClass) -> ClassSeen {
    ClassSeen::Found(Class {
        name: class.metadata.name.clone().unwrap_or_default(),
        provisioner: class.provisioner.clone(),
        waits: class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
        copies: annotation(&class.metadata, CLONE_STRATEGY).is_some_and(|value| value == "copy"),
    })
}

/// The storage class that a claim which names none gets: of several default
/// ones the newest, as Kubernetes has it.
pub fn default_class(classes: &[StorageClass]) -> ClassSeen {
    let marked = classes
        .iter()
        .filter(|class| crate::image::read::is_default_class(class));
    let newest = marked.max_by_key(|class| {
        let meta = &class.metadata;
        let age = meta.creation_timestamp.as_ref().map(|time| time.0);
        (age, std::cmp::Reverse(meta.name.clone()))
    });
    newest.map_or(ClassSeen::NoDefault, class)
}

/// Labels that a disk's claim carries on from its source.
pub fn carried(meta: &ObjectMeta) -> BTreeMap<String, String> {
    let labels = meta.labels.iter().flatten();
    labels
        .filter(|(key, _)| key.starts_with(CARRIED_LABELS))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// What a storage says, among the Events of a claim, where it says that it
/// does not clone volumes. There is no code for it: drivers word it as they
/// like.
pub fn refusal(events: &[Event]) -> Option<String> {
    let messages = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("ProvisioningFailed"))
        .filter_map(|event| event.message.as_ref());
    messages
        .filter(|message| refuses(message))
        .max_by_key(|message| message.len())
        .cloned()
}

/// Whether the message says that volumes are not cloned; not that this one,
/// now, could not be.
fn refuses(message: &str) -> bool {
    const NO: [&str; 10] = [
        "not support",
        "unsupported",
        "n't support",
        "does not clone",
        "do not clone",
        "cannot clone volumes",
        "cannot be cloned",
        "not implement",
        "unimplemented",
        "refuse",
    ];
    let message = message.to_lowercase();
    message.contains("clon") && NO.iter().any(|no| message.contains(no))
}

/// How a claim's volume is presented: Kubernetes takes none for a file system.
pub fn mode(mode: Option<&str>) -> VolumeMode {
    match mode {
        Some("Block") => VolumeMode::Block,
        _ => VolumeMode::Filesystem,
    }
}

/// The volume of a claim. Named by the binder before the claim is Bound: not
/// to be used yet.
fn bound_volume(claim: &PersistentVolumeClaim) -> Option<String> {
    let phase = claim.status.as_ref()?.phase.as_deref();
    let name = claim.spec.as_ref()?.volume_name.clone();
    name.filter(|_| phase == Some("Bound"))
}

fn is_lost(claim: &PersistentVolumeClaim) -> bool {
    let status = claim.status.as_ref();
    status.is_some_and(|status| status.phase.as_deref() == Some("Lost"))
}

fn requested(claim: &PersistentVolumeClaim) -> u64 {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    resources
        .and_then(|resources| resources.requests.as_ref())
        .and_then(storage)
        .unwrap_or(0)
}

fn storage(quantities: &BTreeMap<String, Quantity>) -> Option<u64> {
    quantity::bytes(quantities.get("storage")?).ok()
}

fn annotation(meta: &ObjectMeta, key: &str) -> Option<String> {
    meta.annotations.as_ref()?.get(key).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of(value: Value) -> PersistentVolumeClaim {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_claim_is_read() {
        let value = json!({
            "metadata": {"name": "disk", "uid": "c", "resourceVersion": "7",
                "annotations": {SELECTED_NODE: "n1"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "disk", "uid": "d",
                    "controller": true}]},
            "spec": {"volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}},
                "dataSourceRef": {"apiGroup": "hypercloud.tmaxanc.com", "kind": "X", "name": "d"}},
            "status": {"phase": "Pending"}});
        let seen = claim(&of(value.clone()), "d");
        assert!(seen.ours && seen.handed && !seen.lost && seen.volume_name.is_none());
        assert_eq!(seen.selected_node.as_deref(), Some("n1"));
        assert_eq!(seen.requested, 1 << 30);
        assert!(!claim(&of(value.clone()), "other").ours);
        let mut bound = value;
        bound["status"] = json!({"phase": "Bound", "capacity": {"storage": "2Gi"}});
        let seen = claim(&of(bound), "d");
        assert_eq!(seen.volume_name.as_deref(), Some("pv"));
        assert_eq!(seen.capacity, Some(2 << 30));
    }

    #[test]
    fn a_source_has_what_its_volume_has() {
        let value = json!({
            "metadata": {"name": "root", "uid": "r", "labels": {
                "instancetype.kubevirt.io/default-preference": "ubuntu", "a": "b"}},
            "spec": {"volumeName": "pv", "storageClassName": "fast", "volumeMode": "Block",
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Bound", "capacity": {"storage": "1025Mi"}}});
        let seen = origin(&of(value));
        assert_eq!((seen.capacity, seen.mode), (1025 << 20, VolumeMode::Block));
        assert_eq!(seen.class.as_deref(), Some("fast"));
        assert_eq!(seen.carried.len(), 1);
        let bare = origin(&of(
            json!({"metadata": {}, "spec": {"storageClassName": ""}}),
        ));
        assert_eq!((bare.class, bare.mode), (None, VolumeMode::Filesystem));
        assert_eq!((bare.phase.as_str(), bare.volume_name), ("Pending", None));
    }

    #[test]
    fn a_prime_claim_is_ours_by_its_labels() {
        let labels = json!({"app.kubernetes.io/managed-by": "hypercloud-storage",
            "hypercloud.tmaxanc.com/disk-uid": "d", "hypercloud.tmaxanc.com/role": "prime"});
        let value = json!({"metadata": {"name": "vmprime-d", "labels": labels},
            "spec": {"volumeName": "pv", "dataSource": {"kind": "X", "name": "x"}},
            "status": {"phase": "Lost"}});
        let mut pv: PersistentVolume = serde_json::from_value(json!({
            "metadata": {"name": "pv", "resourceVersion": "9",
                "annotations": {HANDED_OVER: "d"}},
            "spec": {"claimRef": {"uid": "c"}}, "status": {"phase": "Bound"}}))
        .unwrap();
        let seen = prime(&of(value.clone()), Some(&pv), "d");
        assert!(seen.ours && seen.lost && seen.cloned && !seen.bound);
        let expected = VolumeSeen {
            name: "pv".into(),
            resource_version: "9".into(),
            claim_uid: Some("c".into()),
            bound: true,
        };
        assert_eq!(seen.volume, Some(expected));
        assert!(!prime(&of(value), None, "other").ours);
        assert!(is_handed_over(&pv, "d") && !is_handed_over(&pv, "other"));
        for phase in ["Pending", "Available", "Released", "Failed"] {
            pv.status.as_mut().unwrap().phase = Some(phase.into());
            assert!(!volume(&pv).bound, "{phase}");
        }
        pv.status = None;
        assert!(!volume(&pv).bound);
    }

    #[test]
    fn a_volume_of_csi_is_told_from_others() {
        let is = |spec: Value| {
            let value = json!({"metadata": {"name": "pv"}, "spec": spec});
            is_csi(&serde_json::from_value(value).unwrap())
        };
        assert!(is(json!({"csi": {"driver": "d", "volumeHandle": "v"}})));
        assert!(!is(json!({"nfs": {"server": "s", "path": "/"}})));
        assert!(!is(json!({"hostPath": {"path": "/data"}})));
        assert!(!is(json!({})));
    }

    #[test]
    fn classes_are_read() {
        let of = |name: &str, age: &str, marks: Value| -> StorageClass {
            serde_json::from_value(json!({"provisioner": "p",
                "volumeBindingMode": "WaitForFirstConsumer",
                "metadata": {"name": name, "creationTimestamp": age, "annotations": marks}}))
            .unwrap()
        };
        let default = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        let old = of("old", "2026-01-01T00:00:00Z", default.clone());
        let new = of("new", "2026-01-02T00:00:00Z", default);
        let other = of(
            "other",
            "2026-01-03T00:00:00Z",
            json!({CLONE_STRATEGY: "copy"}),
        );
        let ClassSeen::Found(found) = default_class(&[old, new.clone(), other.clone()]) else {
            panic!("no default class");
        };
        assert_eq!(
            (found.name.as_str(), found.waits, found.copies),
            ("new", true, false)
        );
        assert_eq!(
            default_class(std::slice::from_ref(&other)),
            ClassSeen::NoDefault
        );
        assert!(matches!(
            class(&other),
            ClassSeen::Found(Class { copies: true, .. })
        ));
    }

    #[test]
    fn a_refusal_to_clone_is_told_from_a_failure() {
        let event = |reason: &str, message: &str| -> Event {
            serde_json::from_value(json!({"metadata": {}, "involvedObject": {},
                "reason": reason, "message": message}))
            .unwrap()
        };
        for message in [
            "rpc error: code = InvalidArgument desc = this storage class does not clone volumes",
            "CSI driver does not support clone DataSource",
            "rpc error: code = Unimplemented desc = Cloning is not implemented",
            "volume cloning unsupported",
        ] {
            let found = refusal(&[event("ProvisioningFailed", message)]);
            assert_eq!(found.as_deref(), Some(message));
        }
        for message in [
            "rpc error: code = DeadlineExceeded desc = clone of the volume takes long",
            "the source volume of the clone does not exist",
            "the access type is not supported",
        ] {
            assert_eq!(
                refusal(&[event("ProvisioningFailed", message)]),
                None,
                "{message}"
            );
        }
        let other = event("Provisioning", "cloning is not supported");
        assert_eq!(refusal(&[other]), None);
    }
}
