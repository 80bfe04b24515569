//! What was read of a node, before anything is concluded from it.
//!
//! `None` says that something could not be read, which is not the same as
//! that it is not there.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A node's devices and what uses them, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The boot that the kernel names and disk sequence numbers belong to.
    pub boot_id: Option<String>,
    /// The kernel's host name.
    pub hostname: Option<String>,
    /// The mount table of PID 1.
    pub mounts: Option<Vec<Mount>>,
    /// Paths of what the kernel swaps to.
    pub swaps: Option<Vec<String>>,
    /// Every block device, disks before their partitions.
    pub devices: Vec<Seen>,
}

/// Major and minor number of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number {
    /// The driver's number.
    pub major: u32,
    /// The device's number at its driver.
    pub minor: u32,
}

/// One line of a mount table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The device; not known from tables of the old form.
    pub number: Option<Number>,
    /// What was mounted, as whoever mounted it wrote it.
    pub source: String,
    /// Where it is mounted.
    pub target: String,
}

/// One block device as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// The kernel's name, with `/` where sysfs has `!`.
    pub name: String,
    /// Major and minor number.
    pub number: Option<Number>,
    /// The disk of a partition.
    pub disk: Option<String>,
    /// The number of a partition.
    pub partition: Option<u32>,
    /// Where on its disk a partition begins, in bytes.
    pub start: Option<u64>,
    /// The name that the partition table gives a partition.
    pub partition_label: Option<String>,
    /// The type that the partition table gives a partition.
    pub partition_type: Option<String>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Whether the kernel refuses to write to it.
    pub read_only: Option<bool>,
    /// Whether its medium can be taken out.
    pub removable: Option<bool>,
    /// Whether the kernel keeps it from users (a path of a multipath NVMe).
    pub hidden: bool,
    /// Logical block size in bytes.
    pub logical_block_size: Option<u32>,
    /// Physical block size in bytes.
    pub physical_block_size: Option<u32>,
    /// Whether it turns.
    pub rotational: Option<bool>,
    /// The most bytes that one discard takes; 0 where there is none.
    pub discard_bytes: Option<u64>,
    /// The kernel's number of this disk, never given twice during a boot.
    pub disk_sequence: Option<u64>,
    /// How it is attached.
    pub transport: Option<Transport>,
    /// Model, as the device says.
    pub model: Option<String>,
    /// Vendor, as the device says.
    pub vendor: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// World wide name, in the form of sysfs or of udev.
    pub wwn: Option<String>,
    /// Version of the firmware.
    pub firmware: Option<String>,
    /// Devices that are made of it.
    pub holders: Option<Vec<String>>,
    /// Devices that it is made of.
    pub slaves: Option<Vec<String>>,
    /// What device mapper says of it.
    pub mapper: Option<Mapper>,
    /// The file behind a loop device.
    pub backing_file: Option<String>,
    /// Links to it below `/dev`, as whole paths.
    pub links: Vec<String>,
    /// Its record in udev's database.
    pub udev: Option<UdevRecord>,
    /// What opening it gave.
    pub probe: Probe,
}

/// How a device is attached.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // They are the words of the field.
pub enum Transport {
    Ata,
    Fc,
    Iscsi,
    Mmc,
    Nvme,
    Sas,
    Scsi,
    Usb,
    Virtio,
}

/// Device mapper's words on one of its devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapper {
    /// The name below `/dev/mapper`.
    pub name: String,
    /// The identifier, whose beginning tells who made it.
    pub uuid: String,
    /// Whether reads and writes wait.
    pub suspended: bool,
}

/// A record of udev's database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UdevRecord {
    /// Whether udev is done with the device; before, properties may miss.
    pub initialized: bool,
    /// Links below `/dev`, as whole paths.
    pub links: Vec<String>,
    /// Properties.
    pub properties: BTreeMap<String, String>,
}

impl UdevRecord {
    /// A property that is there and not empty.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }
}

/// What opening a device gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Probe {
    /// It was not opened: there is nothing to open in a recorded tree.
    #[default]
    NotMade,
    /// It should have been opened or read, and could not.
    Failed(String),
    /// It was opened and read.
    Made(Look),
}

/// What a device that was opened looks like.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// Whether somebody has it for himself.
    pub busy: bool,
    /// Signatures on it; `None` where udev's word was enough.
    pub signatures: Option<Vec<Signature>>,
    /// Where labels of BlueStore begin, in bytes.
    pub bluestore: Vec<u64>,
    /// The block device behind a loop device, which has no other mark of it.
    pub backing: Option<Number>,
}

/// A known pattern on a device that tells what it is used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// libblkid's name of it, such as `ext4`, `LVM2_member` or `gpt`.
    pub kind: String,
    /// What it is.
    pub usage: Usage,
    /// The label that it carries.
    pub label: Option<String>,
}

/// What a signature is the signature of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// A file system.
    FileSystem,
    /// A part of a volume or an array.
    Raid,
    /// Encrypted data.
    Crypto,
    /// A partition table.
    PartitionTable,
    /// Something else, such as swap space.
    Other,
}

impl Usage {
    /// From libblkid's and udev's word for it.
    #[must_use]
    pub fn from_word(word: &str) -> Self {
        match word {
            "filesystem" => Self::FileSystem,
            "raid" => Self::Raid,
            "crypto" => Self::Crypto,
            _ => Self::Other,
        }
    }
}
