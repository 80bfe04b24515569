//! A disk file that keeps its name, its inode and most of its bytes.

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::Needs;
use super::disk::{Disk, Initially};
use super::file::{judge_name, judge_space, open_error, path, room};
use crate::error::TargetError;
use crate::local;
use crate::options::{Options, SpacePolicy};
use crate::request::DiskFile;

/// Opens the file of that name and gives it the disk's size; the disk and the
/// inode's number. `None` where there is none. `taken` is what the file may
/// come to take in its file system.
pub(super) fn open(
    spec: &DiskFile,
    needs: Needs,
    taken: u64,
    options: &Options,
) -> Result<Option<(Disk, u64)>, TargetError> {
    judge_name(&spec.name)?;
    let shown = path(spec, &spec.name);
    let failed = |error| open_error(shown.clone(), error);
    let directory = local::directory(&spec.directory)
        .map_err(|error| open_error(spec.directory.clone(), error))?;
    let file = match local::open_regular(&directory, &spec.name, OFlags::RDWR) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::INVAL) => {
            return Err(TargetError::WrongKind {
                path: shown,
                expected: "a regular file",
            });
        }
        Err(error) => return Err(failed(error)),
    };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(failed)?;
    let stat = rustix::fs::fstat(&file).map_err(failed)?;
    if options.space_policy == SpacePolicy::WholeDisk {
        judge_space(room(&directory, spec)?, taken, stat.st_blocks as u64 * 512)?;
    }
    if stat.st_size as u64 != needs.size {
        rustix::fs::ftruncate(&file, needs.size).map_err(|error| match error {
            // No file of this file system can be so large.
            Errno::FBIG => TargetError::TooSmall {
                needed: needs.size,
                available: stat.st_size as u64,
            },
            error => failed(error),
        })?;
    }
    let direct = needs.alignment >= 512;
    let disk = Disk::new(file, shown, Initially::Unknown, direct, needs.preallocation);
    Ok(Some((disk, stat.st_ino)))
}
