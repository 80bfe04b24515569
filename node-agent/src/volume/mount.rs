//! What is at a path: a mount point, a block device, or neither.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, StatxAttributes, StatxFlags, makedev, openat, statx,
};

use super::Identity;

/// `STATX_MNT_ID_UNIQUE`: from Linux 6.8 on, a mount's number is never given
/// to another mount. An older kernel answers with the plain number.
const UNIQUE_MOUNT_ID: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// The mount whose root `path` is, held and identified; `None` for a plain
/// directory and for anything that is no directory.
///
/// The kernel says whether a directory is the root of a mount (`STATX_ATTR_MOUNT_ROOT`,
/// Linux 5.8), which also holds for a bind mount from the same file system.
/// An older kernel leaves the comparison of the device numbers.
pub(super) fn mounted_directory(path: &Path) -> io::Result<Option<(Identity, OwnedFd)>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = openat(CWD, path, flags, Mode::empty())?;
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID | UNIQUE_MOUNT_ID;
    let seen = statx(&held, "", AtFlags::EMPTY_PATH, wanted)?;
    if FileType::from_raw_mode(seen.stx_mode.into()) != FileType::Directory {
        return Ok(None);
    }
    let device = makedev(seen.stx_dev_major, seen.stx_dev_minor);
    let told = seen
        .stx_attributes_mask
        .contains(StatxAttributes::MOUNT_ROOT);
    let is_root = if told {
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
    Ok(is_root.then_some((identity, held)))
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
