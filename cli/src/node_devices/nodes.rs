//! The nodes' devices as they are shown. Values in, values out.

use hypercloud_api::conditions::find;
use hypercloud_api::{InventoryState, NodeDeviceInventory};
use hypercloud_inventory::rook::{self, Selector, Storage, choose};
use hypercloud_inventory::{Device, Inventory};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;

use crate::devices::{Group, NodeCells, Shown};

/// The condition that says whether an inventory is of now.
const READY: &str = "Ready";

/// The devices of one node, for programs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OneNode {
    node: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    boot_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heartbeat_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted_devices: Option<i64>,
    devices: Vec<Device>,
    /// How old a picture is that is not of now.
    #[serde(skip)]
    age: Option<String>,
    /// The devices that are not wanted, too: they tell which links are one
    /// device's alone.
    #[serde(skip)]
    all: Vec<Device>,
}

/// The devices of several nodes.
pub(super) struct Nodes {
    nodes: Vec<OneNode>,
    selector: Selector,
}

impl Nodes {
    /// Those of the nodes that are named, or of all, in the order of names.
    pub(super) fn of<'a>(
        inventories: impl Iterator<Item = &'a NodeDeviceInventory>,
        named: &[String],
        selector: &Selector,
        now: Timestamp,
    ) -> Self {
        let mut nodes: Vec<OneNode> = inventories
            .filter(|inventory| named.is_empty() || named.contains(&inventory.name_any()))
            .map(|inventory| OneNode::of(inventory, selector, now))
            .collect();
        nodes.sort_by(|one, other| one.node.cmp(&other.node));
        Self {
            nodes,
            selector: selector.clone(),
        }
    }
}

impl OneNode {
    pub(super) fn of(inventory: &NodeDeviceInventory, selector: &Selector, now: Timestamp) -> Self {
        let status = inventory.status.clone().unwrap_or_default();
        let state = status.state.unwrap_or_default();
        let is_current = state == InventoryState::Current;
        let age = status.heartbeat_time.as_ref().map(|at| age(now, at.0));
        let ready = find(&status.conditions, READY);
        let message = ready.map(|ready| ready.message.clone());
        let all = status.devices;
        Self {
            node: inventory.name_any(),
            state: state.as_str(),
            message: message.filter(|message| !is_current && !message.is_empty()),
            hostname: status.hostname,
            boot_id: status.boot_id,
            revision: status.revision,
            heartbeat_time: status.heartbeat_time,
            omitted_devices: status.omitted_devices.filter(|omitted| *omitted > 0),
            devices: all
                .iter()
                .filter(|device| selector.wants(device))
                .cloned()
                .collect(),
            age: age.filter(|_| !is_current),
            all,
        }
    }

    /// The device that is called so, or has such a link; more than one where
    /// that does not tell.
    pub(super) fn called(&self, name: &str) -> Vec<&Device> {
        let path = if name.starts_with('/') {
            name.to_owned()
        } else {
            format!("/dev/{name}")
        };
        let is_it = |device: &&Device| {
            let identity = &device.identity;
            device.path == path
                || identity.by_id.as_ref() == Some(&path)
                || identity.links.contains(&path)
        };
        let found: Vec<&Device> = self.all.iter().filter(is_it).collect();
        // A multipath device, whose paths have its links too.
        let owns = |device: &&&Device| device.identity.by_id.as_ref() == Some(&path);
        match found.iter().find(owns) {
            Some(device) if found.len() > 1 => vec![*device],
            _ => found,
        }
    }

    /// What has to be said where a device is not found, though not all are
    /// shown.
    pub(super) fn hidden(&self) -> String {
        match self.omitted_devices {
            Some(omitted) => format!(" (but {omitted} more for which there was no room)"),
            None => String::new(),
        }
    }

    /// The state, with how old it is where it is not of now.
    pub(super) fn state(&self) -> String {
        match &self.age {
            Some(age) => format!("{}({age})", self.state),
            None => self.state.to_owned(),
        }
    }

    /// What Rook is given of it.
    fn choice(&self, selector: &Selector) -> Result<rook::Choice, String> {
        let node = &self.node;
        let because = |why: &str| match &self.message {
            Some(message) => format!("left out: node {node}: {why}: {message}"),
            None => format!("left out: node {node}: {why}"),
        };
        if self.state != InventoryState::Current.as_str() {
            return Err(because(match &self.age {
                Some(_) => "its devices are not known to be what it has now",
                None => "its devices are not known",
            }));
        }
        let hostname = self.hostname.as_ref();
        let hostname = hostname.ok_or_else(|| because("it has no label kubernetes.io/hostname"))?;
        let inventory = Inventory {
            hostname: self.hostname.clone(),
            boot_id: self.boot_id.clone(),
            devices: self.all.clone(),
        };
        Ok(choose(&inventory, hostname, selector))
    }
}

impl Shown for Nodes {
    type Document = Vec<OneNode>;

    fn groups(&self) -> Vec<Group<'_>> {
        let group = |node: &'_ OneNode| NodeCells {
            name: node.node.clone(),
            state: node.state(),
            // Devices that are only not wanted leave the node out.
            message: node.all.is_empty().then(|| {
                let message = node.message.clone();
                message.unwrap_or_else(|| "no devices".to_owned())
            }),
        };
        self.nodes
            .iter()
            .map(|node| Group {
                node: Some(group(node)),
                devices: node.devices.iter().collect(),
            })
            .collect()
    }

    fn document(&self) -> &Vec<OneNode> {
        &self.nodes
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for node in &self.nodes {
            if let Some(omitted) = node.omitted_devices {
                notes.push(format!(
                    "node {}: {omitted} more devices have no room in its NodeDeviceInventory; \
                     `hcs devices` on the node shows them",
                    node.node
                ));
            }
        }
        notes
    }

    fn storage(&self) -> Result<(Storage, Vec<String>), String> {
        let mut notes = Vec::new();
        let mut chosen = Vec::new();
        for node in &self.nodes {
            match node.choice(&self.selector) {
                Ok(choice) => {
                    let refused = choice.refused.iter();
                    let name = &node.node;
                    notes
                        .extend(refused.map(|refusal| format!("left out: node {name}: {refusal}")));
                    chosen.push(choice.node);
                }
                Err(note) => notes.push(note),
            }
        }
        if chosen.iter().all(|node| node.devices.is_empty()) {
            notes.push("no device is available; `kubectl hcs devices` says why".to_owned());
        }
        Ok((rook::storage(chosen), notes))
    }
}

/// What is said of a node that has no inventory.
pub(super) fn no_inventory(node: &str) -> String {
    format!(
        "there is no NodeDeviceInventory {node}: it is no node, or the coordinator has not \
         come to it yet (kubectl get nodes; kubectl get ndi)"
    )
}

/// How long ago something was, as kubectl writes it.
fn age(now: Timestamp, at: Timestamp) -> String {
    let seconds = (now.as_second() - at.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}
