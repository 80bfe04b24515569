//! How to let go of a device that is used.

use crate::inventory::{Device, Inventory, Kind};
use crate::reason::{Explanation, Reason};

/// The reason, and what to do about it where somebody can.
pub(super) fn with_advice(
    inventory: &Inventory,
    device: &Device,
    told: &Explanation,
) -> Explanation {
    match advice(inventory, device, told) {
        None => told.clone(),
        Some(advice) => Explanation {
            reason: told.reason.clone(),
            message: format!("{} ({advice})", told.message),
        },
    }
}

fn advice(inventory: &Inventory, device: &Device, told: &Explanation) -> Option<String> {
    let path = &device.path;
    Some(match told.code() {
        "Mounted" => format!("umount {path}"),
        "ActiveSwap" => format!("swapoff {path}"),
        "Held" => let_go(holder(inventory, told)?),
        "MultipathLeg" => "name the multipath device in its place".into(),
        "InUse" => format!("stop what has it open, an OSD perhaps: fuser -v {path} names it"),
        "ReadOnly" => format!("blockdev --setrw {path}, where its switch allows it"),
        "BlueStoreDisk" => "name the disk".into(),
        "ReservedPartition" => "delete the partition, or name the disk".into(),
        "Suspended" => format!("dmsetup resume {}", mapped(device)),
        _ => return None,
    })
}

/// The device that the reason says is made of this one.
fn holder<'a>(inventory: &'a Inventory, told: &Explanation) -> Option<&'a Device> {
    inventory.devices.iter().find(|device| {
        let held = Reason::Held {
            holder: device.name.clone(),
        };
        held.to_string() == told.message
    })
}

/// How to end what a device is made of.
fn let_go(holder: &Device) -> String {
    let path = &holder.path;
    match holder.kind {
        Kind::LogicalVolume => format!(
            "stop the OSD or whatever uses it, then lvchange --activate n {}, or vgchange --activate n for its group",
            mapped(holder)
        ),
        Kind::Raid => format!("mdadm --stop {path}"),
        Kind::Encrypted => format!("cryptsetup close {}", mapped(holder)),
        Kind::Multipath => format!("name {path}, the multipath device, in its place"),
        Kind::Mapper => format!("dmsetup remove {}", mapped(holder)),
        Kind::Bcache => format!("echo 1 >/sys/block/{}/bcache/stop", holder.name),
        Kind::Drbd => "drbdadm down for its resource".into(),
        Kind::Loop => {
            format!("stop the pod or whatever uses it, then losetup --detach {path}")
        }
        _ => format!("stop {path}"),
    }
}

/// The name by which device mapper's tools know a device.
fn mapped(device: &Device) -> &str {
    let links = &device.identity.links;
    links
        .iter()
        .find(|link| link.starts_with("/dev/mapper/"))
        .unwrap_or(&device.path)
}
