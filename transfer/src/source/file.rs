//! A file or block device of this machine as the source.

use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use hypercloud_disk::Extent;

use super::{HEAD, Opened};
use crate::buffer::Buffer;
use crate::error::SourceError;

/// Reads a local file, each stretch on a thread that may block.
#[derive(Clone)]
pub(crate) struct FileReader(Arc<Inner>);

struct Inner {
    file: File,
    path: PathBuf,
    size: u64,
    validator: Option<String>,
    received: AtomicU64,
}

/// Runs what blocks; a thread that died is an interrupted read.
async fn blocking<T: Send + 'static>(
    location: String,
    work: impl FnOnce() -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| {
            Err(SourceError::Read {
                location,
                source: std::io::Error::other(error),
            })
        })
}

fn explain(path: &std::path::Path, source: std::io::Error) -> SourceError {
    let location = path.display().to_string();
    match source.kind() {
        ErrorKind::NotFound => SourceError::NotFound(location),
        ErrorKind::PermissionDenied => SourceError::Forbidden(location),
        _ => SourceError::Read { location, source },
    }
}

impl FileReader {
    pub(super) async fn open(path: PathBuf) -> Result<(Self, Opened), SourceError> {
        blocking(path.display().to_string(), move || Self::open_now(path)).await
    }

    fn open_now(path: PathBuf) -> Result<(Self, Opened), SourceError> {
        let failed = |error| explain(&path, error);
        // Looked at before opening: opening a pipe would wait for a writer.
        let kind = std::fs::metadata(&path).map_err(failed)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(SourceError::NotAFile(path.display().to_string()));
        }
        let mut file = File::open(&path).map_err(failed)?;
        let size = file.seek(SeekFrom::End(0)).map_err(failed)?;
        let validator = validator(&file).map_err(failed)?;
        let mut head = vec![0; usize::try_from(size.min(HEAD)).unwrap_or(0)];
        file.read_exact_at(&mut head, 0).map_err(failed)?;
        let received = AtomicU64::new(head.len() as u64);
        let opened = Opened {
            head: Bytes::from(head),
            size: Some(size),
            validator: validator.clone(),
            ranges: true,
            is_called_html: false,
        };
        let inner = Inner {
            file,
            path,
            size,
            validator,
            received,
        };
        Ok((Self(Arc::new(inner)), opened))
    }

    pub(super) fn size(&self) -> u64 {
        self.0.size
    }

    pub(super) fn received(&self) -> u64 {
        self.0.received.load(Ordering::Relaxed)
    }

    pub(super) async fn read(
        self,
        place: Extent,
        mut buffer: Buffer,
    ) -> Result<Buffer, SourceError> {
        let location = self.0.path.display().to_string();
        blocking(location, move || {
            let inner = &self.0;
            let length = usize::try_from(place.length).unwrap_or(usize::MAX);
            let into = buffer.get_mut(..length).unwrap_or_default();
            inner
                .file
                .read_exact_at(into, place.start)
                .map_err(|error| explain(&inner.path, error))?;
            inner.received.fetch_add(place.length, Ordering::Relaxed);
            Ok(buffer)
        })
        .await
    }

    pub(super) async fn judge_unchanged(&self) -> Result<(), SourceError> {
        let reader = self.clone();
        blocking(self.0.path.display().to_string(), move || {
            let inner = &reader.0;
            let now = validator(&inner.file).map_err(|error| explain(&inner.path, error))?;
            if now == inner.validator {
                Ok(())
            } else {
                Err(SourceError::SourceChanged(inner.path.display().to_string()))
            }
        })
        .await
    }
}

/// Inode, length and time of the last change of a regular file; a device has
/// nothing that would tell.
pub(crate) fn validator(file: &File) -> std::io::Result<Option<String>> {
    let metadata = file.metadata()?;
    Ok(metadata.is_file().then(|| {
        format!(
            "{}-{}-{}.{:09}",
            metadata.ino(),
            metadata.len(),
            metadata.mtime(),
            metadata.mtime_nsec()
        )
    }))
}
