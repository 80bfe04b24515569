//! A block device as the target.

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::Needs;
use super::disk::{Disk, Initially};
use crate::error::TargetError;

/// Opens a device for nobody else; the disk and the device's size.
///
/// `O_EXCL` fails on a device that is mounted, a swap, or part of another.
pub(super) fn open(path: &Path, needs: Needs) -> Result<(Disk, u64), TargetError> {
    let failed = |source| TargetError::Open {
        path: path.into(),
        source,
    };
    let wrong = || TargetError::WrongKind {
        path: path.into(),
        expected: "a block device",
    };
    // Looked at before opening, as opening some devices does something.
    if !std::fs::metadata(path)
        .map_err(failed)?
        .file_type()
        .is_block_device()
    {
        return Err(wrong());
    }
    let mut device = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::EXCL.bits() as i32)
        .open(path)
        .map_err(|error| {
            if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) {
                TargetError::Busy(path.into())
            } else {
                failed(error)
            }
        })?;
    if !device
        .metadata()
        .map_err(failed)?
        .file_type()
        .is_block_device()
    {
        return Err(wrong());
    }
    let capacity = device.seek(SeekFrom::End(0)).map_err(failed)?;
    if capacity < needs.size {
        return Err(TargetError::TooSmall {
            needed: needs.size,
            available: capacity,
        });
    }
    let block = rustix::fs::ioctl_blksszget(&device).map_err(|error| failed(error.into()))?;
    let direct = needs.alignment >= u64::from(block);
    Ok((
        Disk::new(
            device,
            path.into(),
            Initially::Unknown,
            direct,
            needs.preallocation,
        ),
        capacity,
    ))
}
