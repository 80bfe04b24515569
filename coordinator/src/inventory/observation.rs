//! What one look at a node and its inventory found. Values only.

use hypercloud_api::{NodeDeviceInventory, NodeDeviceInventoryStatus};

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
}

impl Observation {
    /// The status as it stands.
    pub fn status(&self) -> Option<&NodeDeviceInventoryStatus> {
        self.inventory.as_ref()?.status.as_ref()
    }
}
