//! Devices, and what is asked about them.

use hypercloud_inventory::cleaning::Meant;
use hypercloud_inventory::{Device, Explanation, Identity, Kind, Transport};
use hypercloud_proto::agent::v1 as proto;
use tonic::Status;

use super::invalid;
use crate::devices::board::Look;
use crate::devices::cleaning::Cleaned;

pub(in crate::server) fn look(look: &Look) -> proto::Look {
    let Look {
        revision,
        hostname,
        boot_id,
        devices,
    } = look;
    proto::Look {
        revision: *revision,
        hostname: hostname.clone(),
        boot_id: boot_id.clone(),
        devices: devices.len() as u64,
    }
}

pub(in crate::server) fn device(device: &Device) -> proto::Device {
    let Device {
        name,
        path,
        kind,
        available,
        reasons,
        identity,
        disk,
        number,
        size,
        logical_block_size,
        physical_block_size,
        rotational,
        removable,
        read_only,
        discard,
        transport,
        model,
        vendor,
        firmware,
        device_class,
        partitions,
        file_system,
        holders,
        slaves,
        mounts,
        backing_file,
    } = device.clone();
    proto::Device {
        name,
        path,
        kind: self::kind(kind).into(),
        available,
        reasons: reasons.into_iter().map(explanation).collect(),
        identity: Some(self::identity(identity)),
        disk,
        number,
        size,
        logical_block_size,
        physical_block_size,
        rotational,
        removable,
        read_only,
        discard,
        transport: transport.map(|transport| word(transport).to_owned()),
        model,
        vendor,
        firmware,
        device_class: device_class.map(|class| class_word(class).to_owned()),
        partitions: partitions
            .into_iter()
            .map(|part| proto::DevicePartition {
                name: part.name,
                size: part.size,
            })
            .collect(),
        content: file_system.map(|held| proto::DeviceContent {
            kind: held.kind,
            label: held.label,
        }),
        holders,
        slaves,
        mounts,
        backing_file,
    }
}

fn explanation(told: Explanation) -> proto::Explanation {
    let Explanation { reason, message } = told;
    proto::Explanation { reason, message }
}

fn identity(identity: Identity) -> proto::DeviceIdentity {
    let Identity {
        by_id,
        links,
        wwn,
        serial,
        disk_sequence,
    } = identity;
    proto::DeviceIdentity {
        by_id,
        links,
        wwn,
        serial,
        disk_sequence,
    }
}

fn kind(kind: Kind) -> proto::DeviceKind {
    match kind {
        Kind::Disk => proto::DeviceKind::Disk,
        Kind::Partition => proto::DeviceKind::Partition,
        Kind::Multipath => proto::DeviceKind::Multipath,
        Kind::Encrypted => proto::DeviceKind::Encrypted,
        Kind::LogicalVolume => proto::DeviceKind::LogicalVolume,
        Kind::Mapper => proto::DeviceKind::Mapper,
        Kind::Raid => proto::DeviceKind::Raid,
        Kind::Loop => proto::DeviceKind::Loop,
        Kind::Ram => proto::DeviceKind::Ram,
        Kind::Zram => proto::DeviceKind::Zram,
        Kind::Nbd => proto::DeviceKind::Nbd,
        Kind::Rbd => proto::DeviceKind::Rbd,
        Kind::Drbd => proto::DeviceKind::Drbd,
        Kind::Bcache => proto::DeviceKind::Bcache,
        Kind::Zvol => proto::DeviceKind::Zvol,
        Kind::Optical => proto::DeviceKind::Optical,
        Kind::Floppy => proto::DeviceKind::Floppy,
        Kind::Flash => proto::DeviceKind::Flash,
    }
}

fn word(transport: Transport) -> &'static str {
    match transport {
        Transport::Ata => "ata",
        Transport::Fc => "fc",
        Transport::Iscsi => "iscsi",
        Transport::Mmc => "mmc",
        Transport::Nvme => "nvme",
        Transport::Sas => "sas",
        Transport::Scsi => "scsi",
        Transport::Usb => "usb",
        Transport::Virtio => "virtio",
    }
}

fn class_word(class: hypercloud_inventory::DeviceClass) -> &'static str {
    use hypercloud_inventory::DeviceClass;

    match class {
        DeviceClass::Hdd => "hdd",
        DeviceClass::Ssd => "ssd",
        DeviceClass::Nvme => "nvme",
    }
}

/// The device that a request means, and why it is to be cleaned.
pub(in crate::server) fn meant(
    request: proto::CleanDeviceRequest,
) -> Result<(Meant, String), Status> {
    let proto::CleanDeviceRequest {
        path,
        identity,
        size,
        boot_id,
        reference,
    } = request;
    let name = path.strip_prefix("/dev/").unwrap_or_default();
    if name.is_empty() || name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(invalid(format!(
            "{path:?} is no kernel's path of a device, such as /dev/sdb"
        )));
    }
    if size == 0 {
        return Err(invalid("the request does not say how large the device is"));
    }
    let proto::DeviceIdentity {
        by_id,
        links,
        wwn,
        serial,
        disk_sequence,
    } = identity.unwrap_or_default();
    let meant = Meant {
        path,
        by_id,
        links,
        wwn,
        serial,
        disk_sequence,
        size,
        boot_id,
    };
    Ok((meant, reference))
}

pub(in crate::server) fn cleaned(cleaned: Cleaned) -> proto::CleanedDevice {
    let Cleaned { removed, discarded } = cleaned;
    proto::CleanedDevice { removed, discarded }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> proto::CleanDeviceRequest {
        proto::CleanDeviceRequest {
            path: "/dev/sdb".into(),
            identity: Some(proto::DeviceIdentity {
                wwn: Some("5000".into()),
                disk_sequence: Some(7),
                ..proto::DeviceIdentity::default()
            }),
            size: 512,
            boot_id: Some("b".into()),
            reference: "cleanup-1".into(),
        }
    }

    #[test]
    fn a_whole_request_is_understood() {
        let (meant, reference) = meant(request()).unwrap();
        assert_eq!(reference, "cleanup-1");
        let expected = Meant {
            path: "/dev/sdb".into(),
            wwn: Some("5000".into()),
            disk_sequence: Some(7),
            size: 512,
            boot_id: Some("b".into()),
            ..Meant::default()
        };
        assert_eq!(meant, expected);
    }

    #[test]
    fn what_names_no_device_is_refused() {
        for path in [
            "",
            "sdb",
            "/dev/",
            "/dev/../etc/passwd",
            "/dev//sdb",
            "/etc/sdb",
        ] {
            let request = proto::CleanDeviceRequest {
                path: path.into(),
                ..request()
            };
            assert!(meant(request).is_err(), "{path} was taken");
        }
        let request = proto::CleanDeviceRequest {
            size: 0,
            ..request()
        };
        assert!(meant(request).is_err());
    }

    /// What is told with words is what the inventory itself writes.
    #[test]
    fn words_are_those_of_the_inventory() {
        let text = serde_json::to_string(&Transport::Iscsi).unwrap();
        assert_eq!(text, format!("{:?}", word(Transport::Iscsi)));
        let class = hypercloud_inventory::DeviceClass::Nvme;
        let text = serde_json::to_string(&class).unwrap();
        assert_eq!(text, format!("{:?}", class_word(class)));
    }
}
