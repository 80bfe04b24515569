//! What is asked of a copy, and what it answers.

use serde::{Deserialize, Serialize};

use super::checkpoint::CopyCheckpoint;
use crate::observer::Progress;
use crate::raw_disk::RawDisk;
use crate::request::TargetSpec;

/// What is done about the bytes that the target holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CopyMode {
    /// They are worth nothing: all of the source is written. A file is made
    /// anew, and takes its name when it is complete.
    Whole,
    /// They are mostly the source's: both are read, and what differs is
    /// written, where it is. A file keeps its inode, owner and mode; one that
    /// is not there is made as for [`Self::Whole`].
    Differences,
}

/// One copy.
#[derive(Debug, Clone)]
pub struct CopyRequest {
    /// Where the disk is.
    pub source: RawDisk,
    /// Where it goes. A device has to be as large as the source and is zeros
    /// behind its end; a file becomes as long as the source.
    pub target: TargetSpec,
    /// What is done about the bytes that the target holds.
    pub mode: CopyMode,
    /// Where an earlier copy of the same source to the same target got to.
    /// It is ignored, and the copy starts over, when either differs.
    pub resume: Option<CopyCheckpoint>,
}

/// A finished copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// The final counts, over all resumed parts. The total is the size of the
    /// target's disk; received is what was read from the source, holes that
    /// were told as such not counted.
    pub progress: Progress,
}

/// Hears of a copy's course. Calls must be short: a worker of the copy waits
/// for each.
pub trait CopyObserver: Send + Sync + 'static {
    /// A count has moved; called at most once per
    /// [`crate::Options::progress_interval`], and at the end.
    fn progress(&self, progress: Progress) {
        let _ = progress;
    }

    /// The target is flushed up to here: keep this durably to resume later.
    /// Runs on a thread that may block; calls come one at a time.
    ///
    /// # Errors
    /// An error ends the copy: a journal that cannot be written must not be
    /// outrun.
    fn checkpoint(&self, checkpoint: &CopyCheckpoint) -> std::io::Result<()> {
        let _ = checkpoint;
        Ok(())
    }

    /// All bytes are written; the target is being flushed.
    fn verifying(&self) {}
}

/// Listens to nothing.
impl CopyObserver for () {}
