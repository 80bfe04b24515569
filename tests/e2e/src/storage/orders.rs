//! What the simulated Rook and Ceph are told to do.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::cluster::Cluster;

/// Where the orders are.
pub const NAMESPACE: &str = test_rook::NAMESPACE;
const NAME: &str = "orders";
/// What the simulated Ceph remembers.
const MEMORY: &str = "ceph";

/// Makes the place of the orders, with none in it, and nothing remembered of
/// earlier ones.
pub async fn prepare(cluster: &Cluster) -> anyhow::Result<()> {
    let objects = test_rook::objects();
    let texts: Result<Vec<String>, _> = objects.iter().map(serde_json::to_string).collect();
    let text = texts?.join("\n---\n");
    super::kubectl(&["apply", "--server-side", "--force-conflicts", "--filename", "-"], &text)?;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    match api.delete(MEMORY, &DeleteParams::default()).await {
        Err(kube::Error::Api(answer)) if answer.code == 404 => {}
        other => drop(other?),
    }
    clear(cluster).await
}

/// Gives these orders, in place of those before.
pub async fn give(cluster: &Cluster, orders: &[(&str, &str)]) -> anyhow::Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let data: std::collections::BTreeMap<&str, &str> = orders.iter().copied().collect();
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": NAME},
        "data": data,
    });
    let by = PatchParams::apply("tests").force();
    api.patch(NAME, &by, &Patch::Apply(map)).await?;
    Ok(())
}

/// Takes every order back: all is well, and at once.
pub async fn clear(cluster: &Cluster) -> anyhow::Result<()> {
    give(cluster, &[]).await
}
