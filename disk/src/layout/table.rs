//! One L2 table ("Standard Cluster Descriptor", "Compressed Clusters
//! Descriptor").

use super::{CLUSTER, CLUSTER_BITS, CLUSTER_BYTES, COPIED};

const ENTRIES: u64 = CLUSTER_BYTES / 8;
const COMPRESSED: u64 = 1 << 62;
/// The count of sectors stands above this bit, the offset below it.
const OFFSET_BITS: u32 = 62 - (CLUSTER_BITS - 8);
const SECTOR: u64 = 512;

/// The L2 table that is being filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    index: u64,
    /// Empty as long as nothing is in it.
    entries: Vec<u64>,
}

impl Table {
    /// Bytes of the disk that a table has.
    pub(super) const SPAN: u64 = ENTRIES * CLUSTER_BYTES;

    /// The one of an entry of the L1 table, with nothing in it.
    pub(super) fn new(index: u64) -> Self {
        Self {
            index,
            entries: Vec::new(),
        }
    }

    /// The same with what is in it.
    pub(super) fn with(index: u64, entries: Vec<u64>) -> Option<Self> {
        let sound = entries.is_empty() || entries.len() as u64 == ENTRIES;
        sound.then_some(Self { index, entries })
    }

    pub(super) fn index(&self) -> u64 {
        self.index
    }

    pub(super) fn entries(&self) -> &[u64] {
        &self.entries
    }

    /// The table that a cluster of the disk is in.
    pub(super) fn of(cluster: u64) -> u64 {
        cluster / ENTRIES
    }

    pub(super) fn is_used(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Something is to be in it.
    pub(super) fn begin(&mut self) {
        self.entries.resize(ENTRIES as usize, 0);
    }

    fn set(&mut self, cluster: u64, entry: u64) {
        self.begin();
        if let Some(place) = self.entries.get_mut((cluster % ENTRIES) as usize) {
            *place = entry;
        }
    }

    pub(super) fn set_plain(&mut self, cluster: u64, at: u64) {
        self.set(cluster, at | COPIED);
    }

    pub(super) fn set_packed(&mut self, cluster: u64, at: u64, length: u64) {
        let further = (at + length - 1) / SECTOR - at / SECTOR;
        self.set(cluster, COMPRESSED | further << OFFSET_BITS | at);
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(CLUSTER);
        for entry in &self.entries {
            bytes.extend_from_slice(&entry.to_be_bytes());
        }
        bytes
    }
}
