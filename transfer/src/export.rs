//! One export, from a raw disk of this machine to an object or a file.
//!
//! The disk is raw, whatever its first bytes say, and is read once: workers
//! take stretches that may have data, leave out zeros and compress the rest;
//! what they made is put together in the disk's order and cut into parts,
//! which are stored while the next ones are made. The part with a qcow2's
//! header is the first in the object and the last to be stored.
//!
//! Invariants: an object or file appears under its name only when it is
//! complete; what is held is some parts and stretches, whatever the disk; an
//! upload is named in an [`ExportCheckpoint`] before a part of it is sent, and
//! a part is in one only after the store has it.

mod checkpoint;
mod course;
mod file;
mod lane;
mod ledger;
mod making;
mod object;
mod parts;
mod request;
mod size;
mod upload;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use self::checkpoint::ExportCheckpoint;
use self::making::Job;
pub use self::request::{
    Compression, ExportFormat, ExportObserver, ExportRequest, ExportTarget, Exported,
};
use self::size::Sizes;
use self::upload::blocking;
use crate::error::TransferError;
use crate::object_store::{Signer, Writer};
use crate::options::Options;
use crate::raw_disk::SourceDisk;
use crate::request::StoredObject;
use crate::secret::Secret;

/// See [`crate::export`].
pub(crate) async fn export(
    request: ExportRequest,
    options: &Options,
    observer: Arc<dyn ExportObserver>,
    cancel: CancellationToken,
) -> Result<Exported, TransferError> {
    let disk = request.source;
    let source = blocking(move || Ok(SourceDisk::open(&disk)?)).await?;
    let job = Job {
        format: request.format,
        digest: request.digest,
        sizes: Sizes::new(request.format, source.size(), source.allocated()),
        source: Arc::new(source),
        options: options.clone(),
        observer,
    };
    tracing::info!(
        size = job.source.size(),
        format = ?job.format,
        resumed = request.resume.is_some(),
        "export begins"
    );
    match request.target {
        ExportTarget::Object(object) => {
            object::export(job, &object, request.overwrite, request.resume, &cancel).await
        }
        ExportTarget::File(path) => file::export(job, path, request.overwrite, &cancel).await,
    }
}

/// See [`crate::discard_upload`].
pub(crate) async fn discard_upload(
    object: &StoredObject,
    upload_id: &str,
    options: &Options,
) -> Result<(), TransferError> {
    let writer = Writer::new(object, options).await;
    let writer = writer.map_err(TransferError::from_store)?;
    let discarded = writer.abort(upload_id).await;
    discarded.map_err(TransferError::from_store)
}

/// See [`crate::presign`].
pub(crate) async fn presign(
    object: &StoredObject,
    valid: Duration,
    options: &Options,
) -> Result<Secret, TransferError> {
    let signer = Signer::new(object, options).await;
    let signer = signer.map_err(TransferError::from_store)?;
    let url = signer.sign_for(valid).await;
    Ok(Secret::new(url.map_err(TransferError::from_store)?))
}
