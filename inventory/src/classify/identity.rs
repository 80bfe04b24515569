//! What a device can be found by when names have changed, and whether
//! another device says the same of itself.

use std::collections::{BTreeMap, BTreeSet};

use super::kind;
use super::world::World;
use crate::inventory::Kind;
use crate::reason::Reason;
use crate::snapshot::Seen;

const BY_ID: &str = "/dev/disk/by-id/";

/// Beginnings of links, the most trustworthy first: what the device says of
/// itself as a world wide name, then names of a bus, then whatever else.
const RANKS: &[&str] = &[
    "dm-uuid-mpath-",
    "wwn-",
    "scsi-3",
    "nvme-eui.",
    "nvme-uuid.",
    "nvme-nguid.",
    "nvme-",
    "ata-",
    "scsi-",
    "virtio-",
    "mmc-",
    "",
];

/// Links that name what is on a device, or that anybody may give again.
const NOT_THE_DEVICE: &[&str] = &["lvm-pv-uuid-", "dm-name-", "md-name-"];

/// Who claims which link, world wide name and serial number.
pub(super) struct Claims {
    links: BTreeMap<String, BTreeSet<String>>,
    duplicates: BTreeMap<String, BTreeSet<Reason>>,
    /// For a multipath device the paths, which have its links too.
    legs: BTreeMap<String, BTreeSet<String>>,
}

impl Claims {
    pub(super) fn new(world: &World<'_>) -> Self {
        let mut claims = Self {
            links: BTreeMap::new(),
            duplicates: BTreeMap::new(),
            legs: BTreeMap::new(),
        };
        let mut names: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        let mut serials: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for seen in &world.snapshot.devices {
            for link in seen.links.iter().filter(|link| link.starts_with(BY_ID)) {
                let claimed = claims.links.entry(link.clone()).or_default();
                claimed.insert(seen.name.clone());
            }
            if let Some(mapper) = world.holders(seen).find(|name| world.is_multipath(name)) {
                let legs = claims.legs.entry(mapper.to_owned()).or_default();
                legs.insert(seen.name.clone());
                continue;
            }
            if kind::of(seen) != Kind::Disk || seen.hidden {
                continue;
            }
            if let Some(wwn) = wwn(seen) {
                names.entry(wwn).or_default().insert(&seen.name);
            } else if let Some(serial) = &seen.serial {
                // The same number is no wonder among makers.
                let whole = format!("{:?} {:?} {serial}", seen.vendor, seen.model);
                serials.entry(whole).or_default().insert(&seen.name);
            }
        }
        claims.note("world wide name", &names);
        claims.note("serial number", &serials);
        claims
    }

    fn note(&mut self, what: &str, claimed: &BTreeMap<String, BTreeSet<&str>>) {
        for devices in claimed.values().filter(|devices| devices.len() > 1) {
            for device in devices {
                let others: Vec<&str> = devices
                    .iter()
                    .copied()
                    .filter(|other| other != device)
                    .collect();
                self.duplicates
                    .entry((*device).to_owned())
                    .or_default()
                    .insert(Reason::DuplicateIdentity {
                        what: what.to_owned(),
                        others: others.join(", "),
                    });
            }
        }
    }

    pub(super) fn reasons(&self, seen: &Seen) -> Vec<Reason> {
        let same = self.duplicates.get(&seen.name);
        same.into_iter().flatten().cloned().collect()
    }

    /// The link to use in place of the device's name: one that nobody else
    /// claims.
    pub(super) fn by_id(&self, seen: &Seen) -> Option<String> {
        seen.links
            .iter()
            .filter(|link| self.is_own(seen, link))
            .filter_map(|link| Some((rank(link)?, link)))
            .min()
            .map(|(_, link)| link.clone())
    }

    fn is_own(&self, seen: &Seen, link: &str) -> bool {
        let legs = self.legs.get(&seen.name);
        self.links.get(link).is_some_and(|claimed| {
            claimed
                .iter()
                .all(|name| *name == seen.name || legs.is_some_and(|legs| legs.contains(name)))
        })
    }
}

fn rank(link: &str) -> Option<usize> {
    let name = link.strip_prefix(BY_ID)?;
    if NOT_THE_DEVICE.iter().any(|begin| name.starts_with(begin)) {
        return None;
    }
    RANKS.iter().position(|begin| name.starts_with(begin))
}

/// The world wide name alone, in lower case; what has only zeros is none.
pub(super) fn wwn(seen: &Seen) -> Option<String> {
    let whole = seen.wwn.as_deref()?.trim().to_lowercase();
    let begin = ["0x", "naa.", "eui.", "uuid.", "nvme.", "t10."]
        .iter()
        .find_map(|begin| whole.strip_prefix(begin));
    let name = begin.unwrap_or(&whole).trim();
    let says = name.chars().any(|c| c != '0' && c != '-');
    says.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_trustworthy_link_comes_first() {
        let mut links = [
            "ata-DISK_1",
            "wwn-0x5000c500",
            "scsi-35000c500",
            "scsi-SATA_DISK_1",
            "nvme-DISK_2",
            "nvme-eui.0025",
        ]
        .map(|name| format!("{BY_ID}{name}"));
        links.sort_by_key(|link| rank(link));
        assert_eq!(
            links.map(|link| link[BY_ID.len()..].to_owned()),
            [
                "wwn-0x5000c500",
                "scsi-35000c500",
                "nvme-eui.0025",
                "nvme-DISK_2",
                "ata-DISK_1",
                "scsi-SATA_DISK_1",
            ]
        );
        assert_eq!(rank("/dev/disk/by-id/lvm-pv-uuid-x"), None);
        assert_eq!(rank("/dev/disk/by-path/pci-0"), None);
    }

    #[test]
    fn a_world_wide_name_is_the_same_in_every_form() {
        let of = |text: &str| {
            wwn(&Seen {
                wwn: Some(text.into()),
                ..Seen::default()
            })
        };
        assert_eq!(of("naa.5000C500A1"), of("0x5000c500a1"));
        assert_eq!(of("eui.0000000000000000"), None);
    }
}
