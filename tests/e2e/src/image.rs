//! `VirtualMachineImage`s as a test makes them and watches them.

use std::time::Duration;

use anyhow::Context;
use hypercloud_api::{ImagePhase, VirtualMachineImage};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::Scope;
use crate::wait::{Seen, until, when};

/// How long an import of a small disk may take on a busy machine.
pub const IMPORT: Duration = Duration::from_secs(180);
/// How long a deletion may take.
pub const DELETION: Duration = Duration::from_secs(120);

/// Applies an image called `name` from `url` into a volume of `mode`.
pub async fn create(
    scope: &Scope,
    name: &str,
    url: &str,
    mode: &str,
) -> anyhow::Result<VirtualMachineImage> {
    from(scope, name, json!({"http": url}), mode).await
}

/// Applies an image called `name` from `source`, as it stands in a resource,
/// into a volume of `mode`.
pub async fn from(
    scope: &Scope,
    name: &str,
    source: Value,
    mode: &str,
) -> anyhow::Result<VirtualMachineImage> {
    let spec = json!({
        "storageClassName": crate::system::storage_class(),
        "source": source,
        "pvc": {"volumeMode": mode}
    });
    of(scope, name, spec).await
}

/// Applies an image called `name` of the specification `spec`, as it stands
/// in a resource.
pub async fn of(scope: &Scope, name: &str, spec: Value) -> anyhow::Result<VirtualMachineImage> {
    let image = serde_json::from_value(json!({
        "apiVersion": "hypercloud.tmaxanc.com/v1alpha1",
        "kind": "VirtualMachineImage",
        "metadata": {"name": name},
        "spec": spec
    }))?;
    Ok(scope
        .api::<VirtualMachineImage>()
        .create(&PostParams::default(), &image)
        .await?)
}

/// The image's phase, and reason and message of its `Ready` condition.
pub async fn phase(scope: &Scope, name: &str) -> anyhow::Result<(ImagePhase, String, String)> {
    let image = scope.api::<VirtualMachineImage>().get(name).await?;
    let status = image.status.unwrap_or_default();
    let ready = hypercloud_api::conditions::find(&status.conditions, "Ready");
    let (reason, message) = ready
        .map(|c| (c.reason.clone(), c.message.clone()))
        .unwrap_or_default();
    Ok((status.phase.unwrap_or_default(), reason, message))
}

/// Waits until the image is `Ready`; an error at once when it fails.
pub async fn ready(scope: &Scope, name: &str, limit: Duration) -> anyhow::Result<()> {
    let end = until("the image is Ready or Failed", limit, || async {
        let (phase, reason, message) = phase(scope, name).await?;
        Ok(match phase {
            ImagePhase::Ready => Seen::Done(None),
            ImagePhase::Failed => Seen::Done(Some(format!("{reason}: {message}"))),
            other => Seen::NotYet(format!("{other:?} {reason}: {message}")),
        })
    })
    .await?;
    match end {
        None => Ok(()),
        Some(failure) => anyhow::bail!("the import failed: {failure}"),
    }
}

/// Waits until the import has failed for good; its reason and message.
pub async fn failed(scope: &Scope, name: &str) -> anyhow::Result<(String, String)> {
    until("the image is Failed", IMPORT, || async {
        let (phase, reason, message) = phase(scope, name).await?;
        Ok(match phase {
            ImagePhase::Failed => Seen::Done((reason, message)),
            other => Seen::NotYet(format!("{other:?} {reason}: {message}")),
        })
    })
    .await
}

/// Waits until the image waits for what `reason` names; the message.
pub async fn waiting(scope: &Scope, name: &str, reason: &str) -> anyhow::Result<String> {
    until("the image says what it waits for", IMPORT, || async {
        let (phase, found, message) = phase(scope, name).await?;
        anyhow::ensure!(phase != ImagePhase::Failed, "failed: {found}: {message}");
        Ok(if found == reason {
            Seen::Done(message)
        } else {
            Seen::NotYet(format!("{phase:?} {found}: {message}"))
        })
    })
    .await
}

/// Waits until the bytes are under way.
pub async fn importing(scope: &Scope, name: &str) -> anyhow::Result<VirtualMachineImage> {
    until("the image is Importing", IMPORT, || async {
        let image = scope.api::<VirtualMachineImage>().get(name).await?;
        let status = image.status.clone().unwrap_or_default();
        let transferred = status
            .transfer
            .as_ref()
            .is_some_and(|t| t.bytes_received > 0);
        Ok(
            if status.phase == Some(ImagePhase::Importing) && transferred {
                Seen::Done(image)
            } else {
                Seen::NotYet(format!("{status:?}"))
            },
        )
    })
    .await
}

/// Deletes the image and waits until it is gone.
pub async fn delete(scope: &Scope, name: &str) -> anyhow::Result<()> {
    let api = scope.api::<VirtualMachineImage>();
    api.delete(name, &DeleteParams::default()).await?;
    until("the image is gone", DELETION, || async {
        let found = api.get_opt(name).await?;
        Ok(when(found.is_none(), found.map(|image| image.status)))
    })
    .await
}

/// What is left in the cluster of the namespace's images: pods, claims and
/// volumes, by kind and name.
pub async fn leftovers(scope: &Scope) -> anyhow::Result<Vec<String>> {
    let all = ListParams::default();
    let mut left = Vec::new();
    for pod in scope.api::<Pod>().list(&all).await? {
        left.push(format!("pod {}", pod.name_any()));
    }
    for claim in scope.api::<PersistentVolumeClaim>().list(&all).await? {
        left.push(format!("claim {}", claim.name_any()));
    }
    let volumes: Api<PersistentVolume> = Api::all(scope.cluster.client.clone());
    for volume in volumes.list(&all).await? {
        let claim = volume
            .spec
            .as_ref()
            .and_then(|spec| spec.claim_ref.as_ref());
        if claim.and_then(|c| c.namespace.as_deref()) == Some(&scope.namespace) {
            left.push(format!("volume {}", volume.name_any()));
        }
    }
    Ok(left)
}

/// The name of the volume behind the image's claim.
pub async fn volume_name(scope: &Scope, name: &str) -> anyhow::Result<String> {
    let claim = hypercloud_api::names::image_claim(name);
    let claim = scope.api::<PersistentVolumeClaim>().get(&claim).await?;
    claim
        .spec
        .and_then(|spec| spec.volume_name)
        .context("the claim is not bound")
}
