//! Where an import got to, kept for `--resume`.
//!
//! A file of the user's state folder, named after the target. What is in it
//! says itself which source and which target it is of, so an old one does no
//! harm.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use hypercloud_transfer::Checkpoint;
use sha2::{Digest, Sha256};

/// The place of one target's checkpoint.
#[derive(Debug, Clone)]
pub(crate) struct Journal(PathBuf);

/// `$XDG_STATE_HOME`, or where that is by default.
fn state_folder() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let folder = variable("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".local/state")))
        .unwrap_or_else(|| PathBuf::from("/var/lib"));
    folder.join("hypercloud-storage/imports")
}

/// What tells a block device from another that had its name before: its
/// sequence number of this boot. Nothing for a file, whose inode is enough.
fn incarnation(target: &Path) -> io::Result<String> {
    let metadata = match fs::metadata(target) {
        Ok(metadata) if metadata.file_type().is_block_device() => metadata,
        _ => return Ok(String::new()),
    };
    let number = metadata.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let sequence = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/diskseq"))
        // A partition has its disk's.
        .or_else(|_| fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/../diskseq")))?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(format!("{sequence}{boot}"))
}

impl Journal {
    /// The journal of a target.
    pub(crate) fn of(target: &Path) -> io::Result<Self> {
        let target = std::path::absolute(target)?;
        let digest = Sha256::new()
            .chain_update(target.as_os_str().as_encoded_bytes())
            .chain_update(incarnation(&target)?)
            .finalize();
        let name: String = digest
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Ok(Self(state_folder().join(name + ".json")))
    }

    /// What was kept last, if it can still be read.
    pub(crate) fn load(&self) -> Option<Checkpoint> {
        serde_json::from_slice(&fs::read(&self.0).ok()?).ok()
    }

    /// Keeps a checkpoint durably, in place of the one before.
    pub(crate) fn save(&self, checkpoint: &Checkpoint) -> io::Result<()> {
        let folder = self.0.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
        let new = self.0.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(checkpoint)?)?;
        file.sync_all()?;
        fs::rename(&new, &self.0)?;
        File::open(folder)?.sync_all()
    }

    /// Forgets it: the import is done, or can never be.
    pub(crate) fn remove(&self) {
        // Without it, nothing is to be forgotten; left over, it is ignored.
        let _ = fs::remove_file(&self.0);
    }
}
