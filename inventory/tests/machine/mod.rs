//! Records of machines, made by the tests: `sys`, `proc` and `run/udev` of
//! nodes that this machine is not.
// Each test file uses a part.
#![allow(clippy::unwrap_used, clippy::panic, dead_code)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use hypercloud_inventory::{
    Device, Explanation, Inventory, Policy, Prober, SignatureSource, Tree, classify, walk,
};
use tempfile::TempDir;

pub struct Machine {
    dir: TempDir,
}

/// A device of a machine, whose files can be changed.
pub struct Block<'a> {
    machine: &'a Machine,
    path: PathBuf,
    number: String,
}

pub const GIB: u64 = 1 << 30;

impl Machine {
    /// A machine without devices.
    pub fn new() -> Self {
        let machine = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        machine.write("proc/1/mountinfo", "22 27 0:21 / /proc rw - proc proc rw\n");
        machine.write("proc/swaps", "Filename Type Size Used Priority\n");
        machine.write("proc/sys/kernel/hostname", "node-1\n");
        machine.write("proc/sys/kernel/random/boot_id", "11111111-2222\n");
        fs::create_dir_all(machine.root().join("sys/block")).unwrap();
        machine
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A disk of 100 GiB at the place `bus`, of which udev says nothing yet.
    pub fn disk(&self, name: &str, number: &str, bus: &str) -> Block<'_> {
        let below = format!("devices/{bus}/block/{name}");
        let path = self.root().join("sys").join(&below);
        fs::create_dir_all(path.join("queue")).unwrap();
        fs::create_dir_all(path.join("slaves")).unwrap();
        if !bus.starts_with("virtual") {
            symlink("../..", path.join("device")).unwrap();
        }
        symlink(
            format!("../{below}"),
            self.root().join("sys/block").join(name),
        )
        .unwrap();
        let block = Block {
            machine: self,
            path,
            number: number.into(),
        };
        block
            .attribute("removable", "0")
            .attribute("queue/rotational", "1")
            .attribute("queue/logical_block_size", "512")
            .attribute("queue/physical_block_size", "4096")
            .attribute("queue/discard_max_bytes", "0")
            .attribute("diskseq", "7");
        block.common()
    }

    /// A SATA disk that udev knows, with nothing on it.
    pub fn sata(&self, name: &str, number: &str, wwn: &str) -> Block<'_> {
        let block = self.disk(
            name,
            number,
            &format!("pci0000:00/ata1/host0/target0:0:0/{name}"),
        );
        block.attribute("device/model", "DISK-4000");
        block.attribute("device/vendor", "ATA");
        block.attribute("device/rev", "A1");
        block.udev(&[
            &format!("S:disk/by-id/wwn-0x{wwn}"),
            &format!("S:disk/by-id/ata-DISK-4000_{wwn}"),
            &format!("S:disk/by-path/pci-{name}"),
            &format!("E:ID_WWN=0x{wwn}"),
            &format!("E:ID_SERIAL_SHORT=S{wwn}"),
            "E:ID_BUS=ata",
        ]);
        block
    }

    pub fn mounted(&self, line: &str) {
        let path = self.root().join("proc/1/mountinfo");
        let table = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("{table}{line}\n")).unwrap();
    }

    pub fn inventory(&self) -> Inventory {
        self.inventory_by(&Policy::default())
    }

    pub fn inventory_by(&self, policy: &Policy) -> Inventory {
        let prober = Prober::new(SignatureSource::UdevFirst);
        classify(
            &walk(&Tree::recorded(self.root()), &prober).unwrap(),
            policy,
        )
    }
}

impl<'a> Block<'a> {
    fn common(self) -> Self {
        fs::create_dir_all(self.path.join("holders")).unwrap();
        self.attribute("dev", &self.number);
        self.attribute("ro", "0");
        self.size(100 * GIB);
        self
    }

    pub fn attribute(&self, name: &str, value: &str) -> &Self {
        let path = self.path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{value}\n")).unwrap();
        self
    }

    pub fn without(&self, name: &str) -> &Self {
        let path = self.path.join(name);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
        self
    }

    pub fn size(&self, bytes: u64) -> &Self {
        self.attribute("size", &(bytes / 512).to_string())
    }

    /// Adds lines to the device's record, which udev is done with.
    pub fn udev(&self, lines: &[&str]) -> &Self {
        let path = self
            .machine
            .root()
            .join("run/udev/data")
            .join(format!("b{}", self.number));
        let before = fs::read_to_string(&path).unwrap_or_else(|_| "I:1\n".into());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{before}{}\n", lines.join("\n"))).unwrap();
        self
    }

    pub fn partition(&self, name: &str, number: &str, bytes: u64) -> Block<'a> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).unwrap();
        let block = Block {
            machine: self.machine,
            path,
            number: number.into(),
        };
        let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
        block
            .attribute("partition", digits)
            .attribute("start", "2048");
        let block = block.common();
        block.size(bytes);
        block.udev(&[&format!("S:disk/by-path/pci-{name}"), "E:ID_SERIAL=x"]);
        block
    }

    pub fn held_by(&self, holder: &str) -> &Self {
        self.attribute(&format!("holders/{holder}"), "")
    }

    pub fn made_of(&self, slave: &str) -> &Self {
        self.attribute(&format!("slaves/{slave}"), "")
    }

    /// A device of device mapper.
    pub fn mapper(&self, name: &str, uuid: &str) -> &Self {
        self.attribute("dm/name", name)
            .attribute("dm/uuid", uuid)
            .attribute("dm/suspended", "0")
    }
}

pub fn device<'a>(inventory: &'a Inventory, name: &str) -> &'a Device {
    inventory
        .devices
        .iter()
        .find(|device| device.name == name)
        .unwrap_or_else(|| panic!("{name} was dropped: {inventory:?}"))
}

/// The codes of a device's reasons, in order.
pub fn codes<'a>(inventory: &'a Inventory, name: &str) -> Vec<&'a str> {
    let mut codes: Vec<&str> = device(inventory, name)
        .reasons
        .iter()
        .map(Explanation::code)
        .collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}
