//! The active L1 table: where the L2 tables are.

use super::header::{Header, MAX_SOURCE_SIZE};
use crate::extent::Extent;
use crate::refusal::Refusal;

/// Bits 9 to 55: the L2 table's offset.
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
/// Bit 63: the table's refcount is one. Means nothing to a reader.
const COPIED: u64 = 1 << 63;
/// What is read of the table at once.
const PART: u64 = 1 << 20;

/// One L2 table: its entry's index in the high 22 bits, the sector it begins
/// at in the low 42. An L1 table has at most 2^22 entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u64);

const SECTOR_BITS: u32 = 42;
const SECTOR: u64 = 512;
// Every judged offset fits.
const _: () = assert!(MAX_SOURCE_SIZE / SECTOR <= 1 << SECTOR_BITS);

impl Place {
    fn new(index: u64, offset: u64) -> Self {
        Self((index << SECTOR_BITS) | (offset / SECTOR))
    }

    fn index(self) -> u64 {
        self.0 >> SECTOR_BITS
    }

    fn offset(self) -> u64 {
        (self.0 & ((1 << SECTOR_BITS) - 1)) * SECTOR
    }
}

/// The part of the active L1 table that the virtual size needs. Entries
/// without a table take no memory, the others 8 bytes each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct L1Table {
    /// By index.
    places: Vec<Place>,
}

/// An L1 table being read, part by part: a large one is never held beside
/// what it says.
///
/// ```text
/// let mut builder = L1Builder::new(&header);
/// while let Some(place) = builder.wanted() {
///     builder.accept(bytes at place)?;
/// }
/// let l1 = builder.finish()?;
/// ```
#[derive(Debug)]
pub struct L1Builder<'a> {
    header: &'a Header,
    /// How many entries were read.
    seen: u64,
    places: Vec<Place>,
}

impl<'a> L1Builder<'a> {
    /// Begins with the table that the header tells of.
    #[must_use]
    pub fn new(header: &'a Header) -> Self {
        Self {
            header,
            seen: 0,
            places: Vec::new(),
        }
    }

    /// What of the source has to be read and accepted next, at most 1 MiB;
    /// `None` when the table is complete.
    #[must_use]
    pub fn wanted(&self) -> Option<Extent> {
        let whole = self.header.l1_place();
        let start = whole.start + self.seen * 8;
        let length = PART.min(whole.end() - start);
        (length > 0).then_some(Extent { start, length })
    }

    /// Takes the bytes at [`Self::wanted`].
    ///
    /// # Errors
    /// A [`Refusal`] for bytes that are cut short, have reserved bits set, or
    /// name places where no L2 table can be.
    pub fn accept(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let Some(place) = self.wanted() else {
            return Ok(());
        };
        let length = usize::try_from(place.length).unwrap_or(usize::MAX);
        let part = bytes.get(..length).ok_or(Refusal::Truncated {
            needed: place.end(),
            available: place.start.saturating_add(bytes.len() as u64),
        })?;
        for (index, entry) in (self.seen..).zip(part.as_chunks::<8>().0) {
            let offset = judge(self.header, u64::from_be_bytes(*entry))?;
            if offset != 0 {
                self.places.push(Place::new(index, offset));
            }
        }
        self.seen += place.length / 8;
        Ok(())
    }

    /// The table, once all of it was accepted.
    ///
    /// Two entries never share an L2 table: QEMU writes no such image, and a
    /// small one could ask for unbounded work.
    ///
    /// # Errors
    /// A [`Refusal`] for a table that is not complete, and for shared L2
    /// tables.
    pub fn finish(mut self) -> Result<L1Table, Refusal> {
        if let Some(missing) = self.wanted() {
            return Err(Refusal::Truncated {
                needed: self.header.l1_place().end(),
                available: missing.start,
            });
        }
        self.places.shrink_to_fit();
        // As QEMU writes it, the table is in the file's order as well.
        if !self.places.is_sorted_by(|a, b| a.offset() < b.offset()) {
            self.places.sort_unstable_by_key(|place| place.offset());
            let mut pairs = self.places.windows(2);
            if let Some(pair) = pairs.find(|pair| pair[0].offset() == pair[1].offset()) {
                return Err(Refusal::SharedTable {
                    offset: pair[0].offset(),
                });
            }
            self.places.sort_unstable();
        }
        Ok(L1Table {
            places: self.places,
        })
    }
}

impl L1Table {
    /// Judges the bytes at [`Header::l1_place`], all at once.
    ///
    /// # Errors
    /// As [`L1Builder::accept`] and [`L1Builder::finish`].
    pub fn parse(header: &Header, bytes: &[u8]) -> Result<Self, Refusal> {
        let mut builder = L1Builder::new(header);
        let start = header.l1_place().start;
        while let Some(place) = builder.wanted() {
            let from = usize::try_from(place.start - start).unwrap_or(usize::MAX);
            builder.accept(bytes.get(from..).unwrap_or_default())?;
        }
        builder.finish()
    }

    /// Where the L2 table of an entry is, or `None` where all it covers is
    /// unallocated.
    #[must_use]
    pub fn table(&self, entry: u64) -> Option<u64> {
        let at = self.places.binary_search_by_key(&entry, |p| p.index());
        at.ok()
            .and_then(|at| self.places.get(at))
            .map(|place| place.offset())
    }
}

/// The offset of an entry's L2 table; 0 where it has none.
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
    if header.tables().iter().any(|table| place.overlaps(table)) {
        return Err(Refusal::OverlappingTable {
            table: "L2",
            offset,
        });
    }
    Ok(offset)
}
