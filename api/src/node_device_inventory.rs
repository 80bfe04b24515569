//! `NodeDeviceInventory`: the block devices of one node, as its agent sees
//! them.

use hypercloud_inventory::Device;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Nothing: the coordinator makes one `NodeDeviceInventory` for each node, of
/// the node's name, and everything stands in its status.
#[derive(
    CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq,
)]
#[kube(
    group = "hypercloud.tmaxanc.com",
    version = "v1alpha1",
    kind = "NodeDeviceInventory",
    plural = "nodedeviceinventories",
    shortname = "ndi",
    category = "hypercloud",
    status = "NodeDeviceInventoryStatus",
    derive = "PartialEq",
    doc = "The block devices of one node, each with every reason why it is not available. Made and kept by the coordinator from what the node's agent sees.",
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Devices", type_ = "integer", json_path = ".status.deviceCount"),
    printcolumn(
        name = "Available",
        type_ = "integer",
        json_path = ".status.availableCount"
    ),
    printcolumn(name = "Capacity", type_ = "string", json_path = ".status.capacity"),
    printcolumn(
        name = "Heartbeat",
        type_ = "date",
        json_path = ".status.heartbeatTime"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Ready\")].message"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct NodeDeviceInventorySpec {}

/// What a node's agent sees.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeDeviceInventoryStatus {
    /// Whether the devices are what the node has now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<InventoryState>,
    /// The node's label `kubernetes.io/hostname`, by which Rook knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The boot that the kernel's names of devices belong to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Grows with each change of the devices; the agent's streams count by the
    /// same number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// When the agent was last known to see these devices. Renewed every few
    /// minutes while nothing changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_time: Option<Time>,
    /// How many devices there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_count: Option<i64>,
    /// How many of them are available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_count: Option<i64>,
    /// Sizes of the available devices together, as `3.6Ti`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<String>,
    /// Every device, disks before their partitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// Devices for which the resource has no room: how many, or nothing. The
    /// agent's stream has all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omitted_devices: Option<i64>,
    /// `Ready`; a map by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// Whether an inventory is what its node has now.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InventoryState {
    /// The node's agent has not told its devices yet.
    #[default]
    Pending,
    /// It is.
    Current,
    /// The agent is not heard of: the devices are what it told last.
    Stale,
}

impl InventoryState {
    /// The state as it stands in the resource.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Current => "Current",
            Self::Stale => "Stale",
        }
    }
}
