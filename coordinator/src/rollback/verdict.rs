//! What was concluded about a rollback, and what to do about it. Values only,
//! compared by tests.

use hypercloud_api::RollbackPhase;

use crate::agents::{Failure, Job};
use crate::copy;

/// One thing to do. The executor does it and decides nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put the finalizer on the rollback.
    AddFinalizer,
    /// Take the finalizer off the rollback.
    RemoveFinalizer,
    /// Make the claim that the snapshot is restored to.
    CreateRestored {
        /// Bytes to ask for.
        size: u64,
        /// Node that its volume is to be made for, where it has to be said.
        node: Option<String>,
    },
    /// Delete that claim, if it still is the one that was seen.
    DeleteRestored {
        /// UID of the claim.
        uid: String,
    },
    /// What the copy takes.
    Copy(copy::Action),
}

/// What was concluded about a rollback; the status follows from it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to say that the status does not say already.
    Keep,
    /// Not there yet, for a reason that is no failure.
    Waiting {
        /// Phase to show.
        phase: RollbackPhase,
        /// One CamelCase word.
        reason: String,
        /// For people.
        message: String,
    },
    /// Pods use the volume: nothing is done until they are gone.
    InUse {
        /// Names of the pods.
        pods: Vec<String>,
    },
    /// Claim and snapshot are there, belong together and nobody uses the
    /// volume: from now on it is these two and no successors.
    Accepted {
        /// UID of the claim.
        pvc_uid: String,
        /// UID of the snapshot.
        snapshot_uid: String,
    },
    /// No pod may use the volume from now on.
    Closed,
    /// The job is about to be started: written down before it is.
    Chosen {
        /// Identity of the job.
        job_id: String,
        /// Node of the agent.
        node: String,
        /// UID of the holder that has the volumes.
        holder_uid: String,
    },
    /// The job is at work.
    Writing {
        /// Node of the agent.
        node: String,
        /// The job as last reported.
        job: Job,
    },
    /// The job succeeded; the holder is still to go.
    Completed(Job),
    /// The volume is what the snapshot holds, and nothing of ours has it.
    Succeeded,
    /// The present try failed; there is another.
    TryFailed {
        /// Why.
        failure: Failure,
        /// Whether the volume was certainly not written to, in any try.
        untouched: bool,
    },
    /// There is nothing more to try.
    Failed {
        /// One CamelCase word.
        reason: String,
        /// For people.
        message: String,
    },
}

/// What to do, what to say, and when to look again.
pub type Plan = crate::decision::Plan<Action, Verdict>;

/// A [`Verdict::Waiting`].
pub fn waiting(phase: RollbackPhase, reason: &str, message: impl Into<String>) -> Verdict {
    Verdict::Waiting {
        phase,
        reason: reason.to_owned(),
        message: message.into(),
    }
}

/// A [`Verdict::Failed`].
pub fn failed(reason: &str, message: impl Into<String>) -> Verdict {
    Verdict::Failed {
        reason: reason.to_owned(),
        message: message.into(),
    }
}
