//! Where an import or an export got to, kept for `--resume`.
//!
//! A file of the user's state folder, named after the target. What is in it
//! says itself which source and which target it is of, so an old one does no
//! harm.

use std::fs::{self, File};
use std::io::{self, Write};
use std::marker::PhantomData;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use hypercloud_transfer::{Checkpoint, ExportCheckpoint, StoredObject};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

/// The place of one target's checkpoint, which is a `C`.
#[derive(Debug)]
pub(crate) struct Journal<C> {
    path: PathBuf,
    of: PhantomData<fn(C)>,
}

impl<C> Clone for Journal<C> {
    fn clone(&self) -> Self {
        Self::at(self.path.clone())
    }
}

/// `$XDG_STATE_HOME`, or where that is by default.
fn state_folder() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let folder = variable("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".local/state")))
        .unwrap_or_else(|| PathBuf::from("/var/lib"));
    folder.join("hypercloud-storage")
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

/// The name of a target's file.
fn name(what: Sha256) -> String {
    let digest = what.finalize();
    let name: String = digest
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    name + ".json"
}

impl Journal<Checkpoint> {
    /// The journal of an import to a file or a device.
    pub(crate) fn of_import(target: &Path) -> io::Result<Self> {
        let target = std::path::absolute(target)?;
        let what = Sha256::new()
            .chain_update(target.as_os_str().as_encoded_bytes())
            .chain_update(incarnation(&target)?);
        Ok(Self::at(state_folder().join("imports").join(name(what))))
    }
}

impl Journal<ExportCheckpoint> {
    /// The journal of an export to an object.
    pub(crate) fn of_export(target: &StoredObject) -> Self {
        let endpoint = target.store.endpoint.as_ref().map(url::Url::as_str);
        let endpoint = endpoint.unwrap_or_default();
        // Without an endpoint, the region says which store it is.
        let region = target.store.region.as_deref().unwrap_or_default();
        let mut what = Sha256::new();
        // The length first, so that no two targets read the same.
        for part in [endpoint, region, &target.bucket, &target.key] {
            what.update((part.len() as u64).to_le_bytes());
            what.update(part);
        }
        Self::at(state_folder().join("exports").join(name(what)))
    }
}

impl<C> Journal<C> {
    fn at(path: PathBuf) -> Self {
        let of = PhantomData;
        Self { path, of }
    }

    /// Forgets it: the transfer is done, or can never be.
    pub(crate) fn remove(&self) {
        // Without it, nothing is to be forgotten; left over, it is ignored.
        let _ = fs::remove_file(&self.path);
    }
}

impl<C: Serialize + DeserializeOwned> Journal<C> {
    /// What was kept last, if it can still be read.
    pub(crate) fn load(&self) -> Option<C> {
        serde_json::from_slice(&fs::read(&self.path).ok()?).ok()
    }

    /// Keeps a checkpoint durably, in place of the one before.
    pub(crate) fn save(&self, checkpoint: &C) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
        let new = self.path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(checkpoint)?)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        File::open(folder)?.sync_all()
    }
}
