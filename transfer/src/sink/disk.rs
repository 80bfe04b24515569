//! A disk being written, on a device or in a file.
//!
//! All methods may be called from several threads at once for places that do
//! not overlap. Writes go past the page cache where the target allows it, so
//! that an import does not push everything else out of memory.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use hypercloud_disk::Extent;
use rustix::fs::{Advice, FallocateFlags};
use rustix::io::Errno;

use super::write_error;
use crate::buffer::Buffer;
use crate::error::TargetError;
use crate::local::{self, fill, is_unaligned, set_direct};

/// How zeros come onto the disk, best first. What a target does not support
/// is found out once and not asked again.
mod zeroing {
    /// It holds nothing but zeros where nothing was written.
    pub(super) const NOTHING_TO_DO: u8 = 0;
    /// Deallocate: instant, and on a block device reads as zeros by contract.
    pub(super) const PUNCH: u8 = 1;
    /// Let the kernel write zeros, by the device's own command where it has
    /// one.
    pub(super) const ZERO_RANGE: u8 = 2;
    /// Write them.
    pub(super) const WRITE: u8 = 3;
}

/// The longest part that is zeroed between two looks at whether to go on.
const PUNCH_PART: u64 = 1 << 30;
const ZERO_PART: u64 = 64 << 20;
const WRITE_PART: usize = 1 << 20;
/// What any device's blocks are aligned to.
const ALIGNED: u64 = 4096;

/// What a new disk reads as before anything is written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Initially {
    /// Zeros: a file that was just made.
    Zero,
    /// Whatever was there.
    Unknown,
}

/// An open disk.
pub(crate) struct Disk {
    file: File,
    path: PathBuf,
    direct: AtomicBool,
    zeroing: AtomicU8,
    zero_run: usize,
}

impl Disk {
    /// `direct`: whether to try to go past the page cache. `allocated`:
    /// whether zeros must not give room back.
    pub(super) fn new(
        file: File,
        path: PathBuf,
        initially: Initially,
        direct: bool,
        allocated: bool,
    ) -> Self {
        let direct = direct && set_direct(&file, true);
        let zeroing = match initially {
            Initially::Zero => zeroing::NOTHING_TO_DO,
            Initially::Unknown if allocated => zeroing::ZERO_RANGE,
            Initially::Unknown => zeroing::PUNCH,
        };
        Self {
            file,
            path,
            direct: AtomicBool::new(direct),
            zeroing: AtomicU8::new(zeroing),
            // A hole costs nothing in a new file; elsewhere it is a call to
            // the device, which a short write beats.
            zero_run: if initially == Initially::Zero {
                16 << 10
            } else {
                64 << 10
            },
        }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Whether writes fill the page cache.
    pub(crate) fn is_cached(&self) -> bool {
        !self.direct.load(Ordering::Relaxed)
    }

    /// The shortest run of zeros among data that is worth [`Self::zero`].
    pub(crate) fn zero_run(&self) -> usize {
        self.zero_run
    }

    /// Writes bytes to a place.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), TargetError> {
        match self.file.write_all_at(bytes, offset) {
            // Not aligned as this target wants it: go through the cache from
            // here on. Writing the same bytes again is harmless.
            Err(error) if is_unaligned(&error) => {
                self.go_through_cache();
                self.file.write_all_at(bytes, offset)
            }
            result => result,
        }
        .map_err(|error| write_error(&self.path, offset, error))
    }

    fn go_through_cache(&self) {
        set_direct(&self.file, false);
        self.direct.store(false, Ordering::Relaxed);
    }

    /// Reads what is at a place now; behind the disk's end that is zeros.
    /// `into` is of whole, aligned blocks.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), TargetError> {
        let filled = match fill(&self.file, offset, into) {
            Err(error) if is_unaligned(&error) => {
                self.go_through_cache();
                fill(&self.file, offset, into)
            }
            result => result,
        }
        .map_err(|source| TargetError::Read {
            path: self.path.clone(),
            offset,
            source,
        })?;
        into.get_mut(filled..).unwrap_or_default().fill(0);
        Ok(())
    }

    /// Where the next data is at or behind `at`; `end` where none is before
    /// it.
    pub(crate) fn next_data(&self, at: u64, end: u64) -> u64 {
        local::next_data(&self.file, at, end)
    }

    /// Makes a place read as zeros; whether all of it does. Ends early once
    /// `halted` says so.
    #[must_use = "what was left out must not be taken for done"]
    pub(crate) fn zero(
        &self,
        extent: Extent,
        halted: &dyn Fn() -> bool,
    ) -> Result<bool, TargetError> {
        let mut at = extent.start;
        while at < extent.end() && !halted() {
            let rest = Extent::between(at, extent.end());
            at += match self.zeroing.load(Ordering::Relaxed) {
                zeroing::NOTHING_TO_DO => rest.length,
                zeroing::PUNCH => self.allocate(
                    rest,
                    PUNCH_PART,
                    FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                    zeroing::ZERO_RANGE,
                )?,
                zeroing::ZERO_RANGE => self.allocate(
                    rest,
                    ZERO_PART,
                    FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
                    zeroing::WRITE,
                )?,
                _ => self.write_zeros(rest)?,
            };
        }
        Ok(at >= extent.end())
    }

    /// Zeros the beginning of `rest`; how much is returned. Falls back to
    /// `next` when the target cannot.
    fn allocate(
        &self,
        rest: Extent,
        part: u64,
        flags: FallocateFlags,
        next: u8,
    ) -> Result<u64, TargetError> {
        let mut length = rest.length.min(part);
        if rest.start.is_multiple_of(ALIGNED) && length > ALIGNED {
            // The end may not be; it is met by itself.
            length -= length % ALIGNED;
        }
        match rustix::fs::fallocate(&self.file, flags, rest.start, length) {
            Ok(()) => Ok(length),
            Err(Errno::INTR) => Ok(0),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV | Errno::PERM) => {
                self.zeroing.fetch_max(next, Ordering::Relaxed);
                Ok(0)
            }
            // Not aligned to the device's blocks: only up to where it is.
            Err(Errno::INVAL) => {
                let end = (rest.start + 1).next_multiple_of(ALIGNED);
                self.write_zeros(Extent::between(rest.start, end.min(rest.end())))
            }
            Err(error) => Err(write_error(&self.path, rest.start, error.into())),
        }
    }

    fn write_zeros(&self, rest: Extent) -> Result<u64, TargetError> {
        let length = rest.length.min(WRITE_PART as u64);
        let zeros = Buffer::fixed(length as usize);
        self.write(rest.start, &zeros)?;
        Ok(length)
    }

    /// Waits until everything written is durable.
    pub(crate) fn flush(&self) -> Result<(), TargetError> {
        self.file.sync_data().map_err(|source| TargetError::Flush {
            path: self.path.clone(),
            source,
        })?;
        if self.is_cached() {
            // The cached bytes are of no use to this process. Advice only.
            let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed);
        }
        Ok(())
    }

    /// The disk's first bytes, as it has them.
    pub(crate) fn head(&self, length: usize) -> Result<Vec<u8>, TargetError> {
        // Whole, aligned blocks, for direct I/O.
        let mut block = Buffer::fixed(length.next_multiple_of(4096));
        let filled = fill(&self.file, 0, &mut block).map_err(|source| TargetError::Open {
            path: self.path.clone(),
            source,
        })?;
        Ok(block.get(..filled.min(length)).unwrap_or_default().to_vec())
    }

    /// Makes a refused disk unrecognisable as what it was refused for.
    pub(super) fn wipe_head(&self) -> Result<(), TargetError> {
        let head = self.head(4096)?;
        self.write(0, &Buffer::fixed(head.len()))?;
        self.flush()
    }
}
