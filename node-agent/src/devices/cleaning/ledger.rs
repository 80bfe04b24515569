//! Which orders were begun, and how they ended: on stable storage before the
//! first byte is written, so that no agent ever begins an order twice. Its
//! answer may have been lost, and something new be on the device since.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::{Order, Outcome};

/// Longer than whoever ordered asks again.
const REMEMBERED_SECONDS: u64 = 72 * 3600;
/// The most that are remembered; the oldest go first.
const MOST: usize = 1024;

const FILE: &str = "cleanings.json";
const NEW: &str = "cleanings.json.new";
const SPOILT: &str = "cleanings.json.spoilt";

/// An order and how it ended, once it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) order: Order,
    /// In seconds since 1970.
    at: u64,
    pub(super) outcome: Option<Outcome>,
}

/// The orders of this node.
pub(super) struct Ledger {
    folder: PathBuf,
    entries: Vec<Entry>,
}

impl Ledger {
    /// The ledger of a folder, which is made where it is not there.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join(FILE);
        let entries = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::error!(%error, file = FILE, "ledger of cleanings set aside");
                let _ = fs::rename(&path, folder.join(SPOILT));
                Vec::new()
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(Self {
            folder: folder.to_owned(),
            entries,
        })
    }

    /// What is known of the order of this reference; without one nothing is.
    pub(super) fn entry(&self, reference: &str) -> Option<&Entry> {
        let is_it = |entry: &&Entry| !reference.is_empty() && entry.order.reference == reference;
        self.entries.iter().find(is_it)
    }

    /// Writes down that the order is begun, or how it ended.
    pub(super) fn put(&mut self, order: &Order, outcome: Option<&Outcome>) -> io::Result<()> {
        if order.reference.is_empty() {
            return Ok(());
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs());
        self.entries.retain(|entry| {
            entry.order.reference != order.reference
                && now.saturating_sub(entry.at) < REMEMBERED_SECONDS
        });
        if self.entries.len() >= MOST {
            self.entries.remove(0);
        }
        self.entries.push(Entry {
            order: order.clone(),
            at: now,
            outcome: outcome.cloned(),
        });
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let new = self.folder.join(NEW);
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(&self.entries)?)?;
        file.sync_all()?;
        fs::rename(new, self.folder.join(FILE))?;
        File::open(&self.folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use hypercloud_inventory::cleaning::Meant;

    use super::*;
    use crate::devices::cleaning::Cleaned;

    fn order(reference: &str) -> Order {
        Order {
            meant: Meant {
                path: "/dev/sdb".into(),
                ..Meant::default()
            },
            reference: reference.into(),
        }
    }

    #[test]
    fn what_was_written_down_is_there_for_the_next_agent() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(&dir.path().join("made")).unwrap();
        let outcome: Outcome = Ok(Cleaned {
            removed: vec!["ext4 at byte 1080".into()],
            discarded: true,
        });
        for reference in ["a", "b", ""] {
            ledger.put(&order(reference), None).unwrap();
        }
        ledger.put(&order("a"), Some(&outcome)).unwrap();

        let next = Ledger::open(&dir.path().join("made")).unwrap();
        assert_eq!(next.entry("a").unwrap().outcome, Some(outcome));
        assert_eq!(next.entry("b").unwrap().outcome, None);
        assert!(next.entry("").is_none() && next.entry("c").is_none());
    }

    #[test]
    fn it_does_not_grow_for_ever_and_a_spoilt_one_stops_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(dir.path()).unwrap();
        for number in 0..MOST {
            ledger.entries.push(Entry {
                order: order(&number.to_string()),
                at: u64::MAX,
                outcome: None,
            });
        }
        ledger.put(&order("last"), None).unwrap();
        assert_eq!(ledger.entries.len(), MOST);
        assert!(ledger.entry("0").is_none() && ledger.entry("last").is_some());

        fs::write(dir.path().join(FILE), "{").unwrap();
        assert!(Ledger::open(dir.path()).unwrap().entry("last").is_none());
        assert!(dir.path().join(SPOILT).exists());
    }
}
