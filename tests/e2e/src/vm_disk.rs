//! `VirtualMachinePvc`s as a test makes them and watches them.

use std::time::Duration;

use anyhow::Context;
use hypercloud_api::{DiskMethod, DiskPhase, VirtualMachinePvc, VirtualMachinePvcStatus};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::cluster::Scope;
use crate::wait::{Seen, until, when};

/// How long a disk may take on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(180);

/// Applies a disk called `name` of the specification `spec`, as it stands in
/// a resource.
pub async fn of(scope: &Scope, name: &str, spec: Value) -> anyhow::Result<VirtualMachinePvc> {
    let disk = serde_json::from_value(json!({
        "apiVersion": "hypercloud.tmaxanc.com/v1alpha1",
        "kind": "VirtualMachinePvc",
        "metadata": {"name": name},
        "spec": spec
    }))?;
    let disks = scope.api::<VirtualMachinePvc>();
    Ok(disks.create(&PostParams::default(), &disk).await?)
}

/// The status of the disk.
pub async fn status(scope: &Scope, name: &str) -> anyhow::Result<VirtualMachinePvcStatus> {
    let disk = scope.api::<VirtualMachinePvc>().get(name).await?;
    Ok(disk.status.unwrap_or_default())
}

/// Reason and message of its `Ready` condition.
pub fn reason(status: &VirtualMachinePvcStatus) -> (String, String) {
    hypercloud_api::conditions::find(&status.conditions, "Ready")
        .map(|ready| (ready.reason.clone(), ready.message.clone()))
        .unwrap_or_default()
}

/// Waits until the disk is Ready; its status.
pub async fn ready(scope: &Scope, name: &str) -> anyhow::Result<VirtualMachinePvcStatus> {
    until("the disk is Ready", LIMIT, || async {
        let status = status(scope, name).await?;
        anyhow::ensure!(
            status.phase != Some(DiskPhase::Failed),
            "{:?}",
            reason(&status)
        );
        Ok(if status.phase == Some(DiskPhase::Ready) {
            Seen::Done(status)
        } else {
            Seen::NotYet(format!("{:?} {:?}", status.phase, reason(&status)))
        })
    })
    .await
}

/// Waits until the disk says `wanted` of itself; the message.
pub async fn says(scope: &Scope, name: &str, wanted: &str) -> anyhow::Result<String> {
    until("the disk says what it waits for", LIMIT, || async {
        let status = status(scope, name).await?;
        let (found, message) = reason(&status);
        Ok(if found == wanted {
            Seen::Done(message)
        } else {
            Seen::NotYet(format!("{:?} {found}: {message}", status.phase))
        })
    })
    .await
}

/// Asserts how the disk came to its data.
pub fn assert_made_by(status: &VirtualMachinePvcStatus, method: DiskMethod) {
    assert_eq!(status.method, Some(method), "{status:?}");
}

/// Deletes the disk like this and waits until it is gone.
pub async fn delete(scope: &Scope, name: &str, how: &DeleteParams) -> anyhow::Result<()> {
    let disks = scope.api::<VirtualMachinePvc>();
    disks.delete(name, how).await?;
    until("the disk is gone", LIMIT, || async {
        let found = disks.get_opt(name).await?;
        Ok(when(found.is_none(), found.map(|disk| disk.status)))
    })
    .await
}

/// The claim of this name.
pub async fn claim(scope: &Scope, name: &str) -> anyhow::Result<PersistentVolumeClaim> {
    Ok(scope.api::<PersistentVolumeClaim>().get(name).await?)
}

/// Phase and capacity of the claim.
pub async fn capacity(scope: &Scope, name: &str) -> anyhow::Result<(String, String)> {
    let status = claim(scope, name).await?.status.context("no status")?;
    let capacity = status.capacity.unwrap_or_default();
    let storage = capacity.get("storage").map(|size| size.0.clone());
    Ok((
        status.phase.unwrap_or_default(),
        storage.unwrap_or_default(),
    ))
}

/// Takes the snapshot `name` of `claim` and waits until it can be used.
pub async fn snapshot(scope: &Scope, name: &str, claim: &str) -> anyhow::Result<()> {
    let kind = GroupVersionKind::gvk("snapshot.storage.k8s.io", "v1", "VolumeSnapshot");
    let resource = ApiResource::from_gvk(&kind);
    let client = scope.cluster.client.clone();
    let api = Api::<DynamicObject>::namespaced_with(client, &scope.namespace, &resource);
    let wanted = DynamicObject::new(name, &resource)
        .data(json!({"spec": {"source": {"persistentVolumeClaimName": claim}}}));
    api.create(&PostParams::default(), &wanted).await?;
    until("the snapshot is ready to use", LIMIT, || async {
        let status = api.get(name).await?.data["status"].clone();
        Ok(when(status["readyToUse"] == true, status))
    })
    .await
}
