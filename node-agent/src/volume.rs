//! Volumes that kubelet has set up for pods of this node.
//!
//! The agent asks nobody where a volume is: pod UID, volume name and mode
//! lead to a place below kubelet's directory. Invariants: no name from a
//! request leaves its place in the path; a directory counts as a volume only
//! when it is a mount point, so that nothing is ever written to the node's
//! own disk because a mount is missing.

mod kubelet;
mod mount;

use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use kubelet::KubeletVolumes;

/// Longest name of a path's component.
const MAX_COMPONENT: usize = 253;

/// Part of a path that is one component and stays where it is put.
fn is_component(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=MAX_COMPONENT).contains(&text.len())
        && text.chars().all(allowed)
        && text.chars().any(|c| c.is_ascii_alphanumeric())
}

macro_rules! component {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks the text as a request carries it.
            pub fn parse(text: &str) -> Result<Self, ComponentError> {
                if is_component(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    let text = text.chars().take(MAX_COMPONENT).collect();
                    Err(ComponentError { what: $what, text })
                }
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = ComponentError;

            fn try_from(text: String) -> Result<Self, ComponentError> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// A name in a request that cannot be part of a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}")]
pub struct ComponentError {
    what: &'static str,
    text: String,
}

component!(
    /// UID of the pod that holds a volume.
    PodUid,
    "pod UID"
);
component!(
    /// Name of a PersistentVolume.
    VolumeName,
    "name of a PersistentVolume"
);

/// How a volume appears in its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VolumeMode {
    /// A block device.
    Block,
    /// A mounted file system.
    Filesystem,
}

/// A volume by the pod that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodVolume {
    /// UID of the pod.
    pub pod_uid: PodUid,
    /// Name of the PersistentVolume.
    pub volume_name: VolumeName,
    /// How the volume appears.
    pub mode: VolumeMode,
}

impl fmt::Display for PodVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "volume {} of pod {}", self.volume_name, self.pod_uid)
    }
}

/// What identifies the thing at a path for as long as it stays there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    /// Mount of a directory, device number of a block device.
    instance: u64,
}

/// A volume that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Volume {
    /// The block device at the end of kubelet's link.
    BlockDevice(Place),
    /// The root of the mounted file system.
    Directory(Place),
}

/// Where a volume is, and what was seen there.
#[derive(Debug, Clone)]
pub struct Place {
    path: PathBuf,
    identity: Identity,
    /// Keeps a mount where it is, and leads to it whatever happens to the
    /// path.
    pin: Option<Arc<OwnedFd>>,
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, self.identity) == (&other.path, other.identity)
    }
}

impl Eq for Place {}

impl Volume {
    /// Path of the device or of the mount point.
    pub fn path(&self) -> &Path {
        match self {
            Self::BlockDevice(place) | Self::Directory(place) => &place.path,
        }
    }

    /// Path by which to open the volume. That of a directory leads to the
    /// very mount that was looked at for as long as this value lives, even
    /// when kubelet takes the mount down and leaves an empty directory of the
    /// node's own disk in its place.
    pub fn opening_path(&self) -> PathBuf {
        let (Self::BlockDevice(place) | Self::Directory(place)) = self;
        match &place.pin {
            Some(pin) => format!("/proc/self/fd/{}", pin.as_raw_fd()).into(),
            None => place.path.clone(),
        }
    }
}

#[cfg(test)]
impl Volume {
    /// A directory that no one has looked at.
    pub(crate) fn imagined(path: &str) -> Self {
        let identity = Identity {
            device: 0,
            inode: 0,
            instance: 0,
        };
        Self::Directory(Place {
            path: path.into(),
            identity,
            pin: None,
        })
    }
}

/// Why a volume cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// Kubelet has not set it up, or has taken it down again.
    #[error("{volume} is not there: {absence}")]
    NotFound {
        /// The volume asked for.
        volume: PodVolume,
        /// What was seen last.
        absence: Absence,
    },
    /// The place now holds something else than what was written or read.
    #[error("{volume} was exchanged while it was in use")]
    Exchanged {
        /// The volume asked for.
        volume: PodVolume,
    },
}

impl VolumeError {
    /// Stable CamelCase word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "VolumeNotFound",
            Self::Exchanged { .. } => "VolumeExchanged",
        }
    }
}

/// What was seen instead of a volume.
#[derive(Debug, thiserror::Error)]
pub enum Absence {
    /// No plugin directory of the pod holds the volume.
    #[error("kubelet has no such volume at {0}")]
    NoEntry(PathBuf),
    /// More than one plugin directory does.
    #[error("more than one plugin has a volume of this name at {0}")]
    Ambiguous(PathBuf),
    /// A directory, but nothing is mounted on it.
    #[error("nothing is mounted at {0}")]
    NotMounted(PathBuf),
    /// The link leads to something else than a block device.
    #[error("no block device at {0}")]
    NotABlockDevice(PathBuf),
    /// It cannot be looked at.
    #[error("cannot look at {path}")]
    Unreadable {
        /// What was looked at.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// The system did not answer: a dead network mount, usually.
    #[error("looking at it takes too long")]
    Stuck,
}

/// Where volumes are found.
#[async_trait]
pub trait Volumes: Send + Sync + 'static {
    /// The volume, once it is set up; waits for that, within a limit.
    async fn locate(&self, volume: &PodVolume) -> Result<Volume, VolumeError>;

    /// Whether `found` is still what `volume` leads to.
    async fn recheck(&self, volume: &PodVolume, found: &Volume) -> Result<(), VolumeError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_their_place_are_refused() {
        for text in [
            "", ".", "..", "...", "-", "a/b", "/a", "a\0", "../x", "a b", "é",
        ] {
            assert!(
                PodUid::parse(text).is_err(),
                "{text:?} was accepted as a UID"
            );
            assert!(
                VolumeName::parse(text).is_err(),
                "{text:?} was accepted as a name"
            );
        }
        assert!(VolumeName::parse(&"a".repeat(254)).is_err());
        assert!(PodUid::parse("5f0c6e0e-8a3f-4f2e-9d42-0b1a4c6c7d11").is_ok());
        assert!(VolumeName::parse("pvc-5f0c.x").is_ok());
        assert!(serde_json::from_str::<PodUid>(r#""../..""#).is_err());
    }
}
