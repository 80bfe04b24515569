//! Cutting what is made into the parts that are sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hypercloud_disk::layout::{CLUSTER, Layout, Output};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::checkpoint::First;
use super::lane::Lane;
use super::size::{MOST_PARTS, Sizes};
use crate::buffer::Buffer;
use crate::checksum::hex;
use crate::digest::DigestMark;
use crate::error::TransferError;
use crate::object_store::ObjectStoreError;

/// A part that was made.
pub(super) struct Part {
    pub(super) number: u32,
    /// Where its first byte is in the object.
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
    /// Where the export can be gone on with when this part and all before it
    /// are stored.
    pub(super) mark: Option<Mark>,
    /// Whether there is no other.
    pub(super) is_all: bool,
    /// Given back when the part is let go.
    pub(super) slot: Option<OwnedSemaphorePermit>,
}

/// A place that an export can be resumed at.
pub(super) struct Mark {
    /// All of the disk before this is in the parts.
    pub(super) at: u64,
    pub(super) layout: Option<Layout>,
    pub(super) first: Option<First>,
    pub(super) digest: Option<oneshot::Receiver<DigestMark>>,
    /// Bytes read from the disk by then.
    pub(super) read: u64,
}

/// How parts are made, and where they go.
pub(super) struct Way {
    pub(super) sizes: Sizes,
    /// Whether the first part is sent last.
    pub(super) keeps_first: bool,
    /// Whether only the first part is wanted.
    pub(super) only_first: bool,
    /// The disk's size.
    pub(super) size: u64,
    /// Bytes between two marks, at least.
    pub(super) interval: u64,
    /// Bytes read from the disk, counted by who reads.
    pub(super) read: Arc<AtomicU64>,
    pub(super) slots: Arc<Semaphore>,
    pub(super) made: mpsc::Sender<Part>,
    pub(super) runtime: Handle,
    pub(super) halt: CancellationToken,
}

/// The parts of one object.
pub(super) struct Parts {
    way: Way,
    number: u32,
    start: u64,
    /// How long the part is to be that is being filled.
    length: u64,
    buffer: Vec<u8>,
    first: Option<Vec<u8>>,
    /// What tells the first part.
    kept: Option<First>,
    /// All of the disk before this is in the parts so far.
    at: u64,
    /// Where the last mark was, in the object.
    marked: u64,
    lane: Option<Lane>,
    /// What is being put in, and its place on the disk.
    current: Option<(Arc<Buffer>, u64)>,
}

/// The part that comes next, when some are stored already.
pub(super) struct Behind {
    pub(super) number: u32,
    pub(super) start: u64,
    pub(super) first: Option<Vec<u8>>,
    pub(super) kept: Option<First>,
    pub(super) at: u64,
}

impl Parts {
    pub(super) fn new(way: Way, lane: Option<Lane>, behind: Option<Behind>) -> Self {
        let (number, start, at) = match &behind {
            None => (1, 0, 0),
            Some(behind) => (behind.number, behind.start, behind.at.min(way.size)),
        };
        let length = way.sizes.next(number, way.size - at);
        let (first, kept) = behind.map_or((None, None), |behind| (behind.first, behind.kept));
        Self {
            way,
            number,
            start,
            length,
            buffer: Vec::with_capacity(length as usize),
            first,
            kept,
            at,
            marked: start,
            lane,
            current: None,
        }
    }

    /// How long the part is to be that is being filled.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// What is put in next comes from here.
    pub(super) fn begin(&mut self, buffer: &Arc<Buffer>, start: u64) {
        self.current = Some((Arc::clone(buffer), start));
    }

    /// All of it up to `end` was put in.
    pub(super) fn end(&mut self, end: u64) -> Result<(), TransferError> {
        let current = self.current.take();
        if let (Some(lane), Some((buffer, start))) = (&mut self.lane, current) {
            lane.take(&buffer, start, end)?;
        }
        Ok(())
    }

    /// Adds bytes of the disk as they are; parts end wherever they are full.
    pub(super) fn add(&mut self, mut bytes: &[u8]) -> Result<(), TransferError> {
        while !bytes.is_empty() {
            let room = self.room()?;
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.buffer.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    /// Adds zeros of the disk, up to a place in it.
    pub(super) fn add_zeros(&mut self, to: u64) -> Result<(), TransferError> {
        loop {
            let at = self.start + self.buffer.len() as u64;
            if at >= to {
                return Ok(());
            }
            if self.way.halt.is_cancelled() {
                return Err(TransferError::Cancelled);
            }
            let room = self.room()?;
            self.zeros(room.min((to - at) as usize));
        }
    }

    /// How much the part has room for; the next one when it has none.
    fn room(&mut self) -> Result<usize, TransferError> {
        if self.buffer.len() as u64 >= self.length {
            let at = self.start + self.buffer.len() as u64;
            self.next_part(Some((at, None)))?;
        }
        Ok((self.length - self.buffer.len() as u64) as usize)
    }

    /// Lets the part go; how long is the next one? `place` is where the disk
    /// can be gone on with.
    fn next_part(&mut self, place: Option<(u64, Option<&Layout>)>) -> Result<(), TransferError> {
        let bytes = std::mem::take(&mut self.buffer);
        let end = self.start + bytes.len() as u64;
        self.at = place.map_or(self.at, |(at, _)| at);
        if self.number == 1 && self.way.keeps_first {
            self.kept = Some(First {
                length: bytes.len() as u64,
                sha256: fingerprint(&bytes),
            });
            self.first = Some(bytes);
            if self.way.only_first {
                return Err(TransferError::Cancelled);
            }
        } else {
            let due = (end / 64).max(self.way.interval);
            let mark = match place {
                Some((at, layout)) if end - self.marked >= due => {
                    self.marked = end;
                    Some(self.mark(at, layout)?)
                }
                _ => None,
            };
            self.send(bytes, mark, false)?;
        }
        if self.number >= MOST_PARTS {
            return Err(TransferError::from_store(ObjectStoreError::TooManyParts));
        }
        self.number += 1;
        self.start = end;
        let left = self.way.size - self.at;
        self.length = self.way.sizes.next(self.number, left);
        self.buffer = Vec::with_capacity(self.length as usize);
        Ok(())
    }

    fn mark(&mut self, at: u64, layout: Option<&Layout>) -> Result<Mark, TransferError> {
        let digest = match &mut self.lane {
            None => None,
            Some(lane) => {
                match &self.current {
                    Some((buffer, start)) => lane.take(buffer, *start, at)?,
                    None => lane.zeros(at)?,
                }
                Some(lane.mark()?)
            }
        };
        Ok(Mark {
            at,
            layout: layout.cloned(),
            first: self.kept.clone(),
            digest,
            read: self.way.read.load(Ordering::Relaxed),
        })
    }

    fn send(
        &mut self,
        bytes: Vec<u8>,
        mark: Option<Mark>,
        is_all: bool,
    ) -> Result<(), TransferError> {
        let slots = Arc::clone(&self.way.slots);
        let slot = self.way.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.way.halt.cancelled() => None,
                slot = slots.acquire_owned() => slot.ok(),
            }
        });
        let slot = slot.ok_or(TransferError::Cancelled)?;
        let part = Part {
            number: self.number,
            start: self.start,
            bytes,
            mark,
            is_all,
            slot: Some(slot),
        };
        let sent = self.way.made.blocking_send(part);
        sent.map_err(|_| TransferError::Cancelled)
    }

    /// Lets the last parts go: what is left, and the first one, whose first
    /// bytes are `header` where there is one.
    pub(super) fn finish(mut self, header: Option<&[u8]>) -> Result<(), TransferError> {
        if let Some(mut lane) = self.lane.take() {
            lane.zeros(self.way.size)?;
        }
        if self.way.only_first {
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut self.buffer);
        if self.number == 1 {
            put_in(&mut bytes, header);
            return self.send(bytes, None, true);
        }
        self.send(bytes, None, false)?;
        if let Some(mut first) = self.first.take() {
            put_in(&mut first, header);
            self.number = 1;
            self.start = 0;
            self.send(first, None, false)?;
        }
        Ok(())
    }

    /// The first part, which was made to be sent last.
    pub(super) fn take_first(&mut self) -> Option<(Vec<u8>, First)> {
        self.first.take().zip(self.kept.take())
    }
}

fn put_in(bytes: &mut [u8], header: Option<&[u8]>) {
    let header = header.unwrap_or_default();
    if let Some(place) = bytes.get_mut(..header.len()) {
        place.copy_from_slice(header);
    }
}

/// What tells a part from another.
fn fingerprint(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

impl Output for Parts {
    type Error = TransferError;

    fn write(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    fn zeros(&mut self, count: usize) {
        self.buffer.resize(self.buffer.len() + count, 0);
    }

    fn cut(&mut self, layout: Option<&Layout>) -> Result<u64, TransferError> {
        let place = layout.map(|layout| {
            let at = layout.next() * CLUSTER as u64;
            (at.min(self.way.size), Some(layout))
        });
        self.next_part(place)?;
        Ok(self.length)
    }
}
