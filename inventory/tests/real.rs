//! Loop devices with what the real tools write on them. Needs root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use hypercloud_inventory::{
    Device, Explanation, Inventory, Policy, Prober, Reason, SignatureSource, Tree, classify, walk,
};
use tempfile::TempDir;

/// Runs a tool; `None` where it is not there.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let output = match Command::new(program).args(arguments).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: {program} is not there");
            return None;
        }
        Err(error) => panic!("{program}: {error}"),
    };
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A loop device on a file full of holes, and a tree in which it is the only
/// device of this machine, so that no other is disturbed.
struct Loop {
    dir: TempDir,
    path: String,
    mounted: Option<PathBuf>,
}

const SIZE: u64 = 6 << 30;

impl Loop {
    fn new() -> Option<Self> {
        Self::with(&[])
    }

    fn with(options: &[&str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: loop devices need root");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("disk");
        File::create(&file).unwrap().set_len(SIZE).unwrap();
        let mut arguments = vec!["--find", "--show"];
        arguments.extend(options);
        arguments.push(file.to_str().unwrap());
        let path = run("losetup", &arguments)?;
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("sys/block")).unwrap();
        symlink("/proc", tree.join("proc")).unwrap();
        symlink("/dev", tree.join("dev")).unwrap();
        let name = path.trim_start_matches("/dev/");
        symlink(
            fs::canonicalize(Path::new("/sys/block").join(name)).unwrap(),
            tree.join("sys/block").join(name),
        )
        .unwrap();
        Some(Self {
            dir,
            path,
            mounted: None,
        })
    }

    fn inventory(&self) -> Inventory {
        let tree = Tree::live_below(self.dir.path().join("tree"));
        let prober = Prober::new(SignatureSource::Device);
        classify(
            &walk(&tree, &prober).unwrap(),
            &Policy::default().for_named(),
        )
    }

    fn device(&self) -> Device {
        let inventory = self.inventory();
        let mut devices = inventory.devices.into_iter();
        devices.find(|device| device.path == self.path).unwrap()
    }

    fn codes(&self) -> Vec<String> {
        let device = self.device();
        let mut codes: Vec<_> = device.reasons.into_iter().map(|told| told.reason).collect();
        codes.dedup();
        codes
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        let file = File::options().write(true).open(&self.path).unwrap();
        file.write_all_at(bytes, offset).unwrap();
        file.sync_all().unwrap();
    }

    fn mount(&mut self) {
        let at = self.dir.path().join("mounted");
        fs::create_dir(&at).unwrap();
        run("mount", &[&self.path, at.to_str().unwrap()]).unwrap();
        self.mounted = Some(at);
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Some(at) = &self.mounted {
            let _ = Command::new("umount").arg(at).status();
        }
        let _ = Command::new("losetup")
            .args(["--detach", &self.path])
            .status();
    }
}

#[test]
fn an_empty_device_is_available_and_a_wiped_one_again() {
    let Some(device) = Loop::new() else { return };
    assert_eq!(device.codes(), [""; 0]);
    assert_eq!(device.device().size, SIZE);
    assert_eq!(
        device.device().backing_file.as_deref(),
        Some(device.dir.path().join("disk").to_str().unwrap())
    );
    run("mkswap", &[&device.path]).unwrap();
    assert_eq!(device.codes(), ["SwapSpace"]);
    if run("wipefs", &["--all", &device.path]).is_some() {
        assert_eq!(device.codes(), [""; 0]);
    }
}

#[test]
fn a_file_system_is_a_reason_with_its_label() {
    for (tool, label, kind) in [
        ("mkfs.ext4", "-L", "ext4"),
        ("mkfs.xfs", "-L", "xfs"),
        ("mkfs.btrfs", "-L", "btrfs"),
    ] {
        let Some(device) = Loop::new() else { return };
        if run(tool, &[label, "kept", &device.path]).is_none() {
            continue;
        }
        assert_eq!(device.codes(), ["FileSystem"], "{tool}");
        let held = device.device().file_system.unwrap();
        assert_eq!(
            (held.kind.as_str(), held.label.as_deref()),
            (kind, Some("kept"))
        );
    }
}

#[test]
fn what_is_mounted_is_in_use() {
    let Some(mut device) = Loop::new() else {
        return;
    };
    run("mkfs.ext4", &[&device.path]).unwrap();
    device.mount();
    assert_eq!(device.codes(), ["Mounted", "InUse", "FileSystem"]);
    let at = device.mounted.clone().unwrap();
    assert_eq!(device.device().mounts, [at.to_str().unwrap()]);
}

#[test]
fn what_somebody_has_alone_is_in_use() {
    use std::os::unix::fs::OpenOptionsExt as _;

    let Some(device) = Loop::new() else { return };
    let alone = File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::EXCL.bits().cast_signed())
        .open(&device.path)
        .unwrap();
    assert_eq!(device.codes(), ["InUse"]);
    drop(alone);
    assert_eq!(device.codes(), [""; 0]);
}

#[test]
fn volumes_of_lvm_and_encrypted_data_are_told() {
    let Some(device) = Loop::new() else { return };
    let options = "devices { dir=\"/dev\" use_devicesfile=0 } global { use_lvmlockd=0 } activation { udev_sync=0 udev_rules=0 }";
    if run("pvcreate", &["--config", options, "--yes", &device.path]).is_some() {
        assert_eq!(device.codes(), ["LvmMember"]);
    }
    let Some(device) = Loop::new() else { return };
    let header = device.dir.path().join("key");
    fs::write(&header, "a key of the tests").unwrap();
    let arguments = [
        "luksFormat",
        "--batch-mode",
        "--type",
        "luks1",
        "--pbkdf-force-iterations",
        "1000",
        "--key-file",
        header.to_str().unwrap(),
        &device.path,
    ];
    if run("cryptsetup", &arguments).is_some() {
        assert_eq!(device.codes(), ["EncryptedData"]);
    }
}

#[test]
fn a_partition_table_is_a_reason_even_where_only_its_copy_is_left() {
    for table in ["gpt", "dos"] {
        let Some(device) = Loop::new() else { return };
        let script = device.dir.path().join("script");
        fs::write(&script, format!("label: {table}\n,1G\n")).unwrap();
        let status = Command::new("sfdisk")
            .args(["--no-reread", "--no-tell-kernel", &device.path])
            .stdin(File::open(&script).unwrap())
            .output()
            .unwrap();
        assert!(status.status.success(), "{status:?}");
        assert_eq!(device.codes(), ["PartitionTable"], "{table}");
        if table == "gpt" {
            device.write(0, &[0; 1 << 20]);
            assert_eq!(device.codes(), ["PartitionTable"]);
        }
    }
}

#[test]
fn partitions_are_listed_below_their_disk() {
    let Some(device) = Loop::with(&["--partscan"]) else {
        return;
    };
    let script = device.dir.path().join("script");
    fs::write(&script, "label: gpt\nsize=5500M, name=kept\n,,\n").unwrap();
    let status = Command::new("sfdisk")
        .arg(&device.path)
        .stdin(File::open(&script).unwrap())
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
    // Kernels without a reader of this table are told the partitions.
    run("partx", &["--update", &device.path]).unwrap();
    let inventory = device.inventory();
    let names: Vec<_> = inventory
        .devices
        .iter()
        .map(|device| &device.path)
        .collect();
    let expected = [
        device.path.clone(),
        format!("{}p1", device.path),
        format!("{}p2", device.path),
    ];
    assert_eq!(names, expected.iter().collect::<Vec<_>>());
    let codes = device.codes();
    assert_eq!(codes, ["Partitioned", "PartitionTable"]);
    assert_eq!(inventory.devices[1].reasons, []);
    let small: Vec<_> = inventory.devices[2]
        .reasons
        .iter()
        .map(Explanation::code)
        .collect();
    assert_eq!(small, ["TooSmall"]);
}

#[test]
fn labels_of_bluestore_are_found_in_every_place() {
    const LABEL: &[u8] = b"bluestore block device\n7f0c6e3e-0000-4000-8000-000000000000\n";
    let Some(device) = Loop::new() else { return };
    device.write(1 << 30, LABEL);
    assert_eq!(
        device.device().reasons,
        [Explanation::from(&Reason::BlueStore { offset: 1 << 30 })]
    );
    device.write(0, LABEL);
    assert_eq!(
        device.device().reasons,
        [
            Explanation::from(&Reason::BlueStore { offset: 0 }),
            Explanation::from(&Reason::BlueStore { offset: 1 << 30 })
        ]
    );
}

/// The superblock that `mdadm --create --metadata=1.2` writes at 4 KiB
/// (`include/uapi/linux/raid/md_p.h`, `struct mdp_superblock_1`).
#[test]
fn a_member_of_an_array_is_told() {
    let Some(device) = Loop::new() else { return };
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
    put(144, &8_u64.to_le_bytes());
    let sum: u64 = block
        .chunks_exact(4)
        .map(|word| u64::from(u32::from_le_bytes(word.try_into().unwrap())))
        .sum();
    let sum = u32::try_from((sum & 0xffff_ffff) + (sum >> 32)).unwrap();
    block[216..220].copy_from_slice(&sum.to_le_bytes());
    device.write(4096, &block);
    assert_eq!(device.codes(), ["RaidMember"]);
}

#[test]
fn a_device_that_cannot_be_written_says_so() {
    let Some(device) = Loop::with(&["--read-only"]) else {
        return;
    };
    assert_eq!(device.codes(), ["ReadOnly"]);
}

/// An independent reader of sysfs sees the same devices, sizes and kinds.
#[test]
fn another_reader_sees_the_same_devices() {
    struct Shut;
    impl hypercloud_inventory::Opener for Shut {
        fn open(
            &self,
            _: &Path,
            _: hypercloud_inventory::Opened,
            _: &hypercloud_inventory::snapshot::Seen,
        ) -> hypercloud_inventory::snapshot::Probe {
            hypercloud_inventory::snapshot::Probe::NotMade
        }
    }
    let Ok(theirs) = blockdev::get_devices() else {
        println!("skipped: this machine has no list of block devices");
        return;
    };
    let ours = classify(&walk(&Tree::live(), &Shut).unwrap(), &Policy::default());
    // Devices may come and go meanwhile; loop devices do.
    for their in theirs
        .iter_all()
        .filter(|device| !device.name.starts_with("loop"))
    {
        let our = ours.devices.iter().find(|device| device.name == their.name);
        let our = our.unwrap_or_else(|| panic!("{} was dropped", their.name));
        assert_eq!(our.size, their.size, "{}", their.name);
        assert_eq!(our.read_only, Some(their.ro), "{}", their.name);
    }
}
