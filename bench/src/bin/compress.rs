//! Compressing alone: how long the processors need for the clusters of a disk
//! when nothing has to be read and nothing is stored.
//!
//! The clusters that are not zeros are read into memory before the clock
//! starts. Threads then take runs of them in the disk's order, as an export
//! does, and compress each into one buffer that is used again. Prints the
//! seconds; with `--size` the bytes that they became behind that.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use hypercloud_disk::layout::CLUSTER;
use hypercloud_disk::qcow2::{Compression, Encoder};
use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// Measure how long the clusters of a raw disk take to compress.
#[derive(Debug, Parser)]
struct Arguments {
    /// A raw disk, a file or a device; its data has to fit into memory
    disk: PathBuf,
    /// How its clusters are compressed
    #[arg(value_enum, default_value_t)]
    compression: Kind,
    /// Threads that compress; one for each processor if not given
    #[arg(long)]
    threads: Option<usize>,
    /// Print the size of what they became as well
    #[arg(long)]
    size: bool,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Kind {
    #[default]
    Zlib,
    Zstd,
}

/// Clusters that a thread takes at once.
const RUN: usize = 16;
/// What is read at once.
const READ: usize = 16 * CLUSTER;

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let data = clusters(&arguments.disk)
        .with_context(|| format!("cannot read {}", arguments.disk.display()))?;
    if data.is_empty() {
        bail!("{} has nothing but zeros", arguments.disk.display());
    }
    let threads = match arguments.threads {
        Some(threads) => threads,
        None => std::thread::available_parallelism()?.get(),
    };
    let compression = match arguments.compression {
        Kind::Zlib => Compression::Deflate,
        Kind::Zstd => Compression::Zstd,
    };

    let next = AtomicUsize::new(0);
    let total = AtomicU64::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| compress(&data, &next, &total, compression));
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    if arguments.size {
        println!("{seconds:.3} {}", total.into_inner());
    } else {
        println!("{seconds:.3}");
    }
    Ok(())
}

/// The clusters of a disk that are not zeros, one behind the other.
fn clusters(path: &PathBuf) -> anyhow::Result<Vec<u8>> {
    let file = File::open(path)?;
    let end = rustix::fs::seek(&file, SeekFrom::End(0))?;
    let mut data = Vec::new();
    let mut buffer = vec![0; READ];
    let mut at = 0;
    while at < end {
        at = match rustix::fs::seek(&file, SeekFrom::Data(at)) {
            Ok(found) => found - found % CLUSTER as u64,
            Err(Errno::NXIO) => break,
            Err(_) => at,
        };
        let length = usize::try_from(end - at)?.min(READ);
        buffer.fill(0);
        let part = buffer.get_mut(..length).unwrap_or_default();
        file.read_exact_at(part, at)?;
        for cluster in buffer.chunks(CLUSTER) {
            if cluster.iter().any(|byte| *byte != 0) {
                data.extend_from_slice(cluster);
            }
        }
        at += length as u64;
    }
    Ok(data)
}

/// Compresses runs of clusters until none is left.
fn compress(data: &[u8], next: &AtomicUsize, total: &AtomicU64, compression: Compression) {
    let mut encoder = Encoder::new(compression);
    let mut out = vec![0; CLUSTER];
    loop {
        let first = next.fetch_add(RUN, Ordering::Relaxed);
        let run = data.chunks(CLUSTER).skip(first).take(RUN);
        if run.len() == 0 {
            return;
        }
        for cluster in run {
            let length = encoder.encode(cluster, &mut out).unwrap_or(CLUSTER);
            total.fetch_add(length as u64, Ordering::Relaxed);
        }
    }
}
