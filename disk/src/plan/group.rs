//! Pieces into jobs.

use super::{Job, Piece};
use crate::extent::Extent;

/// How much of the source a job reads, unless one piece is larger.
const SPAN: u64 = 2 << 20;
/// The largest gap between two pieces that is read through rather than
/// requested around.
const GAP: u64 = 64 << 10;
/// How much of the disk a job settles, unless one piece is larger. Well
/// compressed clusters would else make one job of a gigabyte.
const DISK: u64 = 8 << 20;
/// Where a job begins in the source: plain pieces of a cluster of 4 KiB or
/// more are then as aligned in memory as they are in the source.
const ALIGNMENT: u64 = 4096;

/// The jobs of pieces that are in the order of the source.
pub(super) fn jobs(pieces: &[Piece]) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        let source = piece.source();
        let disk = u64::from(piece.disk_length);
        match jobs.last_mut() {
            Some(job)
                if source.start <= job.source.end().saturating_add(GAP)
                    && source.end().max(job.source.end()) - job.source.start <= SPAN
                    && job.disk_bytes + disk <= DISK =>
            {
                job.source = Extent::between(job.source.start, source.end().max(job.source.end()));
                job.disk_bytes += disk;
                job.pieces.end = index + 1;
            }
            _ => jobs.push(Job {
                source: Extent::between(source.start & !(ALIGNMENT - 1), source.end()),
                disk_bytes: disk,
                pieces: index..index + 1,
            }),
        }
    }
    jobs
}
