//! Which device a name in the specification means: found out once, and
//! remembered from then on, since a device that Ceph has is in use.
//!
//! Invariants: a device that is in use comes into the CephCluster only if it is
//! there already. One that is there is taken for dropped only where every name
//! of its node is known to mean another.

use std::collections::{BTreeMap, BTreeSet};

use hypercloud_api::{InventoryState, SettledDevice, StorageNode};
use hypercloud_inventory::resolve::{Refusal, resolve};
use hypercloud_inventory::rook::{Node, OsdConfig, OsdDevice, Storage, storage};
use hypercloud_inventory::{Device, DeviceClass, Inventory};
use serde_json::Value;

/// What is known of a node's devices.
#[derive(Clone, Debug)]
pub struct NodeDevices {
    /// Whether that is what the node has now.
    pub state: InventoryState,
    /// The devices.
    pub inventory: Inventory,
}

/// What is known of the cluster's nodes.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Labels `kubernetes.io/hostname` of the cluster's nodes.
    pub hostnames: BTreeSet<String>,
    /// Inventories by that label.
    pub inventories: BTreeMap<String, NodeDevices>,
    /// What was settled before.
    pub settled: Vec<SettledDevice>,
    /// Node and name of every device that the CephCluster has.
    pub in_cluster: BTreeSet<(String, String)>,
    /// Devices that are being given up, and are Ceph's until that is done: one
    /// that is asked for again is no other device in use.
    pub removing: Vec<SettledDevice>,
}

/// Why a device cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The phrases say what the fields are.
pub enum DeviceProblem {
    #[error(
        "no node has the label kubernetes.io/hostname={hostname}: correct storage.nodes, or wait for the node"
    )]
    UnknownHostname { hostname: String },
    #[error("the devices of {hostname} are not known yet: its agent has not told them")]
    InventoryPending { hostname: String },
    #[error(
        "the devices of {hostname} may have changed: its agent is not heard of, see to the node-agent there"
    )]
    InventoryStale { hostname: String },
    #[error("on {hostname}, {refusal}")]
    Refused { hostname: String, refusal: Refusal },
    #[error("on {hostname}, {first} and {second} are the same device: name it once")]
    Duplicate {
        hostname: String,
        first: String,
        second: String,
    },
}

impl DeviceProblem {
    /// One CamelCase word.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::UnknownHostname { .. } => "HostnameUnknown",
            Self::InventoryPending { .. } => "InventoryPending",
            Self::InventoryStale { .. } => "InventoryStale",
            Self::Duplicate { .. } => "DeviceDuplicate",
            Self::Refused { refusal, .. } => match refusal {
                Refusal::NotThere { .. } => "DeviceNotThere",
                Refusal::NotOne { .. } => "DeviceAmbiguous",
                Refusal::NotAvailable { .. } => "DeviceNotAvailable",
                Refusal::NoStableName { .. } => "DeviceWithoutStableName",
            },
        }
    }

    /// The node that it is about.
    #[must_use]
    pub fn hostname(&self) -> &str {
        match self {
            Self::UnknownHostname { hostname }
            | Self::InventoryPending { hostname }
            | Self::InventoryStale { hostname }
            | Self::Refused { hostname, .. }
            | Self::Duplicate { hostname, .. } => hostname,
        }
    }

    /// Whether it passes by itself.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        matches!(self, Self::InventoryPending { .. })
    }
}

/// What the names came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settlement {
    /// Devices that are asked for, in the order of the specification.
    pub devices: Vec<SettledDevice>,
    /// Devices that Ceph has and that are asked for no more.
    pub dropped: Vec<SettledDevice>,
    /// Devices that Ceph has, of nodes of which a name came to nothing: it may
    /// have meant one of them.
    pub unclear: Vec<SettledDevice>,
    /// Names that came to nothing.
    pub problems: Vec<DeviceProblem>,
}

impl Settlement {
    /// `spec.storage` of the CephCluster: what is asked for, what may be, and
    /// what Ceph has and keeps.
    #[must_use]
    pub fn storage(&self, kept: &[SettledDevice]) -> Storage {
        let mut nodes: Vec<Node> = Vec::new();
        let all = self.devices.iter().chain(&self.unclear).chain(kept);
        for device in all {
            let osd = OsdDevice {
                name: device.by_id.clone(),
                config: class(device.device_class.as_deref())
                    .map(|device_class| OsdConfig { device_class }),
            };
            match nodes.iter_mut().find(|node| node.name == device.hostname) {
                Some(node) => node.devices.push(osd),
                None => nodes.push(Node {
                    name: device.hostname.clone(),
                    devices: vec![osd],
                }),
            }
        }
        storage(nodes)
    }
}

/// Node and name of every device of a CephCluster.
#[must_use]
pub fn in_cluster(cluster: &Value) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    let nodes = cluster["spec"]["storage"]["nodes"].as_array();
    for node in nodes.into_iter().flatten() {
        let hostname = node["name"].as_str().unwrap_or_default();
        let devices = node["devices"].as_array();
        for name in devices
            .into_iter()
            .flatten()
            .filter_map(|d| d["name"].as_str())
        {
            found.insert((hostname.to_owned(), name.to_owned()));
        }
    }
    found
}

/// What the names of a specification mean.
#[must_use]
pub fn settle(nodes: &[StorageNode], known: &Known) -> Settlement {
    let mut settlement = Settlement::default();
    for node in nodes {
        if !known.hostnames.contains(&node.hostname) && !known.has(&node.hostname) {
            settlement.problems.push(DeviceProblem::UnknownHostname {
                hostname: node.hostname.clone(),
            });
            continue;
        }
        for name in &node.devices {
            match one(&node.hostname, &name.0, known) {
                Ok(device) => settlement.add(device),
                Err(problem) => settlement.refuse(problem),
            }
        }
    }
    let unasked = known.unasked(&settlement.devices);
    let is_unclear = |device: &SettledDevice| {
        let mut problems = settlement.problems.iter();
        problems.any(|problem| problem.hostname() == device.hostname)
    };
    let (unclear, dropped) = unasked.into_iter().partition(is_unclear);
    settlement.unclear = unclear;
    settlement.dropped = dropped;
    settlement
}

impl Settlement {
    fn add(&mut self, device: SettledDevice) {
        let same = |other: &&SettledDevice| {
            other.hostname == device.hostname && other.by_id == device.by_id
        };
        if let Some(first) = self.devices.iter().find(same) {
            let problem = DeviceProblem::Duplicate {
                hostname: device.hostname.clone(),
                first: first.device.clone(),
                second: device.device.clone(),
            };
            return self.refuse(problem);
        }
        self.devices.push(device);
    }

    /// A problem of the node is told once.
    fn refuse(&mut self, problem: DeviceProblem) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

impl Known {
    /// Whether Ceph has a device of this node.
    fn has(&self, hostname: &str) -> bool {
        let mut going = self.removing.iter();
        self.in_cluster.iter().any(|(node, _)| node == hostname)
            || going.any(|device| device.hostname == hostname)
    }

    /// Whether the CephCluster has this device, or has it given up and Ceph
    /// has not.
    fn is_cephs(&self, hostname: &str, by_id: &str) -> bool {
        let pair = (hostname.to_owned(), by_id.to_owned());
        let mut going = self.removing.iter();
        self.in_cluster.contains(&pair)
            || going.any(|device| device.hostname == hostname && device.by_id == by_id)
    }

    /// What Ceph has and `devices` are not.
    fn unasked(&self, devices: &[SettledDevice]) -> Vec<SettledDevice> {
        let kept = |hostname: &str, by_id: &str| {
            devices
                .iter()
                .any(|device| device.hostname == hostname && device.by_id == by_id)
        };
        self.in_cluster
            .iter()
            .filter(|(hostname, by_id)| !kept(hostname, by_id))
            .map(|(hostname, by_id)| {
                let remembered = self
                    .settled
                    .iter()
                    .find(|device| &device.hostname == hostname && &device.by_id == by_id);
                remembered.cloned().unwrap_or_else(|| SettledDevice {
                    hostname: hostname.clone(),
                    device: by_id.clone(),
                    by_id: by_id.clone(),
                    device_class: None,
                })
            })
            .collect()
    }
}

fn one(hostname: &str, name: &str, known: &Known) -> Result<SettledDevice, DeviceProblem> {
    let mut remembered = known.settled.iter().chain(&known.removing);
    let remembered = remembered.find(|device| {
        device.hostname == hostname
            && device.device == name
            && known.is_cephs(hostname, &device.by_id)
    });
    if let Some(device) = remembered {
        return Ok(device.clone());
    }
    let settled = |by_id: &str, class: Option<DeviceClass>| SettledDevice {
        hostname: hostname.to_owned(),
        device: name.to_owned(),
        by_id: by_id.to_owned(),
        device_class: class.map(|class| word(class).to_owned()),
    };
    let of = |make: fn(String) -> DeviceProblem| Err(make(hostname.to_owned()));
    let node = known.inventories.get(hostname);
    // By one of its names, Ceph may have the device already.
    let held = node.and_then(|node| held(hostname, name, &node.inventory, known));
    if let Some((by_id, device)) = held {
        return Ok(settled(by_id, device.device_class));
    }
    if known.is_cephs(hostname, name) {
        return Ok(settled(name, None));
    }
    let Some(node) = node else {
        return of(|hostname| DeviceProblem::InventoryPending { hostname });
    };
    match node.state {
        InventoryState::Current => {}
        InventoryState::Pending => {
            return of(|hostname| DeviceProblem::InventoryPending { hostname });
        }
        InventoryState::Stale => return of(|hostname| DeviceProblem::InventoryStale { hostname }),
    }
    match resolve(&node.inventory, name) {
        Ok(resolved) => Ok(settled(resolved.path, resolved.device.device_class)),
        Err(refusal) => Err(DeviceProblem::Refused {
            hostname: hostname.to_owned(),
            refusal,
        }),
    }
}

/// The device called `name` now, if it is one that Ceph has, and the name that
/// Ceph has it by. What two devices are called is neither.
fn held<'a>(
    hostname: &str,
    name: &str,
    inventory: &'a Inventory,
    known: &Known,
) -> Option<(&'a str, &'a Device)> {
    let path = match name.starts_with('/') {
        true => name.to_owned(),
        false => format!("/dev/{name}"),
    };
    let mut called = inventory
        .devices
        .iter()
        .filter(|device| device.path == path || device.identity.links.contains(&path));
    let device = called.next()?;
    if called.next().is_some() {
        return None;
    }
    let links = device.identity.by_id.iter().chain(&device.identity.links);
    links
        .map(String::as_str)
        .find(|link| known.is_cephs(hostname, link))
        .map(|link| (link, device))
}

fn word(class: DeviceClass) -> &'static str {
    match class {
        DeviceClass::Hdd => "hdd",
        DeviceClass::Ssd => "ssd",
        DeviceClass::Nvme => "nvme",
    }
}

fn class(word: Option<&str>) -> Option<DeviceClass> {
    match word? {
        "hdd" => Some(DeviceClass::Hdd),
        "ssd" => Some(DeviceClass::Ssd),
        "nvme" => Some(DeviceClass::Nvme),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
