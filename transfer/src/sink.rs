//! Targets: a block device, or a raw file that appears when it is complete.
//!
//! Both are a [`Disk`] while they are written. Opening judges the target's
//! kind and size before the first byte.

mod block;
mod disk;
mod file;
mod in_place;

use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use disk::Disk;

use crate::error::{Side, TargetError, TransferError};
use crate::options::{Options, SpacePolicy};
use crate::request::TargetSpec;

/// What the disk needs of its target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    /// The disk's size; 0 where it shows only at the end.
    pub(crate) size: u64,
    /// What all places of pieces are multiples of.
    pub(crate) alignment: u64,
    /// Whether all of its room is to be taken up front.
    pub(crate) preallocation: bool,
}

/// An open target.
pub(crate) struct Target {
    /// What is written to.
    pub(crate) disk: Arc<Disk>,
    /// What tells this target from another: see [`crate::Checkpoint`].
    pub(crate) identity: u64,
    /// What it holds beyond the disk's end, which has to be zeroed.
    pub(crate) capacity: u64,
    completion: Completion,
}

enum Completion {
    Block,
    File(file::Unfinished),
    InPlace,
}

impl Target {
    /// Opens the target. With `resumes`, what an earlier import left there is
    /// kept when it is the target of that identity.
    ///
    /// Returns the target, and whether it is that one.
    pub(crate) fn open(
        spec: &TargetSpec,
        needs: Needs,
        options: &Options,
        resumes: Option<u64>,
    ) -> Result<(Self, bool), TargetError> {
        match spec {
            TargetSpec::BlockDevice(path) => {
                let (disk, capacity) = block::open(path, needs)?;
                let target = Self {
                    disk: Arc::new(disk),
                    identity: capacity,
                    capacity,
                    completion: Completion::Block,
                };
                Ok((target, resumes == Some(capacity)))
            }
            TargetSpec::DiskFile(spec) => {
                let opened = file::open(spec, needs, options, resumes)?;
                let target = Self {
                    disk: Arc::new(opened.disk),
                    identity: opened.identity,
                    capacity: needs.size,
                    completion: Completion::File(opened.unfinished),
                };
                Ok((target, opened.resumed))
            }
        }
    }

    /// Opens a disk to be changed where it is: a device, or the file of that
    /// name. `None` where there is no such file. A file is given the size at
    /// once; `room` is what it may come to take in its file system.
    pub(crate) fn open_in_place(
        spec: &TargetSpec,
        needs: Needs,
        room: u64,
        options: &Options,
    ) -> Result<Option<Self>, TargetError> {
        let TargetSpec::DiskFile(spec) = spec else {
            let (target, _) = Self::open(spec, needs, options, None)?;
            return Ok(Some(target));
        };
        let Some((disk, identity)) = in_place::open(spec, needs, room, options)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            disk: Arc::new(disk),
            identity,
            capacity: needs.size,
            completion: Completion::InPlace,
        }))
    }

    /// Whether it is a file rather than a device.
    pub(crate) fn is_file(&self) -> bool {
        !matches!(self.completion, Completion::Block)
    }

    /// The most that a disk may have that was opened without a size.
    pub(crate) fn room(&self, options: &Options) -> Result<u64, TargetError> {
        match &self.completion {
            Completion::Block | Completion::InPlace => Ok(self.capacity),
            Completion::File(_) if options.space_policy == SpacePolicy::Sparse => Ok(u64::MAX),
            Completion::File(unfinished) => unfinished.room(),
        }
    }

    /// Gives a disk that was opened without a size the one it turned out to
    /// have.
    pub(crate) fn set_size(&self, size: u64) -> Result<(), TargetError> {
        match &self.completion {
            Completion::Block | Completion::InPlace => Ok(()),
            Completion::File(unfinished) => unfinished.grow(self.disk.file(), size),
        }
    }

    /// Makes a verified disk durable, and visible under its name.
    pub(crate) fn complete(&self) -> Result<(), TargetError> {
        match &self.completion {
            Completion::Block | Completion::InPlace => self.disk.flush(),
            Completion::File(unfinished) => unfinished.complete(&self.disk),
        }
    }

    /// Leaves a target whose import ended in `error`. A disk that is refused
    /// is unmade; an unfinished file stays only to be resumed.
    pub(crate) fn abandon(self, error: &TransferError, options: &Options) {
        // What did not fit must not pass for a disk either.
        let outgrown = matches!(error, TransferError::Target(TargetError::Outgrown { .. }));
        let refused = error.side() == Side::Refused || outgrown;
        // Nobody comes back for what can never be finished.
        let is_final = !error.is_retryable() && !matches!(error, TransferError::Cancelled);
        match self.completion {
            Completion::Block if refused => {
                if let Err(error) = self.disk.wipe_head() {
                    tracing::warn!(error = %error, "wiping a refused disk failed");
                }
            }
            Completion::Block | Completion::InPlace => {}
            Completion::File(unfinished) if is_final || !options.keep_partial => {
                unfinished.remove();
            }
            Completion::File(_) => {}
        }
    }
}

/// The system's words for a failed write, or that the file system is full.
fn write_error(path: &std::path::Path, offset: u64, error: std::io::Error) -> TargetError {
    let path = PathBuf::from(path);
    if error.kind() == std::io::ErrorKind::StorageFull {
        TargetError::Full(path)
    } else {
        TargetError::Write {
            path,
            offset,
            source: error,
        }
    }
}
