//! What the coordinator reports of a `HyperCloudStorage`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the coordinator reports of a `HyperCloudStorage`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HyperCloudStorageStatus {
    /// How the storage is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StorageState>,
    /// Components that are ready, as `7/12`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// What is wrong, or waited for, and with which component.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Generation of the resource that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions: Option<RunningVersions>,
    /// Every component, in the order in which they are installed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub components: Vec<StorageComponent>,
    /// Which device each name in the specification meant. Settled before Ceph
    /// is given the device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<SettledDevice>,
    /// Devices that Ceph is to give up: written before Ceph is told so, and
    /// forgotten when their OSDs are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removing: Vec<SettledDevice>,
    /// Nodes that Ceph ran on when its data was given up, each of which is
    /// cleaned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cleanup_hosts: Vec<String>,
    /// What keeps the deletion from going on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deletion_blockers: Vec<String>,
    /// `Available`, `Progressing`, `Degraded` and `Upgradeable`; a map by
    /// type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// How the storage is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StorageState {
    /// Components are being installed, or take up a change.
    #[default]
    Installing,
    /// Every component is ready.
    #[serde(rename = "OK")]
    Ok,
    /// Every component is ready, and Ceph warns of something that the policy
    /// lets through.
    Warning,
    /// Components go from one version to the next.
    Upgrading,
    /// A component fails, or what is asked for cannot be done.
    #[serde(rename = "ERROR")]
    Error,
    /// The storage is being removed.
    Deleting,
}

impl StorageState {
    /// The state as it stands in the resource.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Installing => "Installing",
            Self::Ok => "OK",
            Self::Warning => "Warning",
            Self::Upgrading => "Upgrading",
            Self::Error => "ERROR",
            Self::Deleting => "Deleting",
        }
    }
}

/// What runs.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RunningVersions {
    /// Rook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rook: Option<String>,
    /// Ceph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceph: Option<String>,
}

/// One component of the storage.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct StorageComponent {
    /// Its name.
    pub name: String,
    /// How it is.
    pub state: ComponentState,
    /// One CamelCase word for why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Since when it is in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The version with which it was ready last; none before it ever was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// How a component is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ComponentState {
    /// Those before it come first.
    #[default]
    Waiting,
    /// It is being installed, or takes up a change.
    Progressing,
    /// It is healthy.
    Ready,
    /// It is healthy enough.
    Warning,
    /// It is not.
    Failed,
}

impl ComponentState {
    /// The state as it stands in the resource.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Progressing => "Progressing",
            Self::Ready => "Ready",
            Self::Warning => "Warning",
            Self::Failed => "Failed",
        }
    }

    /// Whether the component does its work.
    #[must_use]
    pub fn is_healthy(self) -> bool {
        matches!(self, Self::Ready | Self::Warning)
    }
}

/// Which device a name in the specification meant.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SettledDevice {
    /// The node's label `kubernetes.io/hostname`.
    pub hostname: String,
    /// The name in the specification.
    pub device: String,
    /// The link in `/dev/disk/by-id` that Ceph is given.
    pub by_id: String,
    /// What Ceph calls its class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_class: Option<String>,
}
