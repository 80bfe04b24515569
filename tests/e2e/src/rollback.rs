//! Snapshots and `VirtualMachineVolumeRollback`s as a test makes them and
//! watches them.

use std::time::Duration;

use hypercloud_api::VirtualMachineVolumeRollback;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::json;

use crate::cluster::Scope;
use crate::task;
use crate::wait::{Seen, until, when};

/// How long a rollback of a small volume may take on a busy machine.
pub const ROLLBACK: Duration = task::LIMIT;

/// Makes a claim of `mebibytes` in the tests' class.
pub async fn claim(
    scope: &Scope,
    name: &str,
    mode: &str,
    mebibytes: u64,
) -> anyhow::Result<PersistentVolumeClaim> {
    let claim = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": crate::system::storage_class(),
            "volumeMode": mode,
            "resources": {"requests": {"storage": format!("{mebibytes}Mi")}}
        }
    }))?;
    let claims = scope.api::<PersistentVolumeClaim>();
    Ok(claims.create(&PostParams::default(), &claim).await?)
}

/// The namespace's VolumeSnapshots.
pub fn snapshots(scope: &Scope) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("snapshot.storage.k8s.io", "v1", "VolumeSnapshot");
    let kind = ApiResource::from_gvk(&kind);
    Api::namespaced_with(scope.cluster.client.clone(), &scope.namespace, &kind)
}

/// Takes the snapshot `name` of `claim`, and waits until it is ready.
pub async fn snapshot(scope: &Scope, name: &str, claim: &str) -> anyhow::Result<()> {
    let api = snapshots(scope);
    let snapshot: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": {"name": name},
        "spec": {"source": {"persistentVolumeClaimName": claim}}
    }))?;
    api.create(&PostParams::default(), &snapshot).await?;
    until("the snapshot is ready", ROLLBACK, || async {
        let found = api.get(name).await?;
        let status = &found.data["status"];
        Ok(when(status["readyToUse"] == true, status))
    })
    .await
}

/// Applies a rollback of `claim` to `snapshot`.
pub async fn start(scope: &Scope, name: &str, claim: &str, snapshot: &str) -> anyhow::Result<()> {
    let spec = json!({"pvcName": claim, "volumeSnapshotName": snapshot});
    task::start::<VirtualMachineVolumeRollback>(scope, name, spec)
        .await
        .map(drop)
}

/// The rollback, and reason and message of its `Complete` condition.
pub async fn look(
    scope: &Scope,
    name: &str,
) -> anyhow::Result<(VirtualMachineVolumeRollback, String, String)> {
    task::look(scope, name).await
}

/// Waits until the rollback is over; an error when it failed.
pub async fn succeeded(
    scope: &Scope,
    name: &str,
    limit: Duration,
) -> anyhow::Result<VirtualMachineVolumeRollback> {
    task::succeeded(scope, name, limit).await
}

/// Waits until the rollback failed; reason and message.
pub async fn failed(scope: &Scope, name: &str) -> anyhow::Result<(String, String)> {
    task::failed::<VirtualMachineVolumeRollback>(scope, name).await
}

/// Waits until the rollback waits for what `reason` names; the message.
pub async fn waiting(scope: &Scope, name: &str, reason: &str) -> anyhow::Result<String> {
    task::waiting::<VirtualMachineVolumeRollback>(scope, name, reason).await
}

/// Waits until bytes are under way; the node whose agent is at work.
pub async fn midway(scope: &Scope, name: &str) -> anyhow::Result<String> {
    until("the volume is written to", ROLLBACK, || async {
        let (rollback, reason, message) = look(scope, name).await?;
        let status = rollback.status.unwrap_or_default();
        let copy = status.copy.unwrap_or_default();
        anyhow::ensure!(copy.completion_time.is_none(), "it was too fast: {copy:?}");
        Ok(if copy.bytes_done > 0 {
            Seen::Done(copy.node_name)
        } else {
            Seen::NotYet(format!("{:?} {reason}: {message}", status.phase))
        })
    })
    .await
}

/// Waits until nothing is left of the rollback with this UID.
pub async fn tidy(scope: &Scope, uid: &str) -> anyhow::Result<()> {
    task::tidy::<VirtualMachineVolumeRollback>(scope, uid).await
}

/// Deletes the rollback and waits until it is gone.
pub async fn delete(scope: &Scope, name: &str, limit: Duration) -> anyhow::Result<()> {
    task::delete::<VirtualMachineVolumeRollback>(scope, name, limit).await
}
