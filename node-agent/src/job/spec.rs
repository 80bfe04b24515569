//! What a job is asked to do, and its identity.
//!
//! Invariant: a [`JobId`] is safe as the stem of a file name.

use std::fmt;

pub use hypercloud_transfer::{Compression, ExportFormat};
use serde::{Deserialize, Serialize};

use crate::source::{Checksum, Facts, Format, ObjectLocation, Source};
use crate::volume::PodVolume;

/// Longest identity of a job; Kubernetes' UIDs and an attempt need about 50.
const MAX_ID: usize = 128;

/// Identity of a job, chosen by the coordinator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(String);

/// A job's identity that is empty, too long or has other characters than
/// letters, digits, `-`, `_` and inner dots.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no job id: 1 to 128 letters, digits, '-', '_' or '.', no dot in front")]
pub struct JobIdError(String);

impl JobId {
    /// Checks an identity as a request carries it.
    pub fn parse(text: &str) -> Result<Self, JobIdError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let fits = (1..=MAX_ID).contains(&text.len());
        if fits && !text.starts_with('.') && text.chars().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(JobIdError(text.chars().take(MAX_ID).collect()))
        }
    }

    /// The identity as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for JobId {
    type Error = JobIdError;

    fn try_from(text: String) -> Result<Self, JobIdError> {
        Self::parse(&text)
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> Self {
        id.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a job is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum JobSpec {
    /// Fill a volume with an image.
    Import(ImportSpec),
    /// Bring one volume's disk to another volume.
    Copy(CopySpec),
    /// Make an object of a volume's disk.
    Export(ExportSpec),
}

impl JobSpec {
    /// The volume that is written, where there is one: no other job may have
    /// it meanwhile.
    pub fn target(&self) -> Option<&PodVolume> {
        match self {
            Self::Import(import) => Some(&import.volume),
            Self::Copy(copy) => Some(&copy.target),
            Self::Export(_) => None,
        }
    }

    /// The volume that is read, where there is one: other jobs may read it,
    /// too.
    pub fn source(&self) -> Option<&PodVolume> {
        match self {
            Self::Import(_) => None,
            Self::Copy(copy) => Some(&copy.source),
            Self::Export(export) => Some(&export.volume),
        }
    }

    /// Where the bytes come from, for the log.
    pub fn from_where(&self) -> String {
        match self {
            Self::Import(import) => import.source.to_string(),
            Self::Copy(copy) => copy.source.to_string(),
            Self::Export(export) => export.volume.to_string(),
        }
    }

    /// Where the bytes go, for the log.
    pub fn to_where(&self) -> String {
        match self {
            Self::Import(import) => import.volume.to_string(),
            Self::Copy(copy) => copy.target.to_string(),
            Self::Export(export) => export.object.to_string(),
        }
    }

    /// Whether a restart loses what lets the job in at its source, or at the
    /// store that it writes to.
    pub fn needs_access(&self) -> bool {
        match self {
            Self::Import(import) => import.needs_access,
            Self::Copy(_) => false,
            Self::Export(export) => export.needs_access,
        }
    }
}

impl From<ImportSpec> for JobSpec {
    fn from(spec: ImportSpec) -> Self {
        Self::Import(spec)
    }
}

impl From<CopySpec> for JobSpec {
    fn from(spec: CopySpec) -> Self {
        Self::Copy(spec)
    }
}

impl From<ExportSpec> for JobSpec {
    fn from(spec: ExportSpec) -> Self {
        Self::Export(spec)
    }
}

/// Brings one volume's disk to another volume of the same pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CopySpec {
    /// The volume that is read, and never written.
    pub source: PodVolume,
    /// The volume that is written.
    pub target: PodVolume,
    /// Whether the target holds another state of the same disk, so that both
    /// are read and only what differs is written.
    pub only_differences: bool,
}

/// Fills a volume with the image at a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportSpec {
    /// Where the image comes from.
    pub source: Source,
    /// The volume to fill.
    pub volume: PodVolume,
    /// What the claim was sized by; a source that no longer answers to it
    /// fails the job.
    pub expected: Option<Facts>,
    /// The digest that the source's bytes have to have.
    #[serde(default)]
    pub checksum: Option<Checksum>,
    /// The format that the image has to have.
    #[serde(default)]
    pub format: Option<Format>,
    /// Whether the volume is given all of its room now.
    #[serde(default)]
    pub preallocation: bool,
    /// Whether the source is reached with an [`Access`](crate::source::Access)
    /// that only the request brings. After a restart the job waits for it.
    #[serde(default)]
    pub needs_access: bool,
}

/// Makes an object of a volume's disk, whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportSpec {
    /// The volume that is read, and never written.
    pub volume: PodVolume,
    /// The object that it becomes.
    pub object: ObjectLocation,
    /// What the object is of the disk.
    pub format: ExportFormat,
    /// Whether an object that is there is replaced.
    pub overwrite: bool,
    /// For whom the object is made: one that was made for the same is
    /// replaced anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Whether the digest of the disk's raw content is computed.
    pub digest: bool,
    /// Whether the store is reached with an
    /// [`Access`](crate::source::Access) that only the request brings. After
    /// a restart the job waits for it.
    pub needs_access: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_safe_file_names() {
        assert!(JobId::parse("5f0c6e0e-8a3f-4f2e-9d42-0b1a4c6c7d11-3").is_ok());
        let long = "a".repeat(129);
        for text in ["", ".", "..", ".hidden", "a/b", "a b", "a\0", "é", &long] {
            assert!(JobId::parse(text).is_err(), "{text:?} was accepted");
        }
    }
}
