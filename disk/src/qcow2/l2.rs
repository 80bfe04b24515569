//! One L2 entry: where a cluster is ("Standard Cluster Descriptor",
//! "Compressed Clusters Descriptor", "Extended L2 Entries").

use super::header::Header;
use crate::extent::Extent;
use crate::refusal::Refusal;

/// Bits 9 to 55 of a standard entry: the cluster's offset.
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
const COPIED: u64 = 1 << 63;
const COMPRESSED: u64 = 1 << 62;
/// Version 3, without extended entries: reads as zeros.
const ZERO: u64 = 1;
const SECTOR: u64 = 512;

/// What an entry says of its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mapping {
    /// Reads as zeros: unallocated (without a backing file), or marked zero.
    Zero,
    /// The cluster's bytes are at this offset.
    Plain {
        /// Where in the source.
        host: u64,
    },
    /// Some of the cluster's 32 subclusters are at their place in the cluster
    /// at this offset; the others read as zeros.
    Partial {
        /// Where in the source the cluster is.
        host: u64,
        /// Which subclusters have bytes.
        allocated: Subclusters,
    },
    /// The cluster is compressed.
    Compressed {
        /// Where in the source; up to a sector's rest too long.
        place: Extent,
    },
}

/// A set of the 32 subclusters of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subclusters(u32);

impl Subclusters {
    /// The runs of subclusters in the set: first and count.
    pub fn runs(self) -> impl Iterator<Item = (u32, u32)> {
        let mut rest = self.0;
        let mut at = 0;
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let skip = rest.trailing_zeros();
            rest >>= skip;
            let first = at + skip;
            let count = rest.trailing_ones();
            rest = rest.checked_shr(count).unwrap_or(0);
            at = first + count;
            Some((first, count))
        })
    }
}

impl Mapping {
    /// Reads an entry: 8 bytes, or 16 where the header says that entries are
    /// extended.
    ///
    /// # Errors
    /// A [`Refusal`] for reserved bits, impossible places, and clusters that
    /// begin beyond the end of the source. The caller judges where plain
    /// clusters end, as the last one need not be whole.
    pub fn parse(header: &Header, entry: u64, bitmap: u64) -> Result<Self, Refusal> {
        if entry & COMPRESSED != 0 {
            return compressed(header, entry);
        }
        let zero_flag = if header.version() >= 3 && !header.has_extended_l2() {
            ZERO
        } else {
            0
        };
        if entry & !(OFFSET | COPIED | zero_flag) != 0 {
            return Err(Refusal::ReservedBits { table: "L2", entry });
        }
        let host = entry & OFFSET;
        if host & (header.cluster_size() - 1) != 0 {
            return Err(Refusal::MisplacedCluster { offset: host });
        }
        if header.has_extended_l2() {
            return extended(header, host, bitmap);
        }
        if entry & zero_flag != 0 || host == 0 {
            return Ok(Self::Zero);
        }
        judge_start(header, host)?;
        Ok(Self::Plain { host })
    }
}

fn judge_start(header: &Header, host: u64) -> Result<(), Refusal> {
    if header.source_size().is_some_and(|size| host >= size) {
        return Err(Refusal::ClusterBeyondEnd { offset: host });
    }
    Ok(())
}

fn extended(header: &Header, host: u64, bitmap: u64) -> Result<Mapping, Refusal> {
    let allocated = bitmap as u32;
    let zeros = (bitmap >> 32) as u32;
    // A subcluster is allocated or zero, not both.
    if allocated & zeros != 0 {
        return Err(Refusal::ReservedBits {
            table: "L2",
            entry: bitmap,
        });
    }
    if allocated == 0 {
        return Ok(Mapping::Zero);
    }
    if host == 0 {
        return Err(Refusal::MisplacedCluster { offset: 0 });
    }
    judge_start(header, host)?;
    Ok(match allocated {
        u32::MAX => Mapping::Plain { host },
        _ => Mapping::Partial {
            host,
            allocated: Subclusters(allocated),
        },
    })
}

fn compressed(header: &Header, entry: u64) -> Result<Mapping, Refusal> {
    // The offset takes the low bits, the sector count the rest below bit 62.
    let offset_bits = 62 - (header.cluster_bits() - 8);
    let start = entry & ((1 << offset_bits) - 1);
    let sectors = (entry & (COMPRESSED - 1)) >> offset_bits;
    if start < header.cluster_size() {
        return Err(Refusal::MisplacedCluster { offset: start });
    }
    judge_start(header, start)?;
    let length = (sectors + 1) * SECTOR - start % SECTOR;
    // The count is of whole sectors, so the last cluster of a file may seem
    // to reach beyond its end; decoding tells whether it really does.
    let end = start.saturating_add(length);
    let end = header.source_size().map_or(end, |size| end.min(size));
    Ok(Mapping::Compressed {
        place: Extent::between(start, end),
    })
}
