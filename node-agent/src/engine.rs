//! What moves the bytes, as the jobs see it.
//!
//! The jobs know this trait and their own types; only [`streaming`] knows the
//! transfer crate. Tests of the jobs bring an engine of their own.

pub mod streaming;

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::job::state::{Checkpoint, Failure, Progress};
use crate::source::{Facts, Source};
use crate::volume::Volume;

/// One import as the engine gets it.
#[derive(Debug, Clone)]
pub struct ImportOrder {
    /// Where the image comes from.
    pub source: Source,
    /// The volume to fill.
    pub volume: Volume,
    /// What the source has to be.
    pub expected: Option<Facts>,
    /// Where an earlier run stopped.
    pub resume: Option<Checkpoint>,
}

/// A finished import.
#[derive(Debug, Clone)]
pub struct Imported {
    /// What was found at the source.
    pub facts: Facts,
    /// Final figures.
    pub progress: Progress,
}

/// Who is told how an import goes. Called from any thread.
pub trait Observer: Send + Sync + 'static {
    /// The source was looked at.
    fn facts(&self, facts: Facts);
    /// Bytes moved.
    fn progress(&self, progress: Progress);
    /// The data up to here is on stable storage. Returns when the checkpoint
    /// is, too; an error ends the import.
    fn checkpoint(&self, checkpoint: Checkpoint) -> io::Result<()>;
    /// The last byte was written.
    fn verifying(&self);
}

/// Moves image bytes.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Looks at a source without moving its bytes.
    async fn probe(&self, source: &Source) -> Result<Facts, Failure>;

    /// Fills a volume. When it returns, nothing of the import runs any more
    /// and the volume is closed; an error after `stop` was cancelled says
    /// nothing about the job.
    async fn import(
        &self,
        order: ImportOrder,
        observer: Arc<dyn Observer>,
        stop: CancellationToken,
    ) -> Result<Imported, Failure>;
}
