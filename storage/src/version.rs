//! Versions, and which of them go together.

pub mod table;

use std::fmt;
use std::str::FromStr;

use hypercloud_api::HyperCloudStorageSpec;

use self::table::{ROOK, RookRelease};

/// A released version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // Their names say what they are.
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl Version {
    /// A version of three numbers.
    #[must_use]
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// What is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no version of three numbers, such as 1.20.6")]
pub struct NoVersion(String);

impl FromStr for Version {
    type Err = NoVersion;

    /// Reads `1.20.6` and `v1.20.6`.
    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let no = || NoVersion(text.to_owned());
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
        let mut next = || -> Result<u32, NoVersion> {
            let part = parts.next().ok_or_else(no)?;
            let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            if digits {
                part.parse().map_err(|_| no())
            } else {
                Err(no())
            }
        };
        let version = Self::new(next()?, next()?, next()?);
        match parts.next() {
            None => Ok(version),
            Some(_) => Err(no()),
        }
    }
}

/// Major and minor version of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubernetesVersion(pub u32, pub u32);

impl KubernetesVersion {
    /// What an API server says of itself: `1` and `34`, or `34+`.
    #[must_use]
    pub fn parse(major: &str, minor: &str) -> Option<Self> {
        let number = |text: &str| text.trim_end_matches('+').parse().ok();
        Some(Self(number(major)?, number(minor)?))
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// What is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Their names say what they are.
pub struct Target {
    pub rook: Version,
    pub ceph: Version,
    pub snapshotter: Version,
    pub cdi: Version,
}

/// What runs now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // Their names say what they are.
pub struct Running {
    pub rook: Option<Version>,
    pub ceph: Option<Version>,
}

/// Why these versions cannot be installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The phrases say what the fields are.
pub enum Unsupported {
    #[error(transparent)]
    NoVersion(#[from] NoVersion),
    #[error("Rook {asked} is not supported: set versions.rook to one of {known}")]
    Rook { asked: Version, known: String },
    #[error("Ceph {asked} does not go with Rook {rook}: set versions.ceph to one of {known}")]
    Ceph {
        asked: Version,
        rook: Version,
        known: String,
    },
    #[error("CDI {asked} is not supported: set cdi.version to {known}")]
    Cdi { asked: Version, known: Version },
    #[error(
        "Rook {rook} is for Kubernetes {least} to {most}, and this is {found}: choose another version of one of them"
    )]
    Kubernetes {
        rook: Version,
        least: KubernetesVersion,
        most: KubernetesVersion,
        found: KubernetesVersion,
    },
    #[error(
        "{what} {running} runs, and {asked} is older: going back destroys data; set versions back to {running}"
    )]
    Downgrade {
        what: &'static str,
        running: Version,
        asked: Version,
    },
    #[error(
        "{what} {running} runs, and {asked} is more than one release ahead: go by way of what lies between"
    )]
    Skips {
        what: &'static str,
        running: Version,
        asked: Version,
    },
}

impl Unsupported {
    /// One CamelCase word.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoVersion(_) | Self::Rook { .. } | Self::Ceph { .. } | Self::Cdi { .. } => {
                "VersionUnsupported"
            }
            Self::Kubernetes { .. } => "KubernetesUnsupported",
            Self::Downgrade { .. } => "DowngradeRefused",
            Self::Skips { .. } => "UpgradeTooFar",
        }
    }
}

/// What is to run, by what is asked for and what runs: where nothing is asked
/// for, what runs stays, and the newest is installed where nothing runs.
///
/// # Errors
/// Versions that are not supported, not together, or not from what runs.
pub fn target(
    spec: &HyperCloudStorageSpec,
    running: Running,
    kubernetes: Option<KubernetesVersion>,
) -> Result<Target, Unsupported> {
    let asked = spec.versions.as_ref();
    let rook = match (asked.and_then(|v| v.rook.as_deref()), running.rook) {
        (Some(text), _) => release(text.parse()?)?,
        (None, Some(running)) => release(running)?,
        (None, None) => &ROOK[0],
    };
    let ceph = match (asked.and_then(|v| v.ceph.as_deref()), running.ceph) {
        (Some(text), _) => text.parse()?,
        // What runs stays: with another Rook goes another Ceph only where it
        // does not take this one.
        (None, Some(running)) if asked.is_none_or(|v| v.rook.is_none()) => running,
        (None, Some(running)) if rook.ceph.contains(&running) => running,
        (None, _) => rook.ceph[0],
    };
    if !rook.ceph.contains(&ceph) {
        return Err(Unsupported::Ceph {
            asked: ceph,
            rook: rook.version,
            known: listed(rook.ceph),
        });
    }
    let cdi = match spec.cdi.as_ref().and_then(|cdi| cdi.version.as_deref()) {
        Some(text) => text.parse()?,
        None => table::CDI,
    };
    if cdi != table::CDI {
        return Err(Unsupported::Cdi {
            asked: cdi,
            known: table::CDI,
        });
    }
    permitted("Rook", running.rook, rook.version, |v| (v.major, v.minor))?;
    permitted("Ceph", running.ceph, ceph, |v| (0, v.major))?;
    if running.rook != Some(rook.version) {
        fits(rook, kubernetes)?;
    }
    Ok(Target {
        rook: rook.version,
        ceph,
        snapshotter: rook.snapshotter,
        cdi,
    })
}

/// The release of this version.
fn release(asked: Version) -> Result<&'static RookRelease, Unsupported> {
    let versions: Vec<Version> = ROOK.iter().map(|release| release.version).collect();
    let found = ROOK.iter().find(|release| release.version == asked);
    found.ok_or_else(|| Unsupported::Rook {
        asked,
        known: listed(&versions),
    })
}

/// Whether one may go from what runs to what is asked for: never back, and
/// one release at a time.
fn permitted(
    what: &'static str,
    running: Option<Version>,
    asked: Version,
    release: impl Fn(&Version) -> (u32, u32),
) -> Result<(), Unsupported> {
    let Some(running) = running else {
        return Ok(());
    };
    if asked < running {
        return Err(Unsupported::Downgrade {
            what,
            running,
            asked,
        });
    }
    let (from, to) = (release(&running), release(&asked));
    if to.0 != from.0 || to.1 > from.1 + 1 {
        return Err(Unsupported::Skips {
            what,
            running,
            asked,
        });
    }
    Ok(())
}

/// Whether a release is for this Kubernetes. One that runs already is left
/// alone: the cluster was upgraded under it.
fn fits(rook: &RookRelease, kubernetes: Option<KubernetesVersion>) -> Result<(), Unsupported> {
    match kubernetes {
        Some(found) if found < rook.kubernetes.0 || found > rook.kubernetes.1 => {
            Err(Unsupported::Kubernetes {
                rook: rook.version,
                least: rook.kubernetes.0,
                most: rook.kubernetes.1,
                found,
            })
        }
        _ => Ok(()),
    }
}

fn listed(versions: &[Version]) -> String {
    let texts: Vec<String> = versions.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests;
