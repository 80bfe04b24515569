//! What the shells of all reconcilers have in common (client required): what
//! sets them off, how they write, and how they tell of it. Nothing here
//! decides about a resource.
//!
//! - [`act`]: how a plan is carried out; [`requeue`]: when to look again.
//! - [`trigger`]: watches, the agents' changes, and failed reconciles.
//! - [`write`]: creations, deletions, finalizers, statuses.
//! - [`report`]: the status with the Events that its change is worth.

pub mod act;
pub mod error;
pub mod report;
pub mod requeue;
pub mod trigger;
pub mod write;

use std::sync::Arc;

use kube::Client;
use kube::runtime::events::Recorder;

use crate::agents::Agents;
use crate::holder::HolderTemplate;
use crate::metrics::Metrics;

/// What the reconciles of every kind share.
#[derive(Clone)]
pub struct Shell {
    /// The API server.
    pub client: Client,
    /// The agents.
    pub agents: Arc<dyn Agents>,
    /// Publishes Events.
    pub recorder: Recorder,
    /// How holders are made.
    pub template: HolderTemplate,
    /// Counters.
    pub metrics: Arc<Metrics>,
}
