//! What is asked of the engine, and what it answers.

use std::path::PathBuf;

use hypercloud_disk::ImageFormat;
use serde::{Deserialize, Serialize};

use crate::checkpoint::Checkpoint;
use crate::observer::Progress;

/// Where an image comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceSpec {
    /// An HTTP or HTTPS server.
    Http(HttpSource),
    /// A file or block device of this machine.
    File(PathBuf),
}

/// An image on an HTTP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSource {
    /// The address; its user part, if any, is sent as Basic credentials to
    /// this origin only.
    pub url: url::Url,
}

/// What is known of a source before any of it is imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceFacts {
    /// The image's format.
    pub format: ImageFormat,
    /// The size of the disk in bytes, a multiple of 512: a raw source of
    /// another length is padded with zeros.
    pub virtual_size: u64,
    /// The length of the source in bytes, where it is told.
    pub source_size: Option<u64>,
    /// What tells this content from a later one: an ETag, or the time of the
    /// last change.
    pub validator: Option<String>,
    /// Whether parts of the source can be asked for.
    pub ranges: bool,
}

/// Where an image goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetSpec {
    /// A block device, from its first byte. It is zeroed where the image is
    /// zero, and behind the image's end.
    BlockDevice(PathBuf),
    /// A sparse raw file.
    DiskFile(DiskFile),
}

/// A raw disk in a directory that may belong to somebody else: nothing below
/// the directory is trusted, so no link, mount point or device node below it
/// is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskFile {
    /// An existing directory; this path itself is trusted.
    pub directory: PathBuf,
    /// The file's name in it, a single component.
    pub name: String,
    /// User and group ids the file is given.
    pub owner: Option<(u32, u32)>,
    /// The file's permission bits.
    pub mode: u32,
}

/// One import.
#[derive(Debug, Clone)]
pub struct ImportRequest {
    /// Where the image comes from.
    pub source: SourceSpec,
    /// Where it goes.
    pub target: TargetSpec,
    /// What an earlier probe said; a source that differs has changed.
    pub expected: Option<SourceFacts>,
    /// Where an earlier import of the same source to the same target got to.
    /// It is ignored, and the import starts over, when either differs.
    pub resume: Option<Checkpoint>,
}

/// A finished import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// What the source was.
    pub facts: SourceFacts,
    /// The final counts, over all resumed parts.
    pub progress: Progress,
}
