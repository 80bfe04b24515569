//! How far an export is, as the store knows it too.
//!
//! Opaque to whoever keeps it. It names the disk, the object and the upload;
//! it is good only where all are the same and the store still has the parts,
//! and otherwise ignored. It holds nothing that lets anybody in.

use serde::{Deserialize, Serialize};

use super::request::ExportFormat;
use crate::digest::DigestMark;
use crate::observer::Progress;

/// Version of this form, and of what is laid out how.
pub(super) const LAYOUT: u32 = 1;

/// A place in an export. Some ten thousand bytes as JSON; keep it and hand it
/// back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportCheckpoint {
    pub(super) layout: u32,
    pub(super) format: ExportFormat,
    /// Whether the digest is taken.
    pub(super) digest: bool,
    /// The disk's size.
    pub(super) size: u64,
    /// What tells a disk that is a file from another, and from itself when it
    /// was written to. A device is known by its size alone: whoever keeps the
    /// checkpoint keeps it for one volume.
    pub(super) source: Option<String>,
    /// The object: store, bucket and key.
    pub(super) target: String,
    /// What this export marks its object with, to know it again.
    pub(super) token: String,
    /// When the export began, in seconds since 1970.
    pub(super) since: u64,
    /// The upload, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) upload: Option<Upload>,
    /// How far the upload is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) place: Option<Place>,
    /// What the object is to be, once all parts of it are in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) whole: Option<Whole>,
    pub(super) progress: Progress,
}

/// An upload in parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Upload {
    pub(super) id: String,
    /// Whether the store takes checksums of parts.
    pub(super) checksums: bool,
}

/// Where an export is resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Place {
    /// The first of the parts that are not known to be in the store.
    pub(super) next_part: u32,
    /// What tells that those before it are: a digest of their numbers, sizes
    /// and ETags.
    pub(super) parts: String,
    /// The layout there, where the format has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<String>,
    /// All of the disk before this is in those parts.
    pub(super) at: u64,
    /// The first part, where it is sent last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) first: Option<First>,
    /// The digest there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<DigestMark>,
}

/// A part that is not in the store: it is made again from the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct First {
    pub(super) length: u64,
    /// What it has to hash to.
    pub(super) sha256: String,
}

/// An object of which only the completion is left to do, or was not heard of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Whole {
    pub(super) size: u64,
    /// Its parts; 0 for an object that is put in one piece.
    pub(super) parts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<crate::checksum::Checksum>,
}

impl ExportCheckpoint {
    /// How far the export was.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Whether this is of the same export as one that just begins.
    pub(super) fn is_of(&self, new: &Self) -> bool {
        let same = |of: &Self| {
            let Self {
                layout,
                format,
                digest,
                size,
                source,
                target,
                ..
            } = of.clone();
            (layout, format, digest, size, source, target)
        };
        same(self) == same(new)
    }

    /// The upload that may have parts in the store.
    #[must_use]
    pub fn upload_id(&self) -> Option<&str> {
        self.upload.as_ref().map(|upload| upload.id.as_str())
    }
}
