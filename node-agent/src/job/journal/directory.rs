//! The few steps that the journal does on its directory.
//!
//! They are a trait so that tests can end the world between any two of them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A directory of small files.
pub(super) trait Directory: Send + Sync {
    /// Names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// All bytes of a file.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
    /// Makes or empties a file and writes it; not yet on stable storage.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// Puts a file's bytes on stable storage.
    fn sync_file(&self, name: &str) -> io::Result<()>;
    /// Gives a file another name, in place of what had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Puts the names on stable storage.
    fn sync(&self) -> io::Result<()>;
}

/// A directory of the operating system, for root alone.
///
/// Only one process has it at a time; the kernel lets go of it when that
/// process ends, however it ends.
pub(super) struct OsDirectory {
    path: PathBuf,
    directory: File,
}

impl OsDirectory {
    /// Makes the directory with its parents, mode 0700, or takes the one that
    /// is there and makes it so.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            File::open(parent)?.sync_all()?;
        }
        let directory = File::open(path)?;
        flock(&directory, FlockOperation::NonBlockingLockExclusive).map_err(
            |error| match error {
                Errno::WOULDBLOCK => io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    "another process has it, perhaps an agent that is about to stop",
                ),
                error => error.into(),
            },
        )?;
        Ok(Self {
            path: path.to_owned(),
            directory,
        })
    }
}

impl Directory for OsDirectory {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.path.join(name))?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(self.path.join(name))?.write_all(bytes)
    }

    fn sync_file(&self, name: &str) -> io::Result<()> {
        File::open(self.path.join(name))?.sync_all()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        self.directory.sync_all()
    }
}
