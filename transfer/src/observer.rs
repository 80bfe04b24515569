//! Who listens to an import.

use serde::{Deserialize, Serialize};

use crate::checkpoint::Checkpoint;
use crate::request::SourceFacts;

/// How far an import is, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// The size of the disk; 0 as long as it is not known, which is so to the
    /// end for some packed sources. How far they are is told by `received`
    /// and the length of the source.
    pub total: u64,
    /// How much of the disk is settled, as data or as zeros. The only count
    /// that reaches `total`.
    pub done: u64,
    /// Bytes received from the source, repeats included.
    pub received: u64,
    /// Bytes of data written to the target; zeros that needed no writing are
    /// not counted.
    pub written: u64,
}

/// Hears of an import's course. Calls come one at a time and must be short:
/// the pipeline waits for [`Observer::checkpoint`].
pub trait Observer: Send + Sync + 'static {
    /// The source was opened and judged. Called once, first.
    fn facts(&self, facts: &SourceFacts) {
        let _ = facts;
    }

    /// A count has moved; called at most once per
    /// [`crate::Options::progress_interval`], and at the end.
    fn progress(&self, progress: Progress) {
        let _ = progress;
    }

    /// The target is flushed up to here: keep this durably to resume later.
    /// Runs on a thread that may block.
    ///
    /// # Errors
    /// An error ends the import: a journal that cannot be written must not
    /// be outrun.
    fn checkpoint(&self, checkpoint: &Checkpoint) -> std::io::Result<()> {
        let _ = checkpoint;
        Ok(())
    }

    /// All bytes are written; the disk is being flushed and judged.
    fn verifying(&self) {}
}

/// Listens to nothing.
impl Observer for () {}
