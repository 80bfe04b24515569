//! Cutting what is made into the parts that are sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hypercloud_disk::layout::{CLUSTER, Layout, Output};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::checkpoint::First;
use super::lane::{Lane, ZEROS};
use super::size::{LONG, Sizes};
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
    /// What it would have instead, where it is read again.
    pub(super) passed: Option<Passed>,
    /// Where the export can be gone on with when this part and all before it
    /// are stored.
    pub(super) mark: Option<Mark>,
    /// Whether there is no other.
    pub(super) is_all: bool,
    /// Given back when the part is let go.
    pub(super) slot: Option<OwnedSemaphorePermit>,
}

impl Part {
    /// How long it is.
    pub(super) fn length(&self) -> u64 {
        let held = self.bytes.len() as u64;
        self.passed.map_or(held, |passed| passed.length)
    }
}

/// A part that is not held: the disk has its bytes, in the same place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Passed {
    pub(super) length: u64,
    /// Their CRC-32C.
    pub(super) sum: u32,
}

impl Passed {
    fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.sum = crc32c::crc32c_append(self.sum, bytes);
    }

    fn add_zeros(&mut self, count: usize) {
        let mut left = count;
        while left > 0 {
            let zeros = ZEROS.get(..left.min(ZEROS.len())).unwrap_or_default();
            self.add(zeros);
            left -= zeros.len();
        }
    }
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
    /// Whether parts are not held, but read again.
    pub(super) rereads: bool,
    /// Whether only the first part is wanted.
    pub(super) only_first: bool,
    /// The disk's size.
    pub(super) size: u64,
    /// Bytes between two marks, at least.
    pub(super) interval: u64,
    /// Bytes read from the disk, counted by who reads.
    pub(super) read: Arc<AtomicU64>,
    pub(super) slots: Arc<Semaphore>,
    /// How many slots there are.
    pub(super) most: u32,
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
    /// The same where it is not held.
    passed: Option<Passed>,
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
            number,
            start,
            length,
            buffer: way.room_for(length),
            passed: way.rereads.then(Passed::default),
            way,
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
            self.write(now);
            bytes = later;
        }
        Ok(())
    }

    /// Adds zeros of the disk, up to a place in it.
    pub(super) fn add_zeros(&mut self, to: u64) -> Result<(), TransferError> {
        loop {
            let at = self.start + self.filled();
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
        if self.filled() >= self.length {
            let at = self.start + self.filled();
            self.next_part(Some((at, None)))?;
        }
        Ok((self.length - self.filled()) as usize)
    }

    /// How much the part has.
    fn filled(&self) -> u64 {
        let held = self.buffer.len() as u64;
        self.passed.map_or(held, |passed| passed.length)
    }

    /// Lets the part go; how long is the next one? `place` is where the disk
    /// can be gone on with.
    fn next_part(&mut self, place: Option<(u64, Option<&Layout>)>) -> Result<(), TransferError> {
        let end = self.start + self.filled();
        let bytes = std::mem::take(&mut self.buffer);
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
        self.number += 1;
        if !self.way.sizes.has(self.number) {
            return Err(TransferError::from_store(ObjectStoreError::TooManyParts));
        }
        self.start = end;
        let left = self.way.size - self.at;
        self.length = self.way.sizes.next(self.number, left);
        if self.length > LONG && !self.way.rereads {
            // The one on its way goes first.
            drop(self.slots(self.way.most)?);
        }
        self.buffer = self.way.room_for(self.length);
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

    /// Waits for so many slots.
    fn slots(&self, count: u32) -> Result<OwnedSemaphorePermit, TransferError> {
        let slots = Arc::clone(&self.way.slots);
        let slots = self.way.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.way.halt.cancelled() => None,
                slots = slots.acquire_many_owned(count) => slots.ok(),
            }
        });
        slots.ok_or(TransferError::Cancelled)
    }

    fn send(
        &mut self,
        bytes: Vec<u8>,
        mark: Option<Mark>,
        is_all: bool,
    ) -> Result<(), TransferError> {
        let slot = self.slots(1)?;
        let part = Part {
            number: self.number,
            start: self.start,
            bytes,
            passed: self.passed.as_mut().map(std::mem::take),
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

impl Way {
    /// Room for a part; a long one takes it as it comes.
    fn room_for(&self, length: u64) -> Vec<u8> {
        let held = if self.rereads { 0 } else { length.min(LONG) };
        Vec::with_capacity(held as usize)
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
        match &mut self.passed {
            None => self.buffer.extend_from_slice(bytes),
            Some(passed) => passed.add(bytes),
        }
    }

    fn zeros(&mut self, count: usize) {
        match &mut self.passed {
            None => self.buffer.resize(self.buffer.len() + count, 0),
            Some(passed) => passed.add_zeros(count),
        }
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
