//! What was concluded about an image, and what to do about it. Values only,
//! compared by tests.

use hypercloud_api::ImagePhase;

use crate::access::wanted::WantedSource;
use crate::agents::{Facts, ImportJob, Job};

/// One thing to do. The executor does it and decides nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put the finalizer on the image.
    AddFinalizer,
    /// Take the finalizer off the image.
    RemoveFinalizer,
    /// Have the agent of `node` look at the source.
    Probe {
        /// Node of the agent.
        node: String,
        /// The source.
        source: WantedSource,
    },
    /// Make the image's claim.
    CreateClaim {
        /// Bytes to ask for.
        size: u64,
    },
    /// Delete the image's claim, if it still is the one that was seen.
    DeleteClaim {
        /// UID of the claim.
        uid: String,
    },
    /// Make the holder pod of the present try.
    CreateHolder,
    /// Delete a holder pod, if it still is the one that was seen.
    DeleteHolder {
        /// Name of the pod.
        name: String,
        /// UID of the pod.
        uid: String,
    },
    /// Start a job, or find it running, or give it what it waits for.
    StartJob {
        /// Node of the agent.
        node: String,
        /// The job.
        job: ImportJob,
        /// Its source.
        source: WantedSource,
    },
    /// Stop and forget a job.
    CancelJob {
        /// Node of the agent.
        node: String,
        /// Identity of the job.
        job_id: String,
    },
}

/// What was concluded about an image; the status follows from it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to say that the status does not say already.
    Keep,
    /// Not there yet, for a reason that is no failure.
    Waiting {
        /// Phase to show.
        phase: ImagePhase,
        /// One CamelCase word.
        reason: String,
        /// For people.
        message: String,
    },
    /// The source was looked at.
    Probed(Facts),
    /// The source does not accept what the Secrets say: another Secret may
    /// help, and nothing else is tried.
    Rejected {
        /// One CamelCase word.
        reason: String,
        /// For people.
        message: String,
        /// The Secrets, as `name@version`.
        secrets: Vec<String>,
    },
    /// The job is about to be started: written down before it is.
    TransferChosen {
        /// Identity of the job.
        job_id: String,
        /// Node of the agent.
        node: String,
        /// UID of the holder whose volume is filled.
        holder_uid: String,
    },
    /// The job is at work.
    Importing {
        /// Node of the agent.
        node: String,
        /// The job as last reported.
        job: Job,
    },
    /// The job succeeded; the holder is still to go.
    Completed(Job),
    /// The claim holds the image and nothing mounts it.
    Ready,
    /// The claim of an image that was ready is gone: start over.
    ClaimLost {
        /// For people.
        message: String,
    },
    /// The present try failed; there is another.
    TryFailed(TryFailure),
    /// There is nothing more to try.
    Failed {
        /// One CamelCase word.
        reason: String,
        /// For people.
        message: String,
    },
}

/// Why a try failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TryFailure {
    /// One CamelCase word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Whether it was the source that failed.
    pub source: bool,
}

/// What to do, what to say, and when to look again.
pub type Plan = crate::decision::Plan<Action, Verdict>;

/// A [`Verdict::Waiting`].
pub fn waiting(phase: ImagePhase, reason: &str, message: impl Into<String>) -> Verdict {
    Verdict::Waiting {
        phase,
        reason: reason.to_owned(),
        message: message.into(),
    }
}
