//! Writers of devices, where no udev tells of them.
//!
//! The kernel says nothing when somebody writes to a device. udev notices when
//! a writer closes it, and asks the kernel for an event; where udev does not
//! run, the same is done here.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

pub(super) struct Writers {
    notes: OwnedFd,
    /// Devices that are watched, by the numbers of their watches.
    watched: BTreeMap<i32, PathBuf>,
}

impl Writers {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            notes: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            watched: BTreeMap::new(),
        })
    }

    /// Watches these devices and no others; whether some of them were not
    /// watched before. One that is not there, or that there is no room for, is
    /// left to the next look.
    pub(super) fn mind(&mut self, paths: impl Iterator<Item = PathBuf>) -> bool {
        let mut gone = std::mem::take(&mut self.watched);
        let mut new = false;
        for path in paths {
            // The same device gets the same number again.
            if let Ok(watch) =
                inotify::add_watch(&self.notes, path.as_path(), WatchFlags::CLOSE_WRITE)
            {
                new |= gone.remove(&watch).is_none() && !self.watched.contains_key(&watch);
                self.watched.insert(watch, path);
            }
        }
        for watch in gone.into_keys() {
            // One whose device is gone went with it.
            let _ = inotify::remove_watch(&self.notes, watch);
        }
        new
    }

    /// Whether somebody has closed one of them.
    pub(super) fn take(&mut self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.notes, &mut buffer);
        let mut written = false;
        while let Ok(note) = reader.next() {
            if note.events().contains(ReadFlags::IGNORED) {
                self.watched.remove(&note.wd());
            } else {
                written = true;
            }
        }
        written
    }

    #[cfg(test)]
    fn minds(&self, path: &std::path::Path) -> bool {
        self.watched.values().any(|known| known == path)
    }
}

impl AsFd for Writers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notes.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn who_closes_what_he_could_write_is_noticed_and_readers_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| {
            let path = dir.path().join(name);
            File::create(&path).unwrap();
            path
        });
        let mut writers = Writers::new().unwrap();
        let there = [one.clone(), dir.path().join("none")];
        assert!(writers.mind(there.clone().into_iter()));
        assert!(!writers.mind(there.into_iter()));
        assert!(!writers.take());
        drop(File::open(&one).unwrap());
        drop(File::options().write(true).open(&other).unwrap());
        assert!(!writers.take());
        drop(File::options().write(true).open(&one).unwrap());
        assert!(writers.take());
        assert!(!writers.take());

        assert!(writers.mind([other.clone()].into_iter()));
        drop(File::options().write(true).open(&one).unwrap());
        let _ = writers.take();
        assert!(!writers.minds(&one) && writers.minds(&other));
        drop(File::options().write(true).open(&other).unwrap());
        assert!(writers.take());
        fs::remove_file(&other).unwrap();
        writers.take();
        assert!(!writers.minds(&other));
    }
}
