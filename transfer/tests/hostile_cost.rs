//! What hostile images cost the engine: memory, counted by an allocator of the
//! test's own, and bytes read, counted by the kernel. Both are of this very
//! process, which is why this test has a binary of its own.

// Clippy knows tests, not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hypercloud_transfer::{
    CancellationToken, DiskFile, ImportRequest, Options, SourceSpec, SpacePolicy, TargetSpec,
    import,
};

#[path = "engine/image.rs"]
mod image;
#[path = "engine/writer.rs"]
mod writer;

use writer::{Cluster, Image, Shape, write};

const MIB: usize = 1 << 20;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes this process has read from files so far.
fn read_so_far() -> usize {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.unwrap().parse().unwrap()
}

/// What an import came to.
struct Cost {
    reason: &'static str,
    memory: usize,
    read: usize,
}

async fn cost(path: &Path) -> Cost {
    let target = tempfile::tempdir().unwrap();
    let disk = DiskFile {
        directory: target.path().into(),
        name: "disk.img".into(),
        owner: None,
        mode: 0o600,
    };
    let request = ImportRequest::new(SourceSpec::File(path.into()), TargetSpec::DiskFile(disk));
    // What the node agent uses, but for the room.
    let options = Options {
        space_policy: SpacePolicy::Sparse,
        ..Options::default()
    };
    let held = HELD.load(Ordering::Relaxed);
    MOST.store(held, Ordering::Relaxed);
    let read = read_so_far();
    let result = import(request, &options, Arc::new(()), CancellationToken::new()).await;
    Cost {
        reason: result.map_or_else(|error| error.reason(), |_| "taken"),
        memory: MOST.load(Ordering::Relaxed) - held,
        read: read_so_far() - read,
    }
}

/// A sparse file of that size with an image's bytes at its beginning.
fn sparse(path: &Path, image: &Image, size: u64) -> File {
    let file = File::create(path).unwrap();
    file.write_all_at(&image.bytes, 0).unwrap();
    file.set_len(size).unwrap();
    file
}

/// An image whose L1 table is the largest there can be: 2^22 entries at
/// 1 MiB, each with what `entry` says.
fn of_large_l1(path: &Path, entry: impl Fn(u64) -> u64) {
    let mut image = write(&Shape::usual(9), &[Cluster::Unallocated]);
    image.put64(24, 128 << 30);
    image.put32(36, 1 << 22);
    image.put64(40, 1 << 20);
    let file = sparse(path, &image, 4 << 30);
    let mut part = Vec::with_capacity(MIB);
    for index in 0..1 << 22 {
        part.extend(entry(index).to_be_bytes());
        if part.len() == MIB {
            let at = (1 << 20) + (index + 1) * 8 - MIB as u64;
            file.write_all_at(&part, at).unwrap();
            part.clear();
        }
    }
}

/// An image of `count` clusters of `bits`, changed.
fn changed(path: &Path, bits: u32, count: usize, change: impl Fn(&mut Image)) {
    let bytes: Vec<u8> = (0..1usize << bits).map(|at| (at % 251) as u8 + 1).collect();
    let mut image = write(
        &Shape::usual(bits),
        &vec![Cluster::Compressed(bytes); count],
    );
    change(&mut image);
    std::fs::write(path, &image.bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_image_costs_little() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    let l2 = |index: u64| (64 << 20) + index * 512;
    type Make<'a> = Box<dyn Fn(&Path) + 'a>;
    let cases: Vec<(&str, &str, usize, usize, Make)> = vec![
        (
            "a header that says too much",
            "TableBeyondEnd",
            MIB,
            128 << 10,
            Box::new(|path| changed(path, 9, 1, |i| i.put32(36, 1 << 22))),
        ),
        (
            "an L2 table of noise",
            "ClusterBeyondEnd",
            8 * MIB,
            256 << 10,
            Box::new(|path| {
                changed(path, 16, 64, |i| i.bytes[i.entries[0]..][..512].fill(0xff));
            }),
        ),
        (
            "a cluster that does not decode",
            "UndecodableCluster",
            32 * MIB,
            // All of the file, at most.
            2 * MIB,
            Box::new(|path| {
                changed(path, 16, 64, |i| {
                    let start = (i.get64(i.entries[0]) & ((1 << 54) - 1)) as usize;
                    i.bytes[start..start + 64].fill(0xff);
                });
            }),
        ),
        (
            "one cluster for 64 MiB of disk, by 1024 entries",
            "taken",
            32 * MIB,
            4 * MIB,
            Box::new(|path| {
                changed(path, 16, 1024, |i| {
                    let entry = i.get64(i.entries[0]);
                    (1..1024).for_each(|cluster| i.put64(i.entries[cluster], entry));
                });
            }),
        ),
        (
            "one cluster for 64 MiB of disk, by 32 entries",
            "taken",
            32 * MIB,
            4 * MIB,
            Box::new(|path| {
                changed(path, 21, 32, |i| {
                    let entry = i.get64(i.entries[0]);
                    (1..32).for_each(|cluster| i.put64(i.entries[cluster], entry));
                });
            }),
        ),
        (
            "the largest L1 table, its last entry a repetition",
            "SharedTable",
            // 8 bytes for each entry, while they double.
            56 * MIB,
            34 * MIB,
            Box::new(|path| of_large_l1(path, |index| l2(index % ((1 << 22) - 1)))),
        ),
    ];
    for (what, reason, memory, read, make) in cases {
        make(&path);
        let cost = cost(&path).await;
        println!("{what}: {} bytes held, {} read", cost.memory, cost.read);
        assert_eq!(cost.reason, reason, "{what}");
        assert!(cost.memory < memory, "{what}: {} bytes held", cost.memory);
        assert!(cost.read < read, "{what}: {} bytes read", cost.read);
    }
}
