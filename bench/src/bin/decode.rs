//! Decoding alone: how long the processors need for an image's compressed
//! clusters when nothing has to be fetched and nothing is written.
//!
//! The image is read into memory and its clusters found before the clock
//! starts. Threads then take runs of clusters in the order of the source, as
//! an import does, and decode each into one buffer that is used again.
//! Prints the seconds.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Parser;
use hypercloud_disk::extent::Extent;
use hypercloud_disk::plan::{Access, Piece, PieceKind, Plan};
use hypercloud_disk::qcow2::{Compression, Decoder, Header, L1Table};

/// Measure how long the compressed clusters of a qcow2 image take to decode.
#[derive(Debug, Parser)]
struct Arguments {
    /// A qcow2 image; it has to fit into memory
    image: PathBuf,
    /// Threads that decode; one for each processor if not given
    #[arg(long)]
    threads: Option<usize>,
}

/// Clusters that a thread takes at once.
const RUN: usize = 32;

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let image = std::fs::read(&arguments.image)
        .with_context(|| format!("cannot read {}", arguments.image.display()))?;
    let header = Header::parse(&image, Some(image.len() as u64))?;
    let cluster = usize::try_from(header.cluster_size())?;
    let compression = header.compression();
    let pieces = compressed(&image, header)?;
    if pieces.is_empty() {
        bail!("{} has no compressed cluster", arguments.image.display());
    }
    let threads = match arguments.threads {
        Some(threads) => threads,
        None => std::thread::available_parallelism()?.get(),
    };

    let next = AtomicUsize::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let decoding: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| decode(&image, &pieces, &next, compression, cluster)))
            .collect();
        decoding.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| bail!("a thread that decodes died"))
        })
    })?;
    println!("{:.3}", start.elapsed().as_secs_f64());
    Ok(())
}

/// The image's compressed clusters, in the order of the source.
fn compressed(image: &[u8], header: Header) -> anyhow::Result<Vec<Piece>> {
    let l1 = L1Table::parse(&header, bytes(image, header.l1_place())?)?;
    let plan = Plan::qcow2(header, l1, Access::Ranges);
    let mut pieces = Vec::new();
    for window in 0..plan.windows() {
        let mut builder = plan.begin(window);
        for read in builder.reads() {
            builder.accept(&read, bytes(image, read.source)?)?;
        }
        let window = builder.finish();
        for job in window.jobs() {
            pieces.extend(
                window
                    .pieces(job)
                    .iter()
                    .filter(|piece| piece.kind == PieceKind::Compressed),
            );
        }
    }
    Ok(pieces)
}

/// Decodes runs of clusters until none is left.
fn decode(
    image: &[u8],
    pieces: &[Piece],
    next: &AtomicUsize,
    compression: Compression,
    cluster: usize,
) -> anyhow::Result<()> {
    let mut decoder = Decoder::new(compression);
    let mut out = vec![0; cluster];
    loop {
        let first = next.fetch_add(RUN, Ordering::Relaxed);
        let run = pieces.iter().skip(first).take(RUN);
        if run.len() == 0 {
            return Ok(());
        }
        for piece in run {
            decoder.decode(piece.host, bytes(image, piece.source())?, &mut out)?;
        }
    }
}

/// What of the image an extent names. A compressed cluster's last sector may
/// reach beyond the image's end.
fn bytes(image: &[u8], place: Extent) -> anyhow::Result<&[u8]> {
    let end = usize::try_from(place.end())?.min(image.len());
    image
        .get(usize::try_from(place.start)?..end)
        .with_context(|| format!("the image ends before byte {}", place.start))
}
