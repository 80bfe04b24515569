//! What the agents' streams told of devices, by node. Pure: time is an
//! argument.
//!
//! Invariants: what is told before a look becomes known with the look, as a
//! whole; a stream begins with nothing; a look that changes nothing wakes
//! nobody, unless the node was not followed before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hypercloud_inventory::{Device, Inventory};
use k8s_openapi::jiff::Timestamp;

use super::{AWAY, DeviceLink, DevicesSeen, SILENCE, Told};
use crate::agents::table::Change;

/// A look of an agent's at all devices of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// Grows with each change of the devices.
    pub revision: u64,
    /// The kernel's host name.
    pub hostname: Option<String>,
    /// The boot that names of devices belong to.
    pub boot_id: Option<String>,
    /// How many devices there are.
    pub devices: u64,
}

/// A look does not speak of the devices that were told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent looked at {looked} devices and told of {held}")]
pub struct Mismatch {
    looked: u64,
    held: u64,
}

/// The devices of every node.
#[derive(Debug)]
pub struct DeviceTable {
    nodes: BTreeMap<String, Node>,
    started: Timestamp,
}

#[derive(Debug)]
struct Node {
    /// Whether a pod of an agent runs there.
    agent: bool,
    link: Link,
    told: Option<(Arc<Told>, Timestamp)>,
}

#[derive(Debug)]
enum Link {
    Away {
        since: Timestamp,
        /// Whether the last stream broke before its first look.
        vain: bool,
    },
    TooOld,
    Following {
        since: Timestamp,
        /// What the stream's last look showed.
        shown: Option<Arc<Told>>,
        /// What was told since, by name; nothing for what is gone.
        changes: BTreeMap<String, Option<Device>>,
    },
}

impl DeviceTable {
    /// A table of a coordinator that knows of no agent before `started`.
    pub fn new(started: Timestamp) -> Self {
        Self {
            nodes: BTreeMap::new(),
            started,
        }
    }

    /// What is known of the devices of `node`.
    pub fn seen(&self, node: &str) -> DevicesSeen {
        let Some(known) = self.nodes.get(node) else {
            let since = self.started;
            let link = DeviceLink::NoAgent { since };
            return DevicesSeen { link, told: None };
        };
        let link = match known.link {
            Link::Away { since, .. } if known.agent => DeviceLink::Away { since },
            Link::Away { since, .. } => DeviceLink::NoAgent { since },
            Link::TooOld => DeviceLink::TooOld,
            Link::Following { since, .. } => DeviceLink::Following { since },
        };
        let told = known.told.clone();
        DevicesSeen { link, told }
    }

    /// From `now` on agents run on exactly these nodes. Others are forgotten
    /// once their inventories say that they are stale.
    pub fn expected<'a>(
        &mut self,
        nodes: impl IntoIterator<Item = &'a String>,
        now: Timestamp,
    ) -> Vec<Change> {
        let nodes: BTreeSet<&String> = nodes.into_iter().collect();
        self.nodes.retain(|name, node| match node.link {
            Link::Away { since, .. } => {
                node.agent || nodes.contains(name) || now.duration_since(since) <= AWAY * 2
            }
            Link::TooOld | Link::Following { .. } => true,
        });
        let mut changes = Vec::new();
        for (name, node) in &mut self.nodes {
            let agent = nodes.contains(name);
            if agent != node.agent {
                node.agent = agent;
                changes.push(Change::Devices(name.clone()));
            }
        }
        for name in nodes {
            if !self.nodes.contains_key(name) {
                self.entry(name, now).agent = true;
                changes.push(Change::Devices(name.clone()));
            }
        }
        changes
    }

    /// A stream of the agent's begins. One after another without a look is as
    /// good as none, since the first of them.
    pub fn began(&mut self, node: &str, now: Timestamp) -> Option<Change> {
        let entry = self.entry(node, now);
        let since = match entry.link {
            Link::Away { since, vain: true } => since,
            _ => now,
        };
        entry.link = Link::Following {
            since,
            shown: None,
            changes: BTreeMap::new(),
        };
        Some(Change::Devices(node.to_owned()))
    }

    /// The agent knows no such stream.
    pub fn too_old(&mut self, node: &str, now: Timestamp) -> Option<Change> {
        self.entry(node, now).link = Link::TooOld;
        Some(Change::Devices(node.to_owned()))
    }

    /// A device as it is with the next look.
    pub fn changed(&mut self, node: &str, device: Device) {
        if let Some(changes) = self.changes(node) {
            changes.insert(device.name.clone(), Some(device));
        }
    }

    /// A device that is gone with the next look.
    pub fn removed(&mut self, node: &str, name: &str) {
        if let Some(changes) = self.changes(node) {
            changes.insert(name.to_owned(), None);
        }
    }

    /// What was told is the node as it was just now.
    ///
    /// # Errors
    /// Something that was told got lost: the stream has to begin anew.
    pub fn looked(
        &mut self,
        node: &str,
        look: Look,
        now: Timestamp,
    ) -> Result<Option<Change>, Mismatch> {
        let Some(known) = self.nodes.get_mut(node) else {
            return Ok(None);
        };
        let Link::Following { shown, changes, .. } = &mut known.link else {
            return Ok(None);
        };
        let first = shown.is_none();
        let told = after(shown.clone(), std::mem::take(changes), look)?;
        *shown = Some(Arc::clone(&told));
        let news = known
            .told
            .as_ref()
            .is_none_or(|(former, heard)| *former != told || now.duration_since(*heard) >= SILENCE);
        known.told = Some((told, now));
        let change = Change::Devices(node.to_owned());
        Ok(Some(change).filter(|_| first || news))
    }

    /// The stream is over. What it told is remembered.
    pub fn ended(&mut self, node: &str, now: Timestamp) -> Option<Change> {
        let entry = self.entry(node, now);
        let (since, vain) = match entry.link {
            Link::Away { .. } => return None,
            Link::Following {
                since, shown: None, ..
            } => (since, true),
            Link::TooOld | Link::Following { .. } => (now, false),
        };
        entry.link = Link::Away { since, vain };
        Some(Change::Devices(node.to_owned()))
    }

    fn changes(&mut self, node: &str) -> Option<&mut BTreeMap<String, Option<Device>>> {
        match &mut self.nodes.get_mut(node)?.link {
            Link::Following { changes, .. } => Some(changes),
            Link::Away { .. } | Link::TooOld => None,
        }
    }

    /// What is known of a node; one that is new has been away until `now`.
    fn entry(&mut self, node: &str, now: Timestamp) -> &mut Node {
        self.nodes.entry(node.to_owned()).or_insert_with(|| Node {
            agent: false,
            link: Link::Away {
                since: now,
                vain: false,
            },
            told: None,
        })
    }
}

/// What a look shows after the one before it and the changes since.
fn after(
    shown: Option<Arc<Told>>,
    changes: BTreeMap<String, Option<Device>>,
    look: Look,
) -> Result<Arc<Told>, Mismatch> {
    let count = |devices: usize| {
        let (looked, held) = (look.devices, devices as u64);
        (looked == held)
            .then_some(())
            .ok_or(Mismatch { looked, held })
    };
    if let Some(shown) = &shown {
        let inventory = &shown.inventory;
        let same = changes.is_empty()
            && shown.revision == look.revision
            && inventory.boot_id == look.boot_id
            && inventory.hostname == look.hostname;
        if same {
            count(inventory.devices.len())?;
            return Ok(Arc::clone(shown));
        }
    }
    let former = shown.iter().flat_map(|shown| &shown.inventory.devices);
    let kept = former.filter(|device| !changes.contains_key(&device.name));
    let mut devices: Vec<Device> = kept.cloned().collect();
    devices.extend(changes.into_values().flatten());
    count(devices.len())?;
    devices.sort_by_cached_key(place);
    Ok(Arc::new(Told {
        revision: look.revision,
        inventory: Inventory {
            hostname: look.hostname,
            boot_id: look.boot_id,
            devices,
        },
    }))
}

/// The rank of a name among its kind, see [`natural`].
type Natural = (String, usize, Vec<u64>, String);

/// Where a device stands: as on the node, partitions behind their disk.
fn place(device: &Device) -> (Natural, bool, Natural) {
    let disk = device.disk.as_deref().unwrap_or(&device.name);
    (natural(disk), device.disk.is_some(), natural(&device.name))
}

/// `sda` before `sdaa`, `nvme2n1` before `nvme10n1`.
fn natural(name: &str) -> Natural {
    let driver: String = name.chars().take_while(|c| !c.is_ascii_digit()).collect();
    let numbers = name
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect();
    let family: String = driver.chars().take(2).collect();
    (family, driver.chars().count(), numbers, name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::Standing;
    use super::*;
    use hypercloud_inventory::{Identity, Kind};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn device(name: &str, disk: Option<&str>, size: u64) -> Device {
        Device {
            name: name.into(),
            path: format!("/dev/{name}"),
            kind: disk.map_or(Kind::Disk, |_| Kind::Partition),
            available: true,
            reasons: vec![],
            identity: Identity::default(),
            disk: disk.map(Into::into),
            number: None,
            size,
            logical_block_size: None,
            physical_block_size: None,
            rotational: None,
            removable: None,
            read_only: None,
            discard: None,
            transport: None,
            model: None,
            vendor: None,
            firmware: None,
            device_class: None,
            partitions: vec![],
            file_system: None,
            holders: vec![],
            slaves: vec![],
            mounts: vec![],
            backing_file: None,
        }
    }

    fn look(revision: u64, devices: u64) -> Look {
        Look {
            revision,
            hostname: None,
            boot_id: Some("boot".into()),
            devices,
        }
    }

    fn told(table: &DeviceTable) -> Vec<String> {
        let (told, _) = table.seen("n1").told.unwrap();
        let devices = &told.inventory.devices;
        devices.iter().map(|device| device.name.clone()).collect()
    }

    fn change() -> Option<Change> {
        Some(Change::Devices("n1".into()))
    }

    #[test]
    fn what_is_told_counts_with_the_look_and_in_order() {
        let mut table = DeviceTable::new(at(0));
        assert_eq!(table.expected([&"n1".to_owned()], at(1)).len(), 1);
        assert_eq!(table.expected([&"n1".to_owned()], at(2)), []);
        assert_eq!(table.seen("n1").link, DeviceLink::Away { since: at(1) });
        assert_eq!(table.began("n1", at(3)), change());
        for (name, disk) in [
            ("sdb", None),
            ("nvme10n1", None),
            ("sda2", Some("sda")),
            ("nvme2n1", None),
            ("sda", None),
            ("sdaa", None),
            ("sda10", Some("sda")),
        ] {
            table.changed("n1", device(name, disk, 7));
        }
        assert_eq!(table.seen("n1").told, None);
        assert_eq!(table.looked("n1", look(5, 7), at(4)), Ok(change()));
        let order = ["nvme2n1", "nvme10n1", "sda", "sda2", "sda10", "sdb", "sdaa"];
        assert_eq!(told(&table), order);

        table.removed("n1", "sda10");
        table.changed("n1", device("sdb", None, 8));
        assert_eq!(told(&table), order);
        assert_eq!(table.looked("n1", look(6, 6), at(5)), Ok(change()));
        assert_eq!(told(&table).len(), 6);
    }

    #[test]
    fn a_look_without_news_wakes_nobody_unless_it_was_missed() {
        let mut table = DeviceTable::new(at(0));
        table.began("n1", at(1));
        table.changed("n1", device("sda", None, 7));
        assert_eq!(table.looked("n1", look(5, 1), at(2)), Ok(change()));
        assert_eq!(table.looked("n1", look(5, 1), at(62)), Ok(None));
        // The same device told again is no news.
        table.changed("n1", device("sda", None, 7));
        assert_eq!(table.looked("n1", look(5, 1), at(63)), Ok(None));
        assert_eq!(table.seen("n1").told.unwrap().1, at(63));
        assert_eq!(table.looked("n1", look(5, 1), at(300)), Ok(change()));
        assert_eq!(table.ended("n1", at(310)), change());
        assert_eq!(table.ended("n1", at(311)), None);
        assert_eq!(table.seen("n1").told.unwrap().1, at(300));
        table.began("n1", at(312));
        // Whatever it told before has to be told again.
        assert!(table.looked("n1", look(5, 1), at(313)).is_err());
        table.changed("n1", device("sda", None, 7));
        assert_eq!(table.looked("n1", look(5, 1), at(313)), Ok(change()));
    }

    #[test]
    fn streams_that_break_before_a_look_are_no_streams() {
        let mut table = DeviceTable::new(at(0));
        table.expected([&"n1".to_owned()], at(0));
        for second in (10..400).step_by(10) {
            table.began("n1", at(second));
            let following = DeviceLink::Following { since: at(10) };
            assert_eq!(table.seen("n1").link, following);
            let expected = if second < 160 { "expected" } else { "lost" };
            let standing = match table.seen("n1").standing(at(second)) {
                Standing::Expected { .. } => "expected",
                Standing::Lost(_) => "lost",
                Standing::Current { .. } => "current",
            };
            assert_eq!(standing, expected, "{second}");
            table.ended("n1", at(second + 5));
        }
        // One that looked counts again.
        table.began("n1", at(400));
        table.looked("n1", look(1, 0), at(401)).unwrap();
        table.ended("n1", at(500));
        assert_eq!(table.seen("n1").link, DeviceLink::Away { since: at(500) });
        table.began("n1", at(510));
        let following = DeviceLink::Following { since: at(510) };
        assert_eq!(table.seen("n1").link, following);
    }

    #[test]
    fn a_node_that_went_long_ago_is_forgotten() {
        let mut table = DeviceTable::new(at(0));
        let (n1, n2) = ("n1".to_owned(), "n2".to_owned());
        table.expected([&n1, &n2], at(0));
        table.began("n1", at(1));
        table.looked("n1", look(1, 0), at(1)).unwrap();
        table.ended("n1", at(2));
        table.expected([&n2], at(2));
        table.expected([&n2], at(50));
        assert!(table.seen("n1").told.is_some());
        table.expected([&n2], at(63));
        assert!(table.seen("n1").told.is_none());
    }

    #[test]
    fn a_node_without_an_agent_is_told_from_one_that_is_away() {
        let mut table = DeviceTable::new(at(7));
        let nobody = DeviceLink::NoAgent { since: at(7) };
        assert_eq!(table.seen("n1").link, nobody);
        table.expected([&"n1".to_owned()], at(8));
        table.too_old("n1", at(9));
        assert_eq!(table.seen("n1").link, DeviceLink::TooOld);
        table.changed("n1", device("sda", None, 7));
        assert_eq!(table.looked("n1", look(1, 1), at(10)), Ok(None));
        assert_eq!(table.ended("n1", at(11)), change());
        assert_eq!(table.expected([], at(12)).len(), 1);
        let gone = DeviceLink::NoAgent { since: at(11) };
        assert_eq!(table.seen("n1").link, gone);
    }
}
