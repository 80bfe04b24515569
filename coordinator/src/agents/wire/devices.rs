//! Devices and their cleaning on the wire.
//!
//! Invariant: what an agent of a newer version says and is not understood
//! here makes a device unavailable, never available.

use hypercloud_api::CleanupDevice;
use hypercloud_inventory::{
    Device, DeviceClass, Explanation, FileSystem, Identity, Kind, Partition, Reason, Transport,
};
use hypercloud_proto::agent::v1 as proto;

use super::{Missing, failure_from};
use crate::agents::Failure;
use crate::agents::devices::table::Look;
use crate::agents::devices::{Cleaned, CleaningOrder};

/// A device as the agent tells it.
pub(in crate::agents) fn device(device: proto::Device) -> Result<Device, Missing> {
    if device.name.is_empty() || device.path.is_empty() {
        return Err(Missing("a name"));
    }
    let known = kind(device.kind());
    let unexplained = !device.available && device.reasons.is_empty();
    let explanations = device.reasons.into_iter().map(|told| Explanation {
        reason: told.reason,
        message: told.message,
    });
    let mut reasons: Vec<Explanation> = explanations.collect();
    let mut unknown = |what: &str| {
        let what = what.to_owned();
        reasons.push(Explanation::from(&Reason::Unknown { what }));
    };
    if known.is_none() {
        unknown("what kind of device it is, to this coordinator");
    }
    if unexplained {
        unknown("why it is not available");
    }
    let identity = device.identity.unwrap_or_default();
    Ok(Device {
        available: reasons.is_empty(),
        name: device.name,
        path: device.path,
        kind: known.unwrap_or(Kind::Disk),
        reasons,
        identity: Identity {
            by_id: identity.by_id,
            links: identity.links,
            wwn: identity.wwn,
            serial: identity.serial,
            disk_sequence: identity.disk_sequence,
        },
        disk: device.disk,
        number: device.number,
        size: device.size,
        logical_block_size: device.logical_block_size,
        physical_block_size: device.physical_block_size,
        rotational: device.rotational,
        removable: device.removable,
        read_only: device.read_only,
        discard: device.discard,
        transport: device.transport.as_deref().and_then(transport),
        model: device.model,
        vendor: device.vendor,
        firmware: device.firmware,
        device_class: device.device_class.as_deref().and_then(class),
        partitions: device
            .partitions
            .into_iter()
            .map(|partition| Partition {
                name: partition.name,
                size: partition.size,
            })
            .collect(),
        file_system: device.content.map(|content| FileSystem {
            kind: content.kind,
            label: content.label,
        }),
        holders: device.holders,
        slaves: device.slaves,
        mounts: device.mounts,
        backing_file: device.backing_file,
    })
}

fn kind(kind: proto::DeviceKind) -> Option<Kind> {
    Some(match kind {
        proto::DeviceKind::Unspecified => return None,
        proto::DeviceKind::Disk => Kind::Disk,
        proto::DeviceKind::Partition => Kind::Partition,
        proto::DeviceKind::Multipath => Kind::Multipath,
        proto::DeviceKind::Encrypted => Kind::Encrypted,
        proto::DeviceKind::LogicalVolume => Kind::LogicalVolume,
        proto::DeviceKind::Mapper => Kind::Mapper,
        proto::DeviceKind::Raid => Kind::Raid,
        proto::DeviceKind::Loop => Kind::Loop,
        proto::DeviceKind::Ram => Kind::Ram,
        proto::DeviceKind::Zram => Kind::Zram,
        proto::DeviceKind::Nbd => Kind::Nbd,
        proto::DeviceKind::Rbd => Kind::Rbd,
        proto::DeviceKind::Drbd => Kind::Drbd,
        proto::DeviceKind::Bcache => Kind::Bcache,
        proto::DeviceKind::Zvol => Kind::Zvol,
        proto::DeviceKind::Optical => Kind::Optical,
        proto::DeviceKind::Floppy => Kind::Floppy,
        proto::DeviceKind::Flash => Kind::Flash,
    })
}

/// Words of a newer agent are left out: nothing is decided by them.
fn transport(word: &str) -> Option<Transport> {
    Some(match word {
        "ata" => Transport::Ata,
        "fc" => Transport::Fc,
        "iscsi" => Transport::Iscsi,
        "mmc" => Transport::Mmc,
        "nvme" => Transport::Nvme,
        "sas" => Transport::Sas,
        "scsi" => Transport::Scsi,
        "usb" => Transport::Usb,
        "virtio" => Transport::Virtio,
        _ => return None,
    })
}

fn class(word: &str) -> Option<DeviceClass> {
    Some(match word {
        "hdd" => DeviceClass::Hdd,
        "ssd" => DeviceClass::Ssd,
        "nvme" => DeviceClass::Nvme,
        _ => return None,
    })
}

/// A look as the agent tells it.
pub(in crate::agents) fn look(look: proto::Look) -> Look {
    Look {
        revision: look.revision,
        hostname: look.hostname,
        boot_id: look.boot_id,
        devices: look.devices,
    }
}

/// The request that has a device cleaned.
pub(in crate::agents) fn clean_request(order: &CleaningOrder) -> proto::CleanDeviceRequest {
    let CleanupDevice {
        path,
        by_id,
        wwn,
        serial,
        size,
        boot_id,
        disk_sequence,
    } = order.device.clone();
    proto::CleanDeviceRequest {
        path,
        identity: Some(proto::DeviceIdentity {
            by_id,
            links: Vec::new(),
            wwn,
            serial,
            disk_sequence,
        }),
        size,
        boot_id,
        reference: order.reference.clone(),
    }
}

/// How a cleaning ended.
pub(in crate::agents) fn cleaned(
    response: proto::CleanDeviceResponse,
) -> Result<Result<Cleaned, Failure>, Missing> {
    match response.result {
        Some(proto::clean_device_response::Result::Cleaned(cleaned)) => Ok(Ok(Cleaned {
            removed: cleaned.removed,
            discarded: cleaned.discarded,
        })),
        Some(proto::clean_device_response::Result::Failure(failure)) => {
            Ok(Err(failure_from(failure)))
        }
        None => Err(Missing("a result")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> proto::Device {
        proto::Device {
            name: "sda".into(),
            path: "/dev/sda".into(),
            kind: proto::DeviceKind::Disk.into(),
            available: true,
            size: 7,
            transport: Some("sas".into()),
            device_class: Some("hdd".into()),
            ..proto::Device::default()
        }
    }

    #[test]
    fn a_free_disk_is_free() {
        let disk = device(disk()).unwrap();
        assert!(disk.available && disk.reasons.is_empty());
        assert_eq!(disk.transport, Some(Transport::Sas));
        assert_eq!(disk.device_class, Some(DeviceClass::Hdd));
    }

    #[test]
    fn what_is_not_understood_is_not_available() {
        let codes = |told| {
            let device = device(told).unwrap();
            assert!(!device.available);
            let codes = device.reasons.iter().map(|reason| reason.code().to_owned());
            codes.collect::<Vec<_>>()
        };
        let newer = proto::Device {
            kind: 1000,
            transport: Some("telepathy".into()),
            ..disk()
        };
        assert_eq!(codes(newer), ["Unknown"]);
        let silent = proto::Device {
            available: false,
            ..disk()
        };
        assert_eq!(codes(silent), ["Unknown"]);
        let contradictory = proto::Device {
            reasons: vec![proto::Explanation {
                reason: "NewReason".into(),
                message: "for people".into(),
            }],
            ..disk()
        };
        assert_eq!(codes(contradictory), ["NewReason"]);
        assert!(device(proto::Device::default()).is_err());
    }
}
