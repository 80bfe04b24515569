//! Devices to make inventories of.

use std::sync::Arc;

use hypercloud_coordinator::agents::devices::Told;
use hypercloud_inventory::{Device, Explanation, Identity, Inventory, Kind, Partition};
use k8s_openapi::jiff::Timestamp;

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A device; one that is not available is so for a reason.
pub fn device(name: &str, available: bool) -> Device {
    let reason = Explanation {
        reason: "FileSystem".into(),
        message: "a file system (ext4)".into(),
    };
    Device {
        name: name.into(),
        path: format!("/dev/{name}"),
        kind: Kind::Disk,
        available,
        reasons: if available { vec![] } else { vec![reason] },
        identity: Identity {
            by_id: Some(format!("/dev/disk/by-id/ata-{name}")),
            links: vec![
                format!("/dev/disk/by-id/ata-{name}"),
                format!("/dev/disk/by-path/pci-0000:00:1f.2-{name}"),
            ],
            wwn: None,
            serial: Some(format!("S-{name}")),
            disk_sequence: Some(7),
        },
        disk: None,
        number: Some("8:0".into()),
        size: 1 << 40,
        logical_block_size: Some(512),
        physical_block_size: Some(4096),
        rotational: Some(true),
        removable: Some(false),
        read_only: Some(false),
        discard: Some(false),
        transport: None,
        model: Some("MODEL OF A DISK".into()),
        vendor: Some("VENDOR".into()),
        firmware: Some("1.0".into()),
        device_class: None,
        partitions: vec![],
        file_system: None,
        holders: vec![],
        slaves: vec![],
        mounts: vec![],
        backing_file: None,
    }
}

/// A disk as a large node has many: with paths, links and partitions.
pub fn large(name: &str, available: bool) -> Device {
    let mut device = device(name, available);
    let links =
        (0..8).map(|n| format!("/dev/disk/by-path/pci-0000:3b:00.{n}-sas-0x5000c500{name}"));
    device.identity.links.extend(links);
    device.partitions = (1..4)
        .map(|n| Partition {
            name: format!("{name}{n}"),
            size: 1 << 30,
        })
        .collect();
    device
}

pub fn told(revision: u64, devices: Vec<Device>) -> Arc<Told> {
    Arc::new(Told {
        revision,
        inventory: Inventory {
            hostname: Some("kernel-name".into()),
            boot_id: Some("boot".into()),
            devices,
        },
    })
}
