//! Records of real machines, where they lie beside the project: every device
//! is listed, and none of them is called available that was in use.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use hypercloud_inventory::{
    Explanation, Inventory, Policy, Prober, SignatureSource, Tree, classify, walk,
};

/// The folder of records, or a word on what is not tested.
fn records() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("shared/fixtures"))
        .find(|folder| folder.is_dir());
    if folder.is_none() {
        println!("skipped: there are no records of real machines in ../shared/fixtures");
    }
    folder
}

fn inventory(root: &Path) -> Inventory {
    let prober = Prober::new(SignatureSource::UdevFirst);
    classify(
        &walk(&Tree::recorded(root), &prober).unwrap(),
        &Policy::default(),
    )
}

fn codes<'a>(inventory: &'a Inventory, name: &str) -> Vec<&'a str> {
    let device = inventory.devices.iter().find(|device| device.name == name);
    device
        .unwrap_or_else(|| panic!("{name} was dropped"))
        .reasons
        .iter()
        .map(Explanation::code)
        .collect()
}

/// None of the records tells what the devices hold, so none is free.
#[test]
fn no_device_of_a_record_without_udev_is_available() {
    let Some(records) = records() else { return };
    let mut machines = 0;
    for entry in fs::read_dir(records.join("ghw")).unwrap().flatten() {
        if entry.path().extension().is_none_or(|kind| kind != "gz") {
            continue;
        }
        let tree = tempfile::tempdir().unwrap();
        let packed = GzDecoder::new(File::open(entry.path()).unwrap());
        tar::Archive::new(packed).unpack(tree.path()).unwrap();
        let inventory = inventory(tree.path());
        let listed = fs::read_dir(tree.path().join("sys/block")).unwrap().count();
        let disks = inventory
            .devices
            .iter()
            .filter(|device| device.disk.is_none());
        assert_eq!(disks.count(), listed, "{:?}", entry.path());
        assert_eq!(inventory.available().count(), 0, "{:?}", entry.path());
        machines += 1;
    }
    assert!(machines >= 4, "{machines}");
}

/// Unpacks an archive of node_exporter: records of `Path:`, `Lines:`,
/// `SymlinkTo:` and `Directory:`.
fn unpack(archive: &Path, into: &Path) {
    let text = String::from_utf8_lossy(&fs::read(archive).unwrap()).into_owned();
    let mut lines = text.lines();
    let mut path = PathBuf::new();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("Path: ") {
            path = into.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
        } else if let Some(name) = line.strip_prefix("Directory: ") {
            fs::create_dir_all(into.join(name)).unwrap();
        } else if let Some(target) = line.strip_prefix("SymlinkTo: ") {
            std::os::unix::fs::symlink(target, &path).unwrap();
        } else if let Some(count) = line.strip_prefix("Lines: ") {
            let lines: Vec<&str> = lines.by_ref().take(count.parse().unwrap()).collect();
            fs::write(&path, lines.join("\n")).unwrap();
        }
    }
}

#[test]
fn udevs_records_of_real_machines_are_read() {
    let Some(records) = records() else { return };
    let folder = records.join("node_exporter/collector/fixtures");
    let tree = tempfile::tempdir().unwrap();
    unpack(&folder.join("sys.ttar"), tree.path());
    unpack(&folder.join("udev.ttar"), tree.path());
    fs::create_dir_all(tree.path().join("run")).unwrap();
    fs::rename(tree.path().join("udev"), tree.path().join("run/udev")).unwrap();
    // What the record does not have: sizes and the like, as on a machine where
    // nothing is mounted and nothing is held.
    let mut numbered = 0;
    for entry in fs::read_dir(tree.path().join("run/udev/data"))
        .unwrap()
        .flatten()
    {
        let record = entry.file_name().into_string().unwrap();
        let device = tree
            .path()
            .join("sys/block")
            .join(format!("sd{}", record.replace(':', "x")));
        let attributes = [
            ("dev", record.trim_start_matches('b')),
            ("size", "2000000000"),
            ("ro", "0"),
            ("removable", "0"),
        ];
        for folder in ["holders", "slaves"] {
            fs::create_dir_all(device.join(folder)).unwrap();
        }
        for (name, value) in attributes {
            fs::write(device.join(name), value).unwrap();
        }
        numbered += 1;
    }
    for (path, text) in [("proc/1/mountinfo", ""), ("proc/swaps", "")] {
        let path = tree.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let inventory = inventory(tree.path());
    let named = inventory
        .devices
        .iter()
        .filter(|device| device.name.starts_with("sdb"));
    let mut seen = 0;
    for device in named {
        seen += 1;
        let record = device.name.trim_start_matches("sd").replace('x', ":");
        let text = fs::read_to_string(tree.path().join("run/udev/data").join(&record)).unwrap();
        let says = |word: &str| {
            text.lines()
                .filter_map(|line| line.strip_prefix(word))
                .any(|value| !value.is_empty())
        };
        let signed = says("E:ID_FS_TYPE=") || says("E:ID_PART_TABLE_TYPE=");
        assert!(
            !signed || !device.available,
            "{record} has a signature: {:?}",
            codes(&inventory, &device.name)
        );
    }
    assert!(numbered > 10 && seen >= numbered, "{seen} of {numbered}");
}
