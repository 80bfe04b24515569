//! Records of machines: what is free, and every reason why something is not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod machine;

use hypercloud_inventory::{DeviceClass, Kind, Policy};
use machine::{GIB, Machine, codes, device};

#[test]
fn an_empty_disk_is_available_with_all_its_attributes() {
    let machine = Machine::new();
    machine.sata("sda", "8:0", "5000c500a1");
    let inventory = machine.inventory();
    let sda = device(&inventory, "sda");
    assert_eq!(sda.reasons, []);
    assert!(sda.available);
    assert_eq!(sda.kind, Kind::Disk);
    assert_eq!(sda.size, 100 * GIB);
    assert_eq!(sda.model.as_deref(), Some("DISK-4000"));
    assert_eq!(sda.firmware.as_deref(), Some("A1"));
    assert_eq!(sda.device_class, Some(DeviceClass::Hdd));
    assert_eq!(sda.number.as_deref(), Some("8:0"));
    assert_eq!(sda.logical_block_size, Some(512));
    assert_eq!(sda.physical_block_size, Some(4096));
    assert_eq!(sda.discard, Some(false));
    assert_eq!(sda.identity.serial.as_deref(), Some("S5000c500a1"));
    assert_eq!(sda.identity.wwn.as_deref(), Some("5000c500a1"));
    assert_eq!(sda.identity.disk_sequence, Some(7));
    assert_eq!(
        sda.identity.by_id.as_deref(),
        Some("/dev/disk/by-id/wwn-0x5000c500a1")
    );
    assert_eq!(inventory.boot_id.as_deref(), Some("11111111-2222"));
    assert_eq!(inventory.hostname.as_deref(), Some("node-1"));
}

#[test]
fn a_disk_that_the_system_is_on_says_so_down_to_the_disk() {
    let machine = Machine::new();
    let sda = machine.sata("sda", "8:0", "1");
    sda.partition("sda1", "8:1", GIB / 1024)
        .udev(&["E:ID_PART_ENTRY_TYPE=21686148-6449-6e6f-744e-656564454649"]);
    sda.partition("sda2", "8:2", 50 * GIB)
        .held_by("dm-0")
        .udev(&["E:ID_FS_TYPE=LVM2_member", "E:ID_FS_USAGE=raid"]);
    sda.partition("sda3", "8:3", 20 * GIB);
    let root = machine.disk("dm-0", "253:0", "virtual");
    root.mapper("vg-root", "LVM-abc").made_of("sda2");
    root.udev(&["E:ID_FS_TYPE=xfs", "E:ID_FS_USAGE=filesystem"]);
    machine.mounted("27 1 253:0 / / rw - xfs /dev/mapper/vg-root rw");
    machine.mounted("28 1 253:0 /x /srv rw - xfs /dev/mapper/vg-root rw");

    let inventory = machine.inventory();
    assert_eq!(codes(&inventory, "sda"), ["BacksSystem", "Partitioned"]);
    assert_eq!(codes(&inventory, "sda1"), ["ReservedPartition", "TooSmall"]);
    assert_eq!(
        codes(&inventory, "sda2"),
        ["BacksSystem", "Held", "LvmMember"]
    );
    assert_eq!(codes(&inventory, "sda3"), [""; 0]);
    let root = device(&inventory, "dm-0");
    assert_eq!(root.mounts, ["/", "/srv"]);
    let root = codes(&inventory, "dm-0");
    assert!(
        root.contains(&"Mounted") && root.contains(&"BacksSystem"),
        "{root:?}"
    );
    assert!(root.contains(&"LogicalVolume"), "{root:?}");
}

#[test]
fn the_kubelets_file_system_is_the_systems() {
    let machine = Machine::new();
    machine.sata("sdb", "8:16", "2");
    machine.mounted("30 1 8:16 / /var/lib/kubelet rw - xfs /dev/sdb rw");
    assert_eq!(
        codes(&machine.inventory(), "sdb"),
        ["BacksSystem", "Mounted"]
    );
    // Wherever it has its directory.
    let machine = Machine::new();
    machine.sata("sdb", "8:16", "2");
    machine.mounted("30 1 8:16 / /data rw - xfs /dev/sdb rw");
    assert_eq!(codes(&machine.inventory(), "sdb"), ["Mounted"]);
    let policy = Policy::default().with_kubelet("/data/kubelet");
    assert_eq!(
        codes(&machine.inventory_by(&policy), "sdb"),
        ["BacksSystem", "Mounted"]
    );
}

#[test]
fn btrfs_is_found_by_its_source_for_it_has_a_number_of_its_own() {
    let machine = Machine::new();
    machine.sata("sda", "8:0", "1");
    machine.sata("sdb", "8:16", "2");
    machine.mounted("30 1 0:44 / /data rw - btrfs /dev/disk/by-id/wwn-0x1 rw");
    let inventory = machine.inventory();
    assert_eq!(codes(&inventory, "sda"), ["Mounted"]);
    assert_eq!(codes(&inventory, "sdb"), [""; 0]);
}

#[test]
fn a_mount_of_a_device_that_is_not_told_makes_every_device_suspect() {
    let machine = Machine::new();
    machine.sata("sda", "8:0", "1");
    machine.mounted("30 1 0:44 / /data rw - btrfs /dev/mapper/gone rw");
    assert_eq!(codes(&machine.inventory(), "sda"), ["Unknown"]);
}

#[test]
fn swap_is_seen_through_what_it_is_on() {
    let machine = Machine::new();
    let sda = machine.sata("sda", "8:0", "1");
    sda.partition("sda1", "8:1", 8 * GIB)
        .udev(&["E:ID_FS_TYPE=swap", "E:ID_FS_USAGE=other"]);
    machine.write(
        "proc/swaps",
        "Filename Type\n/dev/sda1 partition 1 0 -2\n/swap\\040file file 1 0 -3\n",
    );
    let inventory = machine.inventory();
    assert_eq!(codes(&inventory, "sda"), ["ActiveSwap", "Partitioned"]);
    assert_eq!(codes(&inventory, "sda1"), ["ActiveSwap", "SwapSpace"]);
}

#[test]
fn every_signature_is_a_reason() {
    for (kind, usage, code) in [
        ("ext4", "filesystem", "FileSystem"),
        ("LVM2_member", "raid", "LvmMember"),
        ("linux_raid_member", "raid", "RaidMember"),
        ("isw_raid_member", "raid", "RaidMember"),
        ("crypto_LUKS", "crypto", "EncryptedData"),
        ("BitLocker", "crypto", "EncryptedData"),
        ("ceph_bluestore", "other", "BlueStore"),
        ("zfs_member", "filesystem", "ZfsMember"),
        ("bcache", "other", "BcacheMember"),
        ("vdo", "other", "VdoMember"),
        ("drbd", "raid", "DrbdMember"),
        ("swap", "other", "SwapSpace"),
        ("DM_verity_hash", "crypto", "EncryptedData"),
        ("something_new", "other", "OtherSignature"),
    ] {
        let machine = Machine::new();
        machine.sata("sda", "8:0", "1").udev(&[
            &format!("E:ID_FS_TYPE={kind}"),
            &format!("E:ID_FS_USAGE={usage}"),
        ]);
        assert_eq!(codes(&machine.inventory(), "sda"), [code], "{kind}");
    }
    for (line, code) in [
        ("E:ID_PART_TABLE_TYPE=gpt", "PartitionTable"),
        (
            "E:ID_FS_AMBIVALENT=filesystem:ext4:1.0 other:swap:1",
            "AmbiguousSignatures",
        ),
        ("E:DM_MULTIPATH_DEVICE_PATH=1", "MultipathLeg"),
    ] {
        let machine = Machine::new();
        machine.sata("sda", "8:0", "1").udev(&[line]);
        assert_eq!(codes(&machine.inventory(), "sda"), [code], "{line}");
    }
}

#[test]
fn what_the_hardware_is_may_be_a_reason() {
    let cases: &[(&str, &str, &str)] = &[
        ("ro", "1", "ReadOnly"),
        ("removable", "1", "Removable"),
        ("size", "0", "NoSize"),
        ("size", "2048", "TooSmall"),
        ("hidden", "1", "Hidden"),
    ];
    for (attribute, value, code) in cases {
        let machine = Machine::new();
        machine.sata("sda", "8:0", "1").attribute(attribute, value);
        assert_eq!(codes(&machine.inventory(), "sda"), [*code], "{attribute}");
    }
    let machine = Machine::new();
    let usb = machine.disk(
        "sdc",
        "8:32",
        "pci0000:00/usb1/1-1/host3/target3:0:0/3:0:0:0",
    );
    usb.udev(&["S:disk/by-id/usb-STICK", "E:ID_BUS=usb"]);
    usb.partition("sdc1", "8:33", 50 * GIB);
    let inventory = machine.inventory();
    assert_eq!(codes(&inventory, "sdc"), ["Partitioned", "Usb"]);
    assert_eq!(codes(&inventory, "sdc1"), ["Usb"]);
}

#[test]
fn kinds_that_are_not_offered_are_listed_with_their_kind() {
    let machine = Machine::new();
    for (number, name) in [
        "loop0",
        "ram0",
        "zram0",
        "nbd0",
        "rbd0",
        "drbd0",
        "bcache0",
        "zd0",
        "sr0",
        "fd0",
        "mtdblock0",
        "md127",
        "dm-0",
    ]
    .iter()
    .enumerate()
    {
        let block = machine.disk(name, &format!("200:{number}"), "virtual");
        if *name == "nbd0" {
            // Not connected.
            block.size(0);
        }
    }
    let inventory = machine.inventory();
    for (name, code) in [
        ("loop0", "LoopDevice"),
        ("ram0", "RamDisk"),
        ("zram0", "ZramDisk"),
        ("nbd0", "NbdDevice"),
        ("rbd0", "RbdDevice"),
        ("drbd0", "DrbdDevice"),
        ("bcache0", "BcacheDevice"),
        ("zd0", "ZfsVolume"),
        ("sr0", "OpticalDrive"),
        ("fd0", "FloppyDrive"),
        ("mtdblock0", "FlashDevice"),
        ("md127", "RaidArray"),
        ("dm-0", "MapperDevice"),
    ] {
        assert!(
            codes(&inventory, name).contains(&code),
            "{name}: {:?}",
            codes(&inventory, name)
        );
    }
    assert_eq!(inventory.devices.len(), 13);
    assert!(codes(&inventory, "nbd0").contains(&"NoSize"));
}

#[test]
fn what_udev_says_of_another_disk_is_not_believed() {
    let machine = Machine::new();
    // The disk was changed, and udev has not looked since.
    let disk = machine.sata("sda", "8:0", "a0");
    disk.udev(&["S:disk/by-diskseq/6"]);
    let other = machine.sata("sdb", "8:16", "b0");
    other.udev(&["S:disk/by-diskseq/7"]);
    let inventory = machine.inventory();
    let [changed, same] = ["sda", "sdb"].map(|name| device(&inventory, name));
    assert_eq!(
        (&changed.identity.by_id, &changed.identity.wwn),
        (&None, &None)
    );
    assert_eq!(codes(&inventory, "sda"), ["Unknown"]);
    assert!(same.available && same.identity.by_id.is_some());
}

#[test]
fn what_may_be_far_away_is_not_opened() {
    struct Opens(std::cell::RefCell<Vec<String>>);
    impl hypercloud_inventory::Opener for Opens {
        fn open(
            &self,
            _: &std::path::Path,
            _: hypercloud_inventory::Opened,
            device: &hypercloud_inventory::snapshot::Seen,
        ) -> hypercloud_inventory::snapshot::Probe {
            self.0.borrow_mut().push(device.name.clone());
            hypercloud_inventory::snapshot::Probe::NotMade
        }
    }
    let machine = Machine::new();
    for (number, name) in ["rbd0", "nbd0", "drbd0", "zd0", "zram0", "sr0", "vda"]
        .iter()
        .enumerate()
    {
        machine.disk(name, &format!("200:{number}"), "virtual");
    }
    let tree = hypercloud_inventory::Tree::recorded(machine.root());
    let opens = Opens(std::cell::RefCell::default());
    let snapshot = hypercloud_inventory::walk(&tree, &opens).unwrap();
    assert_eq!(opens.0.into_inner(), ["vda"]);
    let mut policy = Policy::default();
    let inventory = hypercloud_inventory::classify(&snapshot, &policy);
    assert_eq!(codes(&inventory, "rbd0"), ["RbdDevice"]);
    // Whoever offers them has them read.
    policy.kinds.push(hypercloud_inventory::Kind::Rbd);
    let inventory = hypercloud_inventory::classify(&snapshot, &policy);
    assert_eq!(codes(&inventory, "rbd0"), ["Unknown"]);
}

#[test]
fn device_mapper_is_told_apart() {
    let machine = Machine::new();
    for (name, number, uuid) in [
        ("dm-0", "253:0", "LVM-abcdef"),
        ("dm-1", "253:1", "LVM-abcdef-tpool"),
        ("dm-2", "253:2", "CRYPT-LUKS2-abc-name"),
        ("dm-3", "253:3", "stratis-1-private-abc"),
        ("dm-4", "253:4", "CRYPT-LUKS2-xyz-name"),
    ] {
        let block = machine.disk(name, number, "virtual");
        block.mapper(name, uuid);
        machine.write(&format!("dev/{name}"), "");
        if name == "dm-4" {
            block.attribute("dm/suspended", "1");
        }
    }
    let inventory = machine.inventory();
    assert_eq!(codes(&inventory, "dm-0"), ["LogicalVolume"]);
    assert_eq!(
        codes(&inventory, "dm-1"),
        ["LogicalVolume", "PrivateMapper"]
    );
    assert_eq!(codes(&inventory, "dm-2"), [""; 0]);
    assert_eq!(codes(&inventory, "dm-3"), ["MapperDevice", "PrivateMapper"]);
    assert!(codes(&inventory, "dm-4").contains(&"Suspended"));
    let named = machine.inventory_by(&Policy::default().for_named());
    assert_eq!(codes(&named, "dm-0"), [""; 0]);
    assert_eq!(codes(&named, "dm-1"), ["PrivateMapper"]);
}

#[test]
fn the_paths_of_a_multipath_device_are_not_free_but_it_is() {
    let machine = Machine::new();
    for (name, number) in [("sda", "8:0"), ("sdb", "8:16")] {
        machine.sata(name, number, "600a0b8").held_by("dm-0");
    }
    let map = machine.disk("dm-0", "253:0", "virtual");
    map.mapper("mpatha", "mpath-3600a0b8")
        .made_of("sda")
        .made_of("sdb");
    map.udev(&["S:disk/by-id/wwn-0x600a0b8", "S:disk/by-id/dm-name-mpatha"]);
    machine.write("dev/dm-0", "");
    let inventory = machine.inventory();
    assert_eq!(codes(&inventory, "sda"), ["Held", "MultipathLeg"]);
    assert_eq!(codes(&inventory, "sdb"), ["Held", "MultipathLeg"]);
    let map = device(&inventory, "dm-0");
    assert_eq!(map.kind, Kind::Multipath);
    assert_eq!(map.reasons, []);
    assert_eq!(
        map.identity.by_id.as_deref(),
        Some("/dev/disk/by-id/wwn-0x600a0b8")
    );
}

#[test]
fn paths_that_no_multipath_device_joins_are_ambiguous() {
    let machine = Machine::new();
    let sda = machine.sata("sda", "8:0", "600a0b8");
    sda.partition("sda1", "8:1", 50 * GIB);
    machine.sata("sdb", "8:16", "600a0b8");
    machine.sata("sdc", "8:32", "600a0b9");
    let inventory = machine.inventory();
    assert_eq!(
        codes(&inventory, "sda"),
        ["DuplicateIdentity", "Partitioned"]
    );
    assert_eq!(codes(&inventory, "sda1"), ["DuplicateIdentity"]);
    assert_eq!(codes(&inventory, "sdb"), ["DuplicateIdentity"]);
    assert_eq!(codes(&inventory, "sdc"), [""; 0]);
}

#[test]
fn namespaces_of_one_nvme_share_a_serial_number_rightly() {
    let machine = Machine::new();
    for (name, number, eui) in [
        ("nvme0n1", "259:0", "eui.0025a1"),
        ("nvme0n2", "259:1", "eui.0025a2"),
    ] {
        let block = machine.disk(name, number, &format!("pci0000:00/nvme/nvme0/{name}"));
        block
            .attribute("wwid", eui)
            .attribute("queue/rotational", "0")
            .attribute("device/serial", "S1")
            .attribute("device/firmware_rev", "F2");
        block.udev(&[
            &format!("S:disk/by-id/nvme-{eui}"),
            "S:disk/by-id/nvme-MODEL_S1",
            "E:ID_SERIAL=MODEL_S1",
        ]);
    }
    let inventory = machine.inventory();
    for (name, eui) in [("nvme0n1", "eui.0025a1"), ("nvme0n2", "eui.0025a2")] {
        let nvme = device(&inventory, name);
        assert_eq!(nvme.reasons, [], "{name}");
        assert_eq!(nvme.device_class, Some(DeviceClass::Nvme));
        assert_eq!(nvme.firmware.as_deref(), Some("F2"));
        assert_eq!(
            nvme.identity.by_id,
            Some(format!("/dev/disk/by-id/nvme-{eui}"))
        );
    }
}

#[test]
fn bluestore_taken_for_a_table_of_an_atari_is_called_that() {
    let machine = Machine::new();
    let sda = machine.sata("sda", "8:0", "1");
    sda.udev(&["E:ID_PART_TABLE_TYPE=atari"]);
    sda.partition("sda1", "8:1", 50 * GIB);
    machine.write("dev/sda", "bluestore block device\nosd");
    let inventory = machine.inventory();
    assert_eq!(codes(&inventory, "sda"), ["BlueStore", "PhantomPartitions"]);
    assert_eq!(codes(&inventory, "sda1"), ["BlueStoreDisk"]);
}

#[test]
fn what_could_not_be_read_is_not_taken_for_harmless() {
    for missing in ["size", "ro", "removable", "holders", "slaves", "dev"] {
        let machine = Machine::new();
        machine.sata("sda", "8:0", "1").without(missing);
        let inventory = machine.inventory();
        assert!(codes(&inventory, "sda").contains(&"Unknown"), "{missing}");
    }
    for missing in ["proc/1/mountinfo", "proc/swaps"] {
        let machine = Machine::new();
        machine.sata("sda", "8:0", "1");
        std::fs::remove_file(machine.root().join(missing)).unwrap();
        assert_eq!(codes(&machine.inventory(), "sda"), ["Unknown"], "{missing}");
    }
    // udev is not done with it.
    let machine = Machine::new();
    machine.sata("sda", "8:0", "1");
    machine.write("run/udev/data/b8:0", "E:ID_SERIAL=x\n");
    assert_eq!(codes(&machine.inventory(), "sda"), ["Unknown"]);
}

#[test]
fn a_link_in_a_record_is_not_followed() {
    let machine = Machine::new();
    machine.disk("sda", "8:0", "pci0000:00/ata1/host0/target0:0:0/0:0:0:0");
    std::fs::create_dir(machine.root().join("dev")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", machine.root().join("dev/sda")).unwrap();
    assert_eq!(codes(&machine.inventory(), "sda"), ["Unknown"]);
}

#[test]
fn a_tree_without_devices_is_an_error_rather_than_empty() {
    let empty = tempfile::tempdir().unwrap();
    let prober =
        hypercloud_inventory::Prober::new(hypercloud_inventory::SignatureSource::UdevFirst);
    let tree = hypercloud_inventory::Tree::recorded(empty.path());
    assert!(hypercloud_inventory::walk(&tree, &prober).is_err());
}
