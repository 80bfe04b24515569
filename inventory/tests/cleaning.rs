//! Which device is meant, and whether it may be cleaned, on trees.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod machine;

use hypercloud_inventory::Inventory;
use hypercloud_inventory::cleaning::{Meant, Refusal, find, may_be_cleaned};
use machine::{GIB, Machine, device};

fn refused(inventory: &Inventory, name: &str) -> (Vec<String>, String) {
    match may_be_cleaned(inventory, device(inventory, name)) {
        Ok(()) => (Vec::new(), String::new()),
        Err(refusal) => {
            let text = refusal.to_string();
            let Refusal::Used { reasons, .. } = refusal else {
                panic!("{refusal:?}")
            };
            (reasons.into_iter().map(|told| told.reason).collect(), text)
        }
    }
}

#[test]
fn what_lies_on_a_device_is_what_cleaning_is_for() {
    let machine = Machine::new();
    machine.sata("sda", "8:0", "a0").size(GIB).udev(&[
        "E:ID_FS_TYPE=LVM2_member",
        "E:ID_FS_USAGE=raid",
        "E:ID_FS_AMBIVALENT=x",
    ]);
    let table = machine.sata("sdb", "8:16", "b0");
    table.udev(&["E:ID_PART_TABLE_TYPE=gpt"]);
    table
        .partition("sdb1", "8:17", 50 * GIB)
        .udev(&["E:ID_FS_TYPE=ext4", "E:ID_FS_USAGE=filesystem"]);
    let inventory = machine.inventory();
    for name in ["sda", "sdb", "sdb1"] {
        assert_eq!(refused(&inventory, name).0, [""; 0], "{name}");
    }
}

#[test]
fn what_is_used_is_refused_with_a_way_out() {
    let machine = Machine::new();
    let disk = machine.sata("sda", "8:0", "a0");
    disk.partition("sda1", "8:1", 50 * GIB);
    machine.mounted("27 1 8:1 / /data rw - ext4 /dev/sda1 rw");
    let held = machine.sata("sdb", "8:16", "b0");
    held.held_by("dm-0");
    machine
        .disk("dm-0", "253:0", "virtual")
        .made_of("sdb")
        .mapper("ceph--1-osd--block", "LVM-abc");
    machine.sata("sdc", "8:32", "c0").held_by("md127");
    machine.disk("md127", "9:127", "virtual").made_of("sdc");
    machine.sata("sdd", "8:48", "d0").attribute("ro", "1");
    machine.sata("sde", "8:64", "e0");
    machine.write(
        "proc/swaps",
        "Filename Type Size Used Priority\n/dev/sde partition 1 0 -2\n",
    );
    machine.sata("sdf", "8:80", "ff").without("ro");
    // Its logical partitions are behind it on the disk.
    let table = machine.sata("sdg", "8:96", "aa");
    table
        .partition("sdg4", "8:100", 1024)
        .udev(&["E:ID_PART_TABLE_TYPE=dos"]);
    // What a pod has as a block device.
    machine.sata("sdh", "8:112", "ab");
    machine
        .disk("loop7", "7:7", "virtual")
        .attribute("loop/backing_file", "/dev/disk/by-id/wwn-0xab");
    // A disk that is a member as a whole.
    let member = machine.sata("sdi", "8:128", "ac");
    member.udev(&["E:ID_FS_TYPE=zfs_member", "E:ID_FS_USAGE=filesystem"]);
    member.partition("sdi1", "8:129", 50 * GIB);
    let inventory = machine.inventory();
    let codes = machine::codes(&inventory, "sdi1");
    assert_eq!(codes, ["ZfsMember"]);
    assert!(!device(&inventory, "sdh").available);
    for (name, codes, says) in [
        ("sda", &["Mounted"][..], "umount /dev/sda1"),
        ("sda1", &["Mounted"], "umount /dev/sda1"),
        ("sdb", &["Held"], "lvchange --activate n"),
        ("sdc", &["Held"], "mdadm --stop /dev/md127"),
        ("sdd", &["ReadOnly"], "blockdev --setrw /dev/sdd"),
        ("sde", &["ActiveSwap"], "swapoff /dev/sde"),
        ("sdf", &["Unknown"], "whether it is read-only"),
        ("md127", &["RaidArray", "Unknown"], "an array"),
        ("sdg4", &["ReservedPartition"], "holds other partitions"),
        ("sdh", &["Held"], "losetup --detach /dev/loop7"),
    ] {
        let (found, text) = refused(&inventory, name);
        assert_eq!(found, codes, "{name}: {text}");
        assert!(text.contains(says), "{name}: {text}");
    }
}

fn pinned(machine: &Machine, name: &str) -> Meant {
    let inventory = machine.inventory();
    Meant::of(&inventory, device(&inventory, name))
}

#[test]
fn the_device_is_found_as_long_as_it_is_the_same() {
    let machine = Machine::new();
    let disk = machine.sata("sda", "8:0", "a0");
    machine.sata("sdb", "8:16", "b0");
    let meant = pinned(&machine, "sda");
    let found = |meant: &Meant| {
        let inventory = machine.inventory();
        find(&inventory, meant)
            .map(|device| device.name.clone())
            .map_err(|refusal| refusal.code().to_owned())
    };
    assert_eq!(found(&meant), Ok("sda".into()));
    assert_eq!(
        found(&Meant {
            boot_id: None,
            disk_sequence: None,
            ..meant.clone()
        }),
        Ok("sda".into())
    );
    // Links that name what is on it go with that.
    let links = ["/dev/disk/by-id/lvm-pv-uuid-x", "/dev/disk/by-uuid/y"];
    assert_eq!(
        found(&Meant {
            links: links.map(String::from).to_vec(),
            ..meant.clone()
        }),
        Ok("sda".into())
    );

    let other = |change: fn(&mut Meant)| {
        let mut meant = meant.clone();
        change(&mut meant);
        found(&meant)
    };
    let another = Err("AnotherDevice".to_owned());
    assert_eq!(other(|it| it.size += 512), another);
    assert_eq!(other(|it| it.wwn = Some("b0".into())), another);
    assert_eq!(other(|it| it.serial = Some("x".into())), another);
    assert_eq!(other(|it| it.disk_sequence = Some(8)), another);
    assert_eq!(
        other(|it| it.by_id = Some("/dev/disk/by-id/wwn-0xb0".into())),
        another
    );
    assert_eq!(
        other(|it| it.links = vec!["/dev/disk/by-id/ata-x".into()]),
        another
    );
    assert_eq!(
        other(|it| it.path = "/dev/sdz".into()),
        Err("DeviceNotThere".into())
    );
    let bare = Meant {
        path: "/dev/sda".into(),
        size: meant.size,
        ..Meant::default()
    };
    assert_eq!(found(&bare), Err("DeviceNotIdentified".into()));

    // The disk was changed for another during the boot.
    disk.attribute("diskseq", "9");
    assert_eq!(found(&meant), another);
}

#[test]
fn after_a_reboot_it_is_found_by_what_it_is() {
    let machine = Machine::new();
    machine.sata("sda", "8:0", "a0");
    let meant = pinned(&machine, "sda");
    let bare = Meant {
        by_id: None,
        wwn: None,
        serial: None,
        ..meant.clone()
    };

    let after = Machine::new();
    after.write("proc/sys/kernel/random/boot_id", "another\n");
    after.sata("sda", "8:0", "b0");
    after.sata("sdb", "8:16", "a0").attribute("diskseq", "3");
    let inventory = after.inventory();
    assert_eq!(find(&inventory, &meant).unwrap().name, "sdb");
    let refused = |meant: &Meant| find(&inventory, meant).unwrap_err().code().to_owned();
    assert_eq!(refused(&bare), "DeviceNotThere");
    assert_eq!(
        refused(&Meant {
            wwn: Some("c0".into()),
            ..meant.clone()
        }),
        "DeviceNotThere"
    );

    let twice = Machine::new();
    twice.write("proc/sys/kernel/random/boot_id", "another\n");
    twice.sata("sda", "8:0", "a0");
    twice.sata("sdb", "8:16", "a0");
    let inventory = twice.inventory();
    let doubtful = Meant {
        by_id: None,
        ..meant
    };
    let refusal = find(&inventory, &doubtful).unwrap_err();
    assert_eq!(refusal.code(), "AmbiguousDevice", "{refusal}");
}
