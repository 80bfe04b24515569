//! `VirtualMachineVolumeExport`s as a test makes them and watches them, and
//! the object store that they go to.

use std::path::Path;

use anyhow::Context;
use hypercloud_api::{VirtualMachineVolumeExport, VirtualMachineVolumeExportStatus};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use test_store::{KEYS, Setup, Store};

use crate::access;
use crate::cluster::{Cluster, SYSTEM_NAMESPACE, Scope};
use crate::task;
use crate::wait::{Seen, until};

/// The bucket of the tests' store.
pub const BUCKET: &str = "vm-image";
/// The Secret with the keys of the tests' store.
pub const SECRET: &str = "store-keys";
/// The Service by which the coordinator's configuration knows the cluster's
/// object store, where it is that of the tests.
const SERVICE: &str = "object-store";

/// A store that the cluster's pods reach.
pub async fn store(cluster: &Cluster) -> anyhow::Result<Store> {
    let setup = Setup {
        address: cluster.address_for_pods().await?,
        buckets: vec![BUCKET.to_owned()],
        ..Setup::default()
    };
    Ok(Store::start(setup).await?)
}

/// Makes the Secret that lets in at the store.
pub async fn keys(scope: &Scope) -> anyhow::Result<()> {
    let keys = [("accessKeyId", KEYS.0), ("secretKey", KEYS.1)];
    access::secret(scope, SECRET, &keys).await
}

/// Makes `store` the cluster's object store; none is known of in a cluster
/// whose coordinator was not configured for the tests.
pub async fn make_default(cluster: &Cluster, store: &Store) -> anyhow::Result<bool> {
    let client = cluster.client.clone();
    let services: Api<k8s_openapi::api::core::v1::Service> =
        Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    if services.get_opt(SERVICE).await?.is_none() {
        return Ok(false);
    }
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "object-store-tests",
            "labels": {"kubernetes.io/service-name": SERVICE}
        },
        "addressType": "IPv4",
        "ports": [{"name": "s3", "port": store.address.port(), "protocol": "TCP"}],
        "endpoints": [{"addresses": [store.address.ip().to_string()]}]
    });
    let slices: Api<EndpointSlice> = Api::namespaced(client, SYSTEM_NAMESPACE);
    let parameters = PatchParams::apply("e2e").force();
    slices
        .patch("object-store-tests", &parameters, &Patch::Apply(&slice))
        .await?;
    Ok(true)
}

/// A specification: the disk `claim` to the object `key` of `store`, let in by
/// the Secret of [`keys`]; `more` stands beside it.
pub fn spec(store: &Store, claim: &str, key: &str, more: Value) -> Value {
    let mut spec = json!({
        "pvcName": claim,
        "objectStore": object(store, key),
        "secretRef": {"name": SECRET}
    });
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    spec
}

/// An object of `store` as a resource names it.
pub fn object(store: &Store, key: &str) -> Value {
    json!({
        "bucketName": BUCKET,
        "objectName": key,
        "endpoint": store.endpoint(),
        "region": "us-east-1",
        "forcePathStyle": true
    })
}

/// Applies an export.
pub async fn start(
    scope: &Scope,
    name: &str,
    spec: Value,
) -> anyhow::Result<VirtualMachineVolumeExport> {
    task::start(scope, name, spec).await
}

/// Waits until the export has succeeded; its status.
pub async fn succeeded(
    scope: &Scope,
    name: &str,
) -> anyhow::Result<VirtualMachineVolumeExportStatus> {
    let done: VirtualMachineVolumeExport = task::succeeded(scope, name, task::LIMIT).await?;
    done.status.context("no status")
}

/// Waits until the export has failed; reason and message.
pub async fn failed(scope: &Scope, name: &str) -> anyhow::Result<(String, String)> {
    task::failed::<VirtualMachineVolumeExport>(scope, name).await
}

/// Waits until the export waits for what `reason` names; the message.
pub async fn waiting(scope: &Scope, name: &str, reason: &str) -> anyhow::Result<String> {
    task::waiting::<VirtualMachineVolumeExport>(scope, name, reason).await
}

/// Waits until parts of the export are stored and its status names the upload;
/// the node whose agent is at work.
pub async fn midway(scope: &Scope, name: &str, store: &Store) -> anyhow::Result<String> {
    until("the upload is under way", task::LIMIT, || async {
        let (export, reason, message) =
            task::look::<VirtualMachineVolumeExport>(scope, name).await?;
        let upload = export.status.and_then(|status| status.upload);
        let parts: usize = store
            .uploads()
            .iter()
            .map(|upload| upload.parts.len())
            .sum();
        Ok(match upload {
            Some(upload) if upload.upload_id.is_some() && parts > 1 => Seen::Done(upload.node_name),
            _ => Seen::NotYet(format!("{parts} parts, {reason}: {message}, {upload:?}")),
        })
    })
    .await
}

/// Waits until nothing of the export with this UID is left in the cluster.
pub async fn tidy(scope: &Scope, uid: &str) -> anyhow::Result<()> {
    task::tidy::<VirtualMachineVolumeExport>(scope, uid).await
}

/// Deletes the export and waits until it is gone.
pub async fn delete(scope: &Scope, name: &str) -> anyhow::Result<()> {
    task::delete::<VirtualMachineVolumeExport>(scope, name, task::LIMIT).await
}

/// Reasons of the Events on the object called `name`.
pub async fn events(scope: &Scope, name: &str) -> anyhow::Result<Vec<String>> {
    let events = scope.api::<Event>().list(&ListParams::default()).await?;
    let events = events.into_iter().filter(|event| {
        let about = event.regarding.as_ref();
        about.and_then(|about| about.name.as_deref()) == Some(name)
    });
    Ok(events.filter_map(|event| event.reason).collect())
}

/// The address, from its Secret, by which the export's object can be fetched
/// without credentials.
pub async fn download_url(
    scope: &Scope,
    status: &VirtualMachineVolumeExportStatus,
) -> anyhow::Result<String> {
    let named = status.download_url.as_ref();
    let name = &named.context("no download URL in the status")?.secret_name;
    let secret = scope.api::<Secret>().get(name).await?;
    let owner = secret
        .owner_references()
        .first()
        .map(|owner| owner.kind.clone());
    anyhow::ensure!(owner.as_deref() == Some("VirtualMachineVolumeExport"));
    let url = secret.data.unwrap_or_default().remove("url");
    Ok(String::from_utf8(url.context("no url in the Secret")?.0)?)
}

/// Writes an object of the store to a file.
pub fn save(store: &Store, key: &str, path: &Path) -> anyhow::Result<()> {
    let bytes = store
        .object(key)
        .with_context(|| format!("no object {key}"))?;
    Ok(std::fs::write(path, bytes)?)
}
