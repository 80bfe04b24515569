//! Reads a node, or a recorded tree of one, into a snapshot.
//!
//! A tree holds `sys`, `proc` and `run/udev` as a node does. Below `dev` it may
//! hold the devices themselves, or files in their place. Nothing is executed
//! and nothing is written. What cannot be read is left unknown: a walk fails
//! only where there is no list of devices at all.

mod busy;
mod folder;
mod loops;
mod mounts;
mod sysfs;
mod udev;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::PathBuf;

use self::folder::Folder;
use crate::probe::{Opened, Opener};
use crate::snapshot::{Number, Probe, Seen, Snapshot};

/// Where a node's files are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    root: PathBuf,
    live: bool,
}

/// A walk that found nothing to walk on.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// No list of block devices.
    #[error("there are no block devices to read in {path}")]
    NoDevices {
        /// The folder that was tried.
        path: PathBuf,
        /// Why it could not be read.
        source: io::Error,
    },
}

impl Tree {
    /// This node.
    #[must_use]
    pub fn live() -> Self {
        Self::live_below("/")
    }

    /// This node, whose files a container sees below `root`.
    #[must_use]
    pub fn live_below(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            live: true,
        }
    }

    /// The record of a node whose files are below `root`. Device nodes in it
    /// are never opened: on this machine they would be other devices.
    #[must_use]
    pub fn recorded(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            live: false,
        }
    }

    /// Whether it is this node rather than a record of one.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Where a device is to be opened, by the kernel's name of it.
    #[must_use]
    pub fn device(&self, name: &str) -> PathBuf {
        self.file("dev").join(name)
    }

    /// The folder of processes.
    #[must_use]
    pub fn processes(&self) -> PathBuf {
        self.file("proc")
    }

    pub(crate) fn file(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// The file's text without white space around it.
    fn text(&self, below: &str) -> Option<String> {
        Some(folder::trimmed(&fs::read(self.file(below)).ok()?))
    }
}

/// Reads every block device of `tree` and what uses it; devices are opened by
/// `opener`.
///
/// # Errors
/// Where the tree has no list of block devices.
pub fn walk(tree: &Tree, opener: &dyn Opener) -> Result<Snapshot, WalkError> {
    let mut devices = sysfs::devices(tree)?;
    let links = device_links(tree);
    let database = Folder::at(&tree.file("run/udev/data"));
    for device in &mut devices {
        complete(&database, &links, device);
    }
    for device in &mut devices {
        device.probe = probed(tree, opener, device);
    }
    let mut snapshot = Snapshot {
        boot_id: tree.text("proc/sys/kernel/random/boot_id"),
        hostname: tree.text("proc/sys/kernel/hostname"),
        mounts: mounts::mounts(tree),
        swaps: mounts::swaps(tree),
        devices,
    };
    busy::look_again(tree, opener, &mut snapshot);
    loops::tie(&mut snapshot.devices);
    Ok(snapshot)
}

/// Opens the devices of these names again, by another opener.
pub fn look_closer(
    tree: &Tree,
    opener: &dyn Opener,
    snapshot: &mut Snapshot,
    names: &BTreeSet<String>,
) {
    for device in &mut snapshot.devices {
        if names.contains(&device.name) {
            device.probe = probed(tree, opener, device);
        }
    }
    busy::look_again(tree, opener, snapshot);
    loops::tie(&mut snapshot.devices);
}

/// Adds what udev knows and the links to it.
fn complete(database: &Folder, links: &BTreeMap<String, Vec<String>>, device: &mut Seen) {
    let record = device
        .number
        .and_then(|number| udev::record(database, number));
    // Another disk had the number when udev looked last.
    let stale = record.as_ref().is_some_and(|record| {
        udev::disk_sequence(record)
            .is_some_and(|number| device.disk_sequence.is_some_and(|own| own != number))
    });
    if stale {
        return;
    }
    if let Some(record) = &record {
        udev::fill(device, record);
        device.links.extend_from_slice(&record.links);
    }
    device.udev = record;
    if let Some(found) = links.get(&device.name) {
        device.links.extend_from_slice(found);
    }
    device.links.sort();
    device.links.dedup();
}

/// Folders below `dev` whose entries are links to devices.
const LINK_FOLDERS: &[&str] = &[
    "disk/by-id",
    "disk/by-path",
    "disk/by-uuid",
    "disk/by-label",
    "disk/by-partuuid",
    "disk/by-partlabel",
    "disk/by-diskseq",
    "mapper",
];

/// Links that are there, by the name of the device they lead to.
fn device_links(tree: &Tree) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for folder in LINK_FOLDERS {
        let Ok(entries) = fs::read_dir(tree.file("dev").join(folder)) else {
            continue;
        };
        for entry in entries.flatten() {
            let Ok(target) = fs::read_link(entry.path()) else {
                continue;
            };
            let Some(name) = target.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            let link = format!("/dev/{folder}/{}", entry.file_name().to_string_lossy());
            found.entry(name.to_owned()).or_default().push(link);
        }
    }
    found
}

/// Opens a device where that disturbs nobody and does not wait for ever.
fn probed(tree: &Tree, opener: &dyn Opener, device: &Seen) -> Probe {
    let suspended = device
        .mapper
        .as_ref()
        .is_some_and(|mapper| mapper.suspended);
    // An optical drive would close its tray, a floppy drive would start. The
    // others are never offered; what is behind them may be far away and not
    // answer, and holds what a tenant has written.
    let stirs = ["sr", "fd", "rbd", "nbd", "zd", "drbd", "ram", "zram"]
        .iter()
        .any(|driver| {
            device
                .name
                .strip_prefix(driver)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        });
    if device.hidden || suspended || stirs || device.size == Some(0) {
        return Probe::NotMade;
    }
    let path = tree.device(&device.name);
    let what = if tree.is_live() {
        Opened::Device
    } else {
        Opened::File
    };
    match opener.open(&path, what, device) {
        Probe::NotMade if tree.is_live() => {
            Probe::Failed(format!("{} is not there", path.display()))
        }
        probe => probe,
    }
}

/// A device's number in the form `8:0`.
fn number(text: &str) -> Option<Number> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(Number {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
    })
}
