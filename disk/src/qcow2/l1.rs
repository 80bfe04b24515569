//! The active L1 table: where the L2 tables are.

use super::header::Header;
use crate::extent::Extent;
use crate::refusal::Refusal;

/// Bits 9 to 55: the L2 table's offset.
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
/// Bit 63: the table's refcount is one. Means nothing to a reader.
const COPIED: u64 = 1 << 63;

/// The part of the active L1 table that the virtual size needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct L1Table {
    /// Offsets of L2 tables; 0 where there is none.
    offsets: Vec<u64>,
}

impl L1Table {
    /// Judges the bytes at [`Header::l1_place`].
    ///
    /// Two entries never share an L2 table: QEMU writes no such image, and a
    /// small one could ask for unbounded work.
    ///
    /// # Errors
    /// A [`Refusal`] for a table that is cut short, has reserved bits set, or
    /// names places where no L2 table can be.
    pub fn parse(header: &Header, bytes: &[u8]) -> Result<Self, Refusal> {
        let place = header.l1_place();
        if (bytes.len() as u64) < place.length {
            return Err(Refusal::Truncated {
                needed: place.end(),
                available: place.start.saturating_add(bytes.len() as u64),
            });
        }
        let count = usize::try_from(place.length / 8).unwrap_or(usize::MAX);
        let mut offsets = Vec::with_capacity(count.min(bytes.len() / 8));
        for entry in bytes.as_chunks::<8>().0.iter().take(count) {
            offsets.push(judge(header, u64::from_be_bytes(*entry))?);
        }
        judge_unshared(&offsets)?;
        Ok(Self { offsets })
    }

    /// Where the L2 table of an entry is, or `None` where all it covers is
    /// unallocated.
    #[must_use]
    pub fn table(&self, entry: u64) -> Option<u64> {
        let entry = usize::try_from(entry).ok()?;
        self.offsets
            .get(entry)
            .copied()
            .filter(|offset| *offset != 0)
    }
}

fn judge(header: &Header, entry: u64) -> Result<u64, Refusal> {
    if entry & !(OFFSET | COPIED) != 0 {
        return Err(Refusal::ReservedBits { table: "L1", entry });
    }
    let offset = entry & OFFSET;
    if offset == 0 {
        return Ok(0);
    }
    let place = Extent {
        start: offset,
        length: header.cluster_size(),
    };
    header.judge_table("L2", place)?;
    if place.overlaps(&header.whole_l1()) {
        return Err(Refusal::OverlappingTable {
            table: "L2",
            offset,
        });
    }
    Ok(offset)
}

fn judge_unshared(offsets: &[u64]) -> Result<(), Refusal> {
    let mut sorted: Vec<u64> = offsets
        .iter()
        .copied()
        .filter(|offset| *offset != 0)
        .collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Refusal::OverlappingTable {
            table: "L2",
            offset: pair[0],
        }),
        None => Ok(()),
    }
}
