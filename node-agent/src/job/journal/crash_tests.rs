//! A crash at every step of a write, on a simulated disk.
//!
//! The disk keeps only what was synced. Of what was not, a crash may keep
//! any part: the first few changes of names, and of a file's bytes none,
//! half or all. Every combination is tried.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::tests::record;
use super::*;

/// What a crash keeps of bytes that were never synced.
#[derive(Debug, Clone, Copy)]
enum Unsynced {
    Lost,
    Torn,
    Kept,
}

#[derive(Debug, Clone, Default)]
struct Inode {
    bytes: Vec<u8>,
    synced: Option<Vec<u8>>,
}

#[derive(Debug, Clone)]
enum Naming {
    Add(String, usize),
    Rename(String, String),
    Remove(String),
}

#[derive(Debug, Default)]
struct Disk {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    unsynced: Vec<Naming>,
    /// Steps left until everything fails; `None`: never.
    steps_left: Option<usize>,
    /// Syncs that are claimed and not done, to test the test.
    lies: Lies,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Lies {
    #[default]
    None,
    Files,
    Names,
}

fn rename(names: &mut BTreeMap<String, usize>, naming: &Naming) {
    match naming {
        Naming::Add(name, inode) => {
            names.insert(name.clone(), *inode);
        }
        Naming::Rename(from, to) => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
        Naming::Remove(name) => {
            names.remove(name);
        }
    }
}

impl Disk {
    fn step(&mut self) -> io::Result<()> {
        match &mut self.steps_left {
            Some(0) => Err(io::Error::other("power is off")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn change(&mut self, naming: Naming) {
        rename(&mut self.names, &naming);
        self.unsynced.push(naming);
    }

    fn inode(&self, name: &str) -> io::Result<usize> {
        self.names
            .get(name)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The disk after power comes back.
    fn after_crash(&self, kept_namings: usize, unsynced: Unsynced) -> Disk {
        let mut names = self.synced_names.clone();
        for naming in &self.unsynced[..kept_namings] {
            rename(&mut names, naming);
        }
        let survive = |inode: &Inode| {
            let bytes = match (&inode.synced, unsynced) {
                (Some(synced), _) if *synced == inode.bytes => synced.clone(),
                (synced, Unsynced::Lost) => synced.clone().unwrap_or_default(),
                (_, Unsynced::Torn) => inode.bytes[..inode.bytes.len() / 2].to_vec(),
                (_, Unsynced::Kept) => inode.bytes.clone(),
            };
            Inode {
                synced: Some(bytes.clone()),
                bytes,
            }
        };
        Disk {
            inodes: self.inodes.iter().map(survive).collect(),
            synced_names: names.clone(),
            names,
            ..Disk::default()
        }
    }
}

#[derive(Clone, Default)]
struct Simulated(Arc<Mutex<Disk>>);

impl Directory for Simulated {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.lock().names.keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let disk = self.0.lock();
        Ok(disk.inodes[disk.inode(name)?].bytes.clone())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.0.lock();
        let inode = match disk.inode(name) {
            Ok(inode) => inode,
            Err(_) => {
                disk.step()?;
                disk.inodes.push(Inode::default());
                let inode = disk.inodes.len() - 1;
                disk.change(Naming::Add(name.to_owned(), inode));
                inode
            }
        };
        disk.inodes[inode].bytes.clear();
        for half in [&bytes[..bytes.len() / 2], &bytes[bytes.len() / 2..]] {
            disk.step()?;
            disk.inodes[inode].bytes.extend_from_slice(half);
        }
        Ok(())
    }

    fn sync_file(&self, name: &str) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.step()?;
        let inode = disk.inode(name)?;
        if disk.lies != Lies::Files {
            disk.inodes[inode].synced = Some(disk.inodes[inode].bytes.clone());
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.step()?;
        disk.inode(from)?;
        disk.change(Naming::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.step()?;
        disk.inode(name)?;
        disk.change(Naming::Remove(name.to_owned()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.step()?;
        if disk.lies != Lies::Names {
            disk.synced_names = disk.names.clone();
            disk.unsynced.clear();
        }
        Ok(())
    }
}

/// Runs `act` on a journal that holds `before`, with a crash after every
/// number of steps, and says for each what was loaded afterwards.
fn crash_everywhere(
    before: &[Record],
    lies: Lies,
    act: impl Fn(&Journal) -> Result<(), JournalError>,
    mut check: impl FnMut(bool, &Loaded),
) -> usize {
    let mut tried = 0;
    for steps in 0.. {
        let disk = Simulated::default();
        let (journal, _) = Journal::load(Box::new(disk.clone())).unwrap();
        before.iter().for_each(|r| journal.write(r).unwrap());
        disk.0.lock().lies = lies;
        disk.0.lock().steps_left = Some(steps);
        let done = act(&journal).is_ok();
        let namings = disk.0.lock().unsynced.len();
        for kept in 0..=namings {
            for unsynced in [Unsynced::Lost, Unsynced::Torn, Unsynced::Kept] {
                let after = Simulated(Arc::new(Mutex::new(
                    disk.0.lock().after_crash(kept, unsynced),
                )));
                let (_, loaded) = Journal::load(Box::new(after)).unwrap();
                check(done, &loaded);
                tried += 1;
            }
        }
        if done {
            break;
        }
    }
    tried
}

#[test]
fn an_update_leaves_the_old_record_or_the_new() {
    let (old, new, other) = (record("a", 1, 1), record("a", 1, 2), record("b", 2, 9));
    let before = [old.clone(), other.clone()];
    let tried = crash_everywhere(
        &before,
        Lies::None,
        |j| j.write(&new),
        |done, loaded| {
            assert!(loaded.set_aside.is_empty(), "{:?}", loaded.set_aside);
            let written = loaded.records == [new.clone(), other.clone()];
            let untouched = loaded.records == before;
            assert!(
                written || (untouched && !done),
                "done: {done}, {:?}",
                loaded.records
            );
        },
    );
    assert!(tried > 20, "{tried} crashes");
}

#[test]
fn a_first_write_leaves_nothing_or_the_record() {
    let new = record("a", 1, 1);
    crash_everywhere(
        &[],
        Lies::None,
        |j| j.write(&new),
        |done, loaded| {
            assert!(loaded.set_aside.is_empty(), "{:?}", loaded.set_aside);
            let written = loaded.records == [new.clone()];
            assert!(
                written || (loaded.records.is_empty() && !done),
                "done: {done}"
            );
        },
    );
}

#[test]
fn a_removal_that_was_answered_stays_removed() {
    let old = record("a", 1, 1);
    crash_everywhere(
        std::slice::from_ref(&old),
        Lies::None,
        |j| j.remove(&old.id),
        |done, loaded| {
            assert!(loaded.records.is_empty() || (!done && loaded.records == [old.clone()]));
        },
    );
}

#[test]
fn a_write_after_a_crash_in_a_write_succeeds() {
    for steps in 0..6 {
        let disk = Simulated::default();
        let (journal, _) = Journal::load(Box::new(disk.clone())).unwrap();
        disk.0.lock().steps_left = Some(steps);
        journal.write(&record("a", 1, 1)).unwrap_err();
        disk.0.lock().steps_left = None;
        journal.write(&record("a", 1, 2)).unwrap();
        let (_, loaded) = Journal::load(Box::new(disk)).unwrap();
        assert_eq!(loaded.records, [record("a", 1, 2)]);
    }
}

/// The simulation would see a journal that forgets to sync.
#[test]
fn a_disk_that_does_not_sync_is_noticed() {
    for lies in [Lies::Files, Lies::Names] {
        let new = record("a", 1, 2);
        let mut broken = 0;
        crash_everywhere(
            &[record("a", 1, 1)],
            lies,
            |j| j.write(&new),
            |done, loaded| {
                if !loaded.set_aside.is_empty() || (done && loaded.records != [new.clone()]) {
                    broken += 1;
                }
            },
        );
        assert!(broken > 0, "{lies:?} went unnoticed");
    }
}
