//! Devices as an agent tells them. Values in, values out.

use std::collections::BTreeMap;

use hypercloud_inventory::{Device, Explanation, FileSystem, Identity, Inventory, Kind, Partition};
use hypercloud_proto::agent::v1 as proto;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The devices that were told so far, by their kernel's names.
#[derive(Debug, Default)]
pub(super) struct Known {
    devices: BTreeMap<String, Device>,
}

impl Known {
    pub(super) fn count(&self) -> u64 {
        self.devices.len() as u64
    }

    /// A device that is new or has changed.
    pub(super) fn changed(&mut self, told: proto::Device) {
        let device = device(told);
        self.devices.insert(device.name.clone(), device);
    }

    /// A device that is gone.
    pub(super) fn removed(&mut self, name: &str) {
        self.devices.remove(name);
    }

    /// The node as it was at a look, disks before their partitions.
    pub(super) fn inventory(&self, look: &proto::Look) -> Inventory {
        let mut devices: Vec<Device> = self.devices.values().cloned().collect();
        devices.sort_by_cached_key(|device| {
            let disk = device.disk.as_ref().unwrap_or(&device.name);
            (natural(disk), device.disk.is_some(), natural(&device.name))
        });
        Inventory {
            hostname: look.hostname.clone(),
            boot_id: look.boot_id.clone(),
            devices,
        }
    }
}

/// `sdb` before `sdaa`, `nvme2n1` before `nvme10n1`.
fn natural(name: &str) -> (String, usize, Vec<u64>, String) {
    let family: String = name.chars().take(2).collect();
    let letters = name.chars().take_while(|c| !c.is_ascii_digit()).count();
    let numbers = name.split(|c: char| !c.is_ascii_digit());
    let numbers = numbers.filter_map(|digits| digits.parse().ok()).collect();
    (family, letters, numbers, name.to_owned())
}

fn device(told: proto::Device) -> Device {
    let kind = kind(told.kind());
    let mut reasons: Vec<Explanation> = told
        .reasons
        .into_iter()
        .map(|told| Explanation {
            reason: told.reason,
            message: told.message,
        })
        .collect();
    if kind.is_none() {
        reasons.push(Explanation {
            reason: "Unknown".to_owned(),
            message: "not known: what kind of device it is; the agent is newer than this program"
                .to_owned(),
        });
    }
    let identity = told.identity.unwrap_or_default();
    Device {
        name: told.name,
        path: told.path,
        kind: kind.unwrap_or(Kind::Disk),
        available: told.available && reasons.is_empty(),
        reasons,
        identity: Identity {
            by_id: identity.by_id,
            links: identity.links,
            wwn: identity.wwn,
            serial: identity.serial,
            disk_sequence: identity.disk_sequence,
        },
        disk: told.disk,
        number: told.number,
        size: told.size,
        logical_block_size: told.logical_block_size,
        physical_block_size: told.physical_block_size,
        rotational: told.rotational,
        removable: told.removable,
        read_only: told.read_only,
        discard: told.discard,
        transport: told.transport.and_then(word),
        model: told.model,
        vendor: told.vendor,
        firmware: told.firmware,
        device_class: told.device_class.and_then(word),
        partitions: told
            .partitions
            .into_iter()
            .map(|told| Partition {
                name: told.name,
                size: told.size,
            })
            .collect(),
        file_system: told.content.map(|told| FileSystem {
            kind: told.kind,
            label: told.label,
        }),
        holders: told.holders,
        slaves: told.slaves,
        mounts: told.mounts,
        backing_file: told.backing_file,
    }
}

/// A value by its word in JSON; nothing for a word of a newer agent.
fn word<T: DeserializeOwned>(word: String) -> Option<T> {
    serde_json::from_value(Value::String(word)).ok()
}

/// Nothing for a kind of a newer agent.
fn kind(told: proto::DeviceKind) -> Option<Kind> {
    use proto::DeviceKind as Told;
    Some(match told {
        Told::Unspecified => return None,
        Told::Disk => Kind::Disk,
        Told::Partition => Kind::Partition,
        Told::Multipath => Kind::Multipath,
        Told::Encrypted => Kind::Encrypted,
        Told::LogicalVolume => Kind::LogicalVolume,
        Told::Mapper => Kind::Mapper,
        Told::Raid => Kind::Raid,
        Told::Loop => Kind::Loop,
        Told::Ram => Kind::Ram,
        Told::Zram => Kind::Zram,
        Told::Nbd => Kind::Nbd,
        Told::Rbd => Kind::Rbd,
        Told::Drbd => Kind::Drbd,
        Told::Bcache => Kind::Bcache,
        Told::Zvol => Kind::Zvol,
        Told::Optical => Kind::Optical,
        Told::Floppy => Kind::Floppy,
        Told::Flash => Kind::Flash,
    })
}

#[cfg(test)]
mod tests {
    use hypercloud_inventory::{DeviceClass, Transport};

    use super::*;

    fn told(name: &str, disk: Option<&str>) -> proto::Device {
        proto::Device {
            name: name.into(),
            kind: proto::DeviceKind::Disk.into(),
            available: true,
            disk: disk.map(str::to_owned),
            ..proto::Device::default()
        }
    }

    #[test]
    fn devices_stay_in_order_through_changes() {
        let mut known = Known::default();
        for (name, disk) in [
            ("sda10", Some("sda")),
            ("sdaa", None),
            ("sda1", Some("sda")),
            ("sda", None),
            ("sdb", None),
            ("sda2", Some("sda")),
            ("sdb1", Some("sdb")),
            ("sda", None),
        ] {
            known.changed(told(name, disk));
        }
        known.removed("sda1");
        let inventory = known.inventory(&proto::Look::default());
        let names: Vec<_> = inventory.devices.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["sda", "sda2", "sda10", "sdb", "sdb1", "sdaa"]);
        assert_eq!(known.count(), 6);
    }

    #[test]
    fn what_a_newer_agent_says_is_never_available() {
        let mut newer = told("x0", None);
        newer.kind = 4711;
        newer.transport = Some("telepathy".into());
        let read = device(newer);
        assert!(!read.available && read.transport.is_none());
        assert_eq!(read.reasons[0].code(), "Unknown");
        let mut known = told("nvme0n1", None);
        known.transport = Some("nvme".into());
        known.device_class = Some("nvme".into());
        let read = device(known);
        assert!(read.available);
        assert_eq!(read.transport, Some(Transport::Nvme));
        assert_eq!(read.device_class, Some(DeviceClass::Nvme));
    }
}
