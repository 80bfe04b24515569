//! How often each cluster of the image is used ("Host cluster management").
//!
//! One block counts 2 GiB of the image. As places only grow, it is complete
//! when something lies behind them.

use std::collections::{BTreeMap, BTreeSet};

use super::{CLUSTER, CLUSTER_BITS};

/// The logarithm of a counter's bits: 16 of them.
pub(super) const ORDER: u32 = 4;
/// Clusters that one block counts.
pub(super) const ENTRIES: u64 = CLUSTER as u64 / 2;

/// The block that is being filled, and where the others are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refcounts {
    range: u64,
    counts: Vec<u16>,
    /// The refcount table so far.
    table: Vec<u64>,
}

/// A block that is complete.
pub(super) struct Block {
    pub(super) range: u64,
    pub(super) bytes: Vec<u8>,
}

impl Default for Refcounts {
    fn default() -> Self {
        Self {
            range: 0,
            counts: vec![0; ENTRIES as usize],
            table: Vec::new(),
        }
    }
}

fn bytes(counts: &[u16]) -> Vec<u8> {
    counts
        .iter()
        .flat_map(|count| count.to_be_bytes())
        .collect()
}

impl Refcounts {
    pub(super) fn with(range: u64, counts: Vec<u16>, table: Vec<u64>) -> Option<Self> {
        let sound = counts.len() as u64 == ENTRIES;
        sound.then_some(Self {
            range,
            counts,
            table,
        })
    }

    pub(super) fn range(&self) -> u64 {
        self.range
    }

    pub(super) fn counts(&self) -> &[u16] {
        &self.counts
    }

    pub(super) fn table(&self) -> &[u64] {
        &self.table
    }

    /// Counts a cluster that is no earlier than any before it. Gives the
    /// block before, when it lies behind that.
    pub(super) fn add(&mut self, cluster: u64) -> Option<Block> {
        let range = cluster / ENTRIES;
        let done = (range != self.range).then(|| Block {
            range: self.range,
            bytes: bytes(&self.counts),
        });
        if done.is_some() {
            self.range = range;
            self.counts.fill(0);
        }
        if let Some(count) = self.counts.get_mut((cluster % ENTRIES) as usize) {
            *count = count.saturating_add(1);
        }
        done
    }

    /// A block has its place.
    pub(super) fn place(&mut self, range: u64, at: u64) {
        let index = range as usize;
        if self.table.len() <= index {
            self.table.resize(index + 1, 0);
        }
        if let Some(entry) = self.table.get_mut(index) {
            *entry = at;
        }
    }

    /// The refcount table, in whole clusters, and the last blocks: they end
    /// the image from cluster `first` on, in this order, and count each other
    /// too.
    pub(super) fn end(&mut self, first: u64) -> (Vec<u8>, Vec<Vec<u8>>) {
        let mut ranges = BTreeSet::from([self.range]);
        let (blocks_at, last) = loop {
            let highest = ranges.last().copied().unwrap_or_default();
            let table = ((highest + 1) * 8).div_ceil(CLUSTER as u64);
            let last = first + table + ranges.len() as u64 - 1;
            let before = ranges.len();
            ranges.extend(first / ENTRIES..=last / ENTRIES);
            if ranges.len() == before {
                break (first + table, last);
            }
        };
        let mut blocks: BTreeMap<u64, Vec<u16>> = ranges
            .iter()
            .map(|range| (*range, vec![0; ENTRIES as usize]))
            .collect();
        blocks.insert(self.range, std::mem::take(&mut self.counts));
        for cluster in first..=last {
            let counts = blocks.get_mut(&(cluster / ENTRIES));
            if let Some(count) = counts.and_then(|c| c.get_mut((cluster % ENTRIES) as usize)) {
                *count = count.saturating_add(1);
            }
        }
        for (range, cluster) in ranges.into_iter().zip(blocks_at..) {
            self.place(range, cluster << CLUSTER_BITS);
        }
        let mut table: Vec<u8> = self.table.iter().flat_map(|at| at.to_be_bytes()).collect();
        table.resize((blocks_at - first) as usize * CLUSTER, 0);
        (table, blocks.values().map(|counts| bytes(counts)).collect())
    }
}
