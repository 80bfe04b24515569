//! One look at the world around a cleanup (client required).
//!
//! The resource, its node and the other cleanups are read from the API server
//! itself, never from a watch's cache.

use hypercloud_api::NodeDeviceCleanup;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use kube::core::DeserializeGuard;
use kube::{Client, Error as KubeError, ResourceExt};

use super::observation::{Observation, OtherSeen, age, is_over};
use crate::agents::Agents;
use crate::inventory::observe::node_seen;
use crate::shell::error::ObserveError;
use crate::storage::held;

/// What there is around the cleanup `name`; `None` where it is gone, or over:
/// records are many in the end.
pub async fn observe(
    client: &Client,
    agents: &dyn Agents,
    name: &str,
) -> Result<Option<Observation>, ObserveError> {
    let cleanups: Api<NodeDeviceCleanup> = Api::all(client.clone());
    let found = cleanups.get_opt(name).await;
    let found = found.map_err(reading("the cleanup"))?;
    let Some(cleanup) = found.filter(|cleanup| !is_over(cleanup)) else {
        return Ok(None);
    };
    let name = &cleanup.spec.node_name;
    let nodes: Api<Node> = Api::all(client.clone());
    let node = nodes.get_metadata_opt(name).await;
    let node = node.map_err(reading("the node"))?.as_ref().map(node_seen);
    let others = others(client, &cleanup).await?;
    let hostname = node.as_ref().and_then(|node| node.hostname.as_deref());
    let storage = match hostname {
        Some(hostname) => held::links(client, hostname).await?,
        None => Default::default(),
    };
    let agent = agents.state(name);
    let devices = agents.devices(name);
    let devices = devices.of(node.as_ref().and_then(|node| node.created));
    Ok(Some(Observation {
        node,
        agent,
        devices,
        others,
        storage,
        cleanup,
    }))
}

/// Other cleanups on the node that are not over.
async fn others(
    client: &Client,
    cleanup: &NodeDeviceCleanup,
) -> Result<Vec<OtherSeen>, ObserveError> {
    let unfinished = unfinished(client).await?;
    let others = unfinished
        .iter()
        .filter(|other| {
            other.spec.node_name == cleanup.spec.node_name
                && other.metadata.uid != cleanup.metadata.uid
                && other.metadata.deletion_timestamp.is_none()
        })
        .map(other_seen);
    Ok(others.collect())
}

/// Every cleanup that is not over. One that cannot be read is not carried out
/// either.
pub async fn unfinished(client: &Client) -> Result<Vec<NodeDeviceCleanup>, ObserveError> {
    let all: Api<DeserializeGuard<NodeDeviceCleanup>> = Api::all(client.clone());
    let list = all.list(&ListParams::default()).await;
    let list = list.map_err(reading("the cleanups"))?;
    let read = list.items.into_iter().filter_map(|read| read.0.ok());
    Ok(read.filter(|cleanup| !is_over(cleanup)).collect())
}

/// What is of interest in another cleanup.
pub fn other_seen(other: &NodeDeviceCleanup) -> OtherSeen {
    let status = other.status.as_ref();
    OtherSeen {
        name: other.name_any(),
        age: age(other),
        asked: other.spec.device.clone(),
        device: status.and_then(|status| status.device.clone()),
    }
}

fn reading(what: &'static str) -> impl FnOnce(KubeError) -> ObserveError {
    move |source| ObserveError::Read { what, source }
}
