//! The cluster's nodes and their devices, as the storage is decided by them
//! (client required).
//!
//! Everything is read from the API server itself, never from a watch's cache.
//! What an unfinished cleanup names does not count as available; the cleanups
//! are read last, so that one which is asked for meanwhile is seen.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt, TryStreamExt};
use hypercloud_api::{InventoryState, NodeDeviceCleanup, NodeDeviceInventory};
use hypercloud_inventory::Inventory;
use hypercloud_storage::device::NodeDevices;
use hypercloud_storage::version::KubernetesVersion;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams, ObjectList};
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::{Client, Error as KubeError, ResourceExt};

use crate::cleanup::observation::OtherSeen;
use crate::cleanup::observe::{other_seen, unfinished};
use crate::cleanup::withhold::withhold;
use crate::inventory::observation::NodeSeen;
use crate::inventory::observe::node_seen;
use crate::inventory::plan::is_of;
use crate::shell::error::ObserveError;

/// How many inventories are asked for at once. Each by its name: one may have a
/// megabyte, and most nodes of a large cluster have nothing to do with this.
const AT_ONCE: usize = 8;

/// The cluster's nodes.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    /// Their labels `kubernetes.io/hostname`.
    pub hostnames: BTreeSet<String>,
    /// Their devices, by that label.
    pub inventories: BTreeMap<String, NodeDevices>,
}

/// The nodes, with the devices of those whose label `kubernetes.io/hostname`
/// is one of `wanted`.
pub async fn read(client: &Client, wanted: &BTreeSet<&str>) -> Result<Nodes, ObserveError> {
    let nodes: Vec<(String, NodeSeen)> = metadata(client).await?;
    let mut hostnames: Vec<&str> = Vec::new();
    for (_, node) in &nodes {
        hostnames.extend(node.hostname.as_deref());
    }
    // Of a label that two nodes have it is not known which of them is meant.
    let count = |hostname: &str| hostnames.iter().filter(|other| **other == hostname).count();
    let asked: BTreeMap<&str, (&str, &NodeSeen)> = nodes
        .iter()
        .filter_map(|(name, node)| Some((name.as_str(), (node.hostname.as_deref()?, node))))
        .filter(|(_, (hostname, _))| wanted.contains(hostname) && count(hostname) == 1)
        .collect();
    let mut inventories = BTreeMap::new();
    if !asked.is_empty() {
        let mut found = devices(client, &asked).await?;
        let cleanups = unfinished(client).await?;
        for (name, (hostname, _)) in &asked {
            let Some(mut devices) = found.remove(*name) else {
                continue;
            };
            withhold(&mut devices.inventory, &of_node(&cleanups, name));
            inventories.insert((*hostname).to_owned(), devices);
        }
    }
    Ok(Nodes {
        hostnames: hostnames.into_iter().map(str::to_owned).collect(),
        inventories,
    })
}

/// The version of the cluster's Kubernetes; none where it is not said in
/// numbers.
pub async fn kubernetes(client: &Client) -> Result<Option<KubernetesVersion>, ObserveError> {
    let version = client.apiserver_version().await;
    let version = version.map_err(reading("the version of Kubernetes"))?;
    Ok(KubernetesVersion::parse(&version.major, &version.minor))
}

/// The names of all nodes, with what is of interest in them.
async fn metadata(client: &Client) -> Result<Vec<(String, NodeSeen)>, ObserveError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let list = nodes.list_metadata(&ListParams::default()).await;
    let list: ObjectList<PartialObjectMeta<Node>> = list.map_err(reading("the nodes"))?;
    let seen = |node: &PartialObjectMeta<Node>| (node.name_any(), node_seen(node));
    Ok(list.items.iter().map(seen).collect())
}

/// The devices of the nodes of these names.
async fn devices(
    client: &Client,
    asked: &BTreeMap<&str, (&str, &NodeSeen)>,
) -> Result<BTreeMap<String, NodeDevices>, ObserveError> {
    let mut looks = Vec::new();
    for (name, (_, node)) in asked {
        looks.push(of(client.clone(), (*name).to_owned(), node.uid.clone()));
    }
    let found = stream::iter(looks).buffer_unordered(AT_ONCE);
    let found: Vec<(String, Option<NodeDevices>)> = found.try_collect().await?;
    let known = |(name, devices): (String, Option<_>)| Some((name, devices?));
    Ok(found.into_iter().filter_map(known).collect())
}

/// The devices of one node. An inventory that cannot be read, or is of a
/// former node of that name, is none.
async fn of(
    client: Client,
    name: String,
    uid: String,
) -> Result<(String, Option<NodeDevices>), ObserveError> {
    let all: Api<DeserializeGuard<NodeDeviceInventory>> = Api::all(client);
    let found = all.get_opt(&name).await;
    let found = found.map_err(reading("the inventories"))?;
    let inventory = found.and_then(|read| read.0.ok());
    let own = inventory.filter(|inventory| is_of(inventory, &uid));
    Ok((name, own.map(told)))
}

fn told(inventory: NodeDeviceInventory) -> NodeDevices {
    let status = inventory.status.unwrap_or_default();
    NodeDevices {
        state: status.state.unwrap_or(InventoryState::Pending),
        inventory: Inventory {
            hostname: status.hostname,
            boot_id: status.boot_id,
            devices: status.devices,
        },
    }
}

fn of_node(cleanups: &[NodeDeviceCleanup], name: &str) -> Vec<OtherSeen> {
    let of = cleanups
        .iter()
        .filter(|cleanup| cleanup.spec.node_name == name);
    of.map(other_seen).collect()
}

fn reading(what: &'static str) -> impl FnOnce(KubeError) -> ObserveError {
    move |source| ObserveError::Read { what, source }
}
