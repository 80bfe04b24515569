//! Whether a device may be cleaned: which one is meant, and what speaks
//! against it. Nothing is written here.
//!
//! A name is somebody else's after a reboot or a new cable, so a device is
//! meant by what it is, and everything that was known of it has to be so
//! still. What lies on a device does not speak against cleaning it; that it is
//! used, or that this cannot be told, does.

mod advice;

use serde::{Deserialize, Serialize};

use crate::inventory::{Device, Inventory};
use crate::reason::Explanation;

/// The device that is meant: what was known of it when it was chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Meant {
    /// The kernel's path of it, during the boot.
    pub path: String,
    /// The link in `/dev/disk/by-id` to use in its place.
    pub by_id: Option<String>,
    /// Links to it; only those in `/dev/disk/by-id` have to be there still.
    pub links: Vec<String>,
    /// World wide name.
    pub wwn: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// The kernel's number of the disk during the boot.
    pub disk_sequence: Option<u64>,
    /// Size in bytes.
    pub size: u64,
    /// The boot that path and sequence belong to.
    pub boot_id: Option<String>,
}

/// Why a device is not cleaned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The phrases say what the fields are.
pub enum Refusal {
    #[error("the node has no such device any more ({what}): look at what it has now")]
    NotThere { what: String },
    #[error(
        "{path} is another device than the one that is meant: {what}. Name the device that it is now, if it is to be cleaned"
    )]
    Another { path: String, what: String },
    #[error(
        "nothing tells {path} from another device that gets its name: it has no serial number, world wide name or link in /dev/disk/by-id, and the kernel's number of it is not known"
    )]
    NotTold { path: String },
    #[error("more than one device is what is meant: {devices}")]
    NotOne { devices: String },
    #[error("{path} is not cleaned: {}", listed(.reasons))]
    Used {
        path: String,
        /// All that speak against it, each with what to do; at least one.
        reasons: Vec<Explanation>,
    },
}

fn listed(reasons: &[Explanation]) -> String {
    let phrases: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    phrases.join("; ")
}

impl Refusal {
    /// The refusal as one word; of several reasons the first.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::NotThere { .. } => "DeviceNotThere",
            Self::Another { .. } => "AnotherDevice",
            Self::NotTold { .. } => "DeviceNotIdentified",
            Self::NotOne { .. } => "AmbiguousDevice",
            Self::Used { reasons, .. } => reasons.first().map_or("Unknown", Explanation::code),
        }
    }
}

impl Refusal {
    /// Whether all that speaks against the device is that somebody has it
    /// alone, as everybody has who looks at it.
    #[must_use]
    pub fn is_of_a_moment(&self) -> bool {
        match self {
            Self::Used { reasons, .. } => reasons.iter().all(|told| told.code() == "InUse"),
            _ => false,
        }
    }
}

impl Meant {
    /// All that is known of a device.
    #[must_use]
    pub fn of(inventory: &Inventory, device: &Device) -> Self {
        let identity = &device.identity;
        Self {
            path: device.path.clone(),
            by_id: identity.by_id.clone(),
            links: Vec::new(),
            wwn: identity.wwn.clone(),
            serial: identity.serial.clone(),
            disk_sequence: identity.disk_sequence,
            size: device.size,
            boot_id: inventory.boot_id.clone(),
        }
    }

    /// Whether something is known that outlasts a boot.
    fn lasts(&self) -> bool {
        let by_id = self.by_id.as_deref().is_some_and(names_the_device);
        by_id || self.wwn.is_some() || self.serial.is_some()
    }

    /// What of a device is not as it was known; nothing for the one that is
    /// meant. The kernel's number is good during its boot alone.
    fn difference(
        &self,
        inventory: &Inventory,
        device: &Device,
        same_boot: bool,
    ) -> Option<String> {
        let identity = &device.identity;
        let texts = [
            ("its world wide name", &self.wwn, &identity.wwn),
            ("its serial number", &self.serial, &identity.serial),
        ];
        for (what, meant, found) in texts {
            if meant.is_some() && meant != found {
                return Some(differs(what, meant.as_deref(), found.as_deref()));
            }
        }
        let link = self.by_id.iter().chain(self.links.iter());
        let mut named = link.filter(|link| names_the_device(link));
        if let Some(link) = named.find(|link| !has_link(inventory, device, link)) {
            return Some(format!("{link} does not lead to it"));
        }
        if self.size != device.size {
            return Some(format!(
                "it has {} bytes, and {} were expected",
                device.size, self.size
            ));
        }
        if same_boot && self.disk_sequence.is_some() && self.disk_sequence != identity.disk_sequence
        {
            return Some(differs(
                "the kernel's number of it",
                self.disk_sequence.map(|it| it.to_string()).as_deref(),
                identity.disk_sequence.map(|it| it.to_string()).as_deref(),
            ));
        }
        None
    }
}

fn differs(what: &str, meant: Option<&str>, found: Option<&str>) -> String {
    let word = |text: Option<&str>| text.unwrap_or("not known").to_owned();
    format!("{what} is {}, not {}", word(found), word(meant))
}

const BY_ID: &str = "/dev/disk/by-id/";

/// Links that name what is on a device go with it.
const CONTENTS: &[&str] = &["lvm-pv-uuid-", "dm-name-", "md-name-", "md-uuid-"];

fn names_the_device(link: &str) -> bool {
    link.strip_prefix(BY_ID)
        .is_some_and(|name| !CONTENTS.iter().any(|begin| name.starts_with(begin)))
}

/// Whether a link leads to the device and to no other. A multipath device has
/// its links with its paths.
fn has_link(inventory: &Inventory, device: &Device, link: &str) -> bool {
    let is = |link: &String, of: &Device| of.identity.links.contains(link);
    let link = link.to_owned();
    device.identity.by_id.as_ref() == Some(&link)
        || is(&link, device)
            && !inventory
                .devices
                .iter()
                .any(|other| other.name != device.name && is(&link, other))
}

/// The device that is meant.
///
/// # Errors
/// No device is it, or it cannot be told which.
pub fn find<'a>(inventory: &'a Inventory, meant: &Meant) -> Result<&'a Device, Refusal> {
    let same_boot = meant.boot_id.is_none() || meant.boot_id == inventory.boot_id;
    let numbered = meant.boot_id.is_some() && meant.disk_sequence.is_some();
    if !meant.lasts() && !numbered {
        return Err(Refusal::NotTold {
            path: meant.path.clone(),
        });
    }
    if same_boot {
        return at_its_path(inventory, meant);
    }
    if !meant.lasts() {
        return Err(Refusal::NotThere {
            what: format!(
                "the node was started anew since, and nothing but {} is known of it",
                meant.path
            ),
        });
    }
    let found: Vec<&Device> = inventory
        .devices
        .iter()
        .filter(|device| meant.difference(inventory, device, false).is_none())
        .collect();
    match found.as_slice() {
        [device] => Ok(device),
        [] => Err(Refusal::NotThere {
            what: format!("what was {} before the node was started anew", meant.path),
        }),
        several => {
            let devices: Vec<&str> = several.iter().map(|device| device.path.as_str()).collect();
            Err(Refusal::NotOne {
                devices: devices.join(", "),
            })
        }
    }
}

fn at_its_path<'a>(inventory: &'a Inventory, meant: &Meant) -> Result<&'a Device, Refusal> {
    let device = inventory
        .devices
        .iter()
        .find(|device| device.path == meant.path)
        .ok_or_else(|| Refusal::NotThere {
            what: meant.path.clone(),
        })?;
    match meant.difference(inventory, device, true) {
        None => Ok(device),
        Some(what) => Err(Refusal::Another {
            path: meant.path.clone(),
            what,
        }),
    }
}

/// Reasons that say what lies on a device: that is what cleaning is for.
const LEFT: &[&str] = &[
    "Partitioned",
    "PhantomPartitions",
    "PartitionTable",
    "FileSystem",
    "LvmMember",
    "RaidMember",
    "EncryptedData",
    "BlueStore",
    "ZfsMember",
    "BcacheMember",
    "VdoMember",
    "DrbdMember",
    "SwapSpace",
    "OtherSignature",
    "AmbiguousSignatures",
];

/// Reasons against taking a device unasked, but not where it is named.
const NAMED: &[&str] = &[
    "Removable",
    "Usb",
    "TooSmall",
    "LoopDevice",
    "LogicalVolume",
    "MultipathDevice",
    "EncryptedDevice",
    "WholeDisk",
    "APartition",
];

/// Reasons of a partition that speak against cleaning its disk.
const OF_PARTITIONS: &[&str] = &[
    "BacksSystem",
    "Mounted",
    "ActiveSwap",
    "Held",
    "MultipathLeg",
    "InUse",
    "PrivateMapper",
    "Suspended",
];

/// Whether a device may be cleaned as it is now. A reason that is not known
/// here speaks against it.
///
/// # Errors
/// What speaks against it, each with what to do.
pub fn may_be_cleaned(inventory: &Inventory, device: &Device) -> Result<(), Refusal> {
    let mut reasons: Vec<Explanation> = device
        .reasons
        .iter()
        .filter(|told| !LEFT.contains(&told.code()) && !NAMED.contains(&told.code()))
        .map(|told| advice::with_advice(inventory, device, told))
        .collect();
    let partitions = inventory
        .devices
        .iter()
        .filter(|part| part.disk.as_ref() == Some(&device.name));
    for part in partitions {
        let against = part
            .reasons
            .iter()
            .filter(|told| OF_PARTITIONS.contains(&told.code()))
            // What it has of its disk was said.
            .filter(|told| !device.reasons.contains(told));
        reasons.extend(against.map(|told| {
            let told = advice::with_advice(inventory, part, told);
            Explanation {
                message: format!("{}, a partition of it: {}", part.path, told.message),
                reason: told.reason,
            }
        }));
    }
    if reasons.is_empty() {
        Ok(())
    } else {
        Err(Refusal::Used {
            path: device.path.clone(),
            reasons,
        })
    }
}
