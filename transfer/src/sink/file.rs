//! A raw file as the target.
//!
//! The directory may belong to a tenant, so nothing in it is trusted: names
//! are opened beneath it without following links or mount points, and only a
//! regular file is written to. The bytes go into a hidden partial file, which
//! takes the real name when it is complete.

use std::fs::File;
use std::path::PathBuf;

use rustix::fs::{AtFlags, FallocateFlags, FileType, FlockOperation, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::Needs;
use super::disk::{Disk, Initially};
use crate::error::TargetError;
use crate::local;
use crate::options::{Options, SpacePolicy};
use crate::request::DiskFile;

/// What is needed to complete a partial file, or to remove it.
pub(super) struct Unfinished {
    directory: File,
    partial: String,
    spec: DiskFile,
}

/// An open partial file.
pub(super) struct Opened {
    pub(super) disk: Disk,
    pub(super) unfinished: Unfinished,
    /// The inode's number.
    pub(super) identity: u64,
    pub(super) resumed: bool,
}

pub(super) fn path(spec: &DiskFile, name: &str) -> PathBuf {
    spec.directory.join(name)
}

pub(super) fn judge_name(name: &str) -> Result<(), TargetError> {
    if local::is_plain_name(name) {
        Ok(())
    } else {
        Err(TargetError::InvalidName(name.to_owned()))
    }
}

pub(super) fn open_error(path: PathBuf, error: Errno) -> TargetError {
    match error {
        Errno::LOOP | Errno::XDEV => TargetError::Unsafe(path),
        Errno::AGAIN | Errno::BUSY => TargetError::Busy(path),
        Errno::NOSPC => TargetError::Full(path),
        error => TargetError::Open {
            path,
            source: error.into(),
        },
    }
}

/// Opens the partial file: the one of inode `resumes` as it is, or else a new
/// one in the place of whatever is there.
pub(super) fn open(
    spec: &DiskFile,
    needs: Needs,
    options: &Options,
    resumes: Option<u64>,
) -> Result<Opened, TargetError> {
    judge_name(&spec.name)?;
    let directory = local::directory(&spec.directory)
        .map_err(|error| open_error(spec.directory.clone(), error))?;
    let unfinished = Unfinished {
        directory,
        partial: format!(".{}.partial", spec.name),
        spec: spec.clone(),
    };
    unfinished.judge_name_is_free()?;

    let left = match resumes {
        Some(inode) => unfinished.reopen(inode, needs.size)?,
        None => None,
    };
    let resumed = left.is_some();
    let file = match left {
        Some(file) => file,
        None => unfinished.create()?,
    };
    let shown = path(spec, &unfinished.partial);
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|error| open_error(shown.clone(), error))?;
    let stat = rustix::fs::fstat(&file).map_err(|error| open_error(shown.clone(), error))?;
    if options.space_policy == SpacePolicy::WholeDisk {
        unfinished.judge_space(needs.size, stat.st_blocks as u64 * 512)?;
    }
    unfinished.grow(&file, needs.size)?;

    let allocated = needs.preallocation && unfinished.allocate(&file, needs.size)?;
    let initially = if resumed || needs.preallocation && !allocated {
        Initially::Unknown
    } else {
        Initially::Zero
    };
    Ok(Opened {
        // A file's blocks are those of its file system, which are told by
        // nothing but a write that fails.
        disk: Disk::new(
            file,
            shown,
            initially,
            needs.alignment >= 512,
            needs.preallocation,
        ),
        unfinished,
        identity: stat.st_ino,
        resumed,
    })
}

impl Unfinished {
    /// A directory of that name could not be replaced at the end.
    fn judge_name_is_free(&self) -> Result<(), TargetError> {
        let found = rustix::fs::statat(
            &self.directory,
            self.spec.name.as_str(),
            AtFlags::SYMLINK_NOFOLLOW,
        );
        match found {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                Err(TargetError::WrongKind {
                    path: path(&self.spec, &self.spec.name),
                    expected: "a regular file",
                })
            }
            _ => Ok(()),
        }
    }

    /// The partial file that is there.
    fn open_existing(&self) -> Result<File, Errno> {
        local::open_regular(&self.directory, &self.partial, OFlags::RDWR)
    }

    /// The partial file, if it is the one that was left.
    fn reopen(&self, inode: u64, size: u64) -> Result<Option<File>, TargetError> {
        let Ok(file) = self.open_existing() else {
            return Ok(None);
        };
        let stat = rustix::fs::fstat(&file)
            .map_err(|error| open_error(path(&self.spec, &self.partial), error))?;
        let same = stat.st_ino == inode && stat.st_nlink == 1 && stat.st_size as u64 == size;
        Ok(same.then_some(file))
    }

    /// A new file, in the place of whatever is there.
    fn create(&self) -> Result<File, TargetError> {
        let shown = || path(&self.spec, &self.partial);
        if let Ok(left) = self.open_existing() {
            // Another import at work on it holds this lock.
            rustix::fs::flock(&left, FlockOperation::NonBlockingLockExclusive)
                .map_err(|error| open_error(shown(), error))?;
        }
        match rustix::fs::unlinkat(&self.directory, self.partial.as_str(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(open_error(shown(), error)),
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        let mode = Mode::RUSR | Mode::WUSR;
        local::open_beneath(&self.directory, &self.partial, flags, mode)
            .map_err(|error| open_error(shown(), error))
    }

    /// Bytes that the file system has left.
    pub(super) fn room(&self) -> Result<u64, TargetError> {
        room(&self.directory, &self.spec)
    }

    fn judge_space(&self, needed: u64, own: u64) -> Result<(), TargetError> {
        judge_space(self.room()?, needed, own)
    }

    pub(super) fn grow(&self, file: &File, size: u64) -> Result<(), TargetError> {
        match rustix::fs::ftruncate(file, size) {
            Ok(()) => Ok(()),
            // No file of this file system can be so large.
            Err(Errno::FBIG) => {
                let available = rustix::fs::fstatvfs(&self.directory).map_or(0, |room| free(&room));
                Err(TargetError::TooSmall {
                    needed: size,
                    available,
                })
            }
            Err(error) => Err(open_error(path(&self.spec, &self.partial), error)),
        }
    }

    /// Takes room for all of the file; `false` where the file system knows
    /// no other way than writing.
    fn allocate(&self, file: &File, size: u64) -> Result<bool, TargetError> {
        let shown = || path(&self.spec, &self.partial);
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(Errno::NOSPC) => Err(TargetError::Full(shown())),
            Err(error) => Err(open_error(shown(), error)),
        }
    }

    /// Gives the file its owner, mode and name, durably.
    pub(super) fn complete(&self, disk: &Disk) -> Result<(), TargetError> {
        self.try_complete(disk)
            .map_err(|error| TargetError::Complete {
                path: path(&self.spec, &self.spec.name),
                source: error.into(),
            })
    }

    fn try_complete(&self, disk: &Disk) -> Result<(), Errno> {
        let file = disk.file();
        if let Some((user, group)) = self.spec.owner {
            rustix::fs::fchown(file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
        }
        // After the owner, as changing that clears bits.
        rustix::fs::fchmod(file, Mode::from_raw_mode(self.spec.mode & 0o7777))?;
        rustix::fs::fsync(file)?;
        rustix::fs::renameat(
            &self.directory,
            self.partial.as_str(),
            &self.directory,
            self.spec.name.as_str(),
        )?;
        rustix::fs::fsync(&self.directory)
    }

    /// Removes the partial file.
    pub(super) fn remove(&self) {
        let removed =
            rustix::fs::unlinkat(&self.directory, self.partial.as_str(), AtFlags::empty());
        if let Err(error) = removed {
            tracing::warn!(error = %error, "removing a partial disk file failed");
        }
    }
}

/// Bytes that the file system of a directory has left.
pub(super) fn room(directory: &File, spec: &DiskFile) -> Result<u64, TargetError> {
    rustix::fs::fstatvfs(directory)
        .map(|room| free(&room))
        .map_err(|error| open_error(spec.directory.clone(), error))
}

/// Whether `needed` bytes fit into what is left, and what the file has.
pub(super) fn judge_space(room: u64, needed: u64, own: u64) -> Result<(), TargetError> {
    let available = room.saturating_add(own);
    if available < needed {
        return Err(TargetError::TooSmall { needed, available });
    }
    Ok(())
}

/// Bytes that are left for the disk's user: not the reserve that only root
/// may fill, since a guest would stop where it begins.
fn free(room: &rustix::fs::StatVfs) -> u64 {
    room.f_bavail.saturating_mul(room.f_frsize)
}
