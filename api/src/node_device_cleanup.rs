//! `NodeDeviceCleanup`: what a device still carries is removed, so that it
//! becomes available.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What has to be written out to have a device cleaned.
pub const CLEANUP_CONFIRMATION: &str = "yes-really-destroy-data";

/// What a `NodeDeviceCleanup` asks for. It is done once.
#[derive(
    CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq,
)]
#[kube(
    group = "hypercloud.tmaxanc.com",
    version = "v1alpha1",
    kind = "NodeDeviceCleanup",
    plural = "nodedevicecleanups",
    shortname = "ndclean",
    category = "hypercloud",
    status = "NodeDeviceCleanupStatus",
    derive = "PartialEq",
    doc = "Destroys what a node's device holds: signatures, partition tables, labels of LVM and BlueStore, then all of it by discard. Refused for what is mounted, held or used.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.nodeName"),
    printcolumn(name = "Device", type_ = "string", json_path = ".spec.device"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Complete\")].message"
    )
)]
#[x_kube(validation = Rule::new("self == oldSelf")
    .message("a NodeDeviceCleanup is immutable: create another one"))]
#[x_kube(validation = Rule::new("self.confirmation == 'yes-really-destroy-data'")
    .message("cleaning destroys everything on the device: set confirmation to yes-really-destroy-data if that is meant"))]
#[x_kube(validation = Rule::new("self.nodeName.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')")
    .message("nodeName is not the name of a node"))]
#[serde(rename_all = "camelCase")]
pub struct NodeDeviceCleanupSpec {
    /// Node that has the device.
    #[schemars(length(min = 1, max = 253))]
    pub node_name: String,
    /// The device: a link that lasts, such as one in `/dev/disk/by-id`, or a
    /// name such as `/dev/sdb`. Which device that is, is settled once.
    #[schemars(length(min = 1, max = 4096))]
    pub device: String,
    /// `yes-really-destroy-data`, in so many words.
    #[schemars(length(max = 64))]
    pub confirmation: String,
}

/// What the coordinator reports of a `NodeDeviceCleanup`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeDeviceCleanupStatus {
    /// Where the cleaning is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<CleanupPhase>,
    /// Generation of the resource that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Which device it is. Written before the device is touched; another one
    /// in its place is left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<CleanupDevice>,
    /// What was removed, such as `ext4 at byte 1080`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// Whether the device took the discard of all its blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discarded: Option<bool>,
    /// Tries that failed so far and are made again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<crate::RetryStatus>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// `Complete`; a map by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// The one device that is meant, told from every other.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CleanupDevice {
    /// The kernel's path of it during the boot.
    pub path: String,
    /// Its link in `/dev/disk/by-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_id: Option<String>,
    /// World wide name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Size in bytes.
    #[schemars(with = "i64")]
    pub size: u64,
    /// The boot that path and sequence belong to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The kernel's number of the disk during the boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub disk_sequence: Option<u64>,
}

/// Where a cleaning is in its life.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CleanupPhase {
    /// Waiting for the node's agent, or for the next try.
    #[default]
    Pending,
    /// The device is being cleaned.
    Cleaning,
    /// The device holds nothing any more.
    Succeeded,
    /// It was refused, or cannot be done; the `Complete` condition says why.
    Failed,
}

impl CleanupPhase {
    /// The phase as it stands in the resource.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Cleaning => "Cleaning",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}
