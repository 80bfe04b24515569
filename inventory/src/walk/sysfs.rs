//! Block devices as sysfs shows them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

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
    names.sort_by_key(|name| natural(name));
    for name in names {
        let path = behind(&folder, &name);
        let disk = disk(&path, &name);
        let mut below: Vec<String> = entries(&path)
            .unwrap_or_default()
            .into_iter()
            .filter(|entry| is_partition(&path, &name, entry))
            .collect();
        below.sort_by_key(|name| natural(name));
        let parts: Vec<Seen> = below
            .iter()
            .map(|entry| partition(&path.join(entry), entry, &disk))
            .collect();
        partitions.extend(below);
        found.push(disk);
        found.extend(parts);
    }
    found.extend(others(tree, &found, &partitions));
    Ok(found)
}

/// Devices that only the list of all has.
fn others(tree: &Tree, found: &[Seen], partitions: &BTreeSet<String>) -> Vec<Seen> {
    let folder = tree.file("sys/class/block");
    let known: BTreeSet<String> = found
        .iter()
        .map(|seen| seen.name.replace('/', "!"))
        .collect();
    let mut names = entries(&folder).unwrap_or_default();
    names.sort_by_key(|name| natural(name));
    names
        .iter()
        .filter(|name| !known.contains(*name) && !partitions.contains(*name))
        .map(|name| disk(&behind(&folder, name), name))
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

fn is_partition(disk: &Path, name: &str, entry: &str) -> bool {
    entry.starts_with(name)
        && (disk.join(entry).join("partition").exists() || disk.join(entry).join("start").exists())
}

fn attribute(path: &Path, name: &str) -> Option<String> {
    super::attribute(&path.join(name)).filter(|text| !text.is_empty())
}

fn numeric<T: std::str::FromStr>(path: &Path, name: &str) -> Option<T> {
    attribute(path, name)?.parse().ok()
}

fn flag(path: &Path, name: &str) -> Option<bool> {
    attribute(path, name).map(|text| text != "0")
}

/// What disks and partitions have alike.
fn common(path: &Path, name: &str) -> Seen {
    Seen {
        name: name.replace('!', "/"),
        number: attribute(path, "dev").as_deref().and_then(number),
        size: numeric::<u64>(path, "size").map(|sectors| sectors.saturating_mul(SECTOR)),
        read_only: flag(path, "ro"),
        holders: names(path, "holders"),
        slaves: names(path, "slaves"),
        ..Seen::default()
    }
}

fn names(path: &Path, folder: &str) -> Option<Vec<String>> {
    let mut names = entries(&path.join(folder)).ok()?;
    names
        .iter_mut()
        .for_each(|name| *name = name.replace('!', "/"));
    names.sort();
    Some(names)
}

fn disk(path: &Path, name: &str) -> Seen {
    let hardware = hardware(path, name);
    let of = |names: &[&str]| names.iter().find_map(|name| attribute(&hardware, name));
    let queue = path.join("queue");
    Seen {
        removable: flag(path, "removable"),
        hidden: flag(path, "hidden").unwrap_or_default(),
        logical_block_size: numeric(&queue, "logical_block_size"),
        physical_block_size: numeric(&queue, "physical_block_size"),
        rotational: flag(&queue, "rotational"),
        discard_bytes: numeric(&queue, "discard_max_bytes"),
        disk_sequence: numeric(path, "diskseq"),
        transport: transport(path, &hardware, name),
        model: of(&["model", "name"]),
        vendor: of(&["vendor"]).filter(|vendor| !vendor.starts_with("0x")),
        serial: of(&["serial"])
            .or_else(|| attribute(path, "serial"))
            .or_else(|| unit_serial(&hardware)),
        wwn: attribute(path, "wwid").or_else(|| of(&["wwid"])),
        firmware: of(&["firmware_rev", "rev", "fwrev"]),
        mapper: mapper(path),
        backing_file: attribute(&path.join("loop"), "backing_file"),
        ..common(path, name)
    }
}

/// Where the hardware behind a disk is described.
fn hardware(whole: &Path, name: &str) -> PathBuf {
    let linked = whole.join("device");
    if linked.exists() || !name.starts_with("nvme") {
        return linked;
    }
    whole.parent().unwrap_or(whole).to_owned()
}

/// The serial number in the page of vital product data, after its header.
fn unit_serial(hardware: &Path) -> Option<String> {
    let page = fs::read(hardware.join("vpd_pg80")).ok()?;
    let serial = String::from_utf8_lossy(page.get(4..)?)
        .trim_matches(|c: char| c.is_whitespace() || c == '\0')
        .to_owned();
    (!serial.is_empty()).then_some(serial)
}

/// How a disk is attached, told by the devices above it.
fn transport(whole: &Path, hardware: &Path, name: &str) -> Option<Transport> {
    let path = whole.to_string_lossy();
    let has = |part: &str| path.split('/').any(|folder| folder.starts_with(part));
    if name.starts_with("nvme") {
        return Some(match attribute(hardware, "transport").as_deref() {
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

fn mapper(path: &Path) -> Option<Mapper> {
    let folder = path.join("dm");
    Some(Mapper {
        name: super::attribute(&folder.join("name"))?,
        uuid: super::attribute(&folder.join("uuid")).unwrap_or_default(),
        suspended: flag(&folder, "suspended").unwrap_or_default(),
    })
}

/// A value of the event by which the kernel announced a device.
fn event_value(path: &Path, name: &str) -> Option<String> {
    attribute(path, "uevent")?
        .lines()
        .filter_map(|line| line.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value.to_owned())
}

/// A partition has its disk's hardware.
fn partition(path: &Path, name: &str, disk: &Seen) -> Seen {
    Seen {
        disk: Some(disk.name.clone()),
        partition: numeric(path, "partition"),
        partition_label: event_value(path, "PARTNAME"),
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
        ..common(path, name)
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
