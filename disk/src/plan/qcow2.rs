//! The plan of a qcow2 image, from its L2 tables.

use super::{Access, Piece, PieceKind, Window};
use crate::extent::{Extent, complement};
use crate::qcow2::{Header, L1Table, Mapping};
use crate::refusal::Refusal;

/// Clusters of one window. Its L2 entries are 1 MiB, its pieces and jobs at
/// most 10 MiB; with clusters of 64 KiB it is 8 GiB of the disk.
const WINDOW_CLUSTERS: u64 = 128 << 10;
/// The same where a cluster can become 16 pieces.
const WINDOW_CLUSTERS_EXTENDED: u64 = 8 << 10;
/// The longest plain piece; neighbours are joined up to this.
const PIECE: u64 = 2 << 20;
/// The largest gap between two tables that is read through.
const TABLE_GAP: u64 = 64 << 10;
/// The most that is read at once for tables, unless one is larger.
const TABLE_SPAN: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Qcow2Plan {
    header: Header,
    l1: L1Table,
    access: Access,
}

/// A stretch of the source with L2 tables in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRead {
    /// The stretch.
    pub source: Extent,
    slices: Vec<Slice>,
}

/// A run of entries of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slice {
    source: Extent,
    /// The first entry's cluster on the disk.
    cluster: u64,
}

impl Qcow2Plan {
    pub(super) fn new(header: Header, l1: L1Table, access: Access) -> Self {
        Self { header, l1, access }
    }

    pub(super) fn for_access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    /// The smallest run that is mapped.
    pub(super) fn granule(&self) -> u64 {
        let cluster = self.header.cluster_size();
        if self.header.has_extended_l2() {
            cluster / 32
        } else {
            cluster
        }
    }

    fn window_clusters(&self) -> u64 {
        let most = if self.header.has_extended_l2() {
            WINDOW_CLUSTERS_EXTENDED
        } else {
            WINDOW_CLUSTERS
        };
        match self.access {
            Access::Ranges => most,
            // A second table would lie behind the first one's clusters.
            Access::Stream => most.min(self.header.l2_entries()),
        }
    }

    fn clusters(&self) -> u64 {
        self.header
            .virtual_size()
            .div_ceil(self.header.cluster_size())
    }

    pub(super) fn windows(&self) -> u64 {
        self.clusters().div_ceil(self.window_clusters())
    }

    pub(super) fn begin(&self, window: u64) -> WindowBuilder<'_> {
        let clusters = self.clusters();
        let first = window.saturating_mul(self.window_clusters()).min(clusters);
        let behind = first.saturating_add(self.window_clusters()).min(clusters);
        WindowBuilder {
            plan: self,
            first,
            behind,
            pieces: Vec::new(),
        }
    }
}

#[derive(Debug)]
pub(super) struct WindowBuilder<'a> {
    plan: &'a Qcow2Plan,
    first: u64,
    behind: u64,
    pieces: Vec<Piece>,
}

impl WindowBuilder<'_> {
    pub(super) fn reads(&self) -> Vec<TableRead> {
        let header = &self.plan.header;
        let per_table = header.l2_entries();
        let mut slices = Vec::new();
        let mut cluster = self.first;
        while cluster < self.behind {
            let table = cluster / per_table;
            let behind = self.behind.min((table + 1) * per_table);
            if let Some(offset) = self.plan.l1.table(table) {
                let start = offset + cluster % per_table * header.l2_entry_size();
                let length = (behind - cluster) * header.l2_entry_size();
                slices.push(Slice {
                    source: Extent { start, length },
                    cluster,
                });
            }
            cluster = behind;
        }
        slices.sort_unstable_by_key(|slice| slice.source.start);
        let mut reads: Vec<TableRead> = Vec::new();
        for slice in slices {
            match reads.last_mut() {
                Some(read)
                    if slice.source.start <= read.source.end().saturating_add(TABLE_GAP)
                        && slice.source.end() - read.source.start <= TABLE_SPAN =>
                {
                    read.source = Extent::between(read.source.start, slice.source.end());
                    read.slices.push(slice);
                }
                _ => reads.push(TableRead {
                    source: slice.source,
                    slices: vec![slice],
                }),
            }
        }
        reads
    }

    pub(super) fn accept(&mut self, read: &TableRead, bytes: &[u8]) -> Result<(), Refusal> {
        let header = &self.plan.header;
        for slice in &read.slices {
            let from = (slice.source.start - read.source.start) as usize;
            let table = bytes
                .get(from..from.saturating_add(slice.source.length as usize))
                .ok_or(Refusal::Truncated {
                    needed: slice.source.end(),
                    available: read.source.start.saturating_add(bytes.len() as u64),
                })?;
            for (cluster, entry) in
                (slice.cluster..).zip(table.chunks_exact(header.l2_entry_size() as usize))
            {
                let word = |at: usize| {
                    entry
                        .get(at..)
                        .and_then(|rest| rest.first_chunk())
                        .map_or(0, |bytes| u64::from_be_bytes(*bytes))
                };
                let mapping = Mapping::parse(header, word(0), word(8))?;
                self.map(cluster, mapping)?;
            }
        }
        Ok(())
    }

    fn map(&mut self, cluster: u64, mapping: Mapping) -> Result<(), Refusal> {
        let header = &self.plan.header;
        let size = header.cluster_size();
        let guest = cluster * size;
        // The last cluster may reach beyond the disk's end.
        let length = size.min(header.virtual_size() - guest);
        match mapping {
            Mapping::Zero => Ok(()),
            Mapping::Plain { host } => self.plain(host, guest, length),
            Mapping::Partial { host, allocated } => {
                let step = size / 32;
                allocated.runs().try_for_each(|(first, count)| {
                    let from = u64::from(first) * step;
                    let to = (from + u64::from(count) * step).min(length);
                    if from < to {
                        self.plain(host + from, guest + from, to - from)
                    } else {
                        Ok(())
                    }
                })
            }
            Mapping::Compressed { place } => {
                self.pieces.push(Piece {
                    host: place.start,
                    guest,
                    // A compressed cluster's place is at most two clusters
                    // long, a cluster at most 2 MiB.
                    source_length: place.length as u32,
                    disk_length: length as u32,
                    kind: PieceKind::Compressed,
                });
                Ok(())
            }
        }
    }

    fn plain(&mut self, host: u64, guest: u64, length: u64) -> Result<(), Refusal> {
        let end = host + length;
        if self
            .plan
            .header
            .source_size()
            .is_some_and(|size| end > size)
        {
            return Err(Refusal::ClusterBeyondEnd { offset: host });
        }
        match self.pieces.last_mut() {
            Some(last)
                if last.kind == PieceKind::Plain
                    && last.source().end() == host
                    && last.disk().end() == guest
                    && u64::from(last.disk_length) + length <= PIECE =>
            {
                last.source_length += length as u32;
                last.disk_length += length as u32;
            }
            _ => self.pieces.push(Piece {
                host,
                guest,
                source_length: length as u32,
                disk_length: length as u32,
                kind: PieceKind::Plain,
            }),
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Window {
        let header = &self.plan.header;
        let end = (self.behind * header.cluster_size()).min(header.virtual_size());
        let disk = Extent::between(self.first * header.cluster_size(), end);
        self.pieces.sort_unstable_by_key(|piece| piece.guest);
        let zeros = complement(disk, self.pieces.iter().map(Piece::disk));
        Window::new(disk, zeros, self.pieces)
    }
}
