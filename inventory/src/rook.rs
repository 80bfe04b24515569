//! The part of a CephCluster that says which devices become OSDs.

use serde::Serialize;

use crate::inventory::{Device, DeviceClass, Inventory, Kind};
use crate::resolve::{Refusal, resolve};

/// `spec.storage` of a CephCluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Only the nodes that are named.
    pub use_all_nodes: bool,
    /// Only the devices that are named.
    pub use_all_devices: bool,
    /// The nodes.
    pub nodes: Vec<Node>,
}

/// One entry of `storage.nodes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// The value of the node's label `kubernetes.io/hostname`.
    pub name: String,
    /// Devices by links that survive a reboot.
    pub devices: Vec<OsdDevice>,
}

/// One entry of `devices`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OsdDevice {
    /// A path in `/dev/disk/by-id`.
    pub name: String,
    /// What Rook is told of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<OsdConfig>,
}

/// `config` of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OsdConfig {
    /// Ceph's class of the device.
    pub device_class: DeviceClass,
}

/// Which of the available devices are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    /// The smallest size in bytes.
    pub min_size: Option<u64>,
    /// Only what turns, or only what does not.
    pub rotational: Option<bool>,
    /// A part of the model, in either case.
    pub model: Option<String>,
}

impl Selector {
    /// Whether a device is wanted.
    #[must_use]
    pub fn wants(&self, device: &Device) -> bool {
        let model = device.model.as_deref().unwrap_or_default().to_lowercase();
        self.min_size.is_none_or(|least| device.size >= least)
            && self
                .rotational
                .is_none_or(|turns| device.rotational == Some(turns))
            && self
                .model
                .as_ref()
                .is_none_or(|part| model.contains(&part.to_lowercase()))
    }
}

/// A node's devices for Rook, and what was left out though it is available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The node; without devices it may be left out of the cluster.
    pub node: Node,
    /// Available devices that Rook is not given, each with why.
    pub refused: Vec<Refusal>,
}

/// What of a node Rook is given: whole devices that are available and wanted.
/// A partition that is free may be free on purpose; it has to be named.
#[must_use]
pub fn choose(inventory: &Inventory, hostname: &str, selector: &Selector) -> Choice {
    let wanted = inventory
        .available()
        .filter(|device| device.kind != Kind::Partition && selector.wants(device));
    let mut devices = Vec::new();
    let mut refused = Vec::new();
    for device in wanted {
        match resolve(inventory, &device.path) {
            Ok(resolved) => devices.push(OsdDevice {
                name: resolved.path.to_owned(),
                config: device
                    .device_class
                    .map(|device_class| OsdConfig { device_class }),
            }),
            Err(refusal) => refused.push(refusal),
        }
    }
    Choice {
        node: Node {
            name: hostname.to_owned(),
            devices,
        },
        refused,
    }
}

/// `spec.storage` with exactly these nodes.
#[must_use]
pub fn storage(nodes: impl IntoIterator<Item = Node>) -> Storage {
    Storage {
        use_all_nodes: false,
        use_all_devices: false,
        nodes: nodes
            .into_iter()
            .filter(|node| !node.devices.is_empty())
            .collect(),
    }
}
