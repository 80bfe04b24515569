//! Laying out a qcow2 image that is written in one pass.
//!
//! The clusters of a disk come in order, and the bytes of the image leave in
//! order, but for its first cluster: the header says where the tables are,
//! so it is known last. Tables lie where they came to be complete: the L2
//! table of 512 MiB of the disk behind their data, a refcount block behind
//! the 2 GiB of the image that it counts, the L1 table and the refcount table
//! at the end. So what is held is one of each, whatever the disk.
//!
//! Compressed clusters are packed back to back. What has to begin at a
//! multiple of the cluster size (clusters that do not shrink, and tables)
//! waits, a few at a time, for a place where little room is lost.
//!
//! The image leaves in parts, whose lengths the caller says. No part ends
//! within a compressed cluster: zeros fill up what is left of it. So where a
//! part ends, the layout is all that has to be known to go on.
//!
//! Sections named in comments are those of QEMU's `docs/interop/qcow2.txt`.

mod refcounts;
mod state;
mod table;

use std::collections::VecDeque;

use self::refcounts::{Block, Refcounts};
use self::table::Table;
use crate::qcow2::Compression;

/// Bytes of a cluster.
pub const CLUSTER: usize = 1 << CLUSTER_BITS;
const CLUSTER_BITS: u32 = 16;
const CLUSTER_BYTES: u64 = CLUSTER as u64;
/// A part is at least so long.
pub const SHORTEST_PART: u64 = 2 * CLUSTER_BYTES;
/// Bit 63 of an entry: what it points to has a refcount of one.
const COPIED: u64 = 1 << 63;
/// The most clusters that wait for a place.
const MOST_HELD: usize = 16;
/// So much may be lost for each cluster that waits.
const LOSS: u64 = 1024;
/// Bytes of the header, with the field of the compression type.
const HEADER_LENGTH: u32 = 112;

/// The content of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data<'a> {
    /// As it is: [`CLUSTER`] bytes.
    Plain(&'a [u8]),
    /// Compressed, to fewer.
    Packed(&'a [u8]),
}

/// Takes the bytes of an image.
pub trait Output {
    /// Why it does not go on.
    type Error;

    /// The next bytes of the image.
    fn write(&mut self, bytes: &[u8]);

    /// The next bytes are zeros.
    fn zeros(&mut self, count: usize);

    /// A part is full; how long is the next one? `layout` is there where the
    /// image can be gone on with later from what is in the parts so far.
    ///
    /// # Errors
    /// An error ends the image.
    fn cut(&mut self, layout: Option<&Layout>) -> Result<u64, Self::Error>;
}

/// An image that is being laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    size: u64,
    compression: Compression,
    /// The first cluster of the disk that is not in the image yet.
    next: u64,
    /// The bytes of the image so far.
    end: u64,
    /// Where the part ends that is being filled.
    part_end: u64,
    l1: Vec<u64>,
    /// The L2 table of the clusters that come.
    table: Table,
    refcounts: Refcounts,
    held: VecDeque<Held>,
    /// Whether the last of the disk has come.
    ends: bool,
}

/// A cluster of the image that waits for its place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    what: What,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// This cluster of the disk.
    Cluster(u64),
    /// The L2 table of this entry of the L1 table.
    Table(u64),
    /// The refcount block of this entry of the refcount table.
    Block(u64),
}

fn aligned(offset: u64) -> u64 {
    offset.next_multiple_of(CLUSTER_BYTES)
}

impl Layout {
    /// Begins the image of a disk of `size` bytes; a qcow2's is a multiple of
    /// 512. `compression` is that of whatever comes packed, and `part` the
    /// length of the first part: a multiple of [`CLUSTER`], as all are. The
    /// first cluster is written as zeros: the header takes its place.
    pub fn begin<O: Output>(size: u64, compression: Compression, part: u64, out: &mut O) -> Self {
        let size = size.next_multiple_of(512);
        out.zeros(CLUSTER);
        let mut refcounts = Refcounts::default();
        refcounts.add(0);
        Self {
            size,
            compression,
            next: 0,
            end: CLUSTER_BYTES,
            part_end: part,
            l1: vec![0; size.div_ceil(Table::SPAN) as usize],
            table: Table::new(0),
            refcounts,
            held: VecDeque::new(),
            ends: false,
        }
    }

    /// Where a resumed layout goes on: the first cluster of the disk that is
    /// not in it.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The bytes of the image so far.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Adds a cluster of the disk, behind those before it. Those that are
    /// left out read as zeros.
    ///
    /// # Errors
    /// Those of the output.
    pub fn put<O: Output>(
        &mut self,
        cluster: u64,
        data: Data<'_>,
        out: &mut O,
    ) -> Result<(), O::Error> {
        self.next = cluster;
        if Table::of(cluster) != self.table.index() {
            self.close_table(out)?;
            self.table = Table::new(Table::of(cluster));
        }
        self.make_room(data, out)?;
        self.next = cluster + 1;
        match data {
            Data::Plain(bytes) => {
                self.table.begin();
                let what = What::Cluster(cluster);
                let bytes = bytes.to_vec();
                self.hold(Held { what, bytes }, out)
            }
            Data::Packed(bytes) => {
                let at = self.end;
                out.write(bytes);
                self.end += bytes.len() as u64;
                self.table.set_packed(cluster, at, bytes.len() as u64);
                self.count(at, self.end);
                let loss = aligned(self.end) - self.end;
                if !self.held.is_empty() && loss <= LOSS * self.held.len() as u64 {
                    self.release(out)?;
                }
                Ok(())
            }
        }
    }

    /// Adds the tables that are left, and gives the header: it takes the
    /// place of the first bytes.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish<O: Output>(mut self, out: &mut O) -> Result<Vec<u8>, O::Error> {
        self.ends = true;
        self.close_table(out)?;
        self.release(out)?;
        let l1_at = self.end;
        let l1: Vec<u8> = self
            .l1
            .iter()
            .flat_map(|entry| entry.to_be_bytes())
            .collect();
        for bytes in l1.chunks(CLUSTER) {
            let at = self.end;
            self.append(bytes, out)?;
            self.count(at, self.end);
        }
        self.release(out)?;
        let refcounts_at = self.end;
        let (table, blocks) = self.refcounts.end(self.end >> CLUSTER_BITS);
        let clusters = table.len().div_ceil(CLUSTER);
        for bytes in table.chunks(CLUSTER) {
            self.append(bytes, out)?;
        }
        for block in blocks {
            self.append(&block, out)?;
        }
        Ok(self.header(l1_at, refcounts_at, clusters as u32))
    }

    /// Sees to it that a cluster, and what waits, has room in the part.
    fn make_room<O: Output>(&mut self, data: Data<'_>, out: &mut O) -> Result<(), O::Error> {
        loop {
            let end = match data {
                Data::Plain(_) => aligned(self.end) + CLUSTER_BYTES,
                Data::Packed(bytes) => aligned(self.end + bytes.len() as u64),
            };
            if end + self.held.len() as u64 * CLUSTER_BYTES <= self.part_end {
                return Ok(());
            }
            if self.held.is_empty() {
                self.cut(out)?;
            } else {
                self.release(out)?;
            }
        }
    }

    /// Ends the part with zeros, and begins the next one.
    fn cut<O: Output>(&mut self, out: &mut O) -> Result<(), O::Error> {
        self.pad(self.part_end, out);
        let is_whole = self.held.is_empty() && !self.ends;
        let next = out.cut(is_whole.then_some(&*self))?;
        self.part_end += next.max(SHORTEST_PART);
        Ok(())
    }

    fn pad<O: Output>(&mut self, to: u64, out: &mut O) {
        out.zeros(to.saturating_sub(self.end) as usize);
        self.end = self.end.max(to);
    }

    /// Counts the clusters of the image that a stretch touches. The last
    /// sector of a packed one ends in the cluster that its last byte is in.
    fn count(&mut self, start: u64, end: u64) {
        for cluster in start >> CLUSTER_BITS..=(end - 1) >> CLUSTER_BITS {
            if let Some(Block { range, bytes }) = self.refcounts.add(cluster) {
                let what = What::Block(range);
                self.held.push_back(Held { what, bytes });
            }
        }
    }

    /// Lets a cluster wait, or not where nothing is lost by its place.
    fn hold<O: Output>(&mut self, held: Held, out: &mut O) -> Result<(), O::Error> {
        self.held.push_back(held);
        let end = aligned(self.end) + self.held.len() as u64 * CLUSTER_BYTES;
        let is_placed = self.end.is_multiple_of(CLUSTER_BYTES);
        if is_placed || self.held.len() >= MOST_HELD || end > self.part_end {
            self.release(out)?;
        }
        Ok(())
    }

    /// Gives all that waits its place.
    fn release<O: Output>(&mut self, out: &mut O) -> Result<(), O::Error> {
        self.pad(aligned(self.end), out);
        while let Some(what) = self.held.front().map(|held| held.what) {
            if self.end >= self.part_end {
                self.cut(out)?;
            }
            let at = self.end;
            let bytes = self.held.pop_front().map(|held| held.bytes);
            self.append(&bytes.unwrap_or_default(), out)?;
            match what {
                What::Cluster(cluster) => self.table.set_plain(cluster, at),
                What::Table(index) => {
                    if let Some(entry) = self.l1.get_mut(index as usize) {
                        *entry = at | COPIED;
                    }
                }
                What::Block(range) => self.refcounts.place(range, at),
            }
            self.count(at, self.end);
        }
        Ok(())
    }

    /// Adds a cluster, of zeros behind what there is of it. The image's end
    /// is aligned.
    fn append<O: Output>(&mut self, bytes: &[u8], out: &mut O) -> Result<(), O::Error> {
        if self.end >= self.part_end {
            self.cut(out)?;
        }
        let end = self.end + CLUSTER_BYTES;
        out.write(bytes);
        self.end += bytes.len() as u64;
        self.pad(end, out);
        Ok(())
    }

    /// Lets the L2 table go that no more clusters come for.
    fn close_table<O: Output>(&mut self, out: &mut O) -> Result<(), O::Error> {
        if !self.table.is_used() {
            return Ok(());
        }
        let is_missing = |held: &Held| matches!(held.what, What::Cluster(_));
        if self.held.iter().any(is_missing) {
            self.release(out)?;
        }
        let what = What::Table(self.table.index());
        let bytes = self.table.bytes();
        self.table = Table::new(self.table.index());
        self.hold(Held { what, bytes }, out)
    }

    /// "Header".
    fn header(&self, l1_at: u64, refcounts_at: u64, refcount_clusters: u32) -> Vec<u8> {
        let (feature, kind) = match self.compression {
            Compression::Deflate => (0u64, 0u8),
            Compression::Zstd => (1 << 3, 1),
        };
        let mut header = Vec::with_capacity(HEADER_LENGTH as usize + 8);
        header.extend_from_slice(b"QFI\xfb");
        header.extend_from_slice(&3u32.to_be_bytes());
        // No backing file.
        header.extend_from_slice(&[0; 12]);
        header.extend_from_slice(&CLUSTER_BITS.to_be_bytes());
        header.extend_from_slice(&self.size.to_be_bytes());
        // No encryption.
        header.extend_from_slice(&[0; 4]);
        header.extend_from_slice(&(self.l1.len() as u32).to_be_bytes());
        header.extend_from_slice(&l1_at.to_be_bytes());
        header.extend_from_slice(&refcounts_at.to_be_bytes());
        header.extend_from_slice(&refcount_clusters.to_be_bytes());
        // No snapshots.
        header.extend_from_slice(&[0; 12]);
        header.extend_from_slice(&feature.to_be_bytes());
        // Neither compatible nor auto-clear features.
        header.extend_from_slice(&[0; 16]);
        header.extend_from_slice(&refcounts::ORDER.to_be_bytes());
        header.extend_from_slice(&HEADER_LENGTH.to_be_bytes());
        header.push(kind);
        // The field's rest, and the end of the header extensions, of which
        // there are none.
        header.extend_from_slice(&[0; 15]);
        header
    }
}
