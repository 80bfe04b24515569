//! Devices that are cleaned, and those that are not: loop devices with what
//! the real tools write.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::process::{Command, Stdio};

use hypercloud_inventory::cleaning::Meant;
use hypercloud_inventory::{Inventory, Policy, Prober, SignatureSource, classify, walk};
use node_agent::devices::Devices;
use node_agent::devices::cleaning::Cleaned;
use node_agent::job::state::Failure;

use crate::devices::{Disk, SIZE, tool};
use crate::is_root;

fn inventory(disk: &Disk) -> Inventory {
    let prober = Prober::new(SignatureSource::Device);
    classify(&walk(&disk.tree(), &prober).unwrap(), &Policy::default())
}

fn meant(disk: &Disk) -> Meant {
    let inventory = inventory(disk);
    let device = inventory.devices.iter().find(|it| it.path == disk.path);
    Meant::of(&inventory, device.unwrap())
}

fn codes(disk: &Disk) -> Vec<String> {
    let inventory = inventory(disk);
    let device = inventory
        .devices
        .into_iter()
        .find(|it| it.path == disk.path);
    let mut codes: Vec<_> = device
        .unwrap()
        .reasons
        .into_iter()
        .map(|it| it.reason)
        .collect();
    codes.dedup();
    codes
}

async fn clean(disk: &Disk, meant: Meant) -> Result<Cleaned, Failure> {
    // Each is another order.
    start(disk).cleaner.clean(meant, String::new()).await
}

fn start(disk: &Disk) -> Devices {
    let state = disk.dir.path().join("state");
    Devices::start(disk.tree(), Policy::default(), &state).unwrap()
}

/// Cleans a disk that carries something, and says what was removed.
async fn becomes_clean(disk: &Disk, what: &str) -> Vec<String> {
    assert_ne!(codes(disk), ["LoopDevice"], "{what} is told");
    let cleaned = clean(disk, meant(disk)).await;
    let cleaned = cleaned.unwrap_or_else(|failure| panic!("{what}: {failure:?}"));
    assert!(!cleaned.removed.is_empty(), "{what}");
    assert!(cleaned.discarded, "{what}");
    assert_eq!(codes(disk), ["LoopDevice"], "{what}");
    assert_eq!(inventory(disk).devices.len(), 1, "{what}");
    // Another reader of signatures finds none either.
    assert_eq!(tool("wipefs", &[&disk.path]).as_deref(), Some(""), "{what}");
    cleaned.removed
}

fn write(disk: &Disk, at: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(&disk.path).unwrap();
    file.write_all_at(bytes, at).unwrap();
    file.sync_all().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tools_leave_on_a_device_is_removed() {
    if !is_root("what_tools_leave_on_a_device_is_removed") {
        return;
    }
    let lvm = "devices { dir=\"/dev\" use_devicesfile=0 } global { use_lvmlockd=0 } activation { udev_sync=0 udev_rules=0 }";
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    fs::write(&key, "a key of the tests").unwrap();
    let luks = |kind: &'static str| {
        let mut arguments = vec!["luksFormat", "--batch-mode", "--type", kind];
        arguments.extend(["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"]);
        arguments.extend(["--key-file", key.to_str().unwrap()]);
        arguments
    };
    for (program, arguments, said) in [
        ("mkfs.ext4", vec!["-q"], "ext4 at byte 1080"),
        ("mkfs.xfs", vec!["-q"], "xfs at byte 0"),
        ("mkfs.btrfs", vec!["-q"], "btrfs at byte 65600"),
        ("mkswap", vec![], "swap at byte 4086"),
        (
            "pvcreate",
            vec!["--config", lvm, "--yes", "--pvmetadatacopies", "2"],
            "LVM2_member at byte 536",
        ),
        ("cryptsetup", luks("luks1"), "crypto_LUKS at byte 0"),
        ("cryptsetup", luks("luks2"), "crypto_LUKS at byte 0"),
    ] {
        let disk = Disk::new(&[]);
        if disk.made_by(program, &arguments) {
            let removed = becomes_clean(&disk, program).await;
            assert!(
                removed.iter().any(|it| it == said),
                "{program}: {removed:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_go_with_their_copies_and_partitions() {
    if !is_root("tables_go_with_their_copies_and_partitions") {
        return;
    }
    for table in ["gpt", "dos"] {
        let disk = Disk::new(&["--partscan"]);
        let script = disk.dir.path().join("script");
        fs::write(&script, format!("label: {table}\nsize=3G\nsize=1G\n")).unwrap();
        let status = Command::new("sfdisk")
            .args(["--quiet", &disk.path])
            .stdin(File::open(&script).unwrap())
            .stdout(Stdio::null())
            .status();
        assert!(status.unwrap().success());
        // Kernels without a reader of this table are told the partitions.
        tool("partx", &["--update", &disk.path]).unwrap();
        let part = format!("{}p2", disk.path);
        tool("mkfs.ext4", &["-q", &part]).unwrap();
        let removed = becomes_clean(&disk, table).await;
        let table = removed.iter().filter(|it| it.starts_with(table)).count();
        assert!(table >= 1, "{removed:?}");
        // That of the second partition, in its place on the disk.
        let expected = format!("ext4 at byte {}", (1_u64 << 20) + (3 << 30) + 1080);
        assert!(removed.contains(&expected), "{removed:?}");
        assert!(!fs::exists(&part).unwrap());
    }
    let disk = Disk::new(&[]);
    assert!(disk.made_by("sgdisk", &["--clear"]));
    write(&disk, 0, &[0; 1 << 20]);
    let removed = becomes_clean(&disk, "the copy of a table").await;
    assert_eq!(removed, [format!("gpt at byte {}", SIZE - 512)]);
}

/// The superblock of an array, as `mdadm` writes it where `major` and
/// `metadata` say.
fn array(at: u64) -> Vec<u8> {
    let mut block = vec![0_u8; 256];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &0xa92b_4efc_u32.to_le_bytes());
    put(4, &1_u32.to_le_bytes());
    put(16, &[7; 16]);
    put(32, b"node:0");
    put(72, &1_u32.to_le_bytes());
    put(80, &(SIZE / 512 - 2048).to_le_bytes());
    put(128, &2048_u64.to_le_bytes());
    put(136, &(SIZE / 512 - 2048).to_le_bytes());
    put(144, &(at / 512).to_le_bytes());
    let sum: u64 = block
        .chunks_exact(4)
        .map(|word| u64::from(u32::from_le_bytes(word.try_into().unwrap())))
        .sum();
    let sum = u32::try_from((sum & 0xffff_ffff) + (sum >> 32)).unwrap();
    block[216..220].copy_from_slice(&sum.to_le_bytes());
    block
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_are_removed_in_all_their_places() {
    if !is_root("labels_are_removed_in_all_their_places") {
        return;
    }
    // Versions 1.2, 1.1 and 1.0.
    let end = (SIZE - 8192) & !4095;
    for at in [4096, 0, end] {
        let disk = Disk::new(&[]);
        write(&disk, at, &array(at));
        let removed = becomes_clean(&disk, "an array").await;
        assert_eq!(removed, [format!("linux_raid_member at byte {at}")]);
    }

    let disk = Disk::new(&[]);
    let label = b"bluestore block device\n7f0c6e3e-0000-4000-8000-000000000000\n";
    for at in [0, 1 << 30] {
        write(&disk, at, label);
    }
    let removed = becomes_clean(&disk, "BlueStore").await;
    let expected = [0, 1_u64 << 30].map(|at| format!("ceph_bluestore at byte {at}"));
    assert_eq!(removed, expected);

    // ZFS: uberblocks of its four labels.
    let disk = Disk::new(&[]);
    let quarter = 256 << 10;
    for label in [0, quarter, SIZE - 2 * quarter, SIZE - quarter] {
        for uberblock in 0..8_u64 {
            let at = label + (128 << 10) + uberblock * 1024;
            write(&disk, at, &0x00ba_b10c_u64.to_le_bytes());
        }
    }
    let removed = becomes_clean(&disk, "ZFS").await;
    assert!(removed[0].starts_with("zfs_member"), "{removed:?}");

    // Several at once, of which one hides the others.
    let disk = Disk::new(&[]);
    assert!(disk.made_by("mkfs.ext4", &["-q"]));
    write(&disk, 0, label);
    write(&disk, 4096, &array(4096));
    let removed = becomes_clean(&disk, "several").await;
    assert!(removed.len() >= 3, "{removed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_alone_is_cleaned_and_the_table_stays() {
    if !is_root("a_partition_alone_is_cleaned_and_the_table_stays") {
        return;
    }
    let disk = Disk::new(&["--partscan"]);
    assert!(disk.made_by("sgdisk", &["--new=1:0:+1G", "--new=2:0:+1G"]));
    tool("partx", &["--update", &disk.path]).unwrap();
    let part = format!("{}p1", disk.path);
    for number in ["p1", "p2"] {
        tool("mkfs.ext4", &["-q", &format!("{}{number}", disk.path)]).unwrap();
    }
    let known = inventory(&disk);
    let device = known.devices.iter().find(|it| it.path == part).unwrap();
    let cleaned = clean(&disk, Meant::of(&known, device)).await.unwrap();
    assert_eq!(cleaned.removed, ["ext4 at byte 1080"]);
    let known = inventory(&disk);
    let of = |path: &str| known.devices.iter().find(|it| it.path == path).unwrap();
    assert_eq!(of(&part).file_system, None);
    assert!(of(&format!("{}p2", disk.path)).file_system.is_some());
    assert_eq!(of(&disk.path).partitions.len(), 2);
}

/// What undoes something in the end.
struct Undo(&'static str, Vec<String>);

impl Drop for Undo {
    fn drop(&mut self) {
        let _ = Command::new(self.0).args(&self.1).status();
    }
}

async fn refused(disk: &Disk, meant: Meant, reason: &str, says: &str) {
    let before = tool("wipefs", &["--noheadings", &disk.path]);
    let failure = clean(disk, meant).await.unwrap_err();
    assert_eq!(failure.reason, reason, "{failure:?}");
    assert!(failure.message.contains(says), "{failure:?}");
    assert!(!failure.retryable, "{failure:?}");
    assert_eq!(tool("wipefs", &["--noheadings", &disk.path]), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_used_is_left_alone() {
    if !is_root("what_is_used_is_left_alone") {
        return;
    }
    let disk = Disk::new(&[]);
    assert!(disk.made_by("mkfs.ext4", &["-q"]));
    let at = disk.dir.path().join("mounted");
    fs::create_dir(&at).unwrap();
    let at = at.to_str().unwrap().to_owned();
    tool("mount", &[&disk.path, &at]).unwrap();
    let mounted = Undo("umount", vec![at]);
    let umount = format!("umount {}", disk.path);
    refused(&disk, meant(&disk), "Mounted", &umount).await;
    drop(mounted);

    let alone = File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::EXCL.bits().cast_signed())
        .open(&disk.path)
        .unwrap();
    refused(&disk, meant(&disk), "InUse", "fuser -v").await;
    drop(alone);

    // As older OSDs do.
    let writer = File::options().write(true).open(&disk.path).unwrap();
    refused(&disk, meant(&disk), "InUse", "(process ").await;
    drop(writer);

    let pinned = meant(&disk);
    let other = Meant {
        size: pinned.size - 512,
        ..pinned.clone()
    };
    refused(&disk, other, "AnotherDevice", "bytes").await;
    let other = Meant {
        disk_sequence: pinned.disk_sequence.map(|number| number - 1),
        ..pinned.clone()
    };
    refused(&disk, other, "AnotherDevice", "number").await;
    let other = Meant {
        boot_id: Some("another".into()),
        ..pinned.clone()
    };
    refused(&disk, other, "DeviceNotThere", "started anew").await;
    let other = Meant {
        disk_sequence: None,
        ..pinned
    };
    refused(&disk, other, "DeviceNotIdentified", "serial number").await;

    let read_only = Disk::new(&["--read-only"]);
    refused(&read_only, meant(&read_only), "ReadOnly", "setrw").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_of_which_a_partition_is_used_is_left_alone() {
    if !is_root("a_disk_of_which_a_partition_is_used_is_left_alone") {
        return;
    }
    let disk = Disk::new(&["--partscan"]);
    assert!(disk.made_by("sgdisk", &["--new=1:0:+1G"]));
    tool("partx", &["--update", &disk.path]).unwrap();
    let part = format!("{}p1", disk.path);
    tool("mkswap", &[&part]).unwrap();
    tool("swapon", &[&part]).unwrap();
    let swapped = Undo("swapoff", vec![part.clone()]);
    let swaps = disk.dir.path().join("tree/proc/swaps");
    let table = fs::read_to_string(&swaps).unwrap();
    fs::write(&swaps, format!("{table}{part} partition 1 0 -2\n")).unwrap();
    refused(&disk, meant(&disk), "ActiveSwap", "swapoff").await;
    drop(swapped);
    fs::write(&swaps, table).unwrap();
    becomes_clean(&disk, "a partition that was swapped to").await;
}

/// A loop device holds what is behind it in no other way that shows.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_behind_a_loop_device_is_left_alone() {
    if !is_root("what_is_behind_a_loop_device_is_left_alone") {
        return;
    }
    let disk = Disk::new(&[]);
    assert!(disk.made_by("mkfs.ext4", &["-q"]));
    let over = tool("losetup", &["--find", "--show", &disk.path]).unwrap();
    let detached = Undo("losetup", vec!["--detach".into(), over.clone()]);
    let name = over.trim_start_matches("/dev/");
    let list = disk.dir.path().join("tree/sys/block");
    let described = fs::canonicalize(format!("/sys/block/{name}")).unwrap();
    std::os::unix::fs::symlink(described, list.join(name)).unwrap();
    let detach = format!("losetup --detach {over}");
    refused(&disk, meant(&disk), "Held", &detach).await;
    fs::remove_file(list.join(name)).unwrap();
    drop(detached);
    becomes_clean(&disk, "what was behind a loop device").await;
}

/// Who comes second waits for the first; what has ended is not begun again for
/// the same order, and a device that is clean can be cleaned.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_again_is_the_same_and_does_no_harm() {
    if !is_root("the_same_again_is_the_same_and_does_no_harm") {
        return;
    }
    let disk = Disk::new(&[]);
    assert!(disk.made_by("mkfs.ext4", &["-q"]));
    let devices = start(&disk);
    let pinned = meant(&disk);
    let call = |order: &str| devices.cleaner.clean(pinned.clone(), order.into());
    let (one, other) = tokio::join!(call("one"), call("one"));
    let one = one.unwrap();
    assert_eq!(Ok(&one), other.as_ref());
    assert_eq!(one.removed, ["ext4 at byte 1080"]);

    // The answer was lost, and the device is used since.
    assert!(disk.made_by("mkfs.ext4", &["-q"]));
    assert_eq!(call("one").await, Ok(one));
    assert_eq!(codes(&disk), ["FileSystem", "LoopDevice"]);

    // Who is gone does not end it.
    let begun = tokio::spawn({
        let (devices, pinned) = (devices.clone(), pinned.clone());
        async move { devices.cleaner.clean(pinned, "two".into()).await }
    });
    tokio::task::yield_now().await;
    begun.abort();
    call("two").await.unwrap();
    assert_eq!(codes(&disk), ["LoopDevice"]);
    let clean = call("three").await.unwrap();
    assert_eq!((clean.removed.len(), clean.discarded), (0, true));

    // The same name for another order is a mistake.
    let other = Meant {
        by_id: Some("/dev/disk/by-id/wwn-1".into()),
        ..pinned.clone()
    };
    let failure = devices.cleaner.clean(other, "one".into()).await;
    assert_eq!(failure.unwrap_err().reason, "AnotherDevice");

    // The next agent knows of them, also of one that was never ended.
    assert!(disk.made_by("mkfs.ext4", &["-q"]));
    let ledger = disk.dir.path().join("state/cleanings.json");
    let text = fs::read_to_string(&ledger).unwrap();
    let mut entries: serde_json::Value = serde_json::from_str(&text).unwrap();
    for entry in entries.as_array_mut().unwrap() {
        if entry["order"]["reference"] == "two" {
            entry["outcome"] = serde_json::Value::Null;
        }
    }
    fs::write(&ledger, entries.to_string()).unwrap();
    let next = start(&disk);
    let again = |order: &str| next.cleaner.clean(pinned.clone(), order.into());
    assert_eq!(again("one").await, call("one").await);
    let failure = again("two").await.unwrap_err();
    assert_eq!(failure.reason, "CleaningInterrupted");
    assert!(!failure.retryable);
    assert_eq!(codes(&disk), ["FileSystem", "LoopDevice"]);

    // Nothing goes on once the agent ends.
    devices.cleaner.stop();
    let failure = call("four").await.unwrap_err();
    assert_eq!(failure.reason, "CleaningInterrupted");
    assert!(failure.retryable);
}

/// The name is another device's after a look at it.
#[tokio::test(flavor = "multi_thread")]
async fn another_device_by_the_same_name_is_left_alone() {
    if !is_root("another_device_by_the_same_name_is_left_alone") {
        return;
    }
    // Somebody else may be given the name meanwhile.
    for _ in 0..20 {
        let disk = Disk::new(&[]);
        let pinned = meant(&disk);
        let other = disk.dir.path().join("other");
        File::create(&other).unwrap().set_len(SIZE).unwrap();
        tool("mkswap", &[other.to_str().unwrap()]).unwrap();
        tool("losetup", &["--detach", &disk.path]).unwrap();
        let again = Command::new("losetup").arg(&disk.path).arg(&other).output();
        if again.unwrap().status.success() {
            refused(&disk, pinned, "AnotherDevice", "number").await;
            return;
        }
        disk.forget();
    }
    panic!("a loop device cannot be attached by its name");
}
