//! What one look at the world found. Values only: made by
//! [`observe`](super::observe), read by everything that decides.

use std::collections::BTreeSet;

use hypercloud_api::{CleanupDevice, CleanupPhase, NodeDeviceCleanup, NodeDeviceCleanupStatus};
use k8s_openapi::jiff::Timestamp;

use crate::agents::AgentState;
use crate::agents::devices::DevicesSeen;
use crate::inventory::observation::NodeSeen;

/// Everything that deciding about one cleanup needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The resource, as the API server has it.
    pub cleanup: NodeDeviceCleanup,
    /// The node.
    pub node: Option<NodeSeen>,
    /// Whether its agent can be asked.
    pub agent: AgentState,
    /// What is known of its devices.
    pub devices: DevicesSeen,
    /// Other cleanups on the node that are not over.
    pub others: Vec<OtherSeen>,
    /// Links of the node's devices that are the platform's storage's.
    pub storage: BTreeSet<String>,
}

/// Another cleanup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherSeen {
    /// Its name.
    pub name: String,
    /// Which comes first: when it was made, and its UID.
    pub age: Age,
    /// The device as it was asked for.
    pub asked: String,
    /// The device that is written down.
    pub device: Option<CleanupDevice>,
}

/// Order of cleanups: when they were made, and their UIDs.
pub type Age = (Option<Timestamp>, String);

/// The place of `cleanup` among the others.
pub fn age(cleanup: &NodeDeviceCleanup) -> Age {
    let meta = &cleanup.metadata;
    let created = meta.creation_timestamp.as_ref().map(|time| time.0);
    (created, meta.uid.clone().unwrap_or_default())
}

/// Whether nothing is done for `cleanup` any more.
pub fn is_over(cleanup: &NodeDeviceCleanup) -> bool {
    let phase = cleanup.status.as_ref().and_then(|status| status.phase);
    matches!(phase, Some(CleanupPhase::Succeeded | CleanupPhase::Failed))
}

impl Observation {
    /// UID of the cleanup.
    pub fn uid(&self) -> &str {
        self.cleanup.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Name of the cleanup.
    pub fn name(&self) -> &str {
        self.cleanup.metadata.name.as_deref().unwrap_or_default()
    }

    /// Name of the node.
    pub fn node_name(&self) -> &str {
        &self.cleanup.spec.node_name
    }

    /// The status as it stands.
    pub fn status(&self) -> Option<&NodeDeviceCleanupStatus> {
        self.cleanup.status.as_ref()
    }

    /// Whose order it is, for the agent: the same in each repeat.
    pub fn reference(&self) -> String {
        format!("NodeDeviceCleanup {} ({})", self.name(), self.uid())
    }
}
