//! One export, from a raw disk of this machine to an object or a file.
//!
//! The disk is raw, whatever its first bytes say, and is read once: workers
//! take stretches that may have data, leave out zeros and compress the rest;
//! what they made is put together in the disk's order and cut into parts,
//! which are stored while the next ones are made. The part with a qcow2's
//! header is the first in the object and the last to be stored.
//!
//! Invariants: an object or file appears under its name only when it is
//! complete; what is held is some parts and stretches, whatever the disk (parts
//! of more than 64 MiB, which only a disk needs that stores more than 62 GiB and
//! could store more than 250, one at a time, and none of more than 256 MiB; those
//! of a raw disk of more than 600 GiB are read again as they are sent); an
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

use hypercloud_disk::{MAX_VIRTUAL_SIZE, Refusal};
use tokio_util::sync::CancellationToken;

pub use self::checkpoint::ExportCheckpoint;
use self::making::Job;
pub use self::request::{
    Compression, ExportFormat, ExportObserver, ExportRequest, ExportTarget, Exported,
};
use self::size::Sizes;
use self::upload::blocking;
use crate::error::TransferError;
use crate::object_store::{ObjectStoreError, Signer, Writer};
use crate::options::Options;
use crate::raw_disk::SourceDisk;
use crate::request::StoredObject;
use crate::secret::Secret;

/// No store takes a larger object.
const LARGEST_OBJECT: u64 = 5 << 40;

/// See [`crate::export`].
pub(crate) async fn export(
    request: ExportRequest,
    options: &Options,
    observer: Arc<dyn ExportObserver>,
    cancel: CancellationToken,
) -> Result<Exported, TransferError> {
    let disk = request.source.clone();
    let source = blocking(move || Ok(SourceDisk::open(&disk)?)).await?;
    judge_size(source.size(), &request)?;
    let is_file = matches!(request.target, ExportTarget::File(_));
    let sizes = match is_file {
        true => Sizes::of_file(),
        false => Sizes::new(request.format, source.size(), source.allocated()),
    };
    let job = Job {
        state: source.state(),
        owner: request.owner,
        format: request.format,
        digest: request.digest,
        sizes,
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

/// A tenant's file may claim to be of any length, at no cost: one that no
/// disk has is refused before anything is made for it.
fn judge_size(size: u64, request: &ExportRequest) -> Result<(), TransferError> {
    if size > MAX_VIRTUAL_SIZE {
        return Err(Refusal::AbsurdVirtualSize(size).into());
    }
    match &request.target {
        ExportTarget::Object(object)
            if request.format == ExportFormat::Raw && size > LARGEST_OBJECT =>
        {
            let location = format!("s3://{}/{}", object.bucket, object.key);
            Err(TransferError::from_store(ObjectStoreError::ObjectTooLarge(
                location,
            )))
        }
        _ => Ok(()),
    }
}

/// See [`crate::discard_upload`].
pub(crate) async fn discard_upload(
    object: &StoredObject,
    upload_id: &str,
    options: &Options,
) -> Result<(), TransferError> {
    let writer = Writer::new(object, None, options).await;
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
