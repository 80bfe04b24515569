//! What was concluded about an export, and what to do about it. Values only,
//! compared by tests.

use std::time::Duration;

use hypercloud_api::{ExportPhase, ExportReadFrom};
use k8s_openapi::jiff::Timestamp;

use crate::access::wanted::WantedStored;
use crate::agents::{ExportJob, Failure, Job};
use crate::work;

/// An upload to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// The job.
    pub job: ExportJob,
    /// The object that it makes.
    pub object: WantedStored,
}

/// One thing to do. The executor does it and decides nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put the finalizer on the export.
    AddFinalizer,
    /// Take the finalizer off the export.
    RemoveFinalizer,
    /// See whether what lets in at the store is there, and was not rejected.
    Check(WantedStored),
    /// Make the snapshot of the claim.
    CreateSnapshot {
        /// Its class.
        class: String,
    },
    /// Delete that snapshot, if it still is the one that was seen.
    DeleteSnapshot {
        /// UID of the snapshot.
        uid: String,
    },
    /// Make the claim that the snapshot is restored to.
    CreateRestored {
        /// Bytes to ask for.
        size: u64,
    },
    /// Delete that claim, if it still is the one that was seen.
    DeleteRestored {
        /// UID of the claim.
        uid: String,
    },
    /// Remove what an upload left in the store.
    Discard {
        /// Node of the agent.
        node: String,
        /// The object that it was to make.
        object: WantedStored,
        /// Identity of the upload.
        upload_id: String,
    },
    /// Make an address of the object, and the Secret that holds it.
    Sign {
        /// Node of the agent.
        node: String,
        /// The object.
        object: WantedStored,
        /// For how long the address is to be good.
        valid: Duration,
    },
    /// What the upload takes.
    Work(work::Action<Upload>),
}

/// What was concluded about an export; the status follows from it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to say that the status does not say already.
    Keep,
    /// Not there yet, for a reason that is no failure.
    Waiting {
        /// Phase to show.
        phase: ExportPhase,
        /// One CamelCase word.
        reason: String,
        /// For people.
        message: String,
    },
    /// The store does not accept what the Secrets say: another Secret may
    /// help, and nothing else is tried.
    Rejected {
        /// For people.
        message: String,
        /// The Secrets, as `name@version`.
        secrets: Vec<String>,
        /// The upload that may have parts in the store, as last reported.
        upload_id: Option<String>,
    },
    /// Everything is there: from now on it is this claim, and no successor,
    /// and this is what is read.
    Accepted {
        /// UID of the claim.
        pvc_uid: String,
        /// What is read.
        read_from: ExportReadFrom,
        /// Since when the disk is what is read, where that is known already.
        taken_at: Option<Timestamp>,
    },
    /// The snapshot was taken, and is being restored.
    Taken {
        /// When it was taken.
        at: Timestamp,
    },
    /// The job is about to be started: written down before it is.
    Chosen {
        /// Identity of the job.
        job_id: String,
        /// Node of the agent.
        node: String,
        /// UID of the holder that has the volume.
        holder_uid: String,
    },
    /// The job is at work.
    Exporting {
        /// Node of the agent.
        node: String,
        /// The job as last reported.
        job: Job,
        /// The Secrets that it was started with, as `name@version`, where it
        /// was just now.
        secrets: Option<Vec<String>>,
    },
    /// The job succeeded; what had to do with it is still to go.
    Completed(Job),
    /// The address was made.
    Signed {
        /// Name of the Secret that holds it.
        secret: String,
        /// Until when it is good.
        expires: Timestamp,
    },
    /// The object is there, and nothing of ours has the volume.
    Succeeded {
        /// Why there is no address to fetch it by, though one was asked for.
        unsigned: Option<String>,
    },
    /// Nothing of the present try counts any more, and it is nobody's fault.
    StartOver {
        /// One CamelCase word.
        reason: String,
        /// For people.
        message: String,
        /// The upload that may have parts in the store, as last reported.
        upload_id: Option<String>,
    },
    /// Nothing to say but that nothing else uses the volume.
    Watched,
    /// What is left to be done could not be now, and is not tried for ever.
    Attempted {
        /// Phase to show.
        phase: ExportPhase,
        /// One CamelCase word.
        reason: String,
        /// For people.
        message: String,
    },
    /// The present try failed; there is another.
    TryFailed {
        /// Why.
        failure: Failure,
        /// The upload that may have parts in the store, as last reported.
        upload_id: Option<String>,
    },
    /// Of a former upload nothing is in the store any more.
    Discarded,
    /// Parts of an upload may stay in the store.
    UploadLeft {
        /// For people.
        message: String,
    },
    /// There is nothing more to try.
    Failed {
        /// One CamelCase word.
        reason: String,
        /// For people.
        message: String,
        /// The upload that may have parts in the store, as last reported.
        upload_id: Option<String>,
    },
}

/// What to do, what to say, and when to look again.
pub type Plan = crate::decision::Plan<Action, Verdict>;

/// A [`Verdict::Waiting`].
pub fn waiting(phase: ExportPhase, reason: &str, message: impl Into<String>) -> Verdict {
    Verdict::Waiting {
        phase,
        reason: reason.to_owned(),
        message: message.into(),
    }
}

/// A [`Verdict::Failed`] of which nothing is in the store.
pub fn failed(reason: &str, message: impl Into<String>) -> Verdict {
    Verdict::Failed {
        reason: reason.to_owned(),
        message: message.into(),
        upload_id: None,
    }
}
