//! What moves the bytes, as the jobs see it.
//!
//! The jobs know this trait and their own types, which borrow a few plain
//! values from the transfer crate; only [`streaming`] sets it to work. Tests
//! of the jobs bring an engine of their own.

pub mod streaming;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::job::spec::ExportFormat;
use crate::job::state::{Checkpoint, ExportedObject, Failure, Progress};
use crate::source::{Access, Checksum, Facts, Format, ObjectLocation, Secret, Source};
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

/// One export as the engine gets it.
#[derive(Debug, Clone)]
pub struct ExportOrder {
    /// The volume to read.
    pub volume: Volume,
    /// The object to make.
    pub object: ObjectLocation,
    /// How the object's store is reached.
    pub access: Access,
    /// What the object is of the disk.
    pub format: ExportFormat,
    /// Whether an object that is there is replaced.
    pub overwrite: bool,
    /// For whom the object is made.
    pub owner: Option<String>,
    /// Whether the digest of the disk's raw content is computed.
    pub digest: bool,
    /// Where an earlier run stopped.
    pub resume: Option<Checkpoint>,
}

/// A finished export.
#[derive(Debug, Clone)]
pub struct Exported {
    /// Final figures.
    pub progress: Progress,
    /// Digest of the disk's raw content, where it was computed.
    pub digest: Option<Checksum>,
    /// The object that is there now.
    pub object: ExportedObject,
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
    /// Parts of an export go to this upload; told before the checkpoint that
    /// is the first to know it.
    fn uploading(&self, upload: &str);
    /// The last byte was written.
    fn verifying(&self);
    /// All of an export is stored, and its object is about to be made of it:
    /// an error is the last that keeps it from being there. Called where the
    /// thread may wait.
    fn completing(&self) -> io::Result<()>;
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

    /// Makes an object of a volume's disk, whole or not at all. When it
    /// returns, nothing of the export runs any more and the volume is closed;
    /// an error after `stop` was cancelled says nothing about the job. Parts
    /// that are stored stay so, to be gone on with or discarded.
    async fn export(
        &self,
        order: ExportOrder,
        observer: Arc<dyn Observer>,
        stop: CancellationToken,
    ) -> Result<Exported, Failure>;

    /// Removes the parts of an upload; one that is not there has none.
    async fn discard_upload(
        &self,
        object: &ObjectLocation,
        access: &Access,
        upload: &str,
    ) -> Result<(), Failure>;

    /// An address by which everybody who knows it may fetch an object for so
    /// long. Nothing is sent to the store.
    async fn presign(
        &self,
        object: &ObjectLocation,
        access: &Access,
        valid: Duration,
    ) -> Result<Secret, Failure>;
}
