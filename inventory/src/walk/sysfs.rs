//! Block devices as sysfs shows them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::folder::{Folder, trimmed};
use super::{Tree, WalkError, number};
use crate::snapshot::{Mapper, Seen, Transport};

/// sysfs counts in these, whatever a device's blocks are.
const SECTOR: u64 = 512;

/// Every device, disks before their partitions, in the order of their names.
pub(super) fn devices(tree: &Tree) -> Result<Vec<Seen>, WalkError> {
    let folder = tree.file("sys/block");
    let mut names = entries(&folder).map_err(|source| WalkError::NoDevices {
        path: folder.clone(),
        source,
    })?;
    let mut found = Vec::new();
    let mut partitions = BTreeSet::new();
    names.sort_by_cached_key(|name| natural(name));
    for name in names {
        let whole = Whole::at(behind(&folder, &name));
        let disk = disk(&whole, &name);
        let mut below: Vec<(String, Folder)> = whole
            .entries
            .iter()
            .flatten()
            .filter(|entry| entry.starts_with(&name))
            .map(|entry| (entry.clone(), whole.folder.folder(entry)))
            .filter(|(_, part)| ["partition", "start"].iter().any(|file| part.has(file)))
            .collect();
        below.sort_by_cached_key(|(name, _)| natural(name));
        let parts: Vec<Seen> = below
            .iter()
            .map(|(entry, part)| partition(part, entry, &disk))
            .collect();
        partitions.extend(below.into_iter().map(|(entry, _)| entry));
        found.push(disk);
        found.extend(parts);
    }
    found.extend(others(tree, &found, &partitions));
    Ok(found)
}

/// A device that is no partition.
struct Whole {
    path: PathBuf,
    folder: Folder,
    /// What is in it, so that nothing is tried that is not there.
    entries: Option<Vec<String>>,
}

impl Whole {
    fn at(path: PathBuf) -> Self {
        let folder = Folder::at(&path);
        let entries = folder.names();
        Self {
            path,
            folder,
            entries,
        }
    }

    fn has(&self, name: &str) -> bool {
        self.entries
            .as_ref()
            .is_none_or(|entries| entries.iter().any(|entry| entry == name))
    }

    /// A folder that most devices do not have.
    fn folder_of(&self, name: &str) -> Option<Folder> {
        self.has(name).then(|| self.folder.folder(name))
    }

    /// An attribute that most devices do not have.
    fn rare(&self, name: &str) -> Option<String> {
        self.has(name).then(|| self.folder.attribute(name))?
    }
}

/// Devices that only the list of all has.
fn others(tree: &Tree, found: &[Seen], partitions: &BTreeSet<String>) -> Vec<Seen> {
    let folder = tree.file("sys/class/block");
    let known: BTreeSet<String> = found
        .iter()
        .map(|seen| seen.name.replace('/', "!"))
        .collect();
    let mut names = entries(&folder).unwrap_or_default();
    names.retain(|name| !known.contains(name) && !partitions.contains(name));
    names.sort_by_cached_key(|name| natural(name));
    names
        .iter()
        .map(|name| disk(&Whole::at(behind(&folder, name)), name))
        .collect()
}

/// The folder that a link in a list of devices leads to; links within sysfs
/// are relative.
fn behind(list: &Path, name: &str) -> PathBuf {
    let link = list.join(name);
    let Ok(target) = fs::read_link(&link) else {
        return link;
    };
    let mut path = if target.is_absolute() {
        PathBuf::new()
    } else {
        list.to_owned()
    };
    for part in target.components() {
        if part == Component::ParentDir {
            path.pop();
        } else {
            path.push(part);
        }
    }
    path
}

fn entries(folder: &Path) -> std::io::Result<Vec<String>> {
    Ok(fs::read_dir(folder)?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect())
}

/// `sda` before `sdaa`, `nvme2n1` before `nvme10n1`.
fn natural(name: &str) -> (String, usize, Vec<u64>, String) {
    let driver: String = name.chars().take_while(|c| !c.is_ascii_digit()).collect();
    let numbers = name
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect();
    let family: String = driver.chars().take(2).collect();
    (family, driver.len(), numbers, name.to_owned())
}

/// What disks and partitions have alike.
fn both(folder: &Folder, name: &str) -> Seen {
    Seen {
        name: name.replace('!', "/"),
        number: folder.text("dev").as_deref().and_then(number),
        size: bytes(folder, "size"),
        read_only: folder.flag("ro"),
        holders: names(folder, "holders"),
        ..Seen::default()
    }
}

/// An attribute that counts sectors.
fn bytes(folder: &Folder, name: &str) -> Option<u64> {
    let sectors = folder.numeric::<u64>(name)?;
    Some(sectors.saturating_mul(SECTOR))
}

fn names(folder: &Folder, list: &str) -> Option<Vec<String>> {
    let mut names = folder.folder(list).names()?;
    names
        .iter_mut()
        .for_each(|name| *name = name.replace('!', "/"));
    names.sort();
    Some(names)
}

fn disk(whole: &Whole, name: &str) -> Seen {
    let folder = &whole.folder;
    let hardware = hardware(whole, name);
    let of = |names: &[&str]| names.iter().find_map(|name| hardware.attribute(name));
    let queue = folder.folder("queue");
    Seen {
        removable: folder.flag("removable"),
        hidden: whole.rare("hidden").is_some_and(|text| text != "0"),
        logical_block_size: queue.numeric("logical_block_size"),
        physical_block_size: queue.numeric("physical_block_size"),
        rotational: queue.flag("rotational"),
        discard_bytes: queue.numeric("discard_max_bytes"),
        disk_sequence: folder.numeric("diskseq"),
        transport: transport(&whole.path, &hardware, name),
        model: of(&["model", "name"]),
        vendor: of(&["vendor"]).filter(|vendor| !vendor.starts_with("0x")),
        serial: of(&["serial"])
            .or_else(|| whole.rare("serial"))
            .or_else(|| unit_serial(&hardware)),
        wwn: whole.rare("wwid").or_else(|| of(&["wwid"])),
        firmware: of(&["firmware_rev", "rev", "fwrev"]),
        mapper: whole.folder_of("dm").as_ref().and_then(mapper),
        backing_file: whole
            .folder_of("loop")
            .and_then(|folder| folder.attribute("backing_file")),
        slaves: names(folder, "slaves"),
        ..both(folder, name)
    }
}

/// Where the hardware behind a disk is described.
fn hardware(whole: &Whole, name: &str) -> Folder {
    let above = name.starts_with("nvme") && !whole.has("device");
    whole.folder.folder(if above { ".." } else { "device" })
}

/// The serial number in the page of vital product data, after its header.
fn unit_serial(hardware: &Folder) -> Option<String> {
    let page = hardware.bytes("vpd_pg80")?;
    let serial = trimmed(page.get(4..)?);
    (!serial.is_empty()).then_some(serial)
}

/// How a disk is attached, told by the devices above it.
fn transport(whole: &Path, hardware: &Folder, name: &str) -> Option<Transport> {
    let path = whole.to_string_lossy();
    let has = |part: &str| path.split('/').any(|folder| folder.starts_with(part));
    if name.starts_with("nvme") {
        return Some(match hardware.attribute("transport").as_deref() {
            Some("fc") => Transport::Fc,
            _ => Transport::Nvme,
        });
    }
    if path.contains("/virtual/") {
        return None;
    }
    let above: &[(&str, Transport)] = &[
        ("usb", Transport::Usb),
        ("end_device-", Transport::Sas),
        ("rport-", Transport::Fc),
        ("session", Transport::Iscsi),
        ("ata", Transport::Ata),
        ("mmc", Transport::Mmc),
        ("virtio", Transport::Virtio),
        ("target", Transport::Scsi),
    ];
    above
        .iter()
        .find(|(part, _)| has(part))
        .map(|(_, transport)| *transport)
}

fn mapper(folder: &Folder) -> Option<Mapper> {
    Some(Mapper {
        name: folder.text("name")?,
        uuid: folder.text("uuid").unwrap_or_default(),
        suspended: folder.flag("suspended").unwrap_or_default(),
    })
}

/// A value of the event by which the kernel announced a device.
fn event_value(folder: &Folder, name: &str) -> Option<String> {
    folder
        .attribute("uevent")?
        .lines()
        .filter_map(|line| line.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value.to_owned())
}

/// A partition has its disk's hardware.
fn partition(folder: &Folder, name: &str, disk: &Seen) -> Seen {
    Seen {
        disk: Some(disk.name.clone()),
        partition: folder.numeric("partition"),
        start: bytes(folder, "start"),
        partition_label: event_value(folder, "PARTNAME"),
        removable: disk.removable,
        hidden: disk.hidden,
        logical_block_size: disk.logical_block_size,
        physical_block_size: disk.physical_block_size,
        rotational: disk.rotational,
        discard_bytes: disk.discard_bytes,
        disk_sequence: disk.disk_sequence,
        transport: disk.transport,
        model: disk.model.clone(),
        vendor: disk.vendor.clone(),
        serial: disk.serial.clone(),
        wwn: disk.wwn.clone(),
        firmware: disk.firmware.clone(),
        // Only whole disks are made of others.
        slaves: Some(Vec::new()),
        ..both(folder, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_that_people_count() {
        let mut names = ["sdaa", "nvme10n1", "sdb", "nvme2n1", "sda"].map(String::from);
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["nvme2n1", "nvme10n1", "sda", "sdb", "sdaa"]);
    }
}
