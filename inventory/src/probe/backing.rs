//! The block device behind a loop device.
//!
//! A loop device holds it in no way that shows: it has no holder in sysfs, and
//! can be opened alone. Kubelet makes one on every volume that a pod has as a
//! block device.

use std::fs::File;
use std::io;

use rustix::fs::{major, minor};
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl};

use crate::snapshot::Number;

// From linux/loop.h.
const LOOP_GET_STATUS64: Opcode = 0x4C05;

/// The beginning of `struct loop_info64` and room for the rest of it.
#[repr(C)]
struct Status {
    _device: u64,
    _inode: u64,
    /// The number of a device; 0 of a file.
    backing: u64,
    _rest: [u64; 26],
}

/// `None` where a file is behind it, or nothing any more.
pub(super) fn device(file: &File) -> io::Result<Option<Number>> {
    // SAFETY: the request writes a structure of this size and layout.
    let status = unsafe { ioctl(file, Getter::<LOOP_GET_STATUS64, Status>::new()) };
    match status {
        Ok(status) if status.backing != 0 => Ok(Some(Number {
            major: major(status.backing),
            minor: minor(status.backing),
        })),
        Ok(_) | Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
