//! The header ("Header" and "Header extensions").
//!
//! Everything that makes an image unreadable or unsafe is judged here, before
//! a single table is fetched. Header extensions are not read: what they could
//! change is announced by an incompatible feature bit.

use crate::extent::Extent;
use crate::refusal::{MAX_VIRTUAL_SIZE, Refusal};

/// The largest L1 table QEMU itself accepts: 32 MiB.
const MAX_L1_ENTRIES: u64 = (32 << 20) / 8;
/// The largest refcount table QEMU itself accepts: 8 MiB.
const MAX_REFCOUNT_TABLE: u64 = 8 << 20;
/// No table is looked for behind 2 PiB, whatever length a source claims.
pub(super) const MAX_SOURCE_SIZE: u64 = 1 << 51;

const INCOMPATIBLE_DIRTY: u64 = 1 << 0;
const INCOMPATIBLE_CORRUPT: u64 = 1 << 1;
const INCOMPATIBLE_DATA_FILE: u64 = 1 << 2;
const INCOMPATIBLE_COMPRESSION: u64 = 1 << 3;
const INCOMPATIBLE_EXTENDED_L2: u64 = 1 << 4;
const KNOWN_INCOMPATIBLE: u64 = INCOMPATIBLE_DIRTY
    | INCOMPATIBLE_CORRUPT
    | INCOMPATIBLE_DATA_FILE
    | INCOMPATIBLE_COMPRESSION
    | INCOMPATIBLE_EXTENDED_L2;

/// How compressed clusters are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Deflate without a wrapper (the specification calls it zlib).
    Deflate,
    /// Zstandard frames.
    Zstd,
}

/// A header that was found good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    version: u32,
    cluster_bits: u32,
    virtual_size: u64,
    l1: Extent,
    l1_needed: u64,
    refcounts: Extent,
    compression: Compression,
    extended_l2: bool,
    source_size: Option<u64>,
}

/// Reads big-endian fields; a field behind the end is a cut-short image.
struct Fields<'a> {
    head: &'a [u8],
    source_size: Option<u64>,
}

impl Fields<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> Result<[u8; N], Refusal> {
        self.head
            .get(at..)
            .and_then(|rest| rest.first_chunk::<N>())
            .copied()
            .ok_or(Refusal::Truncated {
                needed: (at + N) as u64,
                available: self.source_size.unwrap_or(self.head.len() as u64),
            })
    }

    fn u32(&self, at: usize) -> Result<u32, Refusal> {
        self.bytes(at).map(u32::from_be_bytes)
    }

    fn u64(&self, at: usize) -> Result<u64, Refusal> {
        self.bytes(at).map(u64::from_be_bytes)
    }
}

fn invalid(field: &'static str, value: u64) -> Refusal {
    Refusal::InvalidHeader { field, value }
}

impl Header {
    /// Judges the header in the source's first bytes (512 are enough).
    ///
    /// `source_size` is the length of the source where it is known; without
    /// it, nothing can be found to lie beyond the end.
    ///
    /// # Errors
    /// A [`Refusal`] for everything that cannot, or must not, be read.
    pub fn parse(head: &[u8], source_size: Option<u64>) -> Result<Self, Refusal> {
        let fields = Fields { head, source_size };
        let magic: [u8; 4] = fields.bytes(0)?;
        if magic != *b"QFI\xfb" {
            return Err(invalid("magic", u64::from(u32::from_be_bytes(magic))));
        }
        let version = fields.u32(4)?;
        if !(2..=3).contains(&version) {
            return Err(Refusal::UnsupportedVersion(version));
        }
        let cluster_bits = fields.u32(20)?;
        if !(9..=21).contains(&cluster_bits) {
            return Err(Refusal::ClusterBits(cluster_bits));
        }
        let features = Features::parse(&fields, version, cluster_bits)?;
        if fields.u64(8)? != 0 {
            return Err(Refusal::BackingFile);
        }
        if fields.u32(32)? != 0 {
            return Err(Refusal::Encrypted);
        }
        let virtual_size = judge_virtual_size(fields.u64(24)?)?;

        let entry = if features.extended_l2 { 16 } else { 8 };
        let table_span = ((1u64 << cluster_bits) / entry) << cluster_bits;
        let l1_needed = virtual_size.div_ceil(table_span);
        let l1_entries = u64::from(fields.u32(36)?);
        if l1_entries > MAX_L1_ENTRIES {
            return Err(Refusal::OversizedTable {
                table: "L1",
                entries: l1_entries,
            });
        }
        if l1_entries < l1_needed {
            return Err(Refusal::ShortL1Table {
                entries: l1_entries,
                needed: l1_needed,
            });
        }
        let header = Self {
            version,
            cluster_bits,
            virtual_size,
            l1: Extent {
                start: fields.u64(40)?,
                length: l1_entries * 8,
            },
            l1_needed,
            refcounts: Extent {
                start: fields.u64(48)?,
                length: u64::from(fields.u32(56)?) << cluster_bits,
            },
            compression: features.compression,
            extended_l2: features.extended_l2,
            source_size,
        };
        header.judge_table("L1", header.l1)?;
        let refcounts = header.refcounts;
        if refcounts.length > MAX_REFCOUNT_TABLE {
            return Err(Refusal::OversizedTable {
                table: "refcount",
                entries: refcounts.length / 8,
            });
        }
        header.judge_table("refcount", refcounts)?;
        if header.l1.overlaps(&refcounts) {
            return Err(Refusal::OverlappingTable {
                table: "L1",
                offset: header.l1.start,
            });
        }
        Ok(header)
    }

    /// Judges a table's place: aligned, behind the header's cluster, within
    /// the source.
    pub(super) fn judge_table(&self, table: &'static str, place: Extent) -> Result<(), Refusal> {
        let offset = place.start;
        if offset & (self.cluster_size() - 1) != 0 {
            return Err(Refusal::UnalignedTable { table, offset });
        }
        if offset < self.cluster_size() {
            return Err(Refusal::OverlappingTable { table, offset });
        }
        let size = self.source_size.unwrap_or(MAX_SOURCE_SIZE);
        match offset.checked_add(place.length) {
            Some(end) if end <= size.min(MAX_SOURCE_SIZE) => Ok(()),
            _ => Err(Refusal::TableBeyondEnd { table, offset }),
        }
    }

    /// 2 or 3.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Bytes of a cluster, 512 to 2 MiB.
    #[must_use]
    pub fn cluster_size(&self) -> u64 {
        1 << self.cluster_bits
    }

    pub(super) fn cluster_bits(&self) -> u32 {
        self.cluster_bits
    }

    /// The disk's size in bytes, a multiple of 512, at most
    /// [`MAX_VIRTUAL_SIZE`].
    #[must_use]
    pub fn virtual_size(&self) -> u64 {
        self.virtual_size
    }

    /// How compressed clusters are compressed.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Whether L2 entries have bitmaps of subclusters.
    #[must_use]
    pub fn has_extended_l2(&self) -> bool {
        self.extended_l2
    }

    /// Bytes of one L2 entry.
    #[must_use]
    pub fn l2_entry_size(&self) -> u64 {
        if self.extended_l2 { 16 } else { 8 }
    }

    /// Entries of one L2 table, which is one cluster.
    #[must_use]
    pub fn l2_entries(&self) -> u64 {
        self.cluster_size() / self.l2_entry_size()
    }

    /// Where the part of the L1 table lies that the virtual size needs. At
    /// most 32 MiB.
    #[must_use]
    pub fn l1_place(&self) -> Extent {
        Extent {
            start: self.l1.start,
            length: self.l1_needed * 8,
        }
    }

    /// The tables that the header itself names, whole.
    pub(super) fn tables(&self) -> [Extent; 2] {
        [self.l1, self.refcounts]
    }

    /// The source's length, where it is known.
    #[must_use]
    pub fn source_size(&self) -> Option<u64> {
        self.source_size
    }
}

fn judge_virtual_size(size: u64) -> Result<u64, Refusal> {
    if size == 0 {
        Err(Refusal::ZeroVirtualSize)
    } else if size > MAX_VIRTUAL_SIZE {
        Err(Refusal::AbsurdVirtualSize(size))
    } else if !size.is_multiple_of(512) {
        Err(Refusal::UnalignedVirtualSize(size))
    } else {
        Ok(size)
    }
}

/// What version 3 adds.
struct Features {
    compression: Compression,
    extended_l2: bool,
}

impl Features {
    fn parse(fields: &Fields<'_>, version: u32, cluster_bits: u32) -> Result<Self, Refusal> {
        let plain = Self {
            compression: Compression::Deflate,
            extended_l2: false,
        };
        if version < 3 {
            return Ok(plain);
        }
        let incompatible = fields.u64(72)?;
        let unknown = incompatible & !KNOWN_INCOMPATIBLE;
        if unknown != 0 {
            return Err(Refusal::UnknownFeatures(unknown));
        }
        if incompatible & INCOMPATIBLE_CORRUPT != 0 {
            return Err(Refusal::Corrupt);
        }
        if incompatible & INCOMPATIBLE_DATA_FILE != 0 {
            return Err(Refusal::ExternalDataFile);
        }
        let refcount_order = fields.u32(96)?;
        if refcount_order > 6 {
            return Err(invalid("refcount_order", u64::from(refcount_order)));
        }
        let length = u64::from(fields.u32(100)?);
        if length < 104 || length > 1 << cluster_bits || length % 8 != 0 {
            return Err(invalid("header_length", length));
        }
        let kind = if length > 104 {
            fields.bytes::<1>(104)?[0]
        } else {
            0
        };
        // The bit and the field must agree: the bit is there so that a reader
        // without the field refuses the image.
        let compression = match (incompatible & INCOMPATIBLE_COMPRESSION != 0, kind) {
            (false, 0) => Compression::Deflate,
            (true, 1) => Compression::Zstd,
            (true, kind) if kind > 1 => return Err(Refusal::UnknownCompression(kind)),
            (_, kind) => return Err(invalid("compression_type", u64::from(kind))),
        };
        let extended_l2 = incompatible & INCOMPATIBLE_EXTENDED_L2 != 0;
        // 32 subclusters of at least 512 bytes each.
        if extended_l2 && cluster_bits < 14 {
            return Err(Refusal::SmallSubclusters(cluster_bits));
        }
        Ok(Self {
            compression,
            extended_l2,
        })
    }
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
