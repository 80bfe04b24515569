//! What the simulated Rook and Ceph are told to do.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;
use test_rook::ORDERS;
use test_rook::orders::Orders;

use crate::cluster::Cluster;

/// Where the orders are.
pub const NAMESPACE: &str = test_rook::NAMESPACE;

/// Makes the place of the orders, with none in it, and nothing remembered of
/// earlier ones.
pub async fn prepare(cluster: &Cluster) -> anyhow::Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": test_rook::objects()});
    let text = list.to_string();
    super::kubectl(
        &[
            "apply",
            "--server-side",
            "--force-conflicts",
            "--filename",
            "-",
        ],
        &text,
    )?;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    match api
        .delete(test_rook::MEMORY, &DeleteParams::default())
        .await
    {
        Err(kube::Error::Api(answer)) if answer.code == 404 => {}
        other => drop(other?),
    }
    clear(cluster).await
}

/// Gives these orders, in place of those before.
pub async fn give(cluster: &Cluster, orders: &[(&str, &str)]) -> anyhow::Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let text = |(key, word): &(&str, &str)| ((*key).to_owned(), (*word).to_owned());
    let data: BTreeMap<String, String> = orders.iter().map(text).collect();
    // A word that means nothing is the test's mistake.
    Orders::read(&data).map_err(|error| anyhow::anyhow!("{error}"))?;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": ORDERS},
        "data": data,
    });
    let by = PatchParams::apply("tests").force();
    api.patch(ORDERS, &by, &Patch::Apply(map)).await?;
    Ok(())
}

/// Takes every order back: all is well, and at once.
pub async fn clear(cluster: &Cluster) -> anyhow::Result<()> {
    give(cluster, &[]).await
}
