//! What unfinished cleanups take out of a node's inventory. Pure.
//!
//! Between the erasure and the answer a device may show as available while its
//! cleanup is not over; whoever takes devices by himself leaves it alone.

use std::collections::BTreeSet;

use hypercloud_inventory::cleaning::find;
use hypercloud_inventory::{Device, Explanation, Inventory};

use super::choose::{meant, named};
use super::observation::OtherSeen;

/// Why a device that a cleanup names is not available, in one word.
const REASON: &str = "BeingCleaned";

/// Takes the disks that these cleanups of the node mean, with their
/// partitions, out of what is available.
pub fn withhold(inventory: &mut Inventory, cleanups: &[OtherSeen]) {
    for cleanup in cleanups {
        let disks = disks(inventory, cleanup);
        let told = Explanation {
            reason: REASON.to_owned(),
            message: format!("the NodeDeviceCleanup {} is not over", cleanup.name),
        };
        for device in &mut inventory.devices {
            if disks.contains(&disk(device)) {
                device.available = false;
                device.reasons.push(told.clone());
            }
        }
    }
}

/// Names of the disks that a cleanup may mean: by what is written down of its
/// device, and by the name it was asked for.
fn disks(inventory: &Inventory, cleanup: &OtherSeen) -> BTreeSet<String> {
    let written = cleanup.device.iter();
    let found = written.clone().filter_map(|device| {
        let found = find(inventory, &meant(device));
        found.ok()
    });
    // What cannot be told from another any more may still be it.
    let called = written.flat_map(|device| named(inventory, &device.path));
    let asked = named(inventory, &cleanup.asked);
    found.chain(called).chain(asked).map(disk).collect()
}

fn disk(device: &Device) -> String {
    device.disk.clone().unwrap_or_else(|| device.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypercloud_api::CleanupDevice;
    use serde_json::json;

    fn inventory() -> Inventory {
        let device = |name: &str, disk: Option<&str>| {
            json!({"name": name, "path": format!("/dev/{name}"), "available": true,
                "kind": if disk.is_some() { "partition" } else { "disk" }, "disk": disk,
                "size": 1_u64 << 40, "identity": {
                    "byId": format!("/dev/disk/by-id/wwn-{name}"),
                    "links": [format!("/dev/disk/by-id/wwn-{name}")]}})
        };
        let devices = [
            device("sda", None),
            device("sdb", None),
            device("sdb1", Some("sdb")),
        ];
        serde_json::from_value(json!({"bootId": "b", "devices": devices})).unwrap()
    }

    fn cleanup(asked: &str, device: Option<CleanupDevice>) -> OtherSeen {
        OtherSeen {
            name: "wipe".into(),
            age: (None, String::new()),
            asked: asked.into(),
            device,
        }
    }

    fn left(cleanups: &[OtherSeen]) -> Vec<String> {
        let mut inventory = inventory();
        withhold(&mut inventory, cleanups);
        let left = inventory.available();
        left.map(|device| device.name.clone()).collect()
    }

    #[test]
    fn a_disk_that_is_to_be_cleaned_is_not_available_by_any_name() {
        for asked in ["sdb", "/dev/sdb1", "/dev/disk/by-id/wwn-sdb"] {
            assert_eq!(left(&[cleanup(asked, None)]), ["sda"], "{asked}");
        }
        assert_eq!(left(&[cleanup("sdz", None)]), ["sda", "sdb", "sdb1"]);
        assert!(left(&[cleanup("sda", None), cleanup("sdb", None)]).is_empty());
    }

    #[test]
    fn what_is_written_down_is_left_alone_whatever_it_is_called_now() {
        let device = CleanupDevice {
            path: "/dev/sda".into(),
            by_id: Some("/dev/disk/by-id/wwn-sdb".into()),
            boot_id: Some("former".into()),
            size: 1 << 40,
            ..CleanupDevice::default()
        };
        assert!(left(&[cleanup("gone", Some(device))]).is_empty());
    }

    #[test]
    fn people_are_told_which_cleanup_it_is() {
        let mut inventory = inventory();
        withhold(&mut inventory, &[cleanup("sda", None)]);
        let told = &inventory.devices[0].reasons[0];
        assert_eq!(told.code(), "BeingCleaned");
        assert!(told.message.contains("NodeDeviceCleanup wipe"));
    }
}
