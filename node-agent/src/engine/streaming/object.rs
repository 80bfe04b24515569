//! Disks that become objects, and what else is done about objects.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hypercloud_transfer as transfer;
use tokio_util::sync::CancellationToken;

use super::{Listener, checkpoint_of, failure_of, named, progress_of, raw_disk};
use crate::engine::{ExportOrder, Exported, Observer};
use crate::job::state::{Checkpoint, ExportedObject, Failure};
use crate::source::{Access, ObjectLocation, Secret};

/// See [`crate::engine::Engine::export`].
pub(super) async fn export(
    order: ExportOrder,
    options: &transfer::Options,
    observer: Arc<dyn Observer>,
    stop: CancellationToken,
) -> Result<Exported, Failure> {
    let ExportOrder {
        volume,
        object,
        access,
        format,
        overwrite,
        owner,
        digest,
        resume,
    } = order;
    let request = transfer::ExportRequest {
        source: raw_disk(&volume),
        target: transfer::ExportTarget::Object(stored(object, access)),
        format,
        overwrite,
        owner,
        digest,
        resume: resume.and_then(checkpoint_of),
    };
    let (opened_by, known_by) = (volume.opening_path(), volume.path());
    let done = transfer::export(request, options, Arc::new(Listener(observer)), stop)
        .await
        .map_err(|error| failure_of(&error))
        .map_err(|failure| named(failure, &opened_by, known_by))?;
    Ok(Exported {
        progress: progress_of(done.progress),
        digest: done.digest,
        object: ExportedObject {
            size: done.size,
            virtual_size: done.virtual_size,
            etag: done.etag,
            checksum: done.checksum,
            address: done.address.unwrap_or_default(),
        },
    })
}

/// See [`crate::engine::Engine::discard_upload`].
pub(super) async fn discard_upload(
    object: &ObjectLocation,
    access: &Access,
    upload: &str,
    options: &transfer::Options,
) -> Result<(), Failure> {
    let object = stored(object.clone(), access.clone());
    transfer::discard_upload(&object, upload, options)
        .await
        .map_err(|error| failure_of(&error))
}

/// See [`crate::engine::Engine::presign`].
pub(super) async fn presign(
    object: &ObjectLocation,
    access: &Access,
    valid: Duration,
    options: &transfer::Options,
) -> Result<Secret, Failure> {
    let object = stored(object.clone(), access.clone());
    transfer::presign(&object, valid, options)
        .await
        .map_err(|error| failure_of(&error))
}

/// An object, and how its store is reached.
pub(super) fn stored(object: ObjectLocation, access: Access) -> transfer::StoredObject {
    transfer::StoredObject {
        bucket: object.bucket,
        key: object.key,
        store: transfer::ObjectStore {
            endpoint: object.endpoint.map(Into::into),
            region: object.region,
            path_style: object.path_style,
            credentials: access.signing,
            authorities: access.authorities,
        },
    }
}

impl transfer::ExportObserver for Listener {
    fn progress(&self, progress: transfer::Progress) {
        self.0.progress(progress_of(progress));
    }

    fn checkpoint(&self, checkpoint: &transfer::ExportCheckpoint) -> io::Result<()> {
        let value = serde_json::to_value(checkpoint).map_err(io::Error::other)?;
        if let Some(upload) = checkpoint.upload_id() {
            self.0.uploading(upload);
        }
        self.0.checkpoint(Checkpoint(value))
    }

    fn verifying(&self) -> io::Result<()> {
        self.0.verifying();
        self.0.completing()
    }
}
