//! A small writer of qcow2 images, for layouts that QEMU itself never
//! chooses: tables and clusters in any order, anywhere in the file, any
//! refcount width, entries of every kind. What it writes passes
//! `qemu-img check`, so whatever a test damages afterwards is all that is
//! wrong with an image.

// Named, as another test binary takes this file in too.
#[path = "writer/refcounts.rs"]
mod refcounts;

use self::refcounts::Refcounts;
use crate::image::Random;

const COPIED: u64 = 1 << 63;
const COMPRESSED: u64 = 1 << 62;

/// The order of tables and clusters in the file.
#[derive(Debug, Clone, Copy)]
pub enum Order {
    /// Tables first, clusters in the disk's order.
    Usual,
    /// All clusters before all tables.
    TablesLast,
    /// Any, by a seed.
    Shuffled(u64),
}

/// How an image is laid out.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub version: u32,
    pub cluster_bits: u32,
    /// The width of a refcount is two to the power of this.
    pub refcount_order: u32,
    pub zstd: bool,
    pub extended: bool,
    pub order: Order,
    /// What the disk's last cluster lacks, a multiple of 512 below a cluster.
    pub lacking: u64,
}

impl Shape {
    /// What QEMU writes where nothing is asked for.
    pub fn usual(cluster_bits: u32) -> Self {
        Self {
            version: 3,
            cluster_bits,
            refcount_order: 4,
            zstd: false,
            extended: false,
            order: Order::Usual,
            lacking: 0,
        }
    }

    pub fn cluster(&self) -> usize {
        1 << self.cluster_bits
    }

    fn entry(&self) -> usize {
        if self.extended { 16 } else { 8 }
    }

    fn per_table(&self) -> usize {
        self.cluster() / self.entry()
    }
}

/// One cluster of the disk. What a version or shape cannot say is said by
/// the next best: no zero flags in version 2, no subclusters where entries
/// are not extended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cluster {
    Unallocated,
    /// Marked zero.
    Zero,
    /// Marked zero, with a cluster of old data behind it.
    Kept(Vec<u8>),
    Plain(Vec<u8>),
    Compressed(Vec<u8>),
    /// Only the subclusters in `allocated` have data.
    Partial {
        allocated: u32,
        zeros: u32,
        bytes: Vec<u8>,
    },
}

/// An image, with what is on its disk, and where its metadata went.
#[derive(Debug, Clone)]
pub struct Image {
    pub bytes: Vec<u8>,
    pub disk: Vec<u8>,
    pub l1: usize,
    /// Where the entry of each cluster is.
    pub entries: Vec<usize>,
}

impl Image {
    pub fn put32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    pub fn put64(&mut self, at: usize, value: u64) {
        self.bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
    }

    pub fn get64(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }
}

/// What takes clusters of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    RefcountTable,
    RefcountBlock(usize),
    L1,
    L2(usize),
    Data(usize),
    /// Compressed clusters, one behind the other.
    Run(usize),
}

/// A compressed cluster in a run.
struct Packed {
    cluster: usize,
    run: usize,
    at: usize,
    bytes: Vec<u8>,
}

pub fn compress(bytes: &[u8], zstd: bool) -> Vec<u8> {
    if zstd {
        return zstd::bulk::compress(bytes, 1).unwrap();
    }
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut out = vec![0; compressor.deflate_compress_bound(bytes.len())];
    let length = compressor.deflate_compress(bytes, &mut out).unwrap();
    out.truncate(length);
    out
}

/// The clusters as the shape can have them.
fn possible(shape: &Shape, clusters: &[Cluster]) -> Vec<Cluster> {
    let plain = |cluster: &Cluster| match cluster {
        Cluster::Zero if shape.version == 2 => Cluster::Unallocated,
        Cluster::Kept(bytes) if shape.version == 2 => Cluster::Plain(bytes.clone()),
        Cluster::Partial { bytes, .. } if !shape.extended => Cluster::Plain(bytes.clone()),
        Cluster::Compressed(bytes) if compress(bytes, shape.zstd).len() >= bytes.len() => {
            Cluster::Plain(bytes.clone())
        }
        cluster => cluster.clone(),
    };
    clusters.iter().map(plain).collect()
}

/// What reads as the disk.
fn disk(shape: &Shape, clusters: &[Cluster]) -> Vec<u8> {
    let size = shape.cluster();
    let mut disk = vec![0; clusters.len() * size];
    for (cluster, place) in clusters.iter().zip(disk.chunks_mut(size)) {
        match cluster {
            Cluster::Plain(bytes) | Cluster::Compressed(bytes) => place.copy_from_slice(bytes),
            Cluster::Partial {
                allocated, bytes, ..
            } => {
                let step = size / 32;
                for sub in (0..32).filter(|sub| allocated >> sub & 1 == 1) {
                    let range = sub * step..(sub + 1) * step;
                    place[range.clone()].copy_from_slice(&bytes[range]);
                }
            }
            Cluster::Unallocated | Cluster::Zero | Cluster::Kept(_) => {}
        }
    }
    disk.truncate(disk.len() - shape.lacking as usize);
    disk
}

/// Compressed clusters in runs, so few of them that no refcount overflows.
fn pack(shape: &Shape, clusters: &[Cluster]) -> (Vec<Packed>, Vec<usize>) {
    let most = if shape.refcount_order == 0 { 1 } else { 3 };
    let (mut packed, mut lengths) = (Vec::new(), Vec::new());
    let mut in_run = most;
    for (cluster, content) in clusters.iter().enumerate() {
        let Cluster::Compressed(bytes) = content else {
            continue;
        };
        if in_run == most {
            lengths.push(0);
            in_run = 0;
        }
        in_run += 1;
        let run = lengths.len() - 1;
        let bytes = compress(bytes, shape.zstd);
        let at = lengths[run];
        lengths[run] += bytes.len();
        packed.push(Packed {
            cluster,
            run,
            at,
            bytes,
        });
    }
    (packed, lengths)
}

/// Writes an image.
pub fn write(shape: &Shape, clusters: &[Cluster]) -> Image {
    let clusters = possible(shape, clusters);
    let size = shape.cluster();
    let tables = clusters.len().div_ceil(shape.per_table());
    let (packed, runs) = pack(shape, &clusters);

    let mut parts = vec![(Part::L1, (tables * 8).div_ceil(size))];
    for (table, mapped) in clusters.chunks(shape.per_table()).enumerate() {
        if mapped
            .iter()
            .any(|cluster| *cluster != Cluster::Unallocated)
        {
            parts.push((Part::L2(table), 1));
        }
    }
    for (index, cluster) in clusters.iter().enumerate() {
        if matches!(
            cluster,
            Cluster::Plain(_) | Cluster::Kept(_) | Cluster::Partial { .. }
        ) {
            parts.push((Part::Data(index), 1));
        }
    }
    for (run, length) in runs.iter().enumerate() {
        parts.push((Part::Run(run), length.div_ceil(size)));
    }
    let taken = 1 + parts.iter().map(|(_, count)| count).sum::<usize>();
    let mut refcounts = Refcounts::new(size, shape.refcount_order, taken);
    parts.push((Part::RefcountTable, refcounts.table_clusters));
    parts.extend((0..refcounts.blocks).map(|block| (Part::RefcountBlock(block), 1)));
    match shape.order {
        Order::Usual => {}
        Order::TablesLast => {
            parts.sort_by_key(|(part, _)| !matches!(part, Part::Data(_) | Part::Run(_)));
        }
        Order::Shuffled(seed) => {
            let mut random = Random::new(seed);
            for index in (1..parts.len()).rev() {
                parts.swap(index, random.below(index as u64 + 1) as usize);
            }
        }
    }
    let mut end = 1;
    let places: Vec<(Part, usize)> = parts
        .iter()
        .map(|(part, count)| {
            let place = end * size;
            (end..end + count)
                .filter(|_| !matches!(part, Part::Run(_)))
                .for_each(|cluster| refcounts.add(cluster));
            end += count;
            (*part, place)
        })
        .collect();
    refcounts.add(0);
    let at = |part: Part| places.iter().find(|(p, _)| *p == part).map(|(_, at)| *at);

    let mut image = Image {
        bytes: vec![0; end * size],
        disk: disk(shape, &clusters),
        l1: at(Part::L1).unwrap(),
        entries: Vec::new(),
    };
    header(
        &mut image,
        shape,
        tables,
        &refcounts,
        at(Part::RefcountTable).unwrap(),
    );
    for table in 0..tables {
        if let Some(place) = at(Part::L2(table)) {
            image.put64(image.l1 + table * 8, place as u64 | COPIED);
        }
    }
    for (index, cluster) in clusters.iter().enumerate() {
        let table = at(Part::L2(index / shape.per_table())).unwrap_or(0);
        let entry = table + index % shape.per_table() * shape.entry();
        image.entries.push(entry);
        if table == 0 {
            continue;
        }
        let host = at(Part::Data(index));
        let (word, bitmap) = match cluster {
            Cluster::Unallocated => (0, 0),
            Cluster::Compressed(_) => {
                let packed = packed.iter().find(|p| p.cluster == index).unwrap();
                let start = at(Part::Run(packed.run)).unwrap() + packed.at;
                image.bytes[start..start + packed.bytes.len()].copy_from_slice(&packed.bytes);
                let last = start + packed.bytes.len() - 1;
                let sectors = last / 512 - start / 512;
                refcounts.add_sectors(start / 512, last / 512);
                let word = (sectors as u64) << (62 - (shape.cluster_bits - 8)) | start as u64;
                (COMPRESSED | word, 0)
            }
            Cluster::Zero if shape.extended => (0, u64::from(u32::MAX) << 32),
            Cluster::Zero => (1, 0),
            Cluster::Kept(_) if shape.extended => (COPIED, u64::from(u32::MAX) << 32),
            Cluster::Kept(_) => (COPIED | 1, 0),
            Cluster::Plain(_) => (COPIED, u64::from(u32::MAX)),
            Cluster::Partial {
                allocated, zeros, ..
            } => (
                COPIED,
                u64::from(zeros & !allocated) << 32 | u64::from(*allocated),
            ),
        };
        image.put64(entry, word | host.unwrap_or(0) as u64);
        if shape.extended {
            image.put64(entry + 8, bitmap);
        }
        if let (
            Some(host),
            Cluster::Plain(bytes) | Cluster::Kept(bytes) | Cluster::Partial { bytes, .. },
        ) = (host, cluster)
        {
            image.bytes[host..host + size].copy_from_slice(bytes);
        }
    }
    let blocks: Vec<usize> = (0..refcounts.blocks)
        .map(|block| at(Part::RefcountBlock(block)).unwrap())
        .collect();
    refcounts.write(&mut image, at(Part::RefcountTable).unwrap(), &blocks);
    image
}

fn header(image: &mut Image, shape: &Shape, tables: usize, refcounts: &Refcounts, table: usize) {
    image.bytes[..4].copy_from_slice(b"QFI\xfb");
    image.put32(4, shape.version);
    image.put32(20, shape.cluster_bits);
    image.put64(24, image.disk.len() as u64);
    image.put32(36, tables as u32);
    image.put64(40, image.l1 as u64);
    image.put64(48, table as u64);
    image.put32(56, refcounts.table_clusters as u32);
    if shape.version == 3 {
        image.put64(
            72,
            u64::from(shape.zstd) << 3 | u64::from(shape.extended) << 4,
        );
        image.put32(96, shape.refcount_order);
        image.put32(100, 112);
        image.bytes[104] = u8::from(shape.zstd);
    }
}
