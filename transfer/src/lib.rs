//! The transfer engine: from a source, through the format, onto a volume, from
//! one volume to another, and from a volume into an object store.
//!
//! [`probe`] learns what a source is from its first bytes; [`import`] brings
//! it onto a block device or into a disk file; [`copy`] brings one raw disk
//! to another, or only what differs; [`export`] makes an object of one. The
//! node agent and the command line share this crate; `hypercloud-disk` makes every decision about
//! formats and plans, and this crate does the reading, writing and waiting.
//!
//! Invariants:
//! - memory is bounded by [`Options::memory_budget`], whatever the image;
//! - a [`Checkpoint`] or [`CopyCheckpoint`] is handed out only after the target was flushed, and an
//!   [`ExportCheckpoint`] after the store has answered, so they never run ahead of the data;
//! - a disk file or an object appears under its name only when it is complete;
//! - no URL's user part or query is ever shown ([`TransferError::message`]);
//! - when [`import`], [`copy`] or [`export`] returns, nothing of it is still running.
//!
//! It must not know Kubernetes, gRPC or where checkpoints are kept.

mod allocator;
mod buffer;
mod checkpoint;
mod checksum;
mod copy;
mod digest;
mod error;
mod export;
mod import;
mod local;
mod object_store;
mod observer;
mod options;
mod pipeline;
mod proxy;
mod raw_disk;
mod request;
mod secret;
mod sink;
mod source;

pub use allocator::give_memory_back;
pub use checkpoint::Checkpoint;
pub use checksum::{Algorithm, Checksum, ChecksumError};
pub use copy::{Copied, CopyCheckpoint, CopyMode, CopyObserver, CopyRequest};
pub use error::{Side, SourceError, TargetError, TransferError};
pub use export::{
    Compression, ExportCheckpoint, ExportFormat, ExportObserver, ExportRequest, ExportTarget,
    Exported,
};
pub use hypercloud_disk::{ImageFormat, Packing, Refusal};
pub use hypercloud_trust::InvalidAuthorities;
pub use object_store::ObjectStoreError;
pub use observer::{Observer, Progress};
pub use options::{AddressPolicy, Options, SpacePolicy};
pub use proxy::ProxySettings;
pub use raw_disk::RawDisk;
pub use request::{
    BasicCredentials, DiskFile, Header, HttpAccess, HttpSource, ImportRequest, Imported,
    ObjectStore, ObjectStoreCredentials, SourceFacts, SourceSpec, StoredObject, TargetSpec,
};
pub use secret::Secret;
pub use tokio_util::sync::CancellationToken;

use std::sync::Arc;
use std::time::Duration;

/// Learns what a source is, from its first bytes. The size of a disk that is
/// packed in it as it is often shows only at its end: then all of it is read
/// where [`Options::measure`] says so.
///
/// # Errors
/// [`TransferError::Source`] when it cannot be read, [`TransferError::Refused`]
/// when it is nothing that can be imported.
pub async fn probe(source: &SourceSpec, options: &Options) -> Result<SourceFacts, TransferError> {
    import::probe(source, options).await
}

/// Imports a source onto a target.
///
/// `observer` hears of facts, progress and checkpoints; `cancel` ends the
/// import within a second. When this returns, the target is closed and
/// nothing is still running.
///
/// # Errors
/// See [`TransferError`]; [`TransferError::is_retryable`] tells whether
/// another try, with the last checkpoint, may succeed.
pub async fn import(
    request: ImportRequest,
    options: &Options,
    observer: Arc<dyn Observer>,
    cancel: CancellationToken,
) -> Result<Imported, TransferError> {
    import::import(request, options, observer, cancel).await
}

/// Copies a raw disk of this machine to another, or writes what differs.
///
/// Holes and zeros of the source are deallocated on the target rather than
/// written. `observer` hears of progress and checkpoints; `cancel` ends the
/// copy within a second. When this returns, both sides are closed and nothing
/// is still running.
///
/// # Errors
/// [`TransferError::Source`] or [`TransferError::Target`], by the side that
/// failed; a target that is too small is told before anything is written.
/// [`TransferError::is_retryable`] tells whether another try, with the last
/// checkpoint, may succeed.
pub async fn copy(
    request: CopyRequest,
    options: &Options,
    observer: Arc<dyn CopyObserver>,
    cancel: CancellationToken,
) -> Result<Copied, TransferError> {
    copy::copy(request, options, observer, cancel).await
}

/// Exports a raw disk of this machine to an object or a file.
///
/// `observer` hears of progress and checkpoints; `cancel` ends the export
/// within a second. What an export that was cancelled, or failed and may be
/// tried again, has stored of an object stays in the store, to be resumed;
/// [`discard_upload`] gives it up. After a failure that is final nothing
/// stays. When this returns, the disk is closed and nothing is still running.
///
/// # Errors
/// [`TransferError::Source`], [`TransferError::Store`] or
/// [`TransferError::Target`], by the side that failed.
/// [`TransferError::is_retryable`] tells whether another try, with the last
/// checkpoint, may succeed.
pub async fn export(
    request: ExportRequest,
    options: &Options,
    observer: Arc<dyn ExportObserver>,
    cancel: CancellationToken,
) -> Result<Exported, TransferError> {
    export::export(request, options, observer, cancel).await
}

/// Gives up an upload in parts that an export has left, with all of its
/// parts. One that is not there is given up already.
///
/// # Errors
/// [`TransferError::Store`] when the store says no, or nothing.
pub async fn discard_upload(
    object: &StoredObject,
    upload_id: &str,
    options: &Options,
) -> Result<(), TransferError> {
    export::discard_upload(object, upload_id, options).await
}

/// Makes an address that lets whoever has it read an object for so long: a
/// week at most. The store is not asked.
///
/// # Errors
/// [`TransferError::Store`] when there are no credentials, or no address.
pub async fn presign(
    object: &StoredObject,
    valid: Duration,
    options: &Options,
) -> Result<Secret, TransferError> {
    export::presign(object, valid, options).await
}
