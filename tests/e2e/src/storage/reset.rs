//! Takes an installation away by force: what a test that failed, or a run that
//! was killed, has left. Nothing of it is how storage is removed.

use std::time::{Duration, Instant};

use hypercloud_api::HYPERCLOUD_STORAGE_NAME;
use hypercloud_storage::object::LABEL_STAGE;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::discovery::{Discovery, Scope};
use serde_json::json;

use super::objects::{Listed, all};
use crate::cluster::Cluster;

/// Groups of kinds whose objects are of an installation, whoever made them.
const GROUPS: [&str; 4] = [
    "ceph.rook.io",
    "objectbucket.io",
    "csi.ceph.io",
    "cdi.kubevirt.io",
];
/// Namespaces that go with it.
const NAMESPACES: [&str; 2] = [hypercloud_storage::ROOK_NAMESPACE, "cdi"];

/// Takes everything away, and waits until it is.
pub async fn reset(cluster: &Cluster) -> anyhow::Result<()> {
    let storages = super::api(cluster);
    let begun = Instant::now();
    if super::look(cluster).await?.is_some() {
        super::delete(cluster).await?;
        let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let by = PatchParams::default();
        match storages.patch(HYPERCLOUD_STORAGE_NAME, &by, &none).await {
            Err(kube::Error::Api(answer)) if answer.code == 404 => {}
            other => drop(other?),
        }
    }
    loop {
        let left = sweep(cluster).await?;
        if left.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > super::LIMIT {
            anyhow::bail!("it cannot be taken away: {left:?}");
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Whether an object is of an installation. What the cluster needs without one
/// stays: definitions of snapshots, and whatever somebody gave a label.
fn is_of_it(listed: &Listed) -> bool {
    let api_version = listed.object["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.split('/').next().unwrap_or_default();
    if listed.kind == "CustomResourceDefinition" {
        return GROUPS
            .iter()
            .any(|group| listed.name.ends_with(&format!(".{group}")));
    }
    if listed.kind == "Namespace" {
        return NAMESPACES.contains(&listed.name.as_str());
    }
    GROUPS.contains(&group)
        || NAMESPACES.contains(&listed.namespace.as_str()) && has_finalizer(listed)
        || listed.label(LABEL_STAGE).is_some()
}

fn has_finalizer(listed: &Listed) -> bool {
    let finalizers = listed.object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|finalizers| !finalizers.is_empty())
}

/// Deletes what is left, without its finalizers; what it was.
async fn sweep(cluster: &Cluster) -> anyhow::Result<Vec<String>> {
    let client = &cluster.client;
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    let resource_of = |listed: &Listed| -> Option<(ApiResource, bool)> {
        let api_version = listed.object["apiVersion"].as_str()?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = kube::api::GroupVersionKind::gvk(group, version, &listed.kind);
        let (resource, capabilities) = discovery.resolve_gvk(&kind)?;
        Some((resource, capabilities.scope == Scope::Namespaced))
    };
    let mut left = Vec::new();
    let mut found = all(cluster, None, None).await?;
    found.retain(is_of_it);
    // Who would put it there again goes first; definitions go last.
    found.sort_by_key(|listed| match listed.kind.as_str() {
        "Deployment" | "DaemonSet" => 0,
        "CustomResourceDefinition" => 2,
        _ => 1,
    });
    for listed in found {
        let Some((resource, namespaced)) = resource_of(&listed) else {
            continue;
        };
        let api: Api<DynamicObject> = if namespaced {
            Api::namespaced_with(client.clone(), &listed.namespace, &resource)
        } else {
            Api::all_with(client.clone(), &resource)
        };
        left.push(format!("{} {}", listed.kind, listed.name));
        if listed.object["metadata"]["deletionTimestamp"].is_null() {
            let _ = api.delete(&listed.name, &DeleteParams::background()).await;
        }
        let is_plain = !matches!(
            listed.kind.as_str(),
            "CustomResourceDefinition" | "Namespace"
        );
        if is_plain && has_finalizer(&listed) {
            let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            let by = PatchParams::default();
            let _ = api.patch(&listed.name, &by, &none).await;
        }
    }
    Ok(left)
}
