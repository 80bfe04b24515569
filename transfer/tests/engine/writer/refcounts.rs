//! The refcounts of an image, of any width.

use super::Image;

pub struct Refcounts {
    cluster: usize,
    order: u32,
    /// Of each cluster of the file.
    counts: Vec<u64>,
    pub blocks: usize,
    pub table_clusters: usize,
}

impl Refcounts {
    /// For a file of `taken` clusters beside those of the refcounts.
    pub fn new(cluster: usize, order: u32, taken: usize) -> Self {
        let per_block = (cluster * 8) >> order;
        let (mut blocks, mut table_clusters) = (1, 1);
        while per_block * blocks < taken + blocks + table_clusters {
            blocks += 1;
            table_clusters = (blocks * 8).div_ceil(cluster);
        }
        Self {
            cluster,
            order,
            counts: vec![0; per_block * blocks],
            blocks,
            table_clusters,
        }
    }

    pub fn add(&mut self, cluster: usize) {
        self.counts[cluster] += 1;
    }

    /// A compressed cluster in these sectors, the last included.
    pub fn add_sectors(&mut self, first: usize, last: usize) {
        for cluster in first * 512 / self.cluster..=last * 512 / self.cluster {
            self.add(cluster);
        }
    }

    pub fn write(&self, image: &mut Image, table: usize, blocks: &[usize]) {
        let per_block = (self.cluster * 8) >> self.order;
        for (block, place) in blocks.iter().enumerate() {
            image.put64(table + block * 8, *place as u64);
            let counts = &self.counts[block * per_block..][..per_block];
            for (index, count) in counts.iter().enumerate() {
                let bits = 1 << self.order;
                assert!(bits == 64 || count >> bits == 0, "a refcount overflows");
                if bits < 8 {
                    let at = place + index * bits / 8;
                    image.bytes[at] |= (*count as u8) << (index * bits % 8);
                } else {
                    let width = bits / 8;
                    let at = place + index * width;
                    image.bytes[at..at + width].copy_from_slice(&count.to_be_bytes()[8 - width..]);
                }
            }
        }
    }
}
