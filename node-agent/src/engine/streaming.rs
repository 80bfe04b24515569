//! The transfer crate as an engine.
//!
//! Knows where a disk belongs on a volume: a block device from its first
//! byte, a file system as `disk.img` for the user that virtual machines run
//! as. Its types stop here.

mod object;

use std::cmp::Reverse;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hypercloud_transfer as transfer;
use tokio_util::sync::CancellationToken;

use super::{CopyOrder, Engine, ExportOrder, Exported, ImportOrder, Imported, Observer};
use crate::job::state::{Checkpoint, Failure, Progress};
use crate::source::{Access, Facts, Format, ObjectLocation, Secret, Source};
use crate::volume::Volume;

/// The one name under which a virtual machine finds its disk.
const DISK_NAME: &str = "disk.img";
/// User and group of the process that opens the disk: qemu's.
const DISK_OWNER: (u32, u32) = (107, 107);
/// Its permissions.
const DISK_MODE: u32 = 0o660;

/// How long a packed disk is read through for its size. Well below the limit
/// of a probe, which goes on without.
const MEASURING: Duration = Duration::from_secs(30);

/// Moves bytes with the transfer crate.
#[derive(Debug, Clone)]
pub struct StreamingEngine {
    options: transfer::Options,
}

/// How often a probe asks again. Few times: who asked for it is to hear why it
/// fails, and asks again by himself.
const PROBE_RETRIES: u32 = 3;

impl StreamingEngine {
    /// An engine whose every transfer works by `options`.
    pub fn new(options: transfer::Options) -> Self {
        Self { options }
    }
}

#[async_trait]
impl Engine for StreamingEngine {
    async fn probe(&self, source: &Source, access: &Access) -> Result<Facts, Failure> {
        let source = source_spec(source.clone(), access.clone());
        let options = transfer::Options {
            retries: PROBE_RETRIES,
            ..self.options.clone()
        };
        let measured = transfer::probe(&source, &options);
        let probed = match tokio::time::timeout(MEASURING, measured).await {
            Ok(probed) => probed,
            // What takes long is likely a packed disk whose end is far off:
            // then its size is not told.
            Err(_) => {
                let options = transfer::Options {
                    measure: false,
                    ..options.clone()
                };
                transfer::probe(&source, &options).await
            }
        };
        probed.map(facts_of).map_err(|error| failure_of(&error))
    }

    async fn import(
        &self,
        order: ImportOrder,
        observer: Arc<dyn Observer>,
        stop: CancellationToken,
    ) -> Result<Imported, Failure> {
        if let Volume::Directory(_) = order.volume {
            clear(order.volume.opening_path().join(DISK_NAME)).await;
        }
        let request = transfer::ImportRequest {
            source: source_spec(order.source, order.access),
            target: target_spec(&order.volume),
            format: order.format.map(format_to),
            checksum: order.checksum,
            preallocation: order.preallocation,
            expected: order.expected.map(facts_to),
            resume: order.resume.and_then(checkpoint_of),
        };
        let (opened_by, known_by) = (order.volume.opening_path(), order.volume.path());
        let observer = Arc::new(Listener(observer));
        let done = transfer::import(request, &self.options, observer, stop)
            .await
            .map_err(|error| failure_of(&error))
            .map_err(|failure| named(failure, &opened_by, known_by))?;
        Ok(Imported {
            facts: facts_of(done.facts),
            progress: progress_of(done.progress),
            digest: done.digest,
        })
    }

    async fn copy(
        &self,
        order: CopyOrder,
        observer: Arc<dyn Observer>,
        stop: CancellationToken,
    ) -> Result<Progress, Failure> {
        let CopyOrder {
            source,
            target,
            only_differences,
            resume,
        } = order;
        let mode = if only_differences {
            transfer::CopyMode::Differences
        } else {
            transfer::CopyMode::Whole
        };
        if let (Volume::Directory(_), transfer::CopyMode::Whole) = (&target, mode) {
            clear(target.opening_path().join(DISK_NAME)).await;
        }
        let request = transfer::CopyRequest {
            source: raw_disk(&source),
            target: target_spec(&target),
            mode,
            resume: resume.and_then(checkpoint_of),
        };
        let copying = transfer::copy(request, &self.options, Arc::new(Listener(observer)), stop);
        let done = copying.await.map_err(|error| {
            let mut volumes = [&source, &target].map(|found| (found.opening_path(), found.path()));
            // One path may begin as the other does: the longer one first.
            volumes.sort_by_key(|(opened_by, _)| Reverse(opened_by.as_os_str().len()));
            volumes
                .into_iter()
                .fold(failure_of(&error), |failure, (opened_by, known_by)| {
                    named(failure, &opened_by, known_by)
                })
        })?;
        Ok(progress_of(done.progress))
    }

    async fn export(
        &self,
        order: ExportOrder,
        observer: Arc<dyn Observer>,
        stop: CancellationToken,
    ) -> Result<Exported, Failure> {
        object::export(order, &self.options, observer, stop).await
    }

    async fn discard_upload(
        &self,
        object: &ObjectLocation,
        access: &Access,
        upload: &str,
    ) -> Result<(), Failure> {
        object::discard_upload(object, access, upload, &self.options).await
    }

    async fn presign(
        &self,
        object: &ObjectLocation,
        access: &Access,
        valid: Duration,
    ) -> Result<Secret, Failure> {
        object::presign(object, access, valid, &self.options).await
    }
}

/// Removes the disk that an earlier job left whole, but whose end nobody
/// heard of: a volume made for one disk has no room for another beside it. A
/// disk that is not whole has another name, so nothing to resume is lost.
/// What is in its way otherwise is the transfer's to judge.
async fn clear(disk: PathBuf) {
    let removed = tokio::task::spawn_blocking(move || std::fs::remove_file(disk)).await;
    match removed {
        Ok(Ok(())) => tracing::info!("disk of an earlier job removed"),
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
        Ok(Err(error)) => tracing::warn!(%error, "disk of an earlier job is in the way"),
        Err(error) => tracing::error!(%error, "clearing the volume failed"),
    }
}

/// Passes on what the transfer says.
struct Listener(Arc<dyn Observer>);

impl transfer::Observer for Listener {
    fn facts(&self, facts: &transfer::SourceFacts) {
        self.0.facts(facts_of(facts.clone()));
    }

    fn progress(&self, progress: transfer::Progress) {
        self.0.progress(progress_of(progress));
    }

    fn checkpoint(&self, checkpoint: &transfer::Checkpoint) -> io::Result<()> {
        let value = serde_json::to_value(checkpoint).map_err(io::Error::other)?;
        self.0.checkpoint(Checkpoint(value))
    }

    fn verifying(&self) {
        self.0.verifying();
    }
}

impl transfer::CopyObserver for Listener {
    fn progress(&self, progress: transfer::Progress) {
        self.0.progress(progress_of(progress));
    }

    fn checkpoint(&self, checkpoint: &transfer::CopyCheckpoint) -> io::Result<()> {
        let value = serde_json::to_value(checkpoint).map_err(io::Error::other)?;
        self.0.checkpoint(Checkpoint(value))
    }

    fn verifying(&self) {
        self.0.verifying();
    }
}

fn raw_disk(volume: &Volume) -> transfer::RawDisk {
    let path = volume.opening_path();
    match volume {
        Volume::BlockDevice(_) => transfer::RawDisk::BlockDevice(path),
        Volume::Directory(_) => transfer::RawDisk::DiskFile {
            directory: path,
            name: DISK_NAME.to_owned(),
        },
    }
}

fn source_spec(source: Source, access: Access) -> transfer::SourceSpec {
    match source {
        Source::Http(url) => {
            let Access {
                basic,
                headers,
                authorities,
                ..
            } = access;
            transfer::SourceSpec::Http(transfer::HttpSource {
                url: url.into(),
                access: transfer::HttpAccess {
                    basic,
                    headers,
                    authorities,
                },
            })
        }
        Source::ObjectStore(object) => {
            transfer::SourceSpec::ObjectStore(object::stored(object, access))
        }
    }
}

fn target_spec(volume: &Volume) -> transfer::TargetSpec {
    let path = volume.opening_path();
    match volume {
        Volume::BlockDevice(_) => transfer::TargetSpec::BlockDevice(path),
        Volume::Directory(_) => transfer::TargetSpec::DiskFile(transfer::DiskFile {
            directory: path,
            name: DISK_NAME.to_owned(),
            owner: Some(DISK_OWNER),
            mode: DISK_MODE,
        }),
    }
}

/// A checkpoint that this version of the transfer crate understands. One that
/// it does not is no loss but time: the transfer starts over.
fn checkpoint_of<C: serde::de::DeserializeOwned>(checkpoint: Checkpoint) -> Option<C> {
    serde_json::from_value(checkpoint.0)
        .inspect_err(|error| tracing::warn!(%error, "checkpoint is of another form, starting over"))
        .ok()
}

fn progress_of(progress: transfer::Progress) -> Progress {
    let transfer::Progress {
        total,
        done,
        received,
        written,
    } = progress;
    Progress {
        total,
        done,
        received,
        written,
    }
}

fn facts_of(facts: transfer::SourceFacts) -> Facts {
    let format = match facts.format {
        transfer::ImageFormat::Raw => Format::Raw,
        transfer::ImageFormat::Qcow2 => Format::Qcow2,
    };
    let transfer::SourceFacts {
        packing,
        virtual_size,
        source_size,
        validator,
        ranges,
        ..
    } = facts;
    Facts {
        format,
        packing,
        virtual_size,
        source_size,
        validator,
        ranges,
    }
}

fn format_to(format: Format) -> transfer::ImageFormat {
    match format {
        Format::Raw => transfer::ImageFormat::Raw,
        Format::Qcow2 => transfer::ImageFormat::Qcow2,
    }
}

fn facts_to(facts: Facts) -> transfer::SourceFacts {
    let Facts {
        format,
        packing,
        virtual_size,
        source_size,
        validator,
        ranges,
    } = facts;
    transfer::SourceFacts {
        format: format_to(format),
        packing,
        virtual_size,
        source_size,
        validator,
        ranges,
    }
}

fn failure_of(error: &transfer::TransferError) -> Failure {
    Failure {
        reason: error.reason().to_owned(),
        message: error.message(),
        retryable: error.is_retryable(),
    }
}

/// The failure with the path that people know in place of the one by which
/// the volume was opened.
fn named(failure: Failure, opened_by: &Path, known_by: &Path) -> Failure {
    let known_by = known_by.display().to_string();
    let message = failure
        .message
        .replace(&opened_by.display().to_string(), &known_by);
    Failure { message, ..failure }
}
