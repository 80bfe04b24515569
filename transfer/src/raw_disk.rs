//! Raw disks of this machine, which are read.
//!
//! Their bytes are a guest's, and nothing in them is interpreted.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use hypercloud_disk::Extent;
use rustix::fs::{Advice, OFlags};
use rustix::io::Errno;

use crate::error::SourceError;
use crate::local::{self, directory, fill, is_plain_name, is_unaligned, open_regular, set_direct};
use crate::source::validator;

/// What is read at once is of whole blocks of this size. It suits every
/// device's.
const BLOCK: usize = 4096;

/// Which of a device's counts is of the sectors that were written.
const SECTORS_WRITTEN: usize = 6;

/// A raw disk of this machine. It is read and never written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawDisk {
    /// A block device, from its first byte to its last.
    BlockDevice(PathBuf),
    /// A file in a directory that may belong to somebody else: nothing below
    /// the directory is trusted, so only a regular file is read, and no link
    /// or mount point below it is followed.
    DiskFile {
        /// An existing directory; this path itself is trusted.
        directory: PathBuf,
        /// The file's name in it, a single component.
        name: String,
    },
}

/// An open disk. All methods may be called from several threads at once.
pub(crate) struct SourceDisk {
    file: File,
    shown: String,
    size: u64,
    /// Bytes that it takes where it is, at most its size.
    allocated: u64,
    validator: Option<String>,
    is_direct: AtomicBool,
}

impl SourceDisk {
    pub(crate) fn open(spec: &RawDisk) -> Result<Self, SourceError> {
        let (mut file, shown) = match spec {
            RawDisk::BlockDevice(path) => (device(path)?, path.clone()),
            RawDisk::DiskFile { directory, name } => {
                let shown = directory.join(name);
                (regular(directory, name)?, shown)
            }
        };
        let shown = shown.display().to_string();
        let failed = |error| failure(&shown, error);
        let size = file.seek(SeekFrom::End(0)).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let allocated = match spec {
            RawDisk::BlockDevice(_) => size,
            RawDisk::DiskFile { .. } => size.min(metadata.blocks() * 512),
        };
        Ok(Self {
            validator: validator(&file).map_err(failed)?,
            is_direct: AtomicBool::new(set_direct(&file, true)),
            file,
            shown,
            size,
            allocated,
        })
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Inode, length and time of the last change of a file; a device has
    /// nothing that would tell.
    pub(crate) fn validator(&self) -> Option<&str> {
        self.validator.as_deref()
    }

    /// Where the next data is at or behind `at`; `end` where none is before
    /// it. Behind the disk's end there is none.
    pub(crate) fn next_data(&self, at: u64, end: u64) -> u64 {
        match local::next_data(&self.file, at, self.size.min(end)) {
            found if found >= self.size => end,
            found => found,
        }
    }

    /// Reads what is at a place, zeros behind the disk's end; how much of it
    /// the disk has. `into` is of whole, aligned blocks.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> Result<u64, SourceError> {
        let has = Extent::between(at, self.size.min(at + into.len() as u64)).length;
        let failed = |error| failure(&format!("{} at offset {at}", self.shown), error);
        let length = (has as usize).next_multiple_of(BLOCK).min(into.len());
        let blocks = into.get_mut(..length).unwrap_or_default();
        let filled = match fill(&self.file, at, blocks) {
            // Not aligned as this one wants it: go through the cache.
            Err(error) if is_unaligned(&error) => {
                set_direct(&self.file, false);
                self.is_direct.store(false, Ordering::Relaxed);
                fill(&self.file, at, blocks)
            }
            result => result,
        }
        .map_err(failed)?;
        if (filled as u64) < has {
            return Err(self.changed());
        }
        if !self.is_direct.load(Ordering::Relaxed) {
            // The cached bytes are of no use to this process. Advice only.
            let length = std::num::NonZeroU64::new(has);
            let _ = rustix::fs::fadvise(&self.file, at, length, Advice::DontNeed);
        }
        into.get_mut(has as usize..).unwrap_or_default().fill(0);
        Ok(has)
    }

    /// Whether a target is this very disk. One that cannot be looked at is
    /// judged when it is opened.
    pub(crate) fn is_at(&self, target: &Path) -> bool {
        let Ok(own) = self.file.metadata() else {
            return false;
        };
        match std::fs::symlink_metadata(target) {
            Ok(other) if own.file_type().is_block_device() => {
                let other = std::fs::metadata(target).unwrap_or(other);
                other.file_type().is_block_device() && other.rdev() == own.rdev()
            }
            Ok(other) => (other.dev(), other.ino()) == (own.dev(), own.ino()),
            Err(_) => false,
        }
    }

    /// What tells the disk from itself when it was written to: of a device,
    /// which one it is since the machine started, and how much was written to
    /// it. `None` where nothing tells.
    pub(crate) fn state(&self) -> Option<String> {
        let metadata = self.file.metadata().ok()?;
        if !metadata.file_type().is_block_device() {
            return validator(&self.file).ok()?;
        }
        let number = metadata.rdev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let about = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let read = |path: &Path| std::fs::read_to_string(path).ok();
        let boot = read(Path::new("/proc/sys/kernel/random/boot_id"))?;
        // A partition is of a disk, which has the number.
        let sequence = read(&about.join("diskseq")).or_else(|| read(&about.join("../diskseq")))?;
        let counts = read(&about.join("stat"))?;
        let written = counts.split_whitespace().nth(SECTORS_WRITTEN)?;
        let (boot, sequence) = (boot.trim(), sequence.trim());
        Some(format!("{boot} {number} {sequence} {written}"))
    }

    /// Whether it is in the state that it was in, where that can be told.
    pub(crate) fn judge_state(&self, before: Option<&str>) -> Result<(), SourceError> {
        match before {
            Some(before) if self.state().as_deref() != Some(before) => Err(self.changed()),
            _ => Ok(()),
        }
    }

    /// That somebody wrote to it meanwhile.
    pub(crate) fn changed(&self) -> SourceError {
        SourceError::SourceChanged(self.shown.clone())
    }

    /// Whether nobody wrote to it meanwhile, where that can be told.
    pub(crate) fn judge_unchanged(&self) -> Result<(), SourceError> {
        let now = validator(&self.file).map_err(|error| failure(&self.shown, error))?;
        if now == self.validator {
            Ok(())
        } else {
            Err(self.changed())
        }
    }
}

fn failure(location: &str, error: std::io::Error) -> SourceError {
    let location = location.to_owned();
    match error.kind() {
        std::io::ErrorKind::NotFound => SourceError::NotFound(location),
        std::io::ErrorKind::PermissionDenied => SourceError::Forbidden(location),
        _ => SourceError::Read {
            location,
            source: error,
        },
    }
}

fn device(path: &Path) -> Result<File, SourceError> {
    let shown = path.display().to_string();
    let failed = |error| failure(&shown, error);
    // Looked at before opening, as opening some devices does something.
    let is_device = |metadata: std::fs::Metadata| metadata.file_type().is_block_device();
    if !is_device(std::fs::metadata(path).map_err(failed)?) {
        return Err(SourceError::NotAFile(shown));
    }
    let file = File::open(path).map_err(failed)?;
    if !is_device(file.metadata().map_err(failed)?) {
        return Err(SourceError::NotAFile(shown));
    }
    Ok(file)
}

fn regular(path: &Path, name: &str) -> Result<File, SourceError> {
    if !is_plain_name(name) {
        return Err(SourceError::InvalidName(name.to_owned()));
    }
    let held =
        directory(path).map_err(|error| failure(&path.display().to_string(), error.into()))?;
    let shown = path.join(name).display().to_string();
    open_regular(&held, name, OFlags::RDONLY).map_err(|error| match error {
        Errno::LOOP | Errno::XDEV => SourceError::Unsafe(shown),
        Errno::INVAL => SourceError::NotAFile(shown),
        error => failure(&shown, error.into()),
    })
}
