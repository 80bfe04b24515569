//! Disks for Ceph: loop devices of this machine with links that last, as udev
//! makes them where it runs. A node's inventory takes such a device when it is
//! named.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use hypercloud_api::NodeDeviceInventoryStatus;

use crate::cluster::Cluster;
use crate::devices::{status, tool};
use crate::wait::{until, when};

const FOLDER: &str = "/dev/disk/by-id";
const BEGIN: &str = "hcs-e2e-";
/// More than the least that Ceph takes; the files are sparse.
const SIZE: u64 = 6 << 30;

/// Devices by which the tests install storage. They go with this value.
pub struct Disks {
    folder: tempfile::TempDir,
    made: Vec<(String, PathBuf)>,
    folders: Vec<PathBuf>,
}

impl Disks {
    /// Devices of these names. What a run that was killed left is taken away.
    pub fn attach(names: &[&str]) -> anyhow::Result<Self> {
        clear()?;
        let mut disks = Self {
            folder: tempfile::tempdir()?,
            made: Vec::new(),
            folders: missing(Path::new(FOLDER)),
        };
        fs::create_dir_all(FOLDER)?;
        for name in names {
            disks.add(name)?;
        }
        Ok(disks)
    }

    fn add(&mut self, name: &str) -> anyhow::Result<()> {
        let file = self.folder.path().join(name);
        fs::File::create(&file)?.set_len(SIZE)?;
        let file = file.display().to_string();
        let device = tool("losetup", &["--find", "--show", &file])?
            .trim()
            .to_owned();
        let link = PathBuf::from(self.link(name));
        let kernel = device.trim_start_matches("/dev/");
        let linked = symlink(format!("../../{kernel}"), &link);
        self.made.push((device.clone(), link));
        linked.context("the link of a device")?;
        // Where no udev runs, whoever closes a device that he could write is
        // noticed: the link shows with the look that follows.
        fs::OpenOptions::new().write(true).open(&device)?;
        Ok(())
    }

    /// The link of a device, which is the name that lasts.
    #[must_use]
    pub fn link(&self, name: &str) -> String {
        format!("{FOLDER}/{BEGIN}{name}")
    }

    /// The kernel's name of a device, such as `/dev/loop3`.
    pub fn kernel(&self, name: &str) -> anyhow::Result<&str> {
        let link = PathBuf::from(self.link(name));
        let found = self.made.iter().find(|(_, own)| *own == link);
        Ok(&found.context("no such disk")?.0)
    }

    /// Waits until the inventories of these nodes have every device by its
    /// link.
    pub async fn shown(&self, cluster: &Cluster, nodes: &[String]) -> anyhow::Result<()> {
        for node in nodes {
            let what = format!("the inventory of {node} has the disks");
            until(&what, Duration::from_secs(90), || async {
                let status = status(cluster, node).await?;
                let mut links = self.made.iter().map(|(_, link)| link);
                let missing: Vec<_> = links.by_ref().filter(|l| !has(&status, l)).collect();
                Ok(when(missing.is_empty(), missing))
            })
            .await?;
        }
        Ok(())
    }
}

fn has(status: &NodeDeviceInventoryStatus, link: &Path) -> bool {
    let link = link.display().to_string();
    let mut devices = status.devices.iter();
    devices.any(|device| device.identity.by_id.as_ref() == Some(&link))
}

/// Folders that have to be made for `path`, the deepest first.
fn missing(path: &Path) -> Vec<PathBuf> {
    let missing = path.ancestors().take_while(|folder| !folder.exists());
    missing.map(Path::to_owned).collect()
}

/// Takes away what is called like a disk of these tests.
fn clear() -> anyhow::Result<()> {
    let Ok(entries) = fs::read_dir(FOLDER) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(BEGIN) {
            if let Ok(device) = fs::canonicalize(entry.path()) {
                let _ = tool("losetup", &["--detach", &device.display().to_string()]);
            }
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

impl Drop for Disks {
    fn drop(&mut self) {
        for (device, link) in &self.made {
            let _ = fs::remove_file(link);
            let _ = tool("losetup", &["--detach", device]);
        }
        for folder in &self.folders {
            // What somebody else has put there stays.
            let _ = fs::remove_dir(folder);
        }
    }
}
