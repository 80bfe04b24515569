//! How far the target is known to hold the image, durably.
//!
//! A checkpoint is opaque to whoever keeps it. It names the source it was
//! taken from, the target it was taken on and a position in the copy plan;
//! it is good only where all three are the same, and otherwise ignored.

use hypercloud_disk::ImageFormat;
use serde::{Deserialize, Serialize};

use crate::digest::DigestMark;
use crate::observer::Progress;
use crate::request::SourceFacts;

/// A position in an import. Small as JSON; keep it and hand it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The version of the plan's layout: positions of another are void.
    pub(crate) layout: u32,
    pub(crate) format: ImageFormat,
    pub(crate) virtual_size: u64,
    pub(crate) source_size: Option<u64>,
    pub(crate) validator: Option<String>,
    /// What tells the target from another one: an inode, or a device's size.
    pub(crate) target: u64,
    /// The plan's window.
    pub(crate) window: u64,
    /// Items of that window that are finished, without a gap.
    pub(crate) items: u64,
    pub(crate) progress: Progress,
    /// How far the digest is, where one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<DigestMark>,
}

impl Checkpoint {
    /// How far the import was.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Whether this was taken from the source that `facts` describes. A
    /// source without a validator cannot be told from its successor, so it
    /// is never resumed.
    #[must_use]
    pub fn is_of(&self, facts: &SourceFacts) -> bool {
        facts.validator.is_some()
            && self.validator == facts.validator
            && self.format == facts.format
            && Some(self.virtual_size) == facts.virtual_size
            && self.source_size == facts.source_size
    }
}
