//! What one look at a node and its inventory found. Values only.

use hypercloud_api::{NodeDeviceInventory, NodeDeviceInventoryStatus};
use k8s_openapi::jiff::Timestamp;

use crate::agents::devices::DevicesSeen;

/// Everything that deciding about one node's inventory needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Name of the node, and of its inventory.
    pub name: String,
    /// The node, where there is one.
    pub node: Option<NodeSeen>,
    /// The inventory, where there is one.
    pub inventory: Option<NodeDeviceInventory>,
    /// What is known of the node's devices.
    pub devices: DevicesSeen,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSeen {
    /// Its UID.
    pub uid: String,
    /// Its label `kubernetes.io/hostname`.
    pub hostname: Option<String>,
    /// When it was made.
    pub created: Option<Timestamp>,
}

impl NodeSeen {
    /// Whether something of `time` was of another machine of the same name.
    pub fn is_younger_than(&self, time: Timestamp) -> bool {
        self.created.is_some_and(|created| created > time)
    }
}

impl Observation {
    /// What is known of the node's devices, if it is of this node: not of a
    /// former machine of its name.
    pub fn devices(&self) -> DevicesSeen {
        match &self.node {
            Some(node) => self.devices.of(node.created),
            None => self.devices.clone(),
        }
    }

    /// The status as it stands.
    pub fn status(&self) -> Option<&NodeDeviceInventoryStatus> {
        self.inventory.as_ref()?.status.as_ref()
    }
}
