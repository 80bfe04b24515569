//! From a snapshot to the inventory: a pure function.
//!
//! Each module here asks one question of a device and answers with reasons;
//! a device has all of them.

mod holds;
mod identity;
mod kind;
mod usage;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use self::holds::Contents;
use self::identity::Claims;
use self::world::World;
use crate::inventory::{Device, DeviceClass, FileSystem, Identity, Inventory, Kind, Partition};
use crate::policy::Policy;
use crate::reason::{Explanation, Reason};
use crate::snapshot::{Probe, Seen, Snapshot, Transport};

/// Every device of the snapshot, each with all reasons that hold.
#[must_use]
pub fn classify(snapshot: &Snapshot, policy: &Policy) -> Inventory {
    let world = World::new(snapshot);
    let used = usage::reasons(&world, policy);
    let claims = Claims::new(&world);
    // A name that is there twice has the reasons of both.
    let mut own: BTreeMap<&str, BTreeSet<Reason>> = BTreeMap::new();
    for seen in &snapshot.devices {
        let reasons = own.entry(&seen.name).or_default();
        reasons.extend(itself(&world, policy, seen));
        reasons.extend(used.of(&seen.name));
        reasons.extend(claims.reasons(seen));
    }
    let devices = snapshot
        .devices
        .iter()
        .map(|seen| {
            let mut reasons = own.get(seen.name.as_str()).cloned().unwrap_or_default();
            let disk = seen.disk.as_deref().and_then(|disk| own.get(disk));
            reasons.extend(
                disk.into_iter()
                    .flatten()
                    .filter_map(|reason| inherited(seen, reason)),
            );
            device(&world, &used, &claims, seen, reasons.into_iter().collect())
        })
        .collect();
    Inventory {
        hostname: snapshot.hostname.clone().filter(|name| !name.is_empty()),
        boot_id: snapshot.boot_id.clone(),
        devices,
    }
}

/// What speaks against a device by itself.
fn itself(world: &World<'_>, policy: &Policy, seen: &Seen) -> BTreeSet<Reason> {
    let mut reasons = BTreeSet::new();
    reasons.extend(kind::reasons(world, policy, seen));
    reasons.extend(hardware(policy, seen));
    reasons.extend(holds::reasons(world, policy, seen));
    reasons.extend(made_of_it(world, seen));
    reasons.extend(not_known(world, seen));
    reasons
}

fn hardware(policy: &Policy, seen: &Seen) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if seen.read_only == Some(true) {
        reasons.push(Reason::ReadOnly);
    }
    if seen.removable == Some(true) {
        reasons.push(Reason::Removable);
    }
    if seen.transport == Some(Transport::Usb) {
        reasons.push(Reason::Usb);
    }
    if seen.hidden {
        reasons.push(Reason::Hidden);
    }
    match seen.size {
        Some(0) => reasons.push(Reason::NoSize),
        Some(size) if size < policy.min_size => reasons.push(Reason::TooSmall {
            size,
            least: policy.min_size,
        }),
        _ => {}
    }
    reasons
}

/// Who is made of the device, and who has it for himself.
fn made_of_it(world: &World<'_>, seen: &Seen) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = world
        .holders(seen)
        .map(|holder| Reason::Held {
            holder: holder.to_owned(),
        })
        .collect();
    let leg = world
        .holders(seen)
        .find(|holder| world.is_multipath(holder));
    let said = seen.udev.as_ref().is_some_and(|record| {
        record.property("DM_MULTIPATH_DEVICE_PATH") == Some("1")
            || record.property("ID_FS_TYPE") == Some("mpath_member")
    });
    if leg.is_some() || said {
        reasons.push(Reason::MultipathLeg {
            of: leg.unwrap_or("that is not open").to_owned(),
        });
    }
    if matches!(&seen.probe, Probe::Made(look) if look.busy) {
        reasons.push(Reason::InUse);
    }
    reasons
}

/// What was not read is not taken for harmless.
fn not_known(world: &World<'_>, seen: &Seen) -> Vec<Reason> {
    let facts = [
        (seen.number.is_some(), "its number"),
        (seen.size.is_some(), "its size"),
        (seen.read_only.is_some(), "whether it is read-only"),
        (seen.removable.is_some(), "whether it can be taken out"),
        (seen.holders.is_some(), "what is made of it"),
        (seen.slaves.is_some(), "what it is made of"),
        (world.snapshot.mounts.is_some(), "what is mounted"),
        (world.snapshot.swaps.is_some(), "what the node swaps to"),
        (
            seen.disk
                .as_deref()
                .is_none_or(|disk| world.named(disk).is_some()),
            "the disk that it is part of",
        ),
    ];
    let mut reasons: Vec<Reason> = facts
        .iter()
        .filter(|(known, _)| !known)
        .map(|(_, what)| Reason::Unknown {
            what: (*what).to_owned(),
        })
        .collect();
    if let Probe::Failed(why) = &seen.probe {
        reasons.push(Reason::Unreadable { why: why.clone() });
    }
    reasons
}

/// What of a disk's reasons holds for its partitions as well.
fn inherited(seen: &Seen, reason: &Reason) -> Option<Reason> {
    match reason {
        Reason::ReadOnly
        | Reason::Removable
        | Reason::Usb
        | Reason::Hidden
        | Reason::Held { .. }
        | Reason::MultipathLeg { .. }
        | Reason::PrivateMapper { .. }
        | Reason::Suspended
        | Reason::DuplicateIdentity { .. }
        | Reason::Unreadable { .. }
        // A disk that is used or signed as a whole: a partition that shows
        // through is made of the same bytes.
        | Reason::Mounted { .. }
        | Reason::ActiveSwap
        | Reason::FileSystem { .. }
        | Reason::LvmMember
        | Reason::RaidMember { .. }
        | Reason::EncryptedData { .. }
        | Reason::ZfsMember
        | Reason::BcacheMember
        | Reason::VdoMember
        | Reason::DrbdMember
        | Reason::SwapSpace
        | Reason::OtherSignature { .. }
        | Reason::AmbiguousSignatures => Some(reason.clone()),
        Reason::BlueStore { .. } => Some(Reason::BlueStoreDisk {
            disk: seen.disk.clone().unwrap_or_default(),
        }),
        _ => None,
    }
}

fn device(
    world: &World<'_>,
    used: &usage::Used,
    claims: &Claims,
    seen: &Seen,
    reasons: Vec<Reason>,
) -> Device {
    Device {
        name: seen.name.clone(),
        path: format!("/dev/{}", seen.name),
        kind: kind::of(seen),
        available: reasons.is_empty(),
        reasons: reasons.iter().map(Explanation::from).collect(),
        identity: Identity {
            by_id: claims.by_id(seen),
            links: seen.links.clone(),
            wwn: identity::wwn(seen),
            serial: seen.serial.clone(),
            disk_sequence: seen.disk_sequence,
        },
        disk: seen.disk.clone(),
        number: seen
            .number
            .map(|number| format!("{}:{}", number.major, number.minor)),
        size: seen.size.unwrap_or_default(),
        logical_block_size: seen.logical_block_size,
        physical_block_size: seen.physical_block_size,
        rotational: seen.rotational,
        removable: seen.removable,
        read_only: seen.read_only,
        discard: seen.discard_bytes.map(|bytes| bytes > 0),
        transport: seen.transport,
        model: seen.model.clone(),
        vendor: seen.vendor.clone(),
        firmware: seen.firmware.clone(),
        device_class: device_class(seen),
        partitions: world
            .partitions(seen)
            .map(|part| Partition {
                name: part.name.clone(),
                size: part.size.unwrap_or_default(),
            })
            .collect(),
        file_system: file_system(seen),
        holders: seen.holders.clone().unwrap_or_default(),
        slaves: seen.slaves.clone().unwrap_or_default(),
        mounts: used.mounts(&seen.name),
        backing_file: seen.backing_file.clone(),
    }
}

fn file_system(seen: &Seen) -> Option<FileSystem> {
    Contents::of(seen)
        .signatures
        .into_iter()
        .next()
        .map(|signature| FileSystem {
            kind: signature.kind,
            label: signature.label,
        })
}

fn device_class(seen: &Seen) -> Option<DeviceClass> {
    let disk = matches!(kind::of(seen), Kind::Disk | Kind::Partition);
    if disk && seen.name.starts_with("nvme") {
        return Some(DeviceClass::Nvme);
    }
    Some(if seen.rotational? {
        DeviceClass::Hdd
    } else {
        DeviceClass::Ssd
    })
}
