//! What the largest and the worst of tables cost in memory and in bytes read,
//! counted by an allocator of the test's own. The sources are imagined: only
//! what is asked for ever exists.

// Clippy knows tests, not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use hypercloud_disk::plan::{Access, Plan, Window};
use hypercloud_disk::qcow2::{Header, L1Builder, L1Table};
use hypercloud_disk::{Extent, Refusal};

const MIB: u64 = 1 << 20;

thread_local! {
    /// Bytes this thread holds, and the most it ever held.
    static HELD: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
}

struct Counting;

fn count(bytes: i64) {
    // Fails only while the thread ends.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + bytes, most.max(now + bytes)));
    });
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `work` gives, and the most memory it held at once.
fn measured<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = HELD.with(|held| {
        let (now, _) = held.get();
        held.set((now, now));
        now
    });
    let result = work();
    let most = HELD.with(|held| held.get().1);
    (result, (most - before) as u64)
}

/// An image that exists as it is asked for: 8 bytes at an offset.
struct Imagined<F> {
    word: F,
    read: Cell<u64>,
}

impl<F: Fn(u64) -> u64> Imagined<F> {
    fn new(word: F) -> Self {
        Self {
            word,
            read: Cell::new(0),
        }
    }

    fn bytes(&self, place: Extent) -> Vec<u8> {
        self.read.set(self.read.get() + place.length);
        let mut bytes = Vec::with_capacity(place.length as usize);
        for at in (place.start..place.end()).step_by(8) {
            bytes.extend((self.word)(at).to_be_bytes());
        }
        bytes
    }

    fn l1(&self, header: &Header) -> Result<L1Table, Refusal> {
        let mut builder = L1Builder::new(header);
        while let Some(place) = builder.wanted() {
            assert!(place.length <= MIB, "a part of a table is small");
            let bytes = self.bytes(place);
            builder.accept(&bytes)?;
        }
        builder.finish()
    }

    fn window(&self, plan: &Plan, window: u64) -> Result<Window, Refusal> {
        let mut builder = plan.begin(window);
        for read in builder.reads() {
            assert!(read.source.length <= 2 * MIB);
            let bytes = self.bytes(read.source);
            builder.accept(&read, &bytes)?;
        }
        Ok(builder.finish())
    }
}

/// A header of version 3 whose L1 table is the third cluster.
fn header(bits: u32, virtual_size: u64, source_size: u64) -> Header {
    let cluster = 1u64 << bits;
    let mut head = vec![0; 512];
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"QFI\xfb\0\0\0\x03");
    put(20, &bits.to_be_bytes());
    put(24, &virtual_size.to_be_bytes());
    let entries = virtual_size.div_ceil(cluster / 8 * cluster) as u32;
    put(36, &entries.to_be_bytes());
    put(40, &(2 * cluster).to_be_bytes());
    put(48, &cluster.to_be_bytes());
    put(56, &1u32.to_be_bytes());
    put(96, &4u32.to_be_bytes());
    put(100, &104u32.to_be_bytes());
    Header::parse(&head, Some(source_size)).unwrap()
}

/// 2^22 entries, the most there can be.
fn largest() -> Header {
    header(9, 128 << 30, 1 << 50)
}

#[test]
fn the_largest_l1_table_of_nothing_costs_next_to_nothing() {
    let header = largest();
    assert_eq!(header.l1_place().length, 32 * MIB);
    let image = Imagined::new(|_| 0);
    let (l1, most) = measured(|| image.l1(&header).unwrap());
    assert_eq!(l1.table(77), None);
    assert!(most < 2 * MIB, "{most} bytes");
    assert_eq!(image.read.get(), 32 * MIB);
}

#[test]
fn the_largest_l1_table_full_and_in_disorder_is_held_compactly() {
    let header = largest();
    let first = 64 * MIB;
    // Odd steps visit every place once.
    let place = |index: u64| first + (index * 2_654_435_761 % (1 << 22)) * 512;
    let image = Imagined::new(|at| place((at - 1024) / 8));
    let (l1, most) = measured(|| image.l1(&header).unwrap());
    for index in [0, 1, 77_777, (1 << 22) - 1] {
        assert_eq!(l1.table(index), Some(place(index)));
    }
    assert!(most < 52 * MIB, "{most} bytes");
}

#[test]
fn a_table_shared_by_the_first_and_the_last_entry_is_found() {
    let header = largest();
    let place = |index: u64| 64 * MIB + index % ((1 << 22) - 1) * 512;
    let image = Imagined::new(|at| place((at - 1024) / 8));
    let (refusal, most) = measured(|| image.l1(&header).unwrap_err());
    assert_eq!(refusal, Refusal::SharedTable { offset: 64 * MIB });
    assert!(most < 52 * MIB, "{most} bytes");
}

#[test]
fn a_table_that_the_file_cannot_hold_is_refused_before_it_is_read() {
    let cluster = 512u64;
    let mut head = vec![0; 512];
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"QFI\xfb\0\0\0\x03");
    put(20, &9u32.to_be_bytes());
    put(24, &(128u64 << 30).to_be_bytes());
    put(36, &(4u32 << 20).to_be_bytes());
    put(40, &(2 * cluster).to_be_bytes());
    put(48, &cluster.to_be_bytes());
    put(56, &1u32.to_be_bytes());
    put(96, &4u32.to_be_bytes());
    put(100, &104u32.to_be_bytes());
    let (refusal, most) = measured(|| Header::parse(&head, Some(MIB)).unwrap_err());
    assert_eq!(
        refusal,
        Refusal::TableBeyondEnd {
            table: "L1",
            offset: 1024
        }
    );
    assert!(most < 4096, "{most} bytes");
}

/// Clusters in disorder, none beside another: as many pieces and jobs as can
/// be; and with every other one zero, as many zeros.
#[test]
fn three_windows_of_the_worst_tables_are_small() {
    for zeros in [false, true] {
        let bits = 16;
        let header = header(bits, 1 << 40, 1 << 50);
        let cluster = 1u64 << bits;
        let tables = header.l1_place().length / 8;
        let first_table = 16 * cluster;
        let first = (first_table + tables * cluster).next_multiple_of(1 << 30);
        let image = Imagined::new(|at| {
            if at < first_table {
                let entry = (at - 2 * cluster) / 8;
                return first_table + entry * cluster;
            }
            let entry = (at - first_table) / 8;
            // Further apart than what is read through.
            let place = first + (entry * 2_654_435_761 % (1 << 24)) * 4 * cluster;
            if zeros && entry.is_multiple_of(2) {
                0
            } else {
                place
            }
        });
        let l1 = image.l1(&header).unwrap();
        let plan = Plan::qcow2(header, l1, Access::Ranges);
        let (windows, most) = measured(|| {
            (0..3)
                .map(|window| image.window(&plan, window).unwrap())
                .collect::<Vec<_>>()
        });
        let jobs: usize = windows.iter().map(|window| window.jobs().len()).sum();
        assert!(jobs >= 3 << 16, "{jobs} jobs");
        assert!(most < 32 * MIB, "{most} bytes");
    }
}

#[test]
fn a_job_reads_little_beside_its_pieces() {
    // Clusters of 512 bytes as far apart as is read through.
    let header = header(9, 32 * MIB, 1 << 50);
    let first_table = 1 << 20;
    let image = Imagined::new(|at| {
        if at < first_table {
            return first_table + (at - 1024) / 8 * 512;
        }
        (1 << 30) + (at - first_table) / 8 * (64 << 10)
    });
    let l1 = image.l1(&header).unwrap();
    let plan = Plan::qcow2(header, l1, Access::Ranges);
    let window = image.window(&plan, 0).unwrap();
    let read: u64 = window.jobs().iter().map(|job| job.source.length).sum();
    let pieces: usize = window
        .jobs()
        .iter()
        .map(|job| window.pieces(job).len())
        .sum();
    assert_eq!(pieces, 64 << 10);
    assert!(read <= pieces as u64 * ((64 << 10) + 4096));
}
