//! Inventories that belong to no node.
//!
//! Kubernetes takes an inventory away with its node; this is for the ones
//! that say no such owner, or whose node went while nobody looked.

use std::collections::BTreeSet;
use std::time::Duration;

use hypercloud_api::NodeDeviceInventory;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use kube::{Client, Error as KubeError, ResourceExt};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::shell::write::exactly;

/// How often it is looked for them.
const INTERVAL: Duration = Duration::from_secs(60);

/// Deletes inventories without a node until `stop`.
pub async fn collect(client: Client, stop: CancellationToken) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        if let Err(error) = collect_once(&client).await {
            tracing::warn!(%error, "looking for inventories without a node");
        }
    }
}

/// One look.
pub async fn collect_once(client: &Client) -> Result<(), KubeError> {
    let inventories: Api<NodeDeviceInventory> = Api::all(client.clone());
    // Before the nodes: one that comes meanwhile is not judged.
    let list = inventories.list_metadata(&ListParams::default()).await?;
    if list.items.is_empty() {
        return Ok(());
    }
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = nodes.list_metadata(&ListParams::default()).await?;
    let nodes: BTreeSet<String> = nodes.items.iter().map(ResourceExt::name_any).collect();
    for inventory in list.items {
        let name = inventory.name_any();
        if nodes.contains(&name) {
            continue;
        }
        let uid = inventory.uid().unwrap_or_default();
        match inventories.delete(&name, &exactly(&uid)).await {
            Ok(_) => tracing::info!(%name, "inventory without a node deleted"),
            Err(error) => tracing::warn!(%name, %error, "inventory without a node stays"),
        }
    }
    Ok(())
}
