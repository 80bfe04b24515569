//! What the layout writes, read back by the crate's own reader: every cluster
//! is where the tables say, every counter is right, and a layout that was
//! resumed writes the same.

// Clippy knows tests, not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use hypercloud_disk::extent::Extent;
use hypercloud_disk::layout::{CLUSTER, Data, Layout, Output};
use hypercloud_disk::qcow2::{Compression, Header, L1Table, Mapping};
use proptest::prelude::*;

const C: u64 = CLUSTER as u64;

/// One cluster of a disk: how far behind the one before, and how long it
/// became, or `None` where it stays plain.
type Step = (u64, Option<usize>);

/// Keeps the bytes, and the states at the ends of parts.
#[derive(Default)]
struct Image {
    bytes: Vec<u8>,
    /// How long the parts are, again and again.
    parts: Vec<u64>,
    ends: Vec<u64>,
    states: Vec<(Vec<u8>, usize)>,
}

impl Image {
    fn next_part(&self) -> u64 {
        self.parts[self.ends.len() % self.parts.len()] * C
    }
}

impl Output for Image {
    type Error = std::convert::Infallible;

    fn write(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn zeros(&mut self, count: usize) {
        self.bytes.resize(self.bytes.len() + count, 0);
    }

    fn cut(&mut self, layout: Option<&Layout>) -> Result<u64, Self::Error> {
        self.ends.push(self.bytes.len() as u64);
        if let Some(layout) = layout {
            assert_eq!(layout.end(), self.bytes.len() as u64);
            self.states.push((layout.state(), self.ends.len()));
        }
        Ok(self.next_part())
    }
}

/// Bytes of a cluster, which tell them from others'.
fn content(cluster: u64, length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (cluster.wrapping_mul(31) + 1 + at as u64 / 3) as u8 | 1)
        .collect()
}

fn clusters(steps: &[Step]) -> Vec<(u64, Option<usize>)> {
    let mut next = 0;
    steps
        .iter()
        .map(|(gap, length)| {
            let cluster = next + gap;
            next = cluster + 1;
            (cluster, *length)
        })
        .collect()
}

fn put(layout: &mut Layout, cluster: u64, length: Option<usize>, image: &mut Image) {
    let bytes = content(cluster, length.unwrap_or(CLUSTER));
    let data = match length {
        Some(_) => Data::Packed(&bytes),
        None => Data::Plain(&bytes),
    };
    layout.put(cluster, data, image).unwrap();
}

fn finish(layout: Layout, image: &mut Image) {
    let header = layout.finish(image).unwrap();
    image.bytes[..header.len()].copy_from_slice(&header);
}

fn write(size: u64, compression: Compression, steps: &[Step], parts: &[u64]) -> Image {
    let mut image = Image {
        parts: parts.to_vec(),
        ..Image::default()
    };
    let first = image.next_part();
    let mut layout = Layout::begin(size, compression, first, &mut image);
    for (cluster, length) in clusters(steps) {
        put(&mut layout, cluster, length, &mut image);
    }
    finish(layout, &mut image);
    image
}

fn table(bytes: &[u8], place: Extent) -> &[u8] {
    &bytes[place.start as usize..place.end() as usize]
}

fn number(bytes: &[u8], at: u64) -> u64 {
    u64::from_be_bytes(bytes[at as usize..][..8].try_into().unwrap())
}

/// Judges an image as `qemu-img check` does, and its content.
fn judge(image: &[u8], size: u64, steps: &[Step]) {
    let length = image.len() as u64;
    let header = Header::parse(image, Some(length)).unwrap();
    assert_eq!(header.virtual_size(), size.next_multiple_of(512));
    assert_eq!(header.cluster_size(), C);
    let l1 = L1Table::parse(&header, table(image, header.l1_place())).unwrap();
    let mut used: BTreeMap<u64, u64> = BTreeMap::new();
    let mut count = |start: u64, end: u64| {
        for cluster in start / C..end.div_ceil(C) {
            *used.entry(cluster).or_default() += 1;
        }
    };
    count(0, C);
    count(header.l1_place().start, header.l1_place().end());
    let refcounts_at = number(image, 48);
    let refcount_clusters = u64::from(u32::from_be_bytes(image[56..60].try_into().unwrap()));
    count(refcounts_at, refcounts_at + refcount_clusters * C);

    let mut wanted: BTreeMap<u64, Option<usize>> = clusters(steps).into_iter().collect();
    for entry in 0..size.div_ceil(C * 8192) {
        let Some(l2) = l1.table(entry) else { continue };
        assert_eq!(
            number(image, header.l1_place().start + entry * 8),
            l2 | 1 << 63
        );
        count(l2, l2 + C);
        for index in 0..8192 {
            let entry_bits = number(image, l2 + index * 8);
            let cluster = entry * 8192 + index;
            let mapping = Mapping::parse(&header, entry_bits, 0).unwrap();
            match (mapping, wanted.remove(&cluster)) {
                (Mapping::Zero, None) => assert_eq!(entry_bits, 0),
                (Mapping::Plain { host }, Some(None)) => {
                    assert!(entry_bits & 1 << 63 != 0);
                    count(host, host + C);
                    assert!(image[host as usize..][..CLUSTER] == content(cluster, CLUSTER));
                }
                (Mapping::Compressed { place }, Some(Some(length))) => {
                    assert!(place.length >= length as u64);
                    assert!(place.length < length as u64 + 512);
                    count(place.start, place.end());
                    assert!(image[place.start as usize..][..length] == content(cluster, length));
                }
                (mapping, wanted) => panic!("{cluster}: {mapping:?}, not {wanted:?}"),
            }
        }
    }
    assert!(wanted.is_empty(), "{wanted:?}");

    let blocks: Vec<u64> = (0..refcount_clusters * 8192)
        .map(|entry| number(image, refcounts_at + entry * 8))
        .collect();
    for block in blocks.iter().filter(|block| **block != 0) {
        assert!(block.is_multiple_of(C) && block + C <= length);
        *used.entry(block / C).or_default() += 1;
    }
    assert!(used.keys().all(|cluster| cluster * C < length));
    for cluster in 0..length / C {
        let block = blocks.get((cluster / 32768) as usize).copied();
        let counted = match block {
            None | Some(0) => 0,
            Some(block) => {
                let at = (block + cluster % 32768 * 2) as usize;
                u64::from(u16::from_be_bytes(image[at..at + 2].try_into().unwrap()))
            }
        };
        assert_eq!(
            counted,
            used.get(&cluster).copied().unwrap_or(0),
            "{cluster}"
        );
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![8 => Just(0u64), 2 => 1..20u64, 1 => 4000..20_000u64];
    let length = prop_oneof![
        3 => (1..CLUSTER).prop_map(Some),
        2 => (1..2000usize).prop_map(Some),
        2 => Just(None),
    ];
    prop::collection::vec((gap, length), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_is_laid_out_is_read_back(
        steps in steps(),
        tail in 1..3 * C,
        zstd in any::<bool>(),
        parts in prop::collection::vec(2..40u64, 1..4),
    ) {
        let compression = if zstd { Compression::Zstd } else { Compression::Deflate };
        let last = clusters(&steps).last().map_or(0, |(cluster, _)| *cluster);
        let size = last * C + tail;
        let image = write(size, compression, &steps, &parts);
        judge(&image.bytes, size, &steps);
        prop_assert_eq!(Header::parse(&image.bytes, None).unwrap().compression(), compression);
        let mut at = 0;
        for (end, part) in image.ends.iter().zip(parts.iter().cycle()) {
            prop_assert_eq!(end - at, part * C);
            at = *end;
        }
    }

    #[test]
    fn what_is_resumed_is_the_same(
        steps in steps(),
        parts in prop::collection::vec(2..40u64, 1..4),
        at in any::<prop::sample::Index>(),
    ) {
        let last = clusters(&steps).last().map_or(0, |(cluster, _)| *cluster);
        let size = (last + 1) * C;
        let image = write(size, Compression::Deflate, &steps, &parts);
        if image.states.is_empty() {
            return Ok(());
        }
        let (state, number) = &image.states[at.index(image.states.len())];
        let mut other = Image {
            bytes: image.bytes[..image.ends[number - 1] as usize].to_vec(),
            parts: parts.clone(),
            ends: image.ends[..*number].to_vec(),
            states: Vec::new(),
        };
        let mut layout = Layout::resume(state, other.next_part()).unwrap();
        for (cluster, length) in clusters(&steps) {
            if cluster >= layout.next() {
                put(&mut layout, cluster, length, &mut other);
            }
        }
        finish(layout, &mut other);
        prop_assert!(other.bytes == image.bytes);
    }

    #[test]
    fn no_state_is_taken_for_one(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let _ = Layout::resume(&noise, 4 * C);
        let image = write(C * 9000, Compression::Zstd, &[(0, None); 12], &[4]);
        let mut state = image.states[0].0.clone();
        let place = place.index(state.len());
        state[place] = byte;
        let _ = Layout::resume(&state, 4 * C);
        state.truncate(place);
        prop_assert_eq!(Layout::resume(&state, 4 * C), None);
    }
}

/// Loses little of the room, whatever comes between packed clusters.
#[test]
fn little_is_lost_between_packed_and_plain_clusters() {
    let steps: Vec<Step> = (0..4000)
        .map(|n| (0, (n % 3 != 0).then_some(20_000 + n * 13 % 9000)))
        .collect();
    let image = write(4000 * C, Compression::Deflate, &steps, &[128]);
    judge(&image.bytes, 4000 * C, &steps);
    let data: usize = steps
        .iter()
        .map(|(_, length)| length.unwrap_or(CLUSTER))
        .sum();
    let lost = image.bytes.len() - data;
    assert!(lost * 50 < data, "{lost} of {data}");
}

/// Keeps where tables lie, and of the data only how much it is.
#[derive(Default)]
struct Sparse {
    end: u64,
    tables: BTreeMap<u64, Vec<u8>>,
}

const FILL: [u8; 8] = [0xf5; 8];

impl Output for Sparse {
    type Error = std::convert::Infallible;

    fn write(&mut self, bytes: &[u8]) {
        if !bytes.starts_with(&FILL) {
            self.tables.insert(self.end, bytes.to_vec());
        }
        self.end += bytes.len() as u64;
    }

    fn zeros(&mut self, count: usize) {
        self.end += count as u64;
    }

    fn cut(&mut self, _: Option<&Layout>) -> Result<u64, Self::Error> {
        Ok(128 * C)
    }
}

/// An image of more than 2 GiB has several refcount blocks.
#[test]
fn every_block_counts_its_own_range() {
    let data = vec![0xf5; CLUSTER];
    for (clusters, length) in [
        (32_768 - 7, None),
        (32_768 - 6, None),
        (32_768 - 5, None),
        (32_768, None),
        (70_000, None),
        (100_000, Some(40_001)),
        (30_000, Some(65_535)),
    ] {
        let mut out = Sparse::default();
        let size = clusters * C;
        let mut layout = Layout::begin(size, Compression::Deflate, 128 * C, &mut out);
        for cluster in 0..clusters {
            let data = match length {
                None => Data::Plain(&data),
                Some(length) => Data::Packed(&data[..length]),
            };
            layout.put(cluster, data, &mut out).unwrap();
        }
        let header = layout.finish(&mut out).unwrap();
        let entries = |at: u64| -> Vec<u64> {
            let bytes = &out.tables[&at];
            bytes
                .as_chunks()
                .0
                .iter()
                .map(|entry| u64::from_be_bytes(*entry))
                .collect()
        };
        let mut used = vec![0u64; (out.end / C) as usize];
        used[0] += 1;
        let l1_at = number(&header, 40);
        used[(l1_at / C) as usize] += 1;
        for entry in entries(l1_at).into_iter().filter(|entry| *entry != 0) {
            let l2_at = entry & !(1 << 63);
            used[(l2_at / C) as usize] += 1;
            for entry in entries(l2_at).into_iter().filter(|entry| *entry != 0) {
                match length {
                    None => used[((entry & !(1 << 63)) / C) as usize] += 1,
                    Some(length) => {
                        let at = entry & ((1 << 54) - 1);
                        for cluster in at / C..=(at + length as u64 - 1) / C {
                            used[cluster as usize] += 1;
                        }
                    }
                }
            }
        }
        let refcounts_at = number(&header, 48);
        used[(refcounts_at / C) as usize] += 1;
        let blocks = entries(refcounts_at);
        for block in blocks.iter().filter(|block| **block != 0) {
            used[(block / C) as usize] += 1;
        }
        let counted: Vec<u64> = blocks
            .iter()
            .filter(|block| **block != 0)
            .flat_map(|block| out.tables[block].as_chunks::<2>().0.to_vec())
            .map(|count| u64::from(u16::from_be_bytes(count)))
            .collect();
        assert!(counted.len() >= used.len(), "{clusters}");
        assert!(counted[..used.len()] == used[..], "{clusters}");
        assert!(
            counted[used.len()..].iter().all(|count| *count == 0),
            "{clusters}"
        );
    }
}
