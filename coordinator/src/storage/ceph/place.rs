//! Which OSD has which device. Pure.
//!
//! Ceph knows an OSD's device by a name of the kernel's, which may be another
//! device's after a reboot, and by model and serial number. Rook knows it by
//! the name that the kernel had for it when the OSD was made. So everything
//! that is said of an OSD is held against everything that is known of its
//! node's devices, and a device is the OSD's only where something speaks for
//! it, nothing against it, and that is so of no other device.
//!
//! Invariant: nothing is guessed. A device that is given up has exactly one
//! OSD or, where every OSD of its node is known to have another device, none;
//! whatever else is a question to a person, who answers it by an annotation.

use std::collections::BTreeMap;

use hypercloud_api::SettledDevice;
use hypercloud_inventory::{Device, Kind};
use hypercloud_storage::device::NodeDevices;

/// Annotation by which a person says which device an OSD has: its link in
/// `/dev/disk/by-id`, on the OSD's Deployment.
pub const ANNOTATION_DEVICE: &str = "hypercloud.tmaxanc.com/osd-device";

/// Serial numbers that are shorter are taken only as a whole.
const TELLING: usize = 5;
const BY_ID: &str = "/dev/disk/by-id/";
const BY_PATH: &str = "/dev/disk/by-path/";

/// What is said of the device of an OSD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The OSD's number.
    pub id: u32,
    /// The label `kubernetes.io/hostname` of its node, where it is known.
    pub hostname: Option<String>,
    /// The link that a person says it is.
    pub annotated: Option<String>,
    /// The path that Rook has it by.
    pub block: Option<String>,
    /// Model and serial number, as Ceph has them; several where the OSD has
    /// several devices.
    pub ids: Vec<String>,
    /// Links in `/dev/disk/by-path`, as Ceph has them.
    pub paths: Vec<String>,
}

/// Why it is not known which OSD has a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The phrases say what the fields are.
pub enum Unclear {
    #[error("{device} of {hostname} is said to be the device of the OSDs {osds}")]
    Several {
        device: String,
        hostname: String,
        osds: String,
    },
    #[error("OSD {osd} may have {device} of {hostname} or another device")]
    Ambiguous {
        device: String,
        hostname: String,
        osd: u32,
    },
    #[error("OSD {osd} of {hostname} may have {device}: nothing says which device it has")]
    Untold {
        device: String,
        hostname: String,
        osd: u32,
    },
}

/// A device that an OSD may have.
struct Candidate<'a> {
    by_id: Option<&'a str>,
    device: Option<&'a Device>,
}

/// What something says of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    For,
    Against,
    Nothing,
}

/// The link of the device that each OSD has, of those that are given up.
///
/// # Errors
/// The first device of which it is not clear whether an OSD has it, or which.
pub fn place(
    given_up: &[SettledDevice],
    inventories: &BTreeMap<String, NodeDevices>,
    osds: &[Evidence],
) -> Result<BTreeMap<u32, String>, Unclear> {
    let mut placed = BTreeMap::new();
    for device in given_up {
        if let Some(osd) = one(device, given_up, inventories, osds)? {
            placed.insert(osd, device.by_id.clone());
        }
    }
    Ok(placed)
}

/// The OSD that has `device`.
fn one(
    device: &SettledDevice,
    given_up: &[SettledDevice],
    inventories: &BTreeMap<String, NodeDevices>,
    osds: &[Evidence],
) -> Result<Option<u32>, Unclear> {
    let hostname = &device.hostname;
    let candidates = candidates(hostname, given_up, inventories.get(hostname));
    let meant: Vec<usize> = (0..candidates.len())
        .filter(|&index| candidates[index].has(&device.by_id))
        .collect();
    let (mut sure, mut perhaps, mut untold) = (Vec::new(), None, None);
    for osd in osds {
        if osd.hostname.as_ref().is_some_and(|other| other != hostname) {
            continue;
        }
        let fitting = fitting(osd, &candidates);
        let is_meant = fitting.iter().any(|index| meant.contains(index));
        match fitting.as_slice() {
            [] => untold = untold.or(Some(osd.id)),
            [_] if is_meant && meant.len() == 1 => sure.push(osd.id),
            _ if is_meant => perhaps = perhaps.or(Some(osd.id)),
            _ => {}
        }
    }
    let (name, hostname) = (device.by_id.clone(), hostname.clone());
    match (sure.as_slice(), perhaps, untold) {
        ([_, _, ..], _, _) => {
            let osds: Vec<String> = sure.iter().map(u32::to_string).collect();
            Err(Unclear::Several {
                device: name,
                hostname,
                osds: osds.join(", "),
            })
        }
        (_, Some(osd), _) => Err(Unclear::Ambiguous {
            device: name,
            hostname,
            osd,
        }),
        ([osd], None, _) => Ok(Some(*osd)),
        ([], None, Some(osd)) => Err(Unclear::Untold {
            device: name,
            hostname,
            osd,
        }),
        ([], None, None) => Ok(None),
    }
}

/// Devices of a node that an OSD may have: those that are there, and those
/// that are given up and perhaps not there any more.
fn candidates<'a>(
    hostname: &str,
    given_up: &'a [SettledDevice],
    node: Option<&'a NodeDevices>,
) -> Vec<Candidate<'a>> {
    let devices: &[Device] = node.map_or(&[], |node| &node.inventory.devices);
    let of_host = || {
        given_up
            .iter()
            .filter(|device| device.hostname == hostname)
            .map(|device| device.by_id.as_str())
    };
    let multipath = |name: &String| {
        let mut devices = devices.iter();
        devices.any(|device| &device.name == name && device.kind == Kind::Multipath)
    };
    let mut found: Vec<Candidate<'_>> = devices
        .iter()
        // A path is not a device beside the one that it leads to.
        .filter(|device| !device.holders.iter().any(multipath))
        .filter(|device| device.kind != Kind::Partition || of_host().any(|link| has(device, link)))
        .map(|device| Candidate {
            by_id: device.identity.by_id.as_deref(),
            device: Some(device),
        })
        .collect();
    for link in of_host() {
        if !found.iter().any(|candidate| candidate.has(link)) {
            found.push(Candidate {
                by_id: Some(link),
                device: None,
            });
        }
    }
    found
}

fn has(device: &Device, link: &str) -> bool {
    device.identity.by_id.as_deref() == Some(link)
        || device.identity.links.iter().any(|other| other == link)
}

/// The candidates that an OSD may have by all that is said of it.
fn fitting(osd: &Evidence, candidates: &[Candidate<'_>]) -> Vec<usize> {
    (0..candidates.len())
        .filter(|&index| candidates[index].fits(osd))
        .collect()
}

impl Candidate<'_> {
    fn has(&self, link: &str) -> bool {
        self.by_id == Some(link) || self.device.is_some_and(|device| has(device, link))
    }

    fn fits(&self, osd: &Evidence) -> bool {
        if let Some(link) = &osd.annotated {
            return self.has(link);
        }
        let block = osd.block.iter().map(|path| self.by_link(path));
        let ids = osd.ids.iter().map(|id| self.by_identity(id));
        let paths = osd.paths.iter().map(|path| self.by_path(path));
        let said: Vec<Says> = block.chain(ids).chain(paths).collect();
        said.contains(&Says::For) && !said.contains(&Says::Against)
    }

    /// What the path that Rook has says: a name of the kernel's says nothing.
    fn by_link(&self, path: &str) -> Says {
        if self.has(path) && path.starts_with("/dev/disk/") {
            Says::For
        } else if path.starts_with(BY_ID) {
            Says::Against
        } else {
            Says::Nothing
        }
    }

    fn by_path(&self, path: &str) -> Says {
        let Some(device) = self.device else {
            return Says::Nothing;
        };
        let mut known = device.identity.links.iter();
        if has(device, path) {
            Says::For
        } else if known.any(|link| link.starts_with(BY_PATH)) {
            Says::Against
        } else {
            Says::Nothing
        }
    }

    fn by_identity(&self, id: &str) -> Says {
        let id = plain(id);
        let own = self.by_id.into_iter().map(str::to_owned);
        let links = self.device.into_iter().flat_map(|device| {
            let links = device.identity.links.iter();
            links.cloned()
        });
        // As `ata-MODEL_SERIAL`: the bus, and what Ceph has.
        let is_named = own.chain(links).any(|link| {
            let name = link.strip_prefix(BY_ID).and_then(|n| n.split_once('-'));
            name.is_some_and(|(_, name)| plain(name) == id)
        });
        let serial = self.device.and_then(|device| {
            let serial = device.identity.serial.as_deref().map(plain);
            serial.filter(|serial| !serial.is_empty())
        });
        match serial {
            _ if is_named => Says::For,
            Some(serial) if ends(&id, &serial) => Says::For,
            Some(_) => Says::Against,
            None => Says::Nothing,
        }
    }
}

/// Whether an identity of model and serial number has this serial number.
fn ends(id: &str, serial: &str) -> bool {
    let model = id.strip_suffix(serial);
    match model {
        Some("") => true,
        Some(model) => model.ends_with('_') && serial.len() >= TELLING,
        None => false,
    }
}

/// A name as udev and Ceph both write it: single underscores for spaces.
fn plain(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c == '_');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("_")
}

#[cfg(test)]
mod tests;
