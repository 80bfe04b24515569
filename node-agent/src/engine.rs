//! What moves the bytes, as the jobs see it.
//!
//! The jobs know this trait and their own types, which borrow a few plain
//! values from the transfer crate; only [`streaming`] sets it to work. Tests
//! of the jobs bring an engine of their own.

pub mod streaming;

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::job::state::{Checkpoint, Failure, Progress};
use crate::source::{Access, Checksum, Facts, Format, Source};
use crate::volume::Volume;

/// One import as the engine gets it.
#[derive(Debug, Clone)]
pub struct ImportOrder {
    /// Where the image comes from.
    pub source: Source,
    /// How the source is reached.
    pub access: Access,
    /// The volume to fill.
    pub volume: Volume,
    /// What the source has to be.
    pub expected: Option<Facts>,
    /// The digest that the source's bytes have to have.
    pub checksum: Option<Checksum>,
    /// The format that the image has to have.
    pub format: Option<Format>,
    /// Whether the volume is given all of its room now.
    pub preallocation: bool,
    /// Where an earlier run stopped.
    pub resume: Option<Checkpoint>,
}

/// One copy as the engine gets it.
#[derive(Debug, Clone)]
pub struct CopyOrder {
    /// The volume to read.
    pub source: Volume,
    /// The volume to write.
    pub target: Volume,
    /// Whether only what differs is written.
    pub only_differences: bool,
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
    /// Digest of the source's bytes, where it was computed.
    pub digest: Option<Checksum>,
}

/// Who is told how a transfer goes. Called from any thread.
pub trait Observer: Send + Sync + 'static {
    /// The source of an import was looked at.
    fn facts(&self, facts: Facts);
    /// Bytes moved.
    fn progress(&self, progress: Progress);
    /// The data up to here is on stable storage. Returns when the checkpoint
    /// is, too; an error ends the transfer.
    fn checkpoint(&self, checkpoint: Checkpoint) -> io::Result<()>;
    /// The last byte was written.
    fn verifying(&self);
}

/// Moves the bytes of images and disks.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Looks at a source without moving its bytes.
    async fn probe(&self, source: &Source, access: &Access) -> Result<Facts, Failure>;

    /// Fills a volume. When it returns, nothing of the import runs any more
    /// and the volume is closed; an error after `stop` was cancelled says
    /// nothing about the job.
    async fn import(
        &self,
        order: ImportOrder,
        observer: Arc<dyn Observer>,
        stop: CancellationToken,
    ) -> Result<Imported, Failure>;

    /// Brings one volume's disk to another; what it moved. When it returns,
    /// nothing of the copy runs any more and both volumes are closed; an
    /// error after `stop` was cancelled says nothing about the job.
    async fn copy(
        &self,
        order: CopyOrder,
        observer: Arc<dyn Observer>,
        stop: CancellationToken,
    ) -> Result<Progress, Failure>;
}
