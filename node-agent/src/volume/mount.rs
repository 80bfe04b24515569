//! What is at a path: a mount point, a block device, or neither.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use super::Identity;

/// Identity of the mount whose root `path` is; `None` for a plain directory
/// and for anything that is no directory.
///
/// The kernel says whether a directory is the root of a mount (`STATX_ATTR_MOUNT_ROOT`,
/// Linux 5.8), which also holds for a bind mount from the same file system.
/// An older kernel leaves the comparison of the device numbers.
pub(super) fn mounted_directory(path: &Path) -> io::Result<Option<Identity>> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let seen = statx(
        CWD,
        path,
        flags,
        StatxFlags::BASIC_STATS | StatxFlags::MNT_ID,
    )?;
    if rustix::fs::FileType::from_raw_mode(seen.stx_mode.into()) != rustix::fs::FileType::Directory
    {
        return Ok(None);
    }
    let device = rustix::fs::makedev(seen.stx_dev_major, seen.stx_dev_minor);
    let is_root = if seen
        .stx_attributes_mask
        .contains(StatxAttributes::MOUNT_ROOT)
    {
        seen.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
    } else {
        let parent = path.parent().unwrap_or(path);
        std::fs::symlink_metadata(parent)?.dev() != device
    };
    let identity = Identity {
        device,
        inode: seen.stx_ino,
        instance: seen.stx_mnt_id,
    };
    Ok(is_root.then_some(identity))
}

/// Identity of the block device that `path` leads to, links followed.
pub(super) fn block_device(path: &Path) -> io::Result<Option<Identity>> {
    let seen = std::fs::metadata(path)?;
    let identity = Identity {
        device: seen.dev(),
        inode: seen.ino(),
        instance: seen.rdev(),
    };
    Ok(seen.file_type().is_block_device().then_some(identity))
}
