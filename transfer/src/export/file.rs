//! An export to a file of this machine.
//!
//! The bytes go into a hidden partial file beside it, which takes the name
//! when it is complete.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rustix::fs::{CWD, FlockOperation, RenameFlags};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::making::{Job, Start, Target};
use super::parts::Part;
use super::request::Exported;
use super::upload::blocking;
use crate::error::{TargetError, TransferError};

/// A file that is being written.
struct Partial {
    file: File,
    path: PathBuf,
    target: PathBuf,
    /// Whether it has its name.
    is_complete: std::sync::atomic::AtomicBool,
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_complete.load(std::sync::atomic::Ordering::Relaxed)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(error = %error, "removing a partial file failed");
        }
    }
}

/// See [`crate::export`].
pub(super) async fn export(
    job: Job,
    path: PathBuf,
    overwrite: bool,
    cancel: &CancellationToken,
) -> Result<Exported, TransferError> {
    if job.source.is_at(&path) {
        return Err(TargetError::IsSource(path).into());
    }
    let partial = blocking(move || Ok(Partial::open(path, overwrite)?)).await?;
    let partial = Arc::new(partial);
    let mut making = job.make(Start::default(), false);
    let all = making.drive(&partial, cancel).await?;
    let digest = making.digest().await?;
    let mut progress = making.progress();
    progress.done = progress.total;
    if let Some(all) = all {
        progress.written += all.bytes.len() as u64;
        Arc::clone(&partial).store(all).await?;
    }
    job.verify().await?;
    let size = blocking(move || Ok(partial.complete(overwrite)?)).await?;
    job.observer.progress(progress);
    Ok(Exported {
        progress,
        size,
        virtual_size: job.source.size(),
        digest,
        etag: None,
        checksum: None,
        address: None,
    })
}

impl Partial {
    fn open(target: PathBuf, overwrite: bool) -> Result<Self, TargetError> {
        match std::fs::symlink_metadata(&target) {
            Ok(found) if !found.is_file() => {
                return Err(TargetError::WrongKind {
                    path: target,
                    expected: "a regular file",
                });
            }
            Ok(_) if !overwrite => return Err(TargetError::Exists(target)),
            _ => {}
        }
        let Some(name) = target.file_name() else {
            return Err(TargetError::InvalidName(target.display().to_string()));
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".partial");
        let path = target.with_file_name(hidden);
        let failed = |source: std::io::Error| failure(&path, source);
        // One that was left is nobody's; another export holds the lock of its.
        if let Ok(left) = File::open(&path) {
            lock(&left, &path)?;
            std::fs::remove_file(&path).map_err(failed)?;
        }
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(failed)?;
        lock(&file, &path)?;
        Ok(Self {
            file,
            path,
            target,
            is_complete: Default::default(),
        })
    }

    /// Gives the file its name, durably; how long it is.
    fn complete(&self, overwrite: bool) -> Result<u64, TargetError> {
        let failed = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::AlreadyExists => TargetError::Exists(self.target.clone()),
            _ => TargetError::Complete {
                path: self.target.clone(),
                source,
            },
        };
        self.file.sync_all().map_err(|source| TargetError::Flush {
            path: self.path.clone(),
            source,
        })?;
        let size = self.file.metadata().map_err(failed)?.len();
        self.rename(overwrite)
            .map_err(|error| failed(error.into()))?;
        let complete = &self.is_complete;
        complete.store(true, std::sync::atomic::Ordering::Relaxed);
        let folder = match self.target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(failed)?;
        Ok(size)
    }

    fn rename(&self, overwrite: bool) -> Result<(), Errno> {
        if overwrite {
            return rustix::fs::rename(&self.path, &self.target);
        }
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(CWD, &self.path, CWD, &self.target, flags) {
            // Not every file system can; a link never replaces either.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::link(&self.path, &self.target)?;
                rustix::fs::unlink(&self.path)
            }
            result => result,
        }
    }
}

fn lock(file: &File, path: &Path) -> Result<(), TargetError> {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| TargetError::Busy(path.to_owned()))
}

fn failure(path: &Path, source: std::io::Error) -> TargetError {
    let path = path.to_owned();
    match source.kind() {
        std::io::ErrorKind::StorageFull => TargetError::Full(path),
        _ => TargetError::Open { path, source },
    }
}

#[async_trait]
impl Target for Partial {
    async fn store(self: Arc<Self>, part: Part) -> Result<(), TransferError> {
        blocking(move || {
            let written = self.file.write_all_at(&part.bytes, part.start);
            written.map_err(|source| {
                let path = self.path.clone();
                match source.kind() {
                    std::io::ErrorKind::StorageFull => TargetError::Full(path),
                    _ => TargetError::Write {
                        path,
                        offset: part.start,
                        source,
                    },
                }
                .into()
            })
        })
        .await
    }
}
