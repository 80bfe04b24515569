//! What the devices look like from outside, and who wants to know.
//!
//! Invariants: only the latest look is kept, and a watcher compares it with
//! what it has shown, so it can be as slow as it likes and nothing queues up.
//! A device that did not change is the same value in both, so that comparing
//! costs nothing. A revision only grows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hypercloud_inventory::{Device, Inventory};
use tokio::sync::watch;

/// All devices at one look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// Grows with each change, also over restarts as long as the clock does:
    /// milliseconds since 1970 at the change, and more than the one before.
    pub revision: u64,
    /// The kernel's host name.
    pub hostname: Option<String>,
    /// The boot that names belong to.
    pub boot_id: Option<String>,
    /// The devices by their names.
    pub devices: BTreeMap<String, Arc<Device>>,
}

impl Look {
    /// The look that follows this one, at `milliseconds` since 1970. Its
    /// revision is the same where nothing has changed.
    fn next(&self, inventory: Inventory, milliseconds: u64) -> Self {
        let devices = inventory.devices.into_iter().map(|device| {
            let name = device.name.clone();
            let same = self.devices.get(&name).filter(|known| ***known == device);
            let device = same.map_or_else(|| Arc::new(device), Arc::clone);
            (name, device)
        });
        let mut next = Self {
            revision: self.revision,
            hostname: inventory.hostname,
            boot_id: inventory.boot_id,
            devices: devices.collect(),
        };
        if next != *self || self.revision == 0 {
            next.revision = milliseconds.max(self.revision + 1);
        }
        next
    }
}

/// The latest look at the devices. Clones are the same board.
#[derive(Clone)]
pub struct DeviceBoard {
    latest: Arc<watch::Sender<Option<Arc<Look>>>>,
    figures: Arc<Figures>,
}

#[derive(Default)]
struct Figures {
    looks: AtomicU64,
    microseconds: AtomicU64,
}

impl Default for DeviceBoard {
    fn default() -> Self {
        Self {
            latest: Arc::new(watch::Sender::new(None)),
            figures: Arc::default(),
        }
    }
}

impl DeviceBoard {
    /// Shows the devices as they are at `milliseconds` since 1970, after a
    /// look that `took` so long. Where nothing has changed, watchers are told
    /// only if one is `due`. Whether they were told.
    pub(super) fn put(
        &self,
        inventory: Inventory,
        milliseconds: u64,
        took: Duration,
        due: bool,
    ) -> bool {
        self.figures.looks.fetch_add(1, Ordering::Relaxed);
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.figures.microseconds.store(took, Ordering::Relaxed);
        let last = self.latest.borrow().clone().unwrap_or_default();
        let next = last.next(inventory, milliseconds);
        let tell = due || next.revision != last.revision;
        if tell {
            self.latest.send_replace(Some(Arc::new(next)));
        }
        tell
    }

    /// The latest look, where there was one.
    #[must_use]
    pub fn latest(&self) -> Option<Arc<Look>> {
        self.latest.borrow().clone()
    }

    /// How many looks there were, and how long the last one took.
    #[must_use]
    pub fn looks(&self) -> (u64, Duration) {
        let took = self.figures.microseconds.load(Ordering::Relaxed);
        (
            self.figures.looks.load(Ordering::Relaxed),
            Duration::from_micros(took),
        )
    }

    /// Looks at all devices, and then at what changes.
    #[must_use]
    pub fn watch(&self) -> Watcher {
        Watcher {
            latest: self.latest.subscribe(),
            _board: self.clone(),
            shown: BTreeMap::new(),
            fresh: true,
        }
    }
}

/// A difference between what was shown and the latest look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The device as it is now.
    Changed(Arc<Device>),
    /// The name of a device that is gone.
    Removed(String),
    /// What was told is the node at this look.
    Look(Arc<Look>),
}

/// One look after another at a board.
pub struct Watcher {
    latest: watch::Receiver<Option<Arc<Look>>>,
    /// As long as it is there, there may be another look.
    _board: DeviceBoard,
    shown: BTreeMap<String, Arc<Device>>,
    fresh: bool,
}

impl Watcher {
    /// The first time every device, once there was a look; then what is
    /// different, as soon as there was another. A look is the last of each.
    pub async fn next(&mut self) -> Vec<Change> {
        if !self.fresh {
            // The sender lives in the board that this watcher holds.
            let _ = self.latest.changed().await;
        }
        let look = match self.latest.wait_for(Option::is_some).await {
            Ok(look) => look.clone().unwrap_or_default(),
            Err(_) => return Vec::new(),
        };
        self.fresh = false;
        let mut changes = self.difference(&look);
        changes.push(Change::Look(look));
        changes
    }

    fn difference(&mut self, look: &Look) -> Vec<Change> {
        let mut changes = Vec::new();
        self.shown.retain(|name, _| {
            let stays = look.devices.contains_key(name);
            if !stays {
                changes.push(Change::Removed(name.clone()));
            }
            stays
        });
        for (name, device) in &look.devices {
            let known = self.shown.get(name);
            if !known.is_some_and(|known| Arc::ptr_eq(known, device) || known == device) {
                self.shown.insert(name.clone(), Arc::clone(device));
                changes.push(Change::Changed(Arc::clone(device)));
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use hypercloud_inventory::snapshot::{Seen, Snapshot};
    use hypercloud_inventory::{Policy, classify};
    use proptest::prelude::*;

    use super::*;

    fn inventory(devices: &[(&str, u64)]) -> Inventory {
        let seen = devices.iter().map(|(name, size)| Seen {
            name: (*name).to_owned(),
            size: Some(*size),
            ..Seen::default()
        });
        let snapshot = Snapshot {
            devices: seen.collect(),
            ..Snapshot::default()
        };
        classify(&snapshot, &Policy::default())
    }

    fn put(board: &DeviceBoard, devices: &[(&str, u64)], now: u64) -> bool {
        board.put(inventory(devices), now, Duration::ZERO, false)
    }

    /// Names and sizes of the changes; none for a look.
    fn told(changes: Vec<Change>) -> Vec<(String, Option<u64>)> {
        let mut told = Vec::new();
        for change in changes {
            match change {
                Change::Changed(device) => told.push((device.name.clone(), Some(device.size))),
                Change::Removed(name) => told.push((name, None)),
                Change::Look(look) => told.push((format!("look {}", look.devices.len()), None)),
            }
        }
        told
    }

    #[tokio::test]
    async fn a_watcher_waits_for_the_first_look_and_is_told_what_changes() {
        let board = DeviceBoard::default();
        let mut watcher = board.watch();
        let (changes, ()) = tokio::join!(watcher.next(), async {
            tokio::task::yield_now().await;
            assert!(put(&board, &[("sda", 1), ("sdb", 2)], 1000));
        });
        let both = [("sda", Some(1)), ("sdb", Some(2)), ("look 2", None)];
        assert_eq!(
            told(changes),
            both.map(|(name, size)| (name.to_owned(), size))
        );

        assert!(!put(&board, &[("sda", 1), ("sdb", 2)], 2000));
        for size in 0..1000 {
            put(&board, &[("sda", size), ("sdc", 3)], 2000);
        }
        let changes = told(watcher.next().await);
        let last = [
            ("sdb", None),
            ("sda", Some(999)),
            ("sdc", Some(3)),
            ("look 2", None),
        ];
        assert_eq!(changes, last.map(|(name, size)| (name.to_owned(), size)));
    }

    #[tokio::test]
    async fn a_look_that_is_due_is_told_without_a_change() {
        let board = DeviceBoard::default();
        put(&board, &[("sda", 1)], 1000);
        let mut watcher = board.watch();
        watcher.next().await;
        assert!(board.put(inventory(&[("sda", 1)]), 9000, Duration::ZERO, true));
        let changes = watcher.next().await;
        let [Change::Look(look)] = changes.as_slice() else {
            panic!("{changes:?}")
        };
        assert_eq!(look.revision, 1000);
    }

    #[tokio::test]
    async fn a_node_without_devices_is_told() {
        let board = DeviceBoard::default();
        assert!(put(&board, &[], 1000));
        assert_eq!(
            told(board.watch().next().await),
            [("look 0".to_owned(), None)]
        );
    }

    proptest! {
        /// Whatever is put, whenever somebody looks: what he was told adds up
        /// to what is there, and the revision grows with each change alone.
        #[test]
        fn what_is_told_adds_up(
            looks in proptest::collection::vec(
                (proptest::collection::btree_map("sd[a-d]", 0_u64..3, 0..4), any::<bool>(), 0_u64..2000),
                1..20,
            )
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let board = DeviceBoard::default();
                let mut watcher = board.watch();
                let mut sum = BTreeMap::new();
                let mut revision = 0;
                let mut last = None;
                for (devices, reads, now) in looks {
                    let list: Vec<_> = devices.iter().map(|(name, size)| (name.as_str(), *size)).collect();
                    let told = put(&board, &list, now);
                    prop_assert_eq!(told, last.as_ref() != Some(&devices));
                    let latest = board.latest().unwrap().revision;
                    prop_assert_eq!(told, latest > revision);
                    revision = latest;
                    last = Some(devices.clone());
                    if !reads || (!told && !watcher.latest.has_changed().unwrap()) {
                        continue;
                    }
                    for change in watcher.next().await {
                        match change {
                            Change::Changed(device) => { sum.insert(device.name.clone(), device.size); }
                            Change::Removed(name) => { prop_assert!(sum.remove(&name).is_some()); }
                            Change::Look(look) => prop_assert_eq!(look.devices.len(), sum.len()),
                        }
                    }
                    prop_assert_eq!(&sum, &devices);
                }
                Ok(())
            })?;
        }
    }
}
