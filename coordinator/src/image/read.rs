//! Reads the API's objects into what deciding needs. Pure.

use hypercloud_api::{names, quantity};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;

use super::observation::{ClaimSeen, StorageClassSeen};
use crate::holder::read::{is_controlled_by, is_old};

/// Annotation of the cluster's default storage class.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// The same as it was first called, which Kubernetes still goes by.
const BETA_DEFAULT_CLASS: &str = "storageclass.beta.kubernetes.io/is-default-class";

/// A claim, seen by the image with this UID.
pub fn claim(claim: &PersistentVolumeClaim, image_uid: &str) -> ClaimSeen {
    let meta = claim.meta();
    let spec = claim.spec.as_ref();
    let phase = claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    ClaimSeen {
        uid: meta.uid.clone().unwrap_or_default(),
        ours: is_controlled_by(meta, image_uid),
        since: meta.creation_timestamp.as_ref().map(|time| time.0),
        deleting_since: meta.deletion_timestamp.as_ref().map(|time| time.0),
        lost: phase == Some("Lost"),
        // Named by the binder before the claim is Bound: not to be used yet.
        volume_name: spec
            .and_then(|spec| spec.volume_name.clone())
            .filter(|_| phase == Some("Bound")),
        requested: spec
            .and_then(|spec| spec.resources.as_ref())
            .and_then(|resources| resources.requests.as_ref())
            .and_then(|requests| requests.get("storage"))
            .and_then(|storage| quantity::bytes(storage).ok())
            .unwrap_or(0),
        many_nodes: spec
            .and_then(|spec| spec.access_modes.as_ref())
            .is_some_and(|modes| modes.iter().any(|mode| !mode.starts_with("ReadWriteOnce"))),
        problem: None,
    }
}

/// Whether a claim that is made from an image still needs it. One that is
/// filled before its volume changes hands is Bound from early on; it needs the
/// image until it has lost the volume to its heir.
pub fn needs_source(claim: &PersistentVolumeClaim) -> bool {
    let meta = claim.meta();
    let labels = meta.labels.as_ref();
    let role = labels.and_then(|labels| labels.get(names::LABEL_ROLE));
    let phase = claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let made = match phase {
        Some("Lost") => true,
        Some("Bound") => role.is_none_or(|role| role != names::ROLE_PRIME),
        _ => false,
    };
    meta.deletion_timestamp.is_none() && !made
}

/// Whether the claim was asked for a while ago and is not bound.
pub fn is_unbound(claim: &ClaimSeen, now: Timestamp) -> bool {
    claim.volume_name.is_none() && claim.deleting_since.is_none() && is_old(claim.since, now)
}

/// Whether the cluster's claims get this class where they name none.
pub fn is_default_class(class: &StorageClass) -> bool {
    let annotations = class.metadata.annotations.as_ref();
    let marked = |key| annotations.and_then(|list| list.get(key));
    [DEFAULT_CLASS, BETA_DEFAULT_CLASS]
        .into_iter()
        .filter_map(marked)
        .any(|value| value == "true")
}

/// The storage class that a claim which names none gets.
pub fn default_class(classes: &[StorageClass]) -> StorageClassSeen {
    if classes.iter().any(is_default_class) {
        StorageClassSeen::Found
    } else {
        StorageClassSeen::NoDefault
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_claim_is_ours_by_its_controller_alone() {
        let read = |owner: serde_json::Value| {
            let value = json!({"metadata": {"name": "c", "ownerReferences": [owner]},
                "spec": {"volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}}},
                "status": {"phase": "Pending"}});
            claim(&serde_json::from_value(value).unwrap(), "uid-1")
        };
        let owner = |uid: &str, controller: bool| {
            json!({"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid,
                   "controller": controller})
        };
        let ours = read(owner("uid-1", true));
        assert!(ours.ours && ours.volume_name.is_none() && ours.requested == 1 << 30);
        assert!(!read(owner("uid-2", true)).ours);
        assert!(!read(owner("uid-1", false)).ours);
    }

    #[test]
    fn an_image_is_needed_until_its_clone_is_whole() {
        let needs = |role: &str, phase: &str, deleted: Option<&str>| {
            let value = json!({"metadata": {"name": "c", "labels": {(names::LABEL_ROLE): role},
                "deletionTimestamp": deleted}, "status": {"phase": phase}});
            needs_source(&serde_json::from_value(value).unwrap())
        };
        let (disk, prime) = (names::ROLE_DISK, names::ROLE_PRIME);
        assert!(needs(disk, "Pending", None) && needs(prime, "Pending", None));
        assert!(needs(prime, "Bound", None), "it is being filled");
        assert!(!needs(disk, "Bound", None) && !needs(prime, "Lost", None));
        let now = Some("2026-01-01T00:00:00Z");
        assert!(!needs(disk, "Pending", now) && !needs(prime, "Bound", now));
    }

    #[test]
    fn access_modes_say_whether_several_nodes_attach() {
        let many = |modes: &[&str]| {
            let value = json!({"metadata": {"name": "c"}, "spec": {"accessModes": modes}});
            claim(&serde_json::from_value(value).unwrap(), "uid-1").many_nodes
        };
        assert!(!many(&["ReadWriteOnce"]) && !many(&["ReadWriteOncePod"]) && !many(&[]));
        assert!(many(&["ReadWriteMany"]) && many(&["ReadWriteOnce", "ReadOnlyMany"]));
    }

    #[test]
    fn a_default_class_is_marked() {
        let class = |key: &str, value: &str| {
            serde_json::from_value::<StorageClass>(json!({"provisioner": "p",
                "metadata": {"name": "c", "annotations": {(key): value}}}))
            .unwrap()
        };
        for key in [DEFAULT_CLASS, BETA_DEFAULT_CLASS] {
            let (yes, no) = (class(key, "true"), class(key, "false"));
            assert_eq!(default_class(&[yes]), StorageClassSeen::Found);
            assert_eq!(default_class(&[no]), StorageClassSeen::NoDefault);
        }
    }
}
