//! Snapshots and `VirtualMachineVolumeRollback`s as a test makes them and
//! watches them.

use std::time::Duration;

use hypercloud_api::{RollbackPhase, VirtualMachineVolumeRollback, conditions};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams,
};
use kube::{Resource, ResourceExt};
use serde_json::json;

use crate::cluster::Scope;
use crate::wait::{Seen, until, when};

/// How long a rollback of a small volume may take on a busy machine.
pub const ROLLBACK: Duration = Duration::from_secs(180);

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
    let rollback = serde_json::from_value(json!({
        "apiVersion": "hypercloud.tmaxanc.com/v1alpha1",
        "kind": VirtualMachineVolumeRollback::kind(&()),
        "metadata": {"name": name},
        "spec": {"pvcName": claim, "volumeSnapshotName": snapshot}
    }))?;
    let api = scope.api::<VirtualMachineVolumeRollback>();
    api.create(&PostParams::default(), &rollback).await?;
    Ok(())
}

/// The rollback, and reason and message of its `Complete` condition.
pub async fn look(
    scope: &Scope,
    name: &str,
) -> anyhow::Result<(VirtualMachineVolumeRollback, String, String)> {
    let api = scope.api::<VirtualMachineVolumeRollback>();
    let rollback = api.get(name).await?;
    let status = rollback.status.clone().unwrap_or_default();
    let complete = conditions::find(&status.conditions, "Complete");
    let (reason, message) = complete
        .map(|c| (c.reason.clone(), c.message.clone()))
        .unwrap_or_default();
    Ok((rollback, reason, message))
}

/// Waits until the rollback is over; an error when it failed.
pub async fn succeeded(
    scope: &Scope,
    name: &str,
    limit: Duration,
) -> anyhow::Result<VirtualMachineVolumeRollback> {
    let end = until("the rollback is over", limit, || async {
        let (rollback, reason, message) = look(scope, name).await?;
        let phase = rollback.status.as_ref().and_then(|status| status.phase);
        Ok(match phase {
            Some(RollbackPhase::Succeeded) => Seen::Done(Ok(rollback)),
            Some(RollbackPhase::Failed) => Seen::Done(Err(format!("{reason}: {message}"))),
            other => Seen::NotYet(format!("{other:?} {reason}: {message}")),
        })
    })
    .await?;
    end.map_err(|failure| anyhow::anyhow!("the rollback failed: {failure}"))
}

/// Waits until the rollback failed; reason and message.
pub async fn failed(scope: &Scope, name: &str) -> anyhow::Result<(String, String)> {
    until("the rollback failed", ROLLBACK, || async {
        let (rollback, reason, message) = look(scope, name).await?;
        let phase = rollback.status.and_then(|status| status.phase);
        Ok(match phase {
            Some(RollbackPhase::Failed) => Seen::Done((reason, message)),
            other => Seen::NotYet(format!("{other:?} {reason}: {message}")),
        })
    })
    .await
}

/// Waits until the rollback waits for what `reason` names; the message.
pub async fn waiting(scope: &Scope, name: &str, reason: &str) -> anyhow::Result<String> {
    until("the rollback says what it waits for", ROLLBACK, || async {
        let (_, found, message) = look(scope, name).await?;
        Ok(if found == reason {
            Seen::Done(message)
        } else {
            Seen::NotYet(format!("{found}: {message}"))
        })
    })
    .await
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

/// Waits until nothing is left of the rollback with this UID: claim, pods,
/// jobs.
pub async fn tidy(scope: &Scope, uid: &str) -> anyhow::Result<()> {
    let labels = format!("{}={uid}", hypercloud_api::names::LABEL_ROLLBACK_UID);
    let ours = ListParams::default().labels(&labels);
    let pods = scope.api::<k8s_openapi::api::core::v1::Pod>();
    let claims = scope.api::<PersistentVolumeClaim>();
    until("nothing of the rollback is left", ROLLBACK, || async {
        let mut left: Vec<String> = Vec::new();
        left.extend(pods.list(&ours).await?.iter().map(|pod| pod.name_any()));
        left.extend(
            claims
                .list(&ours)
                .await?
                .iter()
                .map(|claim| claim.name_any()),
        );
        let jobs = crate::agents::jobs(&scope.cluster).await?;
        let jobs = jobs.into_iter().map(|(_, job)| job.id);
        left.extend(jobs.filter(|job| job.starts_with(uid)));
        Ok(when(left.is_empty(), left))
    })
    .await
}

/// Deletes the rollback and waits until it is gone.
pub async fn delete(scope: &Scope, name: &str, limit: Duration) -> anyhow::Result<()> {
    let api = scope.api::<VirtualMachineVolumeRollback>();
    api.delete(name, &DeleteParams::default()).await?;
    until("the rollback is gone", limit, || async {
        let found = api.get_opt(name).await?;
        Ok(when(found.is_none(), found.map(|rollback| rollback.status)))
    })
    .await
}
