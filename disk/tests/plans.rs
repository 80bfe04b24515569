//! Plans against a model, and every parser against arbitrary bytes.

// Clippy knows tests, not what they share.
#![allow(clippy::unwrap_used)]

use hypercloud_disk::detect::{detect, judge_disk};
use hypercloud_disk::plan::{Access, PieceKind, Plan, Window};
use hypercloud_disk::qcow2::{Compression, Decoder, Header, L1Table};
use hypercloud_disk::{Extent, Refusal};
use proptest::prelude::*;

/// An image's metadata in memory; the rest reads as zeros.
struct Image {
    bytes: Vec<u8>,
    size: u64,
}

impl Image {
    /// A source of `size` bytes with an empty header and one L1 table.
    fn new(bits: u32, version: u32, extended: bool, virtual_size: u64, size: u64) -> Self {
        let mut image = Self {
            bytes: vec![0; size as usize],
            size,
        };
        let cluster = 1u64 << bits;
        let per_table = cluster / if extended { 16 } else { 8 };
        image.bytes[..4].copy_from_slice(b"QFI\xfb");
        image.put32(4, version);
        image.put32(20, bits);
        image.put64(24, virtual_size);
        image.put32(36, virtual_size.div_ceil(per_table * cluster) as u32);
        image.put64(40, 2 * cluster);
        image.put64(48, cluster);
        image.put32(56, 1);
        if version == 3 {
            image.put64(72, u64::from(extended) << 4);
            image.put32(96, 4);
            image.put32(100, 104);
        }
        image
    }

    fn put32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    fn put64(&mut self, at: u64, value: u64) {
        let at = at as usize;
        self.bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
    }

    fn read(&self, place: Extent) -> &[u8] {
        let end = place.end().min(self.size) as usize;
        &self.bytes[(place.start as usize).min(end)..end]
    }

    /// All windows, as an importer reads them.
    fn plan(&self, access: Access) -> Result<(Plan, Vec<Window>), Refusal> {
        let header = Header::parse(
            self.read(Extent {
                start: 0,
                length: 512,
            }),
            Some(self.size),
        )?;
        let l1 = L1Table::parse(&header, self.read(header.l1_place()))?;
        let plan = Plan::qcow2(header, l1, access);
        let mut windows = Vec::new();
        for window in 0..plan.windows() {
            let mut builder = plan.begin(window);
            for read in builder.reads() {
                let bytes = self.read(read.source);
                builder.accept(&read, bytes)?;
            }
            windows.push(builder.finish());
        }
        Ok((plan, windows))
    }
}

/// Judges what must hold of any plan of a source of that size.
fn judge(plan: &Plan, windows: &[Window], size: u64) {
    let mut at = 0;
    for window in windows {
        assert_eq!(window.disk.start, at);
        at = window.disk.end();
        let mut covered = window.zeros.clone();
        for job in window.jobs() {
            assert!(job.source.end() <= size);
            let pieces = window.pieces(job);
            assert!(!pieces.is_empty());
            let sum: u64 = pieces
                .iter()
                .map(|piece| u64::from(piece.disk_length))
                .sum();
            assert_eq!(sum, job.disk_bytes);
            for piece in pieces {
                assert!(job.source.start <= piece.host && piece.source().end() <= job.source.end());
                assert_eq!(piece.guest % plan.alignment(), 0);
                covered.push(piece.disk());
            }
            assert!(pieces.is_sorted_by_key(|piece| piece.host));
            assert!(job.source.length <= (2 << 20) + 4096 || pieces.len() == 1);
        }
        covered.sort_by_key(|extent| extent.start);
        let mut end = window.disk.start;
        for extent in covered {
            assert_eq!(extent.start, end, "no gap and no overlap");
            assert!(extent.length > 0);
            end = extent.end();
        }
        assert_eq!(end, window.disk.end());
    }
    assert_eq!(at, plan.virtual_size());
}

/// What an L2 entry says, before it is encoded.
#[derive(Debug, Clone, Copy)]
enum Entry {
    Unallocated,
    Zero { keeps: Option<u64> },
    Plain(u64),
    Compressed { offset: u64, sectors: u64 },
}

fn entries(version: u32) -> impl Strategy<Value = Entry> {
    let zero = prop::option::of(8u64..64).prop_map(|keeps| Entry::Zero { keeps });
    prop_oneof![
        Just(Entry::Unallocated),
        if version == 3 {
            zero.boxed()
        } else {
            Just(Entry::Unallocated).boxed()
        },
        (8u64..64).prop_map(Entry::Plain),
        (8u64 * 512..60 * 512, 0u64..2)
            .prop_map(|(offset, sectors)| Entry::Compressed { offset, sectors }),
    ]
}

/// A version, and entries it can have.
fn tables() -> impl Strategy<Value = (u32, Vec<Entry>)> {
    (2u32..=3).prop_flat_map(|version| {
        (
            Just(version),
            prop::collection::vec(entries(version), 1..150),
        )
    })
}

proptest! {
    /// Clusters of 512 bytes: 64 entries a table, the tables at the source's
    /// end, the data in clusters 8 to 64.
    #[test]
    fn a_plan_says_of_every_cluster_what_its_entry_says(
        (version, entries) in tables(),
        stream in any::<bool>(),
    ) {
        let virtual_size = entries.len() as u64 * 512;
        let tables = (entries.len() as u64).div_ceil(64);
        let first_table = 64 * 512;
        let mut image =
            Image::new(9, version, false, virtual_size, first_table + tables * 512);
        for table in 0..tables {
            image.put64(1024 + table * 8, (first_table + table * 512) | 1 << 63);
        }
        for (index, entry) in entries.iter().enumerate() {
            let word = match *entry {
                Entry::Unallocated => 0,
                Entry::Zero { keeps } => 1 | (keeps.unwrap_or(0) * 512),
                Entry::Plain(cluster) => (cluster * 512) | (1 << 63),
                Entry::Compressed { offset, sectors } => 1 << 62 | sectors << 61 | offset,
            };
            image.put64(first_table + index as u64 * 8, word);
        }
        let access = if stream { Access::Stream } else { Access::Ranges };
        let (plan, windows) = image.plan(access).unwrap();
        judge(&plan, &windows, image.size);

        let mut found = vec![None; entries.len()];
        for window in &windows {
            for job in window.jobs() {
                for piece in window.pieces(job) {
                    for cluster in 0..u64::from(piece.disk_length) / 512 {
                        let index = (piece.guest / 512 + cluster) as usize;
                        let host = piece.host + cluster * 512;
                        found[index] = Some((piece.kind, host, piece.source_length));
                    }
                }
            }
        }
        for (entry, found) in entries.iter().zip(found) {
            match (*entry, found) {
                (Entry::Unallocated | Entry::Zero { .. }, None) => {}
                (Entry::Plain(cluster), Some((PieceKind::Plain, host, _))) => {
                    prop_assert_eq!(host, cluster * 512);
                }
                (
                    Entry::Compressed { offset, sectors },
                    Some((PieceKind::Compressed, host, length)),
                ) => {
                    prop_assert_eq!(host, offset);
                    prop_assert_eq!(u64::from(length), (sectors + 1) * 512 - offset % 512);
                }
                (entry, found) => prop_assert!(false, "{:?} became {:?}", entry, found),
            }
        }
    }

    #[test]
    fn subclusters_are_read_one_by_one(
        maps in prop::collection::vec((any::<u32>(), any::<u32>()), 1..20),
    ) {
        let cluster = 16u64 << 10;
        let virtual_size = maps.len() as u64 * cluster;
        let mut image = Image::new(14, 3, true, virtual_size, (4 + 20) * cluster);
        image.put64(2 * cluster, 3 * cluster);
        for (index, (allocated, zeros)) in maps.iter().enumerate() {
            let at = 3 * cluster + index as u64 * 16;
            image.put64(at, (4 + index as u64) * cluster);
            image.put64(at + 8, u64::from(zeros & !allocated) << 32 | u64::from(*allocated));
        }
        let (plan, windows) = image.plan(Access::Ranges).unwrap();
        judge(&plan, &windows, image.size);
        let mut found = vec![0u32; maps.len()];
        for window in &windows {
            for job in window.jobs() {
                for piece in window.pieces(job) {
                    prop_assert_eq!(piece.host, piece.guest + 4 * cluster);
                    for step in 0..piece.disk_length / 512 {
                        let at = piece.guest / 512 + u64::from(step);
                        found[(at / 32) as usize] |= 1 << (at % 32);
                    }
                }
            }
        }
        for ((allocated, _), found) in maps.iter().zip(found) {
            prop_assert_eq!(*allocated, found);
        }
    }

    #[test]
    fn raw_plans_cover(size in prop_oneof![1u64..20_000_000, Just(5 << 30), Just((5 << 30) + 1)]) {
        let plan = Plan::raw(size).unwrap();
        let windows: Vec<_> = (0..plan.windows()).map(|w| plan.begin(w).finish()).collect();
        judge(&plan, &windows, size);
        prop_assert_eq!(plan.virtual_size(), size.next_multiple_of(512));
    }

    #[test]
    fn arbitrary_bytes_are_judged_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = detect(&bytes);
        let _ = judge_disk(&bytes);
        let _ = Header::parse(&bytes, None);
        let mut image = b"QFI\xfb\0\0\0\x03".to_vec();
        image.extend(&bytes);
        let _ = Header::parse(&image, Some(image.len() as u64));
        let mut cluster = vec![0; 4096];
        for compression in [Compression::Deflate, Compression::Zstd] {
            let _ = Decoder::new(compression).decode(0, &bytes, &mut cluster);
        }
        let mut frame = b"\x28\xb5\x2f\xfd".to_vec();
        frame.extend(&bytes);
        let _ = Decoder::new(Compression::Zstd).decode(0, &frame, &mut cluster);
    }

    /// Whatever header, L1 and L2 entries come to say: a plan that keeps its
    /// promises, or a refusal.
    #[test]
    fn damaged_metadata_gives_a_sound_plan_or_a_refusal(
        bits in prop::sample::select(vec![9u32, 12, 14, 16]),
        extended in any::<bool>(),
        damage in prop::collection::vec((0usize..120, any::<u8>()), 0..4),
        l1 in prop::collection::vec(any::<u64>(), 0..4),
        l2 in prop::collection::vec((any::<u64>(), any::<u64>()), 0..64),
        clean in any::<bool>(),
    ) {
        let extended = extended && bits >= 14;
        let cluster = 1u64 << bits;
        let mut image = Image::new(bits, 3, extended, 20 * cluster, 64 * cluster);
        image.put64(2 * cluster, 3 * cluster);
        for (index, (entry, bitmap)) in l2.iter().enumerate() {
            // Mostly plausible, so that more than the first check is met.
            let entry = if clean { entry & 0xc000_0000_003f_ffff & !(cluster - 1) } else { *entry };
            let step = if extended { 16 } else { 8 };
            if index as u64 * step + 16 < cluster {
                image.put64(3 * cluster + index as u64 * step, entry);
                if extended {
                    image.put64(3 * cluster + index as u64 * step + 8, *bitmap);
                }
            }
        }
        if !clean {
            for (index, entry) in l1.iter().enumerate() {
                image.put64(2 * cluster + index as u64 * 8, *entry);
            }
        }
        for (at, value) in damage {
            image.bytes[at] = value;
        }
        // A virtual size in the terabytes is lawful and slow to walk here.
        let head = image.read(Extent { start: 0, length: 512 });
        let small = Header::parse(head, Some(image.size))
            .is_ok_and(|header| header.virtual_size() < 1 << 32);
        if small && let Ok((plan, windows)) = image.plan(Access::Ranges) {
            judge(&plan, &windows, image.size);
        }
    }
}

#[test]
fn two_entries_never_share_a_table() {
    let mut image = Image::new(9, 3, false, 128 * 512, 64 * 512);
    image.put64(1024, 8 * 512);
    image.put64(1032, 8 * 512);
    let refusal = image.plan(Access::Ranges).unwrap_err();
    assert_eq!(refusal, Refusal::SharedTable { offset: 8 * 512 });
}

#[test]
fn tables_and_clusters_that_cannot_be_have_their_own_refusals() {
    let with = |l1: u64, l2: u64| {
        let mut image = Image::new(12, 3, false, 512 << 10, 20 << 12);
        image.put64(2 << 12, l1);
        image.put64(5 << 12, l2);
        image.plan(Access::Ranges).map(|_| ()).unwrap_err()
    };
    let l2 = 5 << 12;
    let table = "L2";
    assert_eq!(
        with(1 << 60 | l2, 0),
        Refusal::ReservedBits {
            table: "L1",
            entry: 1 << 60 | l2
        }
    );
    assert_eq!(
        with(l2 + 512, 0),
        Refusal::UnalignedTable {
            table,
            offset: l2 + 512
        }
    );
    assert_eq!(
        with(20 << 12, 0),
        Refusal::TableBeyondEnd {
            table,
            offset: 20 << 12
        }
    );
    assert_eq!(
        with(2 << 12, 0),
        Refusal::OverlappingTable {
            table,
            offset: 2 << 12
        }
    );
    assert_eq!(with(l2, 2), Refusal::ReservedBits { table, entry: 2 });
    assert_eq!(
        with(l2, 1 << 60),
        Refusal::ReservedBits {
            table,
            entry: 1 << 60
        }
    );
    assert_eq!(
        with(l2, 5 << 11),
        Refusal::MisplacedCluster { offset: 5 << 11 }
    );
    assert_eq!(
        with(l2, 20 << 12),
        Refusal::ClusterBeyondEnd { offset: 20 << 12 }
    );
    let compressed = 1 << 62;
    assert_eq!(
        with(l2, compressed | 100),
        Refusal::MisplacedCluster { offset: 100 }
    );
    assert_eq!(
        with(l2, compressed | 20 << 12),
        Refusal::ClusterBeyondEnd { offset: 20 << 12 }
    );
}

#[test]
fn compressed_clusters_are_jobs_of_bounded_output() {
    // 8192 compressed clusters of 64 KiB, each 16 bytes apart.
    let mut image = Image::new(16, 3, false, 512 << 20, 8 << 16);
    image.put64(2 << 16, 3 << 16);
    for index in 0..8192u64 {
        image.put64((3 << 16) + index * 8, 1 << 62 | ((4 << 16) + index * 16));
    }
    let (plan, windows) = image.plan(Access::Ranges).unwrap();
    judge(&plan, &windows, image.size);
    assert_eq!(windows.len(), 1);
    assert_eq!(windows[0].jobs().len(), 64);
    assert!(
        windows[0]
            .jobs()
            .iter()
            .all(|job| job.disk_bytes == 8 << 20)
    );
}
