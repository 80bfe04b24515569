//! From the inventory to what Rook is given, and from a name to a device.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod machine;

use hypercloud_inventory::resolve::{Refusal, resolve};
use hypercloud_inventory::rook::{Selector, choose, storage};
use hypercloud_inventory::{Inventory, Policy};
use machine::{GIB, Machine};

/// A machine with a system disk, an empty disk, an empty flash disk, and one
/// without a link.
fn machine() -> Machine {
    let machine = Machine::new();
    let system = machine.sata("sda", "8:0", "a0");
    system.partition("sda1", "8:1", 90 * GIB);
    system.partition("sda2", "8:2", 10 * GIB);
    machine.mounted("27 1 8:1 / / rw - ext4 /dev/sda1 rw");
    machine.sata("sdb", "8:16", "b0").size(4000 * GIB);
    machine
        .sata("sdc", "8:32", "c0")
        .attribute("queue/rotational", "0");
    let bare = machine.disk("vda", "252:0", "pci0000:00/virtio0");
    bare.udev(&["S:disk/by-path/pci-1"]);
    machine
}

fn names(inventory: &Inventory, selector: &Selector) -> Vec<String> {
    let choice = choose(inventory, "node-1", selector);
    choice
        .node
        .devices
        .into_iter()
        .map(|device| device.name)
        .collect()
}

#[test]
fn rook_is_given_what_is_available_by_stable_paths() {
    let inventory = machine().inventory();
    let choice = choose(&inventory, "node-1", &Selector::default());
    assert_eq!(
        choice.refused,
        [Refusal::NoStableName {
            name: "/dev/vda".into()
        }]
    );
    let text = serde_yaml::to_string(&storage([choice.node])).unwrap();
    assert_eq!(
        text,
        "useAllNodes: false
useAllDevices: false
nodes:
- name: node-1
  devices:
  - name: /dev/disk/by-id/wwn-0xb0
    config:
      deviceClass: hdd
  - name: /dev/disk/by-id/wwn-0xc0
    config:
      deviceClass: ssd
"
    );
}

#[test]
fn selectors_narrow_the_choice() {
    let inventory = machine().inventory();
    let of = |selector| names(&inventory, &selector);
    assert_eq!(
        of(Selector {
            min_size: Some(1000 * GIB),
            ..Selector::default()
        }),
        ["/dev/disk/by-id/wwn-0xb0"]
    );
    assert_eq!(
        of(Selector {
            rotational: Some(false),
            ..Selector::default()
        }),
        ["/dev/disk/by-id/wwn-0xc0"]
    );
    assert_eq!(
        of(Selector {
            model: Some("disk-4".into()),
            ..Selector::default()
        })
        .len(),
        2
    );
    assert!(
        of(Selector {
            model: Some("other".into()),
            ..Selector::default()
        })
        .is_empty()
    );
}

#[test]
fn a_node_without_devices_is_not_named() {
    let inventory = Machine::new().inventory();
    let choice = choose(&inventory, "node-1", &Selector::default());
    assert!(storage([choice.node]).nodes.is_empty());
}

#[test]
fn any_name_of_a_device_leads_to_its_stable_path() {
    let inventory = machine().inventory();
    for name in [
        "sdb",
        "/dev/sdb",
        "/dev/disk/by-path/pci-sdb",
        "/dev/disk/by-id/ata-DISK-4000_b0",
    ] {
        let resolved = resolve(&inventory, name).unwrap();
        assert_eq!(resolved.path, "/dev/disk/by-id/wwn-0xb0", "{name}");
    }
}

#[test]
fn what_cannot_be_used_is_refused_with_its_reasons() {
    let inventory = machine().inventory_by(&Policy::default().for_named());
    let refused = |name| resolve(&inventory, name).unwrap_err();
    assert!(matches!(refused("/dev/sdz"), Refusal::NotThere { .. }));
    assert!(matches!(refused("vda"), Refusal::NoStableName { .. }));
    let system = refused("/dev/sda");
    assert!(matches!(system, Refusal::NotAvailable { .. }));
    assert_eq!(
        system.to_string(),
        "/dev/sda is not available: the node's / is on it; has the partitions sda1, sda2"
    );
}

#[test]
fn a_link_that_two_disks_claim_is_refused() {
    let machine = Machine::new();
    machine.sata("sda", "8:0", "a0");
    machine.sata("sdb", "8:16", "a0");
    let inventory = machine.inventory();
    let refused = resolve(&inventory, "/dev/disk/by-id/wwn-0xa0").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "/dev/disk/by-id/wwn-0xa0 is claimed by sda, sdb"
    );
}

#[test]
fn after_a_reboot_the_path_leads_to_the_same_disk_by_another_name() {
    let before = Machine::new();
    before.sata("sda", "8:0", "a0");
    before.sata("sdb", "8:16", "b0");
    let after = Machine::new();
    after.sata("sda", "8:0", "b0");
    after.sata("sdb", "8:16", "a0");
    let (before, after) = (before.inventory(), after.inventory());

    let chosen = resolve(&before, "/dev/sda").unwrap();
    let found = resolve(&after, chosen.path).unwrap();
    assert_eq!(found.device.name, "sdb");
    assert_eq!(found.device.identity.serial, chosen.device.identity.serial);
    assert_eq!(names(&before, &Selector::default()), {
        let mut names = names(&after, &Selector::default());
        names.reverse();
        names
    });
}
