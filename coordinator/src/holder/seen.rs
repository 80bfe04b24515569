//! What one look found of a holder pod. Values only.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::agents::{AgentState, AgentsSeen};

/// Something wrong that people should read of, while it is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// One CamelCase word.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// A holder pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderSeen {
    /// Name of the pod.
    pub name: String,
    /// UID of the pod.
    pub uid: String,
    /// When it was made.
    pub since: Option<Timestamp>,
    /// Since when it is being deleted.
    pub deleting_since: Option<Timestamp>,
    /// Node it was placed on.
    pub node: Option<String>,
    /// Where it is in its life.
    pub state: HolderState,
}

/// Where a holder pod is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HolderState {
    /// Not running yet; perhaps something is in its way.
    Waiting(Option<Problem>),
    /// Running: its volumes are mounted.
    Holding,
    /// Ended, which a holder never does by itself.
    Ended {
        /// Why, as far as the pod says.
        message: String,
    },
}

impl HolderSeen {
    /// Why the holder does not hold any more, said of the pod.
    pub fn gone(&self) -> Option<String> {
        if self.deleting_since.is_some() {
            return Some("is being deleted".to_owned());
        }
        match &self.state {
            HolderState::Ended { message } => Some(format!("ended: {message}")),
            HolderState::Waiting(_) | HolderState::Holding => None,
        }
    }

    /// Whether the holder is being deleted on a node whose agent is away for
    /// `limit`: kubelet is not there to end it, so nothing comes of waiting.
    /// The pod is not deleted by force; the volume's attachment guards its
    /// bytes.
    pub fn is_abandoned(&self, agents: &AgentsSeen, limit: SignedDuration, now: Timestamp) -> bool {
        let Some(deleting) = self.deleting_since else {
            return false;
        };
        match self.node.as_deref().map(|node| agents.state(node, now)) {
            Some(AgentState::Away { since }) => now.duration_since(deleting.max(since)) > limit,
            Some(AgentState::Synced) | None => false,
        }
    }
}
