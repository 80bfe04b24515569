//! The plan of a raw source: equal parts, in order.

use super::{Piece, PieceKind, Window, raw_virtual_size};
use crate::extent::Extent;
use crate::refusal::Refusal;

/// Bytes of one job.
pub(super) const JOB: u64 = 2 << 20;
/// Bytes of one window.
const WINDOW: u64 = 1024 * JOB;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawPlan {
    source_size: u64,
    virtual_size: u64,
}

impl RawPlan {
    pub(super) fn new(source_size: u64) -> Result<Self, Refusal> {
        Ok(Self {
            source_size,
            virtual_size: raw_virtual_size(source_size)?,
        })
    }

    pub(super) fn virtual_size(&self) -> u64 {
        self.virtual_size
    }

    pub(super) fn windows(&self) -> u64 {
        self.virtual_size.div_ceil(WINDOW)
    }

    pub(super) fn window(&self, window: u64) -> Window {
        let start = window.saturating_mul(WINDOW).min(self.virtual_size);
        let disk = Extent::between(start, start.saturating_add(WINDOW).min(self.virtual_size));
        let pieces = disk
            .parts(JOB)
            .map(|part| Piece {
                host: part.start,
                guest: part.start,
                // Both fit: a part is at most a job.
                source_length: Extent::between(part.start, part.end().min(self.source_size)).length
                    as u32,
                disk_length: part.length as u32,
                kind: PieceKind::Plain,
            })
            .collect();
        Window::new(disk, Vec::new(), pieces)
    }
}
