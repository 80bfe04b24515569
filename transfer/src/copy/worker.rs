//! Settling one piece, on a thread that may block.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use hypercloud_disk::Extent;
use tokio_util::sync::CancellationToken;

use super::BLOCK;
use super::differences::differing;
use super::pieces::{PIECE, Task};
use crate::buffer::Buffer;
use crate::error::TransferError;
use crate::pipeline::{Output, parts};
use crate::raw_disk::SourceDisk;
use crate::sink::Disk;

/// Both sides, and what is counted.
pub(super) struct Sides<'a> {
    pub(super) source: &'a SourceDisk,
    pub(super) disk: &'a Disk,
    /// The shortest run of zeros among data that is not written.
    pub(super) zero_run: usize,
    pub(super) read: &'a AtomicU64,
    pub(super) written: &'a AtomicU64,
    pub(super) halt: &'a CancellationToken,
}

/// The buffers of one thread, used again for every piece.
pub(super) struct Worker {
    source: Buffer,
    /// Empty where nothing is compared.
    target: Buffer,
}

impl Worker {
    /// Bytes that one worker holds.
    pub(super) fn size(compares: bool) -> usize {
        PIECE as usize * if compares { 2 } else { 1 }
    }

    pub(super) fn new(compares: bool) -> Self {
        Self {
            source: Buffer::fixed(PIECE as usize),
            target: Buffer::fixed(if compares { PIECE as usize } else { 0 }),
        }
    }

    /// Does what is to be done with a piece.
    pub(super) fn settle(
        &mut self,
        sides: &Sides<'_>,
        extent: Extent,
        task: Task,
    ) -> Result<(), TransferError> {
        // No longer than a piece wherever bytes are looked at.
        let length = extent.length.min(PIECE) as usize;
        match task {
            Task::Skip => Ok(()),
            Task::Zero => sides.zero(extent),
            Task::Copy => {
                sides.read_source(extent.start, blocks(&mut self.source, length))?;
                sides.put(extent.start, part(&self.source, 0..length))
            }
            Task::Clear => {
                let target = blocks(&mut self.target, length);
                sides.disk.read(extent.start, target)?;
                for found in parts(part(&self.target, 0..length), BLOCK) {
                    if !found.is_zero {
                        sides.zero(shifted(extent.start, found.start..found.end))?;
                    }
                }
                Ok(())
            }
            Task::Compare => {
                sides.read_source(extent.start, blocks(&mut self.source, length))?;
                let target = blocks(&mut self.target, length);
                sides.disk.read(extent.start, target)?;
                let source = part(&self.source, 0..length);
                for run in differing(source, part(&self.target, 0..length)) {
                    let bytes = part(source, run.clone());
                    let place = shifted(extent.start, run);
                    // However short: what was data there became a hole.
                    if bytes.iter().all(|byte| *byte == 0) {
                        sides.zero(place)?;
                    } else {
                        sides.put(place.start, bytes)?;
                    }
                }
                Ok(())
            }
        }
    }
}

impl Sides<'_> {
    fn read_source(&self, at: u64, into: &mut [u8]) -> Result<(), TransferError> {
        let read = self.source.read(at, into)?;
        self.read.fetch_add(read, Ordering::Relaxed);
        self.go_on()
    }

    fn put(&self, at: u64, bytes: &[u8]) -> Result<(), TransferError> {
        let output = Output {
            disk: self.disk,
            zero_run: self.zero_run,
            written: self.written,
            halt: self.halt,
        };
        // A disk's last block may be shorter than any run of zeros.
        let mut end = bytes.len();
        if self.zero_run <= BLOCK && short_zeros(bytes) > 0 {
            end -= short_zeros(bytes);
            self.zero(shifted(at, end..bytes.len()))?;
        }
        output.put(at, part(bytes, 0..end))
    }

    fn zero(&self, extent: Extent) -> Result<(), TransferError> {
        if self.disk.zero(extent, &|| self.halt.is_cancelled())? {
            Ok(())
        } else {
            Err(TransferError::Cancelled)
        }
    }

    fn go_on(&self) -> Result<(), TransferError> {
        if self.halt.is_cancelled() {
            Err(TransferError::Cancelled)
        } else {
            Ok(())
        }
    }
}

/// The beginning of a buffer, as long as the blocks that hold `length` bytes.
fn blocks(buffer: &mut Buffer, length: usize) -> &mut [u8] {
    let whole = length.next_multiple_of(BLOCK);
    buffer.get_mut(..whole).unwrap_or_default()
}

/// How long the last block is, when it is a short one and zeros.
fn short_zeros(bytes: &[u8]) -> usize {
    let (_, short) = bytes.as_chunks::<BLOCK>();
    if short.iter().all(|byte| *byte == 0) {
        short.len()
    } else {
        0
    }
}

fn part(bytes: &[u8], range: Range<usize>) -> &[u8] {
    bytes.get(range).unwrap_or_default()
}

fn shifted(start: u64, range: Range<usize>) -> Extent {
    Extent::between(start + range.start as u64, start + range.end as u64)
}
