//! Reading and compressing one stretch of the disk, on a thread that may
//! block.

use std::ops::Range;
use std::sync::Arc;

use hypercloud_disk::Extent;
use hypercloud_disk::layout::CLUSTER;
use hypercloud_disk::qcow2::{self, Encoder};

use super::request::{Compression, ExportFormat};
use crate::buffer::Buffer;
use crate::error::SourceError;
use crate::pipeline::parts;
use crate::raw_disk::SourceDisk;

/// What is read at once.
pub(super) const PIECE: usize = 1 << 20;

/// A stretch of the disk that was read.
pub(super) struct Piece {
    pub(super) start: u64,
    /// How much of it the disk has.
    pub(super) length: u64,
    /// First its bytes, of whole clusters, zeros behind the disk's end; then
    /// what they became.
    pub(super) buffer: Arc<Buffer>,
    /// The clusters that are not zeros, in order.
    pub(super) clusters: Vec<Cluster>,
}

/// A cluster that is not zeros.
pub(super) struct Cluster {
    /// Where it begins in the piece.
    pub(super) at: usize,
    /// Where the buffer has it compressed, if it shrank.
    pub(super) packed: Option<Range<usize>>,
}

impl Piece {
    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.buffer.get(range).unwrap_or_default()
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.length
    }
}

/// How clusters are compressed; `None` where they are not.
pub(super) fn compression(format: ExportFormat) -> Option<qcow2::Compression> {
    match format {
        ExportFormat::Raw | ExportFormat::Qcow2(Compression::None) => None,
        ExportFormat::Qcow2(Compression::Zlib) => Some(qcow2::Compression::Deflate),
        ExportFormat::Qcow2(Compression::Zstd) => Some(qcow2::Compression::Zstd),
    }
}

/// How long the buffers of pieces are.
pub(super) fn buffer_size(format: ExportFormat) -> usize {
    match compression(format) {
        // What does not shrink is not packed.
        Some(_) => 2 * PIECE,
        None => PIECE,
    }
}

/// What one thread works with.
pub(super) struct Worker {
    encoder: Option<Encoder>,
}

impl Worker {
    pub(super) fn new(format: ExportFormat) -> Self {
        Self {
            encoder: compression(format).map(Encoder::new),
        }
    }

    /// Reads a stretch of at most [`PIECE`] bytes, which begins with a
    /// cluster, and packs it.
    pub(super) fn settle(
        &mut self,
        source: &SourceDisk,
        extent: Extent,
        mut buffer: Buffer,
    ) -> Result<Piece, SourceError> {
        let whole = (extent.length as usize)
            .next_multiple_of(CLUSTER)
            .min(PIECE);
        let (raw, packed) = buffer.split_at_mut_checked(PIECE).unwrap_or_default();
        let raw = raw.get_mut(..whole).unwrap_or_default();
        let length = source.read(extent.start, raw)?;
        let clusters = self.pack(raw, packed);
        Ok(Piece {
            start: extent.start,
            length: length.min(extent.length),
            buffer: Arc::new(buffer),
            clusters,
        })
    }

    fn pack(&mut self, raw: &[u8], packed: &mut [u8]) -> Vec<Cluster> {
        let mut found = Vec::with_capacity(raw.len() / CLUSTER);
        let mut used = 0;
        for (index, cluster) in raw.chunks(CLUSTER).enumerate() {
            if parts(cluster, CLUSTER).all(|part| part.is_zero) {
                continue;
            }
            let room = packed.get_mut(used..).unwrap_or_default();
            let encoder = self.encoder.as_mut();
            let length = encoder.and_then(|encoder| encoder.encode(cluster, room));
            found.push(Cluster {
                at: index * CLUSTER,
                packed: length.map(|length| PIECE + used..PIECE + used + length),
            });
            used += length.unwrap_or(0);
        }
        found
    }
}
