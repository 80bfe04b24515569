//! A device that is opened alone and for writing, and is the one that it was
//! said to be.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hypercloud_inventory::snapshot::{Number, Seen};
use rustix::fs::{FlockOperation, OFlags, flock, major, minor};
use rustix::io::Errno;
use rustix::ioctl::{Getter, NoArg, Opcode, Setter, ioctl, opcode};

// From linux/fs.h and linux/blkpg.h.
const BLKRRPART: Opcode = opcode::none(0x12, 95);
const BLKFLSBUF: Opcode = opcode::none(0x12, 97);
const BLKPG: Opcode = opcode::none(0x12, 105);
const BLKGETSIZE64: Opcode = opcode::read::<usize>(0x12, 114);
const BLKDISCARD: Opcode = opcode::none(0x12, 119);
const BLKGETDISKSEQ: Opcode = opcode::read::<u64>(0x12, 128);

const BLKPG_DEL_PARTITION: i32 = 2;

/// udev has a device's lock for no longer, unless it hangs.
const LOCK_WITHIN: Duration = Duration::from_secs(5);

/// Who only looks at a device has it for a moment.
const ALONE_WITHIN: Duration = Duration::from_secs(2);

/// The same for its partitions.
const FORGOTTEN_WITHIN: Duration = Duration::from_secs(5);

/// Written at one go.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// A device that nobody else has.
pub(super) struct Alone {
    pub(super) file: File,
}

/// Why a device was not opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error("somebody else has it")]
    Busy,
    #[error("it is another one than was looked at: {0}")]
    Another(String),
    #[error("it cannot be opened for writing")]
    Failed(#[from] io::Error),
}

impl Alone {
    /// Opens the device that was looked at.
    pub(super) fn open(path: &Path, looked_at: &Seen) -> Result<Self, OpenError> {
        let end = Instant::now() + ALONE_WITHIN;
        let file = loop {
            match open_alone(path) {
                Ok(file) => break file,
                Err(error) if error.raw_os_error() != Some(Errno::BUSY.raw_os_error()) => {
                    return Err(error.into());
                }
                // Whoever only looks has it for a moment.
                Err(_) if Instant::now() < end => thread::park_timeout(Duration::from_millis(5)),
                Err(_) => return Err(OpenError::Busy),
            }
        };
        let alone = Self { file };
        alone.is(looked_at)?;
        alone.lock()?;
        Ok(alone)
    }

    /// Takes the lock by which udev leaves a device alone; it has it itself
    /// for a moment now and then.
    fn lock(&self) -> Result<(), OpenError> {
        let end = Instant::now() + LOCK_WITHIN;
        loop {
            match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(()),
                Err(Errno::WOULDBLOCK) if Instant::now() < end => {
                    thread::park_timeout(Duration::from_millis(20));
                }
                Err(Errno::WOULDBLOCK) => return Err(OpenError::Busy),
                Err(error) => return Err(OpenError::Failed(error.into())),
            }
        }
    }

    fn is(&self, looked_at: &Seen) -> Result<(), OpenError> {
        let another = |what: &str| Err(OpenError::Another(what.to_owned()));
        let metadata = self.file.metadata()?;
        if !metadata.file_type().is_block_device() {
            return another("it is no block device");
        }
        let number = Number {
            major: major(metadata.rdev()),
            minor: minor(metadata.rdev()),
        };
        if looked_at.number != Some(number) {
            return another("its number differs");
        }
        if looked_at.size != Some(self.size()?) {
            return another("its size differs");
        }
        let sequence = match self.sequence() {
            Ok(sequence) => Some(sequence),
            // Kernels before 5.15 have none; nor does sysfs then.
            Err(Errno::NOTTY | Errno::INVAL) => None,
            Err(error) => return Err(OpenError::Failed(error.into())),
        };
        if looked_at.disk_sequence != sequence {
            return another("the kernel's number of the disk differs");
        }
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        // SAFETY: the request writes one number of this type.
        let size = unsafe { ioctl(&self.file, Getter::<BLKGETSIZE64, u64>::new()) }?;
        Ok(size)
    }

    fn sequence(&self) -> Result<u64, Errno> {
        // SAFETY: the request writes one number of this type.
        unsafe { ioctl(&self.file, Getter::<BLKGETDISKSEQ, u64>::new()) }
    }

    /// Overwrites a range with zeros.
    pub(super) fn zero(&self, range: &Range<u64>) -> io::Result<()> {
        let mut at = range.start;
        while at < range.end {
            let length =
                usize::try_from(range.end - at).map_or(ZEROS.len(), |n| n.min(ZEROS.len()));
            self.file.write_all_at(&ZEROS[..length], at)?;
            at += length as u64;
        }
        Ok(())
    }

    /// Gives the range's blocks back; `false` where the device takes no
    /// discards.
    pub(super) fn discard(&self, range: &Range<u64>) -> io::Result<bool> {
        let argument = [range.start, range.end - range.start];
        // SAFETY: the request reads two numbers of this type.
        match unsafe { ioctl(&self.file, Setter::<BLKDISCARD, [u64; 2]>::new(argument)) } {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Brings what was written to the device, and forgets it here, so that
    /// what is read next comes from there.
    pub(super) fn settle(&self) -> io::Result<()> {
        self.file.sync_all()?;
        // SAFETY: the request takes no argument.
        let forgotten = unsafe { ioctl(&self.file, NoArg::<BLKFLSBUF>::new()) };
        match forgotten {
            Ok(()) | Err(Errno::ACCESS | Errno::PERM | Errno::NOTTY) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Has the kernel forget the partitions, of which these are the numbers.
    /// It reads the table again; for a device whose tables it does not read it
    /// is told of each.
    pub(super) fn forget_partitions(&self, numbers: &[u32]) -> io::Result<()> {
        let end = Instant::now() + FORGOTTEN_WITHIN;
        loop {
            // SAFETY: the request takes no argument.
            match unsafe { ioctl(&self.file, NoArg::<BLKRRPART>::new()) } {
                Ok(()) => return Ok(()),
                Err(Errno::INVAL | Errno::NOTTY) => break,
                Err(Errno::BUSY) if Instant::now() < end => {
                    thread::park_timeout(Duration::from_millis(20));
                }
                Err(error) => return Err(error.into()),
            }
        }
        numbers
            .iter()
            .try_for_each(|number| self.forget_partition(*number))
    }

    fn forget_partition(&self, number: u32) -> io::Result<()> {
        let mut partition = PartitionArgument {
            start: 0,
            length: 0,
            number: i32::try_from(number).unwrap_or_default(),
            names: [0; 128],
        };
        let argument = Argument {
            operation: BLKPG_DEL_PARTITION,
            flags: 0,
            length: i32::try_from(size_of::<PartitionArgument>()).unwrap_or_default(),
            partition: &raw mut partition,
        };
        // SAFETY: the request reads these two structures, which are those of
        // linux/blkpg.h and live until it is done.
        match unsafe { ioctl(&self.file, Setter::<BLKPG, Argument>::new(argument)) } {
            Ok(()) | Err(Errno::NXIO) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn open_alone(path: &Path) -> io::Result<File> {
    let flags = OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

/// `struct blkpg_ioctl_arg`
#[repr(C)]
struct Argument {
    operation: i32,
    flags: i32,
    length: i32,
    partition: *mut PartitionArgument,
}

/// `struct blkpg_partition`
#[repr(C)]
struct PartitionArgument {
    start: i64,
    length: i64,
    number: i32,
    /// Its name and its volume's.
    names: [u8; 128],
}
