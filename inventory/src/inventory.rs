//! The inventory: every device with its attributes, its identity and the
//! reasons why it is not available.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reason::Explanation;
use crate::snapshot::Transport;

/// Every block device of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    /// The kernel's host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The boot that kernel names belong to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Every device, disks before their partitions, none left out.
    pub devices: Vec<Device>,
}

impl Inventory {
    /// The devices that are free.
    pub fn available(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(|device| device.available)
    }
}

/// One block device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// The kernel's name, which another device may have after the next boot.
    pub name: String,
    /// `/dev/` and the name.
    pub path: String,
    /// What kind of device it is.
    pub kind: Kind,
    /// Whether nothing speaks against using it: there are no reasons.
    pub available: bool,
    /// Why it is not available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Explanation>,
    /// What stays the same when names change.
    #[serde(default)]
    pub identity: Identity,
    /// The disk of a partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Major and minor number, as `8:0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<String>,
    /// Size in bytes.
    #[schemars(with = "i64")]
    pub size: u64,
    /// Logical block size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub logical_block_size: Option<u32>,
    /// Physical block size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub physical_block_size: Option<u32>,
    /// Whether it turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// Whether its medium can be taken out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removable: Option<bool>,
    /// Whether the kernel refuses to write to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Whether it takes discards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discard: Option<bool>,
    /// How it is attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// Model, as the device says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Vendor, as the device says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Version of the firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// What Ceph would call its class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_class: Option<DeviceClass>,
    /// Partitions on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<Partition>,
    /// File system, or whatever else its first signature says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_system: Option<FileSystem>,
    /// Devices that are made of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<String>,
    /// Devices that it is made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slaves: Vec<String>,
    /// Where it is mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<String>,
    /// The file behind a loop device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backing_file: Option<String>,
}

/// What tells a device from all others, whatever it is called today.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// The link in `/dev/disk/by-id` to use in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_id: Option<String>,
    /// Every link to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// World wide name, in lower case and without its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// The kernel's number of the disk during this boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub disk_sequence: Option<u64>,
}

/// What kind of device something is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// A disk that is not made of others.
    Disk,
    /// A partition.
    Partition,
    /// Several paths to one disk, by device mapper.
    Multipath,
    /// An opened encrypted device.
    Encrypted,
    /// A logical volume of LVM.
    LogicalVolume,
    /// Anything else of device mapper.
    Mapper,
    /// An array of the kernel's RAID.
    Raid,
    /// A loop device.
    Loop,
    /// A disk in memory.
    Ram,
    /// A compressed disk in memory.
    Zram,
    /// A network block device.
    Nbd,
    /// An image of Ceph.
    Rbd,
    /// A DRBD volume.
    Drbd,
    /// A bcache device.
    Bcache,
    /// A ZFS volume.
    Zvol,
    /// An optical drive.
    Optical,
    /// A floppy drive.
    Floppy,
    /// Raw flash behind a translation, or a boot area of a flash card.
    Flash,
}

/// Ceph's word for how fast a device is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // They are Ceph's words.
pub enum DeviceClass {
    Hdd,
    Ssd,
    Nvme,
}

/// A partition, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Partition {
    /// The kernel's name.
    pub name: String,
    /// Size in bytes.
    #[schemars(with = "i64")]
    pub size: u64,
}

/// What a signature says is on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileSystem {
    /// libblkid's name.
    pub kind: String,
    /// The label that it carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}
