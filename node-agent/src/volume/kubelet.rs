//! Kubelet's directory as the place where volumes are found.
//!
//! Layout: `pods/<uid>/volumeDevices/<plugin>/<volume>` is a link to a block
//! device; `pods/<uid>/volumes/<plugin>/<volume>` is the mount point itself,
//! but for CSI volumes, which are mounted on `mount` below it. The links are
//! absolute, so the agent has to see the directory at the path that kubelet
//! has it.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Absence, Place, PodVolume, Volume, VolumeError, VolumeMode, Volumes, mount};

/// Directory name of the CSI plugin.
const CSI: &str = "kubernetes.io~csi";
/// Shortest and longest pause between two looks.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// Volumes below kubelet's directory.
#[derive(Debug, Clone)]
pub struct KubeletVolumes {
    root: PathBuf,
    patience: Duration,
}

impl KubeletVolumes {
    /// Looks below `root`; a volume that is not there is waited for as long
    /// as `patience`.
    pub fn new(root: impl Into<PathBuf>, patience: Duration) -> Self {
        Self {
            root: root.into(),
            patience,
        }
    }

    /// One look; blocks for as long as the file system does.
    fn find(&self, volume: &PodVolume) -> Result<Volume, Absence> {
        let pod = self.root.join("pods").join(volume.pod_uid.as_str());
        match volume.mode {
            VolumeMode::Block => {
                let entry = entry(&pod.join("volumeDevices"), volume)?.1;
                let path = std::fs::canonicalize(&entry).map_err(|e| unreadable(&entry, e))?;
                let seen = mount::block_device(&path).map_err(|e| unreadable(&path, e))?;
                let identity = seen.ok_or_else(|| Absence::NotABlockDevice(path.clone()))?;
                Ok(Volume::BlockDevice(Place {
                    path,
                    identity,
                    pin: None,
                }))
            }
            VolumeMode::Filesystem => {
                let (plugin, entry) = entry(&pod.join("volumes"), volume)?;
                let path = if plugin == CSI {
                    entry.join("mount")
                } else {
                    entry
                };
                let seen = mount::mounted_directory(&path).map_err(|e| unreadable(&path, e))?;
                let seen = seen.ok_or_else(|| Absence::NotMounted(path.clone()))?;
                let (identity, held) = seen;
                Ok(Volume::Directory(Place {
                    path,
                    identity,
                    pin: Some(Arc::new(held)),
                }))
            }
        }
    }

    /// One look on a thread that may hang without harm.
    async fn look(&self, volume: &PodVolume, until: Instant) -> Result<Volume, Absence> {
        let (this, volume) = (self.clone(), volume.clone());
        let look = tokio::task::spawn_blocking(move || this.find(&volume));
        match timeout_at(until, look).await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) | Err(_) => Err(Absence::Stuck),
        }
    }
}

#[async_trait]
impl Volumes for KubeletVolumes {
    async fn locate(&self, volume: &PodVolume) -> Result<Volume, VolumeError> {
        let until = Instant::now() + self.patience;
        let mut pause = PAUSES.0;
        loop {
            match self.look(volume, until).await {
                Ok(found) => return Ok(found),
                Err(absence) if Instant::now() + pause >= until => {
                    return Err(VolumeError::NotFound {
                        volume: volume.clone(),
                        absence,
                    });
                }
                Err(absence) => {
                    tracing::debug!(%volume, %absence, "volume is not set up yet");
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        }
    }

    async fn recheck(&self, volume: &PodVolume, found: &Volume) -> Result<(), VolumeError> {
        let until = Instant::now() + self.patience;
        match self.look(volume, until).await {
            Ok(now) if now == *found => Ok(()),
            Ok(_) => Err(VolumeError::Exchanged {
                volume: volume.clone(),
            }),
            Err(absence) => Err(VolumeError::NotFound {
                volume: volume.clone(),
                absence,
            }),
        }
    }
}

/// The one plugin directory's entry for `volume`, with the plugin's name.
fn entry(directory: &Path, volume: &PodVolume) -> Result<(String, PathBuf), Absence> {
    let wanted = OsStr::new(volume.volume_name.as_str());
    let mut found = None;
    let plugins = match std::fs::read_dir(directory) {
        Ok(plugins) => plugins,
        Err(e) => return Err(unreadable(directory, e)),
    };
    for plugin in plugins {
        let plugin = plugin.map_err(|e| unreadable(directory, e))?;
        let path = plugin.path().join(wanted);
        match std::fs::symlink_metadata(&path) {
            Ok(_) if found.is_some() => return Err(Absence::Ambiguous(directory.to_owned())),
            Ok(_) => {
                found = Some((plugin.file_name().to_string_lossy().into_owned(), path));
            }
            Err(e) if is_absent(&e) => {}
            Err(e) => return Err(unreadable(&path, e)),
        }
    }
    found.ok_or_else(|| Absence::NoEntry(directory.to_owned()))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn unreadable(path: &Path, source: io::Error) -> Absence {
    if is_absent(&source) {
        Absence::NoEntry(path.to_owned())
    } else {
        Absence::Unreadable {
            path: path.to_owned(),
            source,
        }
    }
}
