//! A layout as bytes, to go on with in another process.
//!
//! Numbers are written as what they are more than the one before, in as few
//! bytes as that takes, and all of it is deflated: neighbours in a table point
//! to neighbours.

use libdeflater::{CompressionLvl, Compressor, Decompressor};

use super::refcounts::Refcounts;
use super::table::Table;
use super::{CLUSTER_BYTES, Layout};
use crate::qcow2::Compression;
use crate::refusal::MAX_VIRTUAL_SIZE;

/// The low bits of an entry are an offset, the others flags and a length.
const LOW_BITS: u32 = 48;
/// No state unpacks to more: the L1 table of the largest disk, and some.
const MOST: usize = 4 << 20;

struct Writer(Vec<u8>);

impl Writer {
    /// Seven bits in each byte, and one that says whether more follow.
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn entries(&mut self, entries: &[u64]) {
        self.number(entries.len() as u64);
        let mut last = 0u64;
        for entry in entries {
            let low = entry & ((1 << LOW_BITS) - 1);
            // The sign goes below, so that small steps back are small.
            let step = low.wrapping_sub(last) as i64;
            self.number(((step << 1) ^ (step >> 63)) as u64);
            self.number(entry >> LOW_BITS);
            last = low;
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// How many follow, each of which takes a byte at least.
    fn length(&mut self) -> Option<usize> {
        let length = usize::try_from(self.number()?).ok()?;
        (length <= self.0.len()).then_some(length)
    }

    fn entries(&mut self) -> Option<Vec<u64>> {
        let length = self.length()?;
        let mut last = 0u64;
        (0..length)
            .map(|_| {
                let step = self.number()?;
                let step = (step >> 1) as i64 ^ -((step & 1) as i64);
                last = last.wrapping_add(step as u64) & ((1 << LOW_BITS) - 1);
                let high = self.number()?;
                (high < 1 << (64 - LOW_BITS)).then_some(high << LOW_BITS | last)
            })
            .collect()
    }

    fn counts(&mut self) -> Option<Vec<u16>> {
        let length = self.length()?;
        (0..length)
            .map(|_| u16::try_from(self.number()?).ok())
            .collect()
    }
}

impl Layout {
    /// The layout as bytes, as [`super::Output::cut`] gives it.
    #[must_use]
    pub fn state(&self) -> Vec<u8> {
        let mut writer = Writer(Vec::new());
        writer.number(self.size);
        writer.number(u64::from(self.compression == Compression::Zstd));
        writer.number(self.next);
        writer.number(self.end);
        writer.entries(&self.l1);
        writer.number(self.table.index());
        writer.entries(self.table.entries());
        writer.number(self.refcounts.range());
        writer.entries(self.refcounts.table());
        writer.number(self.refcounts.counts().len() as u64);
        for count in self.refcounts.counts() {
            writer.number(u64::from(*count));
        }
        let plain = writer.0;
        let mut packer = Compressor::new(CompressionLvl::default());
        let head = (plain.len() as u32).to_be_bytes();
        let mut state = vec![0; head.len() + packer.deflate_compress_bound(plain.len())];
        let (start, rest) = state.split_at_mut(head.len());
        start.copy_from_slice(&head);
        // There is always room for as much as the bound says.
        let length = packer.deflate_compress(&plain, rest).unwrap_or(0);
        state.truncate(head.len() + length);
        state
    }

    /// Goes on from a state, with a part of `part` bytes. `None` where it is
    /// no state.
    #[must_use]
    pub fn resume(state: &[u8], part: u64) -> Option<Self> {
        let (head, packed) = state.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*head)).ok()?;
        if length > MOST {
            return None;
        }
        let mut plain = vec![0; length];
        let unpacked = Decompressor::new().deflate_decompress(packed, &mut plain);
        if unpacked.ok()? != length {
            return None;
        }
        let mut reader = Reader(&plain);
        let size = reader.number()?;
        let compression = match reader.number()? {
            0 => Compression::Deflate,
            1 => Compression::Zstd,
            _ => return None,
        };
        let next = reader.number()?;
        let end = reader.number()?;
        let l1 = reader.entries()?;
        let table = Table::with(reader.number()?, reader.entries()?)?;
        let range = reader.number()?;
        let blocks = reader.entries()?;
        let refcounts = Refcounts::with(range, reader.counts()?, blocks)?;
        let sound = reader.0.is_empty()
            && size <= MAX_VIRTUAL_SIZE
            && l1.len() as u64 == size.div_ceil(Table::SPAN)
            && end.is_multiple_of(CLUSTER_BYTES)
            && end < 1 << LOW_BITS;
        sound.then(|| Self {
            size,
            compression,
            next,
            end,
            part_end: end + part,
            l1,
            table,
            refcounts,
            held: Default::default(),
            ends: false,
        })
    }
}
