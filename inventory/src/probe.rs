//! Opens a device, alone and for reading only, and looks for signatures.

mod backing;
mod blkid;
mod bluestore;
mod leftover;
mod patience;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{OFlags, major, minor};

use self::blkid::Blkid;
pub use self::bluestore::POSITIONS as BLUESTORE_LABELS;
pub use self::leftover::{Leftover, Leftovers};
use self::patience::Patience;
use crate::snapshot::{Look, Number, Probe, Seen};

/// What opens the devices of a walk.
pub trait Opener {
    /// Opens the device at `path`, which sysfs describes as `device`.
    fn open(&self, path: &Path, what: Opened, device: &Seen) -> Probe;
}

/// What is to be found at a device's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// The device.
    Device,
    /// A file that a record has in its place; nothing else is opened.
    File,
}

/// When signatures are read from a device that udev has read already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureSource {
    /// Not: udev looks again whenever a writer closes the device.
    UdevFirst,
    /// Always.
    Device,
}

/// Opens devices and reads their signatures with libblkid, which is loaded
/// when it is needed. A device that does not answer is given up.
pub struct Prober {
    source: SignatureSource,
    blkid: Arc<Result<Blkid, String>>,
    patience: Mutex<Patience<PathBuf, Order, Probe>>,
}

/// All that a probe needs, so that another thread can make it.
struct Order {
    path: PathBuf,
    what: Opened,
    number: Option<Number>,
    read_signatures: bool,
    is_loop: bool,
    blkid: Arc<Result<Blkid, String>>,
}

impl Prober {
    /// A prober that reads signatures as `source` says.
    #[must_use]
    pub fn new(source: SignatureSource) -> Self {
        Self {
            source,
            blkid: Arc::new(Blkid::load()),
            patience: Mutex::new(Patience::new(probe)),
        }
    }
}

impl Opener for Prober {
    fn open(&self, path: &Path, what: Opened, device: &Seen) -> Probe {
        let order = Order {
            path: path.to_owned(),
            what,
            number: device.number,
            read_signatures: self.source == SignatureSource::Device
                || what == Opened::File
                || !read_by_udev(device),
            is_loop: what == Opened::Device && device.backing_file.is_some(),
            blkid: Arc::clone(&self.blkid),
        };
        // A file cannot keep anybody waiting.
        if what == Opened::File {
            return probe(order);
        }
        self.patience
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .carry_out(path.to_owned(), order)
            .unwrap_or_else(|why| Probe::Failed(why.into()))
    }
}

/// Names of devices that udev's rules for storage read signatures of.
const READ_BY_UDEV: &[&str] = &["sd", "nvme", "vd", "xvd", "mmcblk", "dasd", "pmem"];

/// Whether udev's word on signatures can be taken, even that there are none.
pub(crate) fn read_by_udev(device: &Seen) -> bool {
    READ_BY_UDEV
        .iter()
        .any(|driver| device.name.starts_with(driver))
        && device.udev.as_ref().is_some_and(|record| {
            let by_rules = record.links.iter().any(|link| link.contains("/disk/by-"))
                || record.property("ID_PATH").is_some()
                || record.property("ID_SERIAL").is_some();
            record.initialized
                && by_rules
                && record.property("UDEV_DISABLE_PERSISTENT_STORAGE_RULES_FLAG") != Some("1")
        })
}

fn probe(order: Order) -> Probe {
    match look(&order) {
        Ok(Some(look)) => Probe::Made(look),
        Ok(None) => Probe::NotMade,
        Err(why) => Probe::Failed(why),
    }
}

/// `None` where nothing is to be opened.
fn look(order: &Order) -> Result<Option<Look>, String> {
    // Nobody else can take the device while it is open alone, so it is so for
    // no longer than that tells whether it can be.
    let busy = match open(&order.path, OFlags::EXCL) {
        Ok(_) => false,
        Err(error) if is(&error, rustix::io::Errno::BUSY) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // A link in a record leads anywhere.
        Err(error) if is(&error, rustix::io::Errno::LOOP) && order.what == Opened::File => {
            return Ok(None);
        }
        Err(error) => return Err(error.to_string()),
    };
    let file = open(&order.path, OFlags::empty()).map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    match order.what {
        Opened::File if metadata.is_file() => {}
        Opened::File => return Ok(None),
        Opened::Device if !metadata.file_type().is_block_device() => {
            return Err(format!("{} is not a block device", order.path.display()));
        }
        Opened::Device => {
            let found = Number {
                major: major(metadata.rdev()),
                minor: minor(metadata.rdev()),
            };
            if order.number != Some(found) {
                return Err(format!(
                    "{} is another device ({}:{})",
                    order.path.display(),
                    found.major,
                    found.minor
                ));
            }
        }
    }
    let signatures = if order.read_signatures {
        let blkid = order.blkid.as_ref().as_ref().map_err(Clone::clone)?;
        Some(blkid.signatures(&file)?)
    } else {
        None
    };
    let backing = if order.is_loop {
        backing::device(&file).map_err(|error| error.to_string())?
    } else {
        None
    };
    Ok(Some(Look {
        backing,
        busy,
        signatures,
        bluestore: bluestore::labels(&file).map_err(|error| error.to_string())?,
    }))
}

/// Never for writing, never through a link, and without waiting for a medium.
/// Devices that a record has are files, so a fifo in their place cannot wait.
fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

fn is(error: &io::Error, errno: rustix::io::Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}
