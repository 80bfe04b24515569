//! `VolumeSnapshot`s and what they are bound to. Their types are installed
//! beside Kubernetes, perhaps not at all: a cluster without them has none.

use hypercloud_api::quantity;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Client, Error as KubeError};
use serde_json::Value;

/// API group of snapshots.
pub const GROUP: &str = "snapshot.storage.k8s.io";

/// A VolumeSnapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotSeen {
    /// UID of the snapshot.
    pub uid: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Claim that it was taken of; none where it was made from a content that
    /// was there before.
    pub claim: Option<String>,
    /// Whether a volume can be made from it.
    pub ready: bool,
    /// When it was taken, where its driver says so.
    pub taken: Option<Timestamp>,
    /// What its driver complains of.
    pub problem: Option<String>,
    /// Least size of a volume made from it, in bytes, where it is known.
    pub restore_size: Option<u64>,
    /// What it is bound to.
    pub content: Option<ContentSeen>,
}

/// A VolumeSnapshotContent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentSeen {
    /// CSI driver that keeps the snapshot.
    pub driver: String,
    /// The volume that it was taken of, as the driver calls it.
    pub volume_handle: Option<String>,
    /// `Block` or `Filesystem`, as that volume was, where it is known.
    pub volume_mode: Option<String>,
}

/// The type of VolumeSnapshots.
pub fn snapshots() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1", "VolumeSnapshot"))
}

/// A VolumeSnapshotClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassSeen {
    /// Name of the class.
    pub name: String,
    /// CSI driver that it is of.
    pub driver: String,
    /// Whether it is marked as its driver's default.
    pub is_default: bool,
    /// Whether what a snapshot takes stays when the snapshot is deleted.
    pub retains: bool,
}

/// Every VolumeSnapshotClass, by name; none where their type is not installed.
pub async fn classes(client: &Client) -> Result<Vec<ClassSeen>, KubeError> {
    let kind = GroupVersionKind::gvk(GROUP, "v1", "VolumeSnapshotClass");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let list = match api.list(&ListParams::default()).await {
        Err(KubeError::Api(status)) if status.is_not_found() => return Ok(Vec::new()),
        list => list?,
    };
    let mut classes: Vec<ClassSeen> = list.iter().map(class).collect();
    classes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(classes)
}

fn class(object: &DynamicObject) -> ClassSeen {
    const DEFAULT: &str = "snapshot.storage.kubernetes.io/is-default-class";
    let annotations = object.metadata.annotations.as_ref();
    let marked = annotations.and_then(|annotations| annotations.get(DEFAULT));
    ClassSeen {
        name: object.metadata.name.clone().unwrap_or_default(),
        // Beside the type, not in a specification.
        driver: text(&object.data, &["driver"]).unwrap_or_default(),
        is_default: marked.is_some_and(|marked| marked == "true"),
        retains: text(&object.data, &["deletionPolicy"]).as_deref() == Some("Retain"),
    }
}

fn contents() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1", "VolumeSnapshotContent"))
}

/// The snapshot `namespace/name` as the API has it; `None` where there is
/// none.
pub async fn object(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<DynamicObject>, KubeError> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &snapshots());
    api.get_opt(name).await
}

/// The snapshot `namespace/name` with what it is bound to; `None` where there
/// is none.
pub async fn get(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<SnapshotSeen>, KubeError> {
    let Some(object) = object(client, namespace, name).await? else {
        return Ok(None);
    };
    let mut seen = snapshot(&object);
    if let Some(content) = text(&object.data, &["status", "boundVolumeSnapshotContentName"]) {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &contents());
        let found = api.get_opt(&content).await?;
        seen.content = found.and_then(|found| self::content(&found, &seen.uid));
    }
    Ok(Some(seen))
}

/// A VolumeSnapshot but for its content.
pub fn snapshot(object: &DynamicObject) -> SnapshotSeen {
    let data = &object.data;
    SnapshotSeen {
        uid: object.metadata.uid.clone().unwrap_or_default(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        claim: text(data, &["spec", "source", "persistentVolumeClaimName"]),
        ready: at(data, &["status", "readyToUse"]).and_then(Value::as_bool) == Some(true),
        taken: text(data, &["status", "creationTime"]).and_then(|time| time.parse().ok()),
        problem: text(data, &["status", "error", "message"]),
        restore_size: text(data, &["status", "restoreSize"])
            .and_then(|size| quantity::bytes(&Quantity(size)).ok())
            .filter(|size| *size > 0),
        content: None,
    }
}

/// A VolumeSnapshotContent, if it is bound to the snapshot with this UID.
pub fn content(object: &DynamicObject, snapshot_uid: &str) -> Option<ContentSeen> {
    let data = &object.data;
    let bound = text(data, &["spec", "volumeSnapshotRef", "uid"])?;
    (bound == snapshot_uid).then(|| ContentSeen {
        driver: text(data, &["spec", "driver"]).unwrap_or_default(),
        volume_handle: text(data, &["spec", "source", "volumeHandle"]),
        volume_mode: text(data, &["spec", "sourceVolumeMode"]),
    })
}

fn at<'a>(data: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(data, |value, key| value.get(key))
}

fn text(data: &Value, path: &[&str]) -> Option<String> {
    at(data, path)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_snapshot_is_read() {
        let seen = snapshot(&object(json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
            "metadata": {"name": "before", "uid": "s1"},
            "spec": {"source": {"persistentVolumeClaimName": "disk"}},
            "status": {"readyToUse": true, "restoreSize": "1Gi",
                "creationTime": "2026-01-01T00:00:00Z",
                "boundVolumeSnapshotContentName": "c"}
        })));
        let expected = SnapshotSeen {
            uid: "s1".into(),
            claim: Some("disk".into()),
            ready: true,
            taken: Some("2026-01-01T00:00:00Z".parse().unwrap()),
            restore_size: Some(1 << 30),
            ..SnapshotSeen::default()
        };
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_snapshot_without_a_status_is_not_ready() {
        let seen = snapshot(&object(json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
            "metadata": {"name": "before", "uid": "s1"}, "spec": {"source": {}},
            "status": {"error": {"message": "no such driver"}, "restoreSize": "0"}
        })));
        assert!(!seen.ready && seen.claim.is_none() && seen.restore_size.is_none());
        assert_eq!(seen.problem.as_deref(), Some("no such driver"));
    }

    #[test]
    fn a_class_is_read() {
        let seen = class(&object(json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
            "metadata": {"name": "fast", "annotations": {
                "snapshot.storage.kubernetes.io/is-default-class": "true"}},
            "driver": "csi", "deletionPolicy": "Retain"
        })));
        let expected = ClassSeen {
            name: "fast".into(),
            driver: "csi".into(),
            is_default: true,
            retains: true,
        };
        assert_eq!(seen, expected);
    }

    #[test]
    fn only_the_content_that_is_bound_counts() {
        let bound = object(json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
            "metadata": {"name": "c"},
            "spec": {"driver": "loopfile", "source": {"volumeHandle": "vol-1"},
                "sourceVolumeMode": "Block", "volumeSnapshotRef": {"uid": "s1"}}
        }));
        let expected = ContentSeen {
            driver: "loopfile".into(),
            volume_handle: Some("vol-1".into()),
            volume_mode: Some("Block".into()),
        };
        assert_eq!(content(&bound, "s1"), Some(expected));
        assert_eq!(content(&bound, "s2"), None);
    }
}
