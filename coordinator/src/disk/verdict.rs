//! What was concluded about a disk, and what to do about it. Values only,
//! compared by tests.

use std::collections::BTreeMap;

use hypercloud_api::{DiskMethod, DiskPhase, DiskSourceStatus, RetryStatus, VolumeMode};

use crate::agents::{Failure, Job};
use crate::copy;
use crate::work::retry;

/// One thing to do. The executor does it and decides nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put the finalizer on the disk.
    AddFinalizer,
    /// Take the finalizer off the disk.
    RemoveFinalizer,
    /// Make the disk's claim.
    CreateClaim(NewClaim),
    /// Delete the disk's claim, if it still is exactly as it was seen.
    DeleteClaim {
        /// UID of the claim.
        uid: String,
        /// Version of it: one that was bound meanwhile stays.
        resource_version: String,
    },
    /// Have the claim's first consumer placed again.
    PlaceAgain {
        /// Version of the claim that was seen.
        resource_version: String,
        /// The node that it is placed on; the scheduler's choice without one.
        node: Option<String>,
    },
    /// Make the prime claim, beside the source.
    CreatePrime(NewPrime),
    /// Delete the prime claim, if it still is the one that was seen.
    DeletePrime {
        /// UID of the claim.
        uid: String,
    },
    /// Give the volume of the prime claim to the disk's claim.
    HandOver {
        /// Name of the volume.
        volume: String,
        /// Version of it that was seen.
        resource_version: String,
        /// UID of the disk's claim.
        claim_uid: String,
    },
    /// Make the holder pod of the present try.
    CreateHolder(NewHolder),
    /// Any other action of a copy.
    Copy(copy::Action),
}

/// A claim of a disk, to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewClaim {
    /// How its volume is made.
    pub method: DiskMethod,
    /// Name of the claim or snapshot that the storage makes it from.
    pub from: String,
    /// Storage class.
    pub class: String,
    /// Volume mode.
    pub mode: VolumeMode,
    /// Access modes, as Kubernetes spells them.
    pub access_modes: Vec<String>,
    /// Bytes to ask for.
    pub size: u64,
    /// Labels of the source that it carries on.
    pub carried: BTreeMap<String, String>,
    /// UID of the image that it is made from.
    pub image_uid: Option<String>,
}

/// A prime claim, to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPrime {
    /// Name of the claim that the storage clones; none where an agent copies.
    pub from: Option<String>,
    /// Storage class.
    pub class: String,
    /// Volume mode.
    pub mode: VolumeMode,
    /// Access modes, as Kubernetes spells them.
    pub access_modes: Vec<String>,
    /// Bytes to ask for.
    pub size: u64,
    /// Node that its volume is to be attached to.
    pub node: Option<String>,
}

/// A holder of source and prime claim, to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewHolder {
    /// Name of the source's claim.
    pub source: String,
    /// How its volume is presented.
    pub from: VolumeMode,
    /// How the prime claim's volume is presented.
    pub to: VolumeMode,
    /// The one node that it may run on.
    pub node: Option<String>,
}

/// What was concluded about a disk; the status follows from it alone.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Nothing to say that the status does not say already.
    Keep,
    /// Not there yet, for a reason that is no failure.
    Waiting {
        /// Phase to show.
        phase: DiskPhase,
        /// One CamelCase word.
        reason: String,
        /// For people.
        message: String,
    },
    /// The source is there: written down before anything is made of it.
    Chosen {
        /// How.
        method: DiskMethod,
        /// From what.
        source: DiskSourceStatus,
        /// What is to be told where the size that was asked for is raised.
        raised: Option<String>,
    },
    /// The storage does not clone: the data is copied.
    CopyInstead {
        /// For people.
        message: String,
    },
    /// The copy is about to be started: written down before it is.
    CopyChosen {
        /// Identity of the job.
        job_id: String,
        /// Node of the agent.
        node: String,
        /// UID of the holder that has both volumes.
        holder_uid: String,
    },
    /// The copy is under way.
    Copying {
        /// Node of the agent.
        node: String,
        /// The job as last reported.
        job: Job,
    },
    /// The copy is complete; the holder is still to go.
    Copied(Job),
    /// The claim is Bound and holds the disk.
    Ready {
        /// Bytes that its volume has.
        capacity: Option<u64>,
    },
    /// The source went away: another one is waited for.
    SourceLost {
        /// For people.
        message: String,
    },
    /// The present try is given up, by no fault of its own.
    StartOver {
        /// One CamelCase word.
        reason: String,
        /// For people.
        message: String,
    },
    /// The present try failed; there is another.
    TryFailed(Failure),
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
pub fn waiting(phase: DiskPhase, reason: &str, message: impl Into<String>) -> Verdict {
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

/// The verdict on a try that failed: another try, or the end where too many
/// did.
pub fn tried(retry: Option<&RetryStatus>, failure: Failure) -> Verdict {
    if retry::is_another(retry, &failure) {
        return Verdict::TryFailed(failure);
    }
    let (reason, message) = retry::given_up(&failure);
    Verdict::Failed { reason, message }
}
