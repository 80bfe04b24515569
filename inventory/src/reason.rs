//! Why a device is not available.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One reason why a device is not available; a device has all that hold.
///
/// Displayed, it is a phrase for people. [`Reason::code`] is the word that
/// stays the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[allow(missing_docs)] // The phrases say what the fields are.
pub enum Reason {
    // What the node needs, and what is in use.
    #[error("the node's {path} is on it")]
    BacksSystem { path: String },
    #[error("mounted at {at}")]
    Mounted { at: String },
    #[error("the node swaps to it")]
    ActiveSwap,
    #[error("{holder} is made of it")]
    Held { holder: String },
    #[error("a path of the multipath device {of}")]
    MultipathLeg { of: String },
    #[error("in use: opening it alone was refused")]
    InUse,

    // What it holds.
    #[error("has the partitions {names}")]
    Partitioned { names: String },
    #[error("the kernel takes BlueStore's data for the partitions {names}")]
    PhantomPartitions { names: String },
    #[error("a partition table ({kind})")]
    PartitionTable { kind: String },
    #[error("a file system ({kind}{})", labelled(.label))]
    FileSystem { kind: String, label: Option<String> },
    #[error("a physical volume of LVM")]
    LvmMember,
    #[error("a member of a RAID ({kind})")]
    RaidMember { kind: String },
    #[error("encrypted ({kind})")]
    EncryptedData { kind: String },
    #[error("a label of BlueStore at byte {offset}")]
    BlueStore { offset: u64 },
    #[error("{disk}, which it is part of, has a label of BlueStore")]
    BlueStoreDisk { disk: String },
    #[error("a member of a ZFS pool")]
    ZfsMember,
    #[error("a device of bcache")]
    BcacheMember,
    #[error("a volume of VDO")]
    VdoMember,
    #[error("data of DRBD")]
    DrbdMember,
    #[error("swap space")]
    SwapSpace,
    #[error("a signature ({kind})")]
    OtherSignature { kind: String },
    #[error("signatures that contradict each other")]
    AmbiguousSignatures,
    #[error("a partition that is reserved ({what})")]
    ReservedPartition { what: String },

    // What it is.
    #[error("read-only")]
    ReadOnly,
    #[error("its medium can be taken out")]
    Removable,
    #[error("attached by USB")]
    Usb,
    #[error("has no size")]
    NoSize,
    #[error("has {size} bytes, fewer than {least}")]
    TooSmall { size: u64, least: u64 },
    #[error("the kernel hides it")]
    Hidden,
    #[error("a loop device")]
    LoopDevice,
    #[error("a disk in memory")]
    RamDisk,
    #[error("a compressed disk in memory")]
    ZramDisk,
    #[error("a network block device")]
    NbdDevice,
    #[error("an image of Ceph")]
    RbdDevice,
    #[error("a DRBD volume")]
    DrbdDevice,
    #[error("a bcache device")]
    BcacheDevice,
    #[error("a ZFS volume")]
    ZfsVolume,
    #[error("an optical drive")]
    OpticalDrive,
    #[error("a floppy drive")]
    FloppyDrive,
    #[error("flash behind a translation, or a boot area")]
    FlashDevice,
    #[error("an array of the kernel's RAID")]
    RaidArray,
    #[error("a logical volume")]
    LogicalVolume,
    #[error("a multipath device")]
    MultipathDevice,
    #[error("an opened encrypted device")]
    EncryptedDevice,
    #[error("a device of device mapper")]
    MapperDevice,
    #[error("made of {slave} by a driver that is not known")]
    MadeOf { slave: String },
    #[error("a whole disk")]
    WholeDisk,
    #[error("a partition")]
    APartition,
    #[error("private to what made it ({owner})")]
    PrivateMapper { owner: String },
    #[error("suspended")]
    Suspended,

    // What is not known.
    #[error("{others} says the same {what} of itself")]
    DuplicateIdentity { what: String, others: String },
    #[error("could not be read: {why}")]
    Unreadable { why: String },
    #[error("not known: {what}")]
    Unknown { what: String },
}

fn labelled(label: &Option<String>) -> String {
    label
        .as_ref()
        .map(|label| format!(", labelled {label}"))
        .unwrap_or_default()
}

impl Reason {
    /// The reason as one word.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::BacksSystem { .. } => "BacksSystem",
            Self::Mounted { .. } => "Mounted",
            Self::ActiveSwap => "ActiveSwap",
            Self::Held { .. } => "Held",
            Self::MultipathLeg { .. } => "MultipathLeg",
            Self::InUse => "InUse",
            Self::Partitioned { .. } => "Partitioned",
            Self::PhantomPartitions { .. } => "PhantomPartitions",
            Self::PartitionTable { .. } => "PartitionTable",
            Self::FileSystem { .. } => "FileSystem",
            Self::LvmMember => "LvmMember",
            Self::RaidMember { .. } => "RaidMember",
            Self::EncryptedData { .. } => "EncryptedData",
            Self::BlueStore { .. } => "BlueStore",
            Self::BlueStoreDisk { .. } => "BlueStoreDisk",
            Self::ZfsMember => "ZfsMember",
            Self::BcacheMember => "BcacheMember",
            Self::VdoMember => "VdoMember",
            Self::DrbdMember => "DrbdMember",
            Self::SwapSpace => "SwapSpace",
            Self::OtherSignature { .. } => "OtherSignature",
            Self::AmbiguousSignatures => "AmbiguousSignatures",
            Self::ReservedPartition { .. } => "ReservedPartition",
            Self::ReadOnly => "ReadOnly",
            Self::Removable => "Removable",
            Self::Usb => "Usb",
            Self::NoSize => "NoSize",
            Self::TooSmall { .. } => "TooSmall",
            Self::Hidden => "Hidden",
            Self::LoopDevice => "LoopDevice",
            Self::RamDisk => "RamDisk",
            Self::ZramDisk => "ZramDisk",
            Self::NbdDevice => "NbdDevice",
            Self::RbdDevice => "RbdDevice",
            Self::DrbdDevice => "DrbdDevice",
            Self::BcacheDevice => "BcacheDevice",
            Self::ZfsVolume => "ZfsVolume",
            Self::OpticalDrive => "OpticalDrive",
            Self::FloppyDrive => "FloppyDrive",
            Self::FlashDevice => "FlashDevice",
            Self::RaidArray => "RaidArray",
            Self::LogicalVolume => "LogicalVolume",
            Self::MultipathDevice => "MultipathDevice",
            Self::EncryptedDevice => "EncryptedDevice",
            Self::MapperDevice => "MapperDevice",
            Self::MadeOf { .. } => "MadeOf",
            Self::WholeDisk => "WholeDisk",
            Self::APartition => "APartition",
            Self::PrivateMapper { .. } => "PrivateMapper",
            Self::Suspended => "Suspended",
            Self::DuplicateIdentity { .. } => "DuplicateIdentity",
            Self::Unreadable { .. } => "Unreadable",
            Self::Unknown { .. } => "Unknown",
        }
    }
}

/// A reason as it is told to others, who need not know every one there is.
///
/// Displayed, it is its message.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    thiserror::Error,
)]
#[error("{message}")]
pub struct Explanation {
    /// One CamelCase word; stable.
    pub reason: String,
    /// A phrase for people.
    pub message: String,
}

impl Explanation {
    /// The reason as one word.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.reason
    }
}

impl From<&Reason> for Explanation {
    fn from(reason: &Reason) -> Self {
        Self {
            reason: reason.code().to_owned(),
            message: reason.to_string(),
        }
    }
}
