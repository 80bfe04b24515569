//! What was concluded about a node's inventory, and what to do about it.
//! Values only, compared by tests.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::agents::devices::{Loss, Told};

/// One thing to do. The executor does it and decides nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make the inventory.
    Create,
    /// Delete the inventory, if it still is the one that was seen.
    Delete {
        /// UID of the inventory.
        uid: String,
    },
}

/// What was concluded; the status follows from it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to say that the status does not say already.
    Keep,
    /// The devices are what the node has now.
    Current {
        /// The devices.
        told: Arc<Told>,
        /// When the agent was known to see them.
        heard: Timestamp,
    },
    /// The agent has not told its devices to this coordinator yet. What a
    /// former one wrote stands.
    Expected,
    /// The agent is not heard of.
    Lost {
        /// Why.
        loss: Loss,
        /// What it told last, where this coordinator heard it.
        told: Option<(Arc<Told>, Timestamp)>,
    },
}

/// What to do, what to say, and when to look again.
pub type Plan = crate::decision::Plan<Action, Verdict>;
