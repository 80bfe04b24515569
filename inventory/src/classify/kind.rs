//! What kind of device something is, and whether that kind is offered.

use super::world::World;
use crate::inventory::Kind;
use crate::policy::Policy;
use crate::reason::Reason;
use crate::snapshot::{Mapper, Seen};

/// Drivers by the names of their devices, which a number follows.
const DRIVERS: &[(&str, Kind)] = &[
    ("loop", Kind::Loop),
    ("ram", Kind::Ram),
    ("zram", Kind::Zram),
    ("nbd", Kind::Nbd),
    ("rbd", Kind::Rbd),
    ("drbd", Kind::Drbd),
    ("bcache", Kind::Bcache),
    ("zd", Kind::Zvol),
    ("sr", Kind::Optical),
    ("scd", Kind::Optical),
    ("fd", Kind::Floppy),
    ("mtdblock", Kind::Flash),
    ("ubiblock", Kind::Flash),
    ("md", Kind::Raid),
    ("md_", Kind::Raid),
    ("dm-", Kind::Mapper),
];

/// The kind that a device's name and what device mapper says of it tell.
pub(super) fn of(seen: &Seen) -> Kind {
    if seen.partition.is_some() || seen.disk.is_some() {
        return Kind::Partition;
    }
    if let Some(mapper) = &seen.mapper {
        return mapped(mapper);
    }
    if is_boot_area(&seen.name) {
        return Kind::Flash;
    }
    DRIVERS
        .iter()
        .find(|(driver, kind)| {
            seen.name.strip_prefix(driver).is_some_and(|rest| {
                *kind == Kind::Raid && *driver == "md_"
                    || rest.starts_with(|c: char| c.is_ascii_digit())
            })
        })
        .map_or(Kind::Disk, |(_, kind)| *kind)
}

fn mapped(mapper: &Mapper) -> Kind {
    match mapper.uuid.split('-').next() {
        Some("mpath") => Kind::Multipath,
        Some("CRYPT") => Kind::Encrypted,
        Some("LVM") => Kind::LogicalVolume,
        _ => Kind::Mapper,
    }
}

/// `mmcblk0boot0`, `mmcblk0rpmb`, `mmcblk0gp1`.
fn is_boot_area(name: &str) -> bool {
    name.starts_with("mmcblk")
        && ["boot", "rpmb", "gp"]
            .iter()
            .any(|area| name.contains(area))
}

pub(super) fn reasons(world: &World<'_>, policy: &Policy, seen: &Seen) -> Vec<Reason> {
    let kind = of(seen);
    let mut reasons = Vec::new();
    if !policy.kinds.contains(&kind) {
        reasons.push(refused(kind));
    }
    if let Some(mapper) = &seen.mapper {
        if mapper.suspended {
            reasons.push(Reason::Suspended);
        }
        if let Some(owner) = owner(seen, mapper) {
            reasons.push(Reason::PrivateMapper {
                owner: owner.to_owned(),
            });
        }
    }
    // A disk by its name that is made of others is not one.
    if kind == Kind::Disk {
        let made_of = world.slaves(&seen.name).map(|slave| Reason::MadeOf {
            slave: slave.to_owned(),
        });
        reasons.extend(made_of);
    }
    reasons
}

/// Who made a device of device mapper for himself.
fn owner<'a>(seen: &Seen, mapper: &'a Mapper) -> Option<&'a str> {
    let uuid = mapper.uuid.as_str();
    if let Some(rest) = uuid.strip_prefix("LVM-") {
        // What follows a volume's identifier is a layer of it.
        return rest.contains('-').then_some("LVM");
    }
    if uuid.starts_with("stratis-1-private") {
        return Some("Stratis");
    }
    if uuid.starts_with("CRYPT-TEMP") {
        return Some("cryptsetup");
    }
    let flagged = seen
        .udev
        .as_ref()
        .is_some_and(|record| record.property("DM_UDEV_DISABLE_OTHER_RULES_FLAG") == Some("1"));
    flagged.then_some("its owner's word to udev")
}

fn refused(kind: Kind) -> Reason {
    match kind {
        Kind::Disk => Reason::WholeDisk,
        Kind::Partition => Reason::APartition,
        Kind::Multipath => Reason::MultipathDevice,
        Kind::Encrypted => Reason::EncryptedDevice,
        Kind::LogicalVolume => Reason::LogicalVolume,
        Kind::Mapper => Reason::MapperDevice,
        Kind::Raid => Reason::RaidArray,
        Kind::Loop => Reason::LoopDevice,
        Kind::Ram => Reason::RamDisk,
        Kind::Zram => Reason::ZramDisk,
        Kind::Nbd => Reason::NbdDevice,
        Kind::Rbd => Reason::RbdDevice,
        Kind::Drbd => Reason::DrbdDevice,
        Kind::Bcache => Reason::BcacheDevice,
        Kind::Zvol => Reason::ZfsVolume,
        Kind::Optical => Reason::OpticalDrive,
        Kind::Floppy => Reason::FloppyDrive,
        Kind::Flash => Reason::FlashDevice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> Kind {
        of(&Seen {
            name: name.into(),
            ..Seen::default()
        })
    }

    #[test]
    fn a_driver_is_told_by_its_name_and_number() {
        for (name, expected) in [
            ("sda", Kind::Disk),
            ("nvme0n1", Kind::Disk),
            ("mmcblk0", Kind::Disk),
            ("mmcblk0boot1", Kind::Flash),
            ("loop7", Kind::Loop),
            ("ram0", Kind::Ram),
            ("nbd15", Kind::Nbd),
            ("sr0", Kind::Optical),
            ("md127", Kind::Raid),
            ("md_d0", Kind::Raid),
            ("dm-3", Kind::Mapper),
            ("zd16", Kind::Zvol),
            // Serial SCSI of some other driver, not an optical drive.
            ("srd", Kind::Disk),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }
}
