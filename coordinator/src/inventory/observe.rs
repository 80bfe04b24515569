//! One look at a node and its inventory (client required).

use hypercloud_api::{NodeDeviceInventory, NodeDeviceInventorySpec};
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::{Client, Error as KubeError, ResourceExt};

use super::observation::{NodeSeen, Observation};
use crate::agents::Agents;
use crate::shell::error::ObserveError;

/// Label by which a node's host name is known.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// What there is of the node `name` and its inventory.
pub async fn observe(
    client: &Client,
    agents: &dyn Agents,
    name: &str,
) -> Result<Observation, ObserveError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = nodes.get_metadata_opt(name).await;
    let node = node.map_err(reading("the node"))?.as_ref().map(node_seen);
    let inventories: Api<DeserializeGuard<NodeDeviceInventory>> = Api::all(client.clone());
    let inventory = inventories.get_opt(name).await;
    let inventory = inventory.map_err(reading("the inventory"))?.map(whole);
    // Last, so that nothing else of this look is newer.
    let devices = agents.devices(name);
    Ok(Observation {
        name: name.to_owned(),
        node,
        inventory,
        devices,
    })
}

/// What is of interest in a node.
pub fn node_seen(node: &PartialObjectMeta<Node>) -> NodeSeen {
    NodeSeen {
        uid: node.uid().unwrap_or_default(),
        hostname: node.labels().get(HOSTNAME).cloned(),
        created: node.creation_timestamp().map(|time| time.0),
    }
}

/// The inventory; one whose status cannot be read (somebody else's hand, a
/// coordinator of another version) is one without.
fn whole(read: DeserializeGuard<NodeDeviceInventory>) -> NodeDeviceInventory {
    read.0.unwrap_or_else(|invalid| NodeDeviceInventory {
        metadata: invalid.metadata,
        spec: NodeDeviceInventorySpec::default(),
        status: None,
    })
}

fn reading(what: &'static str) -> impl FnOnce(KubeError) -> ObserveError {
    move |source| ObserveError::Read { what, source }
}
