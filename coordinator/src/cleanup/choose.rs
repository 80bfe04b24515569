//! Which device a cleanup means, and which cleanups concern the same one.
//! Pure.

use std::collections::BTreeSet;

use hypercloud_api::CleanupDevice;
use hypercloud_inventory::cleaning::{Meant, Refusal, find, may_be_cleaned};
use hypercloud_inventory::{Device, Inventory};

use super::observation::OtherSeen;

/// Uses of a device that may have ended since its agent looked, which looks
/// again and judges.
const PASSING: [&str; 5] = ["ActiveSwap", "Held", "InUse", "Mounted", "Suspended"];

/// The device of `node` that is called `name`, if it may be cleaned; what is
/// to be written down of it.
///
/// # Errors
/// Why not, as reason and message.
pub fn choose(
    inventory: &Inventory,
    node: &str,
    name: &str,
) -> Result<CleanupDevice, (String, String)> {
    let refused = |reason: &str, message| Err((reason.to_owned(), message));
    let device = match named(inventory, name).as_slice() {
        [device] => *device,
        [] => {
            let message = format!(
                "node {node} has no device {name}; kubectl hcs devices {node} shows what it has"
            );
            return refused("DeviceNotThere", message);
        }
        several => {
            let paths: Vec<&str> = several.iter().map(|device| device.path.as_str()).collect();
            let message = format!(
                "{name} is claimed by {}: name one of them",
                paths.join(", ")
            );
            return refused("AmbiguousDevice", message);
        }
    };
    let meant = Meant::of(inventory, device);
    match may_be_cleaned(inventory, device) {
        Err(Refusal::Used { reasons, .. })
            if reasons.iter().all(|told| PASSING.contains(&told.code())) => {}
        judged => judged.map_err(in_words)?,
    }
    find(inventory, &meant).map_err(in_words)?;
    Ok(CleanupDevice {
        path: meant.path,
        by_id: meant.by_id,
        wwn: meant.wwn,
        serial: meant.serial,
        size: meant.size,
        boot_id: meant.boot_id,
        disk_sequence: meant.disk_sequence,
    })
}

fn in_words(refusal: Refusal) -> (String, String) {
    (refusal.code().to_owned(), refusal.to_string())
}

/// The devices called `name` (`sda`, `/dev/sda` or any link to it). Of several
/// with a link, the one whose chosen link it is: a multipath device, whose
/// paths have its links too.
pub(super) fn named<'a>(inventory: &'a Inventory, name: &str) -> Vec<&'a Device> {
    let path = if name.starts_with('/') {
        name.to_owned()
    } else {
        format!("/dev/{name}")
    };
    let found: Vec<&Device> = inventory
        .devices
        .iter()
        .filter(|device| {
            let identity = &device.identity;
            device.path == path
                || identity.by_id.as_ref() == Some(&path)
                || identity.links.contains(&path)
        })
        .collect();
    let chosen = |device: &&&Device| device.identity.by_id.as_ref() == Some(&path);
    let mut those = found.iter().filter(chosen);
    match (those.next(), those.next()) {
        (Some(device), None) => vec![device],
        _ => found,
    }
}

/// The other cleanup that `device` waits for: of those that have to do with
/// the same disk the first that has a device written down, else the first
/// that is older than `is_older` says.
pub fn before<'a>(
    inventory: Option<&Inventory>,
    device: &CleanupDevice,
    others: &'a [OtherSeen],
    is_older: impl Fn(&OtherSeen) -> bool,
    is_chosen: bool,
) -> Option<&'a OtherSeen> {
    let mut first: Vec<&OtherSeen> = others
        .iter()
        .filter(|other| match (&other.device, is_chosen) {
            // Of two that are written down, and of two that are not.
            (Some(_), true) | (None, false) => is_older(other),
            (Some(_), false) => true,
            (None, true) => false,
        })
        .filter(|other| is_same_disk(inventory, device, other))
        .collect();
    first.sort_by(|a, b| a.age.cmp(&b.age));
    first.first().copied()
}

/// The link by which the disk of `device` is the platform's storage's, if it
/// is one of `links`.
pub fn of_storage<'a>(
    inventory: Option<&Inventory>,
    device: &CleanupDevice,
    links: &'a BTreeSet<String>,
) -> Option<&'a String> {
    let disk = |device: &Device| device.disk.clone().unwrap_or_else(|| device.name.clone());
    let own = inventory.and_then(|inventory| find(inventory, &meant(device)).ok().map(disk));
    links.iter().find(|link| {
        let has = |inventory| {
            let devices = named(inventory, link);
            devices.iter().any(|device| Some(disk(device)) == own)
        };
        device.by_id.as_ref() == Some(*link) || inventory.is_some_and(has)
    })
}

fn is_same_disk(inventory: Option<&Inventory>, device: &CleanupDevice, other: &OtherSeen) -> bool {
    if other.device.as_ref().is_some_and(|other| {
        other == device || (other.path == device.path && other.boot_id == device.boot_id)
    }) {
        return true;
    }
    let Some(inventory) = inventory else {
        return false;
    };
    let disk = |device: &Device| device.disk.clone().unwrap_or_else(|| device.name.clone());
    let written = |device: &CleanupDevice| find(inventory, &meant(device)).ok().map(disk);
    let Some(own) = written(device) else {
        return false;
    };
    match &other.device {
        Some(device) => written(device) == Some(own),
        None => named(inventory, &other.asked)
            .iter()
            .any(|device| disk(device) == own),
    }
}

/// What is known of a device that is written down.
pub(super) fn meant(device: &CleanupDevice) -> Meant {
    Meant {
        path: device.path.clone(),
        by_id: device.by_id.clone(),
        links: Vec::new(),
        wwn: device.wwn.clone(),
        serial: device.serial.clone(),
        disk_sequence: device.disk_sequence,
        size: device.size,
        boot_id: device.boot_id.clone(),
    }
}
