//! The life of one job, as a pure function.
//!
//! ```text
//!            Admitted      Prepared          Verifying        Completed
//!  Pending ----------> Preparing ----> Transferring ----> Verifying ----> Finalizing
//!     ^                    |             |   ^    |           |               |
//!     |                    |   Progressed|   |Checkpointed    |               | Released
//!     |                    |             +---+    |           |               v
//!     |                    +----------------------+-----------+--------->  Succeeded
//!     |                                  Failed                 \
//!     +--- Restarted: every phase before an end                  +----->  Failed
//! ```
//!
//! `Completed` may also come straight after `Transferring`. A restart keeps
//! the last checkpoint. An event that has no place in a phase (a late
//! progress report, say) changes nothing.
//!
//! An export's parts lie in the store, under the upload that `Uploading`
//! names. The job that gives it up says so by `Discarded`, before it fails:
//! where an end still has an upload, its parts may be there.
//!
//! Invariants: the two ends are never left; the checkpoint only moves by
//! `Checkpointed`, and goes with its upload; in every list of effects the
//! journal comes before whatever others can see. No runtime, no clock and no
//! I/O here.

use serde::{Deserialize, Serialize};

use crate::source::{Checksum, Facts};

/// A resumable point of a transfer; only the engine that made it reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Checkpoint(pub serde_json::Value);

/// How far a job is, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Bytes of the virtual disk.
    pub total: u64,
    /// Those of them that are done.
    pub done: u64,
    /// Bytes received or read from the source, over all runs.
    pub received: u64,
    /// Bytes written to the volume, zeros not counted; of an export, bytes
    /// that are stored.
    pub written: u64,
}

/// An object that a disk became.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportedObject {
    /// Size of the object, in bytes.
    pub size: u64,
    /// Size of the disk, in bytes.
    pub virtual_size: u64,
    /// As the store said it, where it did.
    pub etag: Option<String>,
    /// As the store verified it, where it says one.
    pub checksum: Option<String>,
    /// Its `http` or `https` address, without credentials.
    pub address: String,
}

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// One CamelCase word; stable.
    pub reason: String,
    /// For people; holds no credential.
    pub message: String,
    /// Whether the same request can succeed later with nothing changed.
    pub retryable: bool,
}

/// Where a job is in its life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// Accepted; waits for its volume and for a free slot.
    Pending,
    /// Waits for kubelet to set the volume up.
    Preparing,
    /// Bytes move.
    Transferring,
    /// All bytes moved; what was written is looked at again.
    Verifying,
    /// The volume is given back.
    Finalizing,
    /// The volume or the object holds the disk.
    Succeeded,
    /// The job ended without its volume filled, or its object made.
    Failed(Failure),
}

impl Phase {
    /// Whether nothing can follow.
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed(_))
    }
}

/// Everything of a job that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Where the job is in its life.
    pub phase: Phase,
    /// How far it is.
    pub progress: Progress,
    /// What was found at the source.
    pub facts: Option<Facts>,
    /// Where a later run goes on.
    pub checkpoint: Option<Checkpoint>,
    /// Digest of the source's bytes, where it was computed.
    #[serde(default)]
    pub digest: Option<Checksum>,
    /// The upload that may have parts in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<String>,
    /// The object that an export made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ExportedObject>,
}

impl State {
    /// A job just accepted.
    pub fn accepted() -> Self {
        Self {
            phase: Phase::Pending,
            progress: Progress::default(),
            facts: None,
            checkpoint: None,
            digest: None,
            upload: None,
            object: None,
        }
    }
}

/// What happened to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Its turn has come and no other job has its volume.
    Admitted,
    /// The volume is there.
    Prepared,
    /// The source was looked at.
    FactsFound(Facts),
    /// Bytes moved.
    Progressed(Progress),
    /// The data up to here is on stable storage.
    Checkpointed(Checkpoint),
    /// Parts go to this upload from now on.
    Uploading(String),
    /// The store has no parts of the job any more.
    Discarded,
    /// The last byte was written.
    Verifying,
    /// The transfer is complete and on stable storage.
    Completed {
        /// What was found at the source of an import.
        facts: Option<Facts>,
        /// Final figures.
        progress: Progress,
        /// Digest of the source's bytes, where it was computed.
        digest: Option<Checksum>,
        /// The object that an export made.
        object: Option<ExportedObject>,
    },
    /// The volume is closed and still the one that was written or read.
    Released,
    /// The job cannot go on.
    Failed(Failure),
    /// The agent started and found the job in its journal.
    Restarted,
}

/// What has to be done about an event, in the order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Write the state to the journal; nothing that follows may happen
    /// before it is durable.
    Persist,
    /// Show the state to those who watch.
    Report,
    /// Show the state, unless it was shown a moment ago.
    ReportProgress,
    /// Do the next piece of work; it ends in an event.
    Begin(Work),
}

/// What takes time in a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Find the volume.
    Prepare,
    /// Move the bytes, from the checkpoint on.
    Transfer,
    /// Look whether the volume is still the one that was written or read.
    Release,
}

/// The state after `event`, and what to do about it.
pub fn step(mut state: State, event: Event) -> (State, Vec<Effect>) {
    use Effect::{Begin, Persist, Report, ReportProgress};

    let effects = match (&state.phase, event) {
        (Phase::Succeeded | Phase::Failed(_), _) => vec![],
        (_, Event::Failed(failure)) => {
            state.phase = Phase::Failed(failure);
            state.checkpoint = None;
            vec![Persist, Report]
        }
        (_, Event::Restarted) => {
            state.phase = Phase::Pending;
            vec![Report]
        }
        (Phase::Pending, Event::Admitted) => {
            state.phase = Phase::Preparing;
            vec![Report, Begin(Work::Prepare)]
        }
        (Phase::Preparing, Event::Prepared) => {
            state.phase = Phase::Transferring;
            vec![Report, Begin(Work::Transfer)]
        }
        (Phase::Transferring, Event::FactsFound(facts)) => {
            state.progress.total = facts.virtual_size.unwrap_or(0);
            state.facts = Some(facts);
            vec![Report]
        }
        (Phase::Transferring | Phase::Verifying, Event::Progressed(progress)) => {
            state.progress = progress;
            vec![ReportProgress]
        }
        (Phase::Transferring | Phase::Verifying, Event::Checkpointed(checkpoint)) => {
            state.checkpoint = Some(checkpoint);
            vec![Persist]
        }
        (Phase::Transferring | Phase::Verifying, Event::Uploading(upload)) => {
            let is_news = state.upload.as_ref() != Some(&upload);
            state.upload = Some(upload);
            if is_news { vec![Report] } else { vec![] }
        }
        (_, Event::Discarded) => {
            state.upload = None;
            state.checkpoint = None;
            vec![]
        }
        (Phase::Transferring, Event::Verifying) => {
            state.phase = Phase::Verifying;
            vec![Report]
        }
        (
            Phase::Transferring | Phase::Verifying,
            Event::Completed {
                facts,
                progress,
                digest,
                object,
            },
        ) => {
            state.phase = Phase::Finalizing;
            state.facts = facts;
            state.progress = progress;
            state.digest = digest;
            state.upload = None;
            state.object = object;
            vec![Report, Begin(Work::Release)]
        }
        (Phase::Finalizing, Event::Released) => {
            state.phase = Phase::Succeeded;
            state.checkpoint = None;
            vec![Persist, Report]
        }
        _ => vec![],
    };
    (state, effects)
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
