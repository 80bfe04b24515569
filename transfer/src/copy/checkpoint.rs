//! How far the target is known to hold the source's disk, durably.
//!
//! Opaque to whoever keeps it. It names both sides and a place on the disk;
//! it is good only where all are the same, and otherwise ignored.

use serde::{Deserialize, Serialize};

use super::request::CopyMode;
use crate::observer::Progress;
use crate::raw_disk::SourceDisk;

/// Version of this form, and of what a place means.
const LAYOUT: u32 = 1;

/// A place in a copy. Small as JSON; keep it and hand it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyCheckpoint {
    layout: u32,
    mode: CopyMode,
    /// The source's size.
    size: u64,
    /// What tells a source that is a file from another, and from itself when
    /// it was written to. A device is known by its size alone: whoever keeps
    /// the checkpoint keeps it for one volume.
    source: Option<String>,
    /// What tells the target from another one: an inode, or a device's size.
    target: u64,
    offset: u64,
    progress: Progress,
}

impl CopyCheckpoint {
    pub(super) fn new(
        source: &SourceDisk,
        target: u64,
        mode: CopyMode,
        offset: u64,
        progress: Progress,
    ) -> Self {
        Self {
            layout: LAYOUT,
            mode,
            size: source.size(),
            source: source.validator().map(str::to_owned),
            target,
            offset,
            progress,
        }
    }

    /// How far the copy was.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Up to here, in bytes from the disk's beginning, the target holds what
    /// it is to hold.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn target(&self) -> u64 {
        self.target
    }

    /// Whether this was taken from that source, as it is now.
    pub(super) fn is_of(&self, source: &SourceDisk, mode: CopyMode) -> bool {
        self.layout == LAYOUT
            && self.mode == mode
            && self.size == source.size()
            && self.source.as_deref() == source.validator()
    }
}
