//! What is asked of an export, and what it answers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::checkpoint::ExportCheckpoint;
use crate::checksum::Checksum;
use crate::observer::Progress;
use crate::raw_disk::RawDisk;
use crate::request::StoredObject;

/// What a disk is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExportFormat {
    /// Its bytes, holes as zeros.
    Raw,
    /// qcow2, version 3, in clusters of 64 KiB. What is zeros takes no room.
    Qcow2(Compression),
}

/// How the clusters of a qcow2 are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Compression {
    /// Not at all.
    None,
    /// With deflate, which every reader of the format knows.
    Zlib,
    /// With Zstandard, which QEMU knows since version 5.1.
    Zstd,
}

/// Where an export goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportTarget {
    /// An object, which appears when it is complete.
    Object(StoredObject),
    /// A file of this machine, which takes its name when it is complete.
    File(PathBuf),
}

/// One export.
#[derive(Debug, Clone)]
pub struct ExportRequest {
    /// The disk. What its first bytes say means nothing: it is a guest's.
    pub source: RawDisk,
    /// Where it goes.
    pub target: ExportTarget,
    /// What it is written as.
    pub format: ExportFormat,
    /// Whether what is at the target is replaced. The export fails otherwise.
    pub overwrite: bool,
    /// Whether the digest of the disk's raw content is computed.
    pub digest: bool,
    /// Where an earlier export of the same disk to the same object got to. It
    /// is ignored, and the export starts over, when either differs, or when
    /// the store no longer has what it says. Exports to files start over.
    pub resume: Option<ExportCheckpoint>,
}

/// A finished export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The final counts, over all resumed parts.
    pub progress: Progress,
    /// Size of the object or file, in bytes.
    pub size: u64,
    /// Size of the disk, in bytes.
    pub virtual_size: u64,
    /// The SHA-256 of the disk's raw content, where it was asked for.
    pub digest: Option<Checksum>,
    /// The object's ETag, where the store said one.
    pub etag: Option<String>,
    /// The checksum of the object that the store itself verified, where it
    /// says one: the algorithm, `:`, the value in base64, and for an object
    /// made of parts `-` and their number.
    pub checksum: Option<String>,
    /// The object's http or https address, without credentials.
    pub address: Option<String>,
}

/// Hears of an export's course. Calls come one at a time and must be short:
/// the export waits for each.
pub trait ExportObserver: Send + Sync + 'static {
    /// A count has moved; called at most once per
    /// [`crate::Options::progress_interval`], and at the end.
    fn progress(&self, progress: Progress) {
        let _ = progress;
    }

    /// The store has what this says: keep it durably to resume later. The
    /// first one names an upload before any part of it is sent. Runs on a
    /// thread that may block.
    ///
    /// # Errors
    /// An error ends the export: a journal that cannot be written must not be
    /// outrun.
    fn checkpoint(&self, checkpoint: &ExportCheckpoint) -> std::io::Result<()> {
        let _ = checkpoint;
        Ok(())
    }

    /// All bytes are sent, and the object is about to be completed. Runs on a
    /// thread that may block.
    ///
    /// # Errors
    /// An error ends the export before there is an object.
    fn verifying(&self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Listens to nothing.
impl ExportObserver for () {}
