//! The workers of one export, and what they share.
//!
//! Each worker is a thread that may block. It takes the next stretch of the
//! disk that may have data, reads and packs it, and hands it in. Whoever
//! hands in the one that is missing puts in all that follow it, so that the
//! object grows in the disk's order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hypercloud_disk::Extent;
use hypercloud_disk::layout::{CLUSTER, Data, Layout};
use hypercloud_disk::qcow2;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::checkpoint::First;
use super::parts::Parts;
use super::request::ExportFormat;
use super::worker::{PIECE, Piece, Worker, buffer_size, compression};
use crate::buffer::{Buffer, Memory};
use crate::error::TransferError;
use crate::raw_disk::SourceDisk;

/// One disk on its way into parts.
pub(super) struct Course {
    source: Arc<SourceDisk>,
    format: ExportFormat,
    memory: Arc<Memory>,
    runtime: Handle,
    next: Mutex<Next>,
    /// Pieces whose turn has not come.
    early: Mutex<BTreeMap<u64, Piece>>,
    /// How many pieces were put in.
    settled: AtomicU64,
    image: Mutex<Option<Image>>,
    /// Workers that have not ended.
    active: AtomicUsize,
    /// All of the disk before this was put in.
    done: AtomicU64,
    read: Arc<AtomicU64>,
    halt: CancellationToken,
}

/// What the workers take next.
struct Next {
    at: u64,
    /// Its place in the order.
    turn: u64,
}

/// What the pieces are put in.
pub(super) struct Image {
    layout: Option<Layout>,
    parts: Parts,
}

impl Image {
    /// The beginning of an object, or what follows `layout`.
    pub(super) fn new(
        format: ExportFormat,
        size: u64,
        mut parts: Parts,
        layout: Option<Layout>,
    ) -> Self {
        let layout = match format {
            ExportFormat::Raw => None,
            ExportFormat::Qcow2(_) => Some(layout.unwrap_or_else(|| {
                let kind = compression(format).unwrap_or(qcow2::Compression::Deflate);
                let length = parts.length();
                Layout::begin(size, kind, length, &mut parts)
            })),
        };
        Self { layout, parts }
    }

    fn put(&mut self, piece: &Piece) -> Result<(), TransferError> {
        let Some(layout) = &mut self.layout else {
            self.parts.add_zeros(piece.start)?;
            self.parts.begin(&piece.buffer, piece.start);
            self.parts.add(piece.bytes(0..piece.length as usize))?;
            return self.parts.end(piece.end());
        };
        self.parts.begin(&piece.buffer, piece.start);
        for cluster in &piece.clusters {
            let data = match &cluster.packed {
                Some(packed) => Data::Packed(piece.bytes(packed.clone())),
                None => Data::Plain(piece.bytes(cluster.at..cluster.at + CLUSTER)),
            };
            let number = (piece.start + cluster.at as u64) / CLUSTER as u64;
            layout.put(number, data, &mut self.parts)?;
        }
        self.parts.end(piece.end())
    }

    fn finish(self, size: u64) -> Result<(), TransferError> {
        let Self { layout, mut parts } = self;
        match layout {
            None => {
                parts.add_zeros(size)?;
                parts.finish(None)
            }
            Some(layout) => {
                let header = layout.finish(&mut parts)?;
                parts.finish(Some(&header))
            }
        }
    }
}

impl Course {
    /// From `at` on, by so many workers.
    pub(super) fn new(
        source: Arc<SourceDisk>,
        format: ExportFormat,
        memory: Arc<Memory>,
        image: Image,
        at: u64,
        workers: usize,
        read: Arc<AtomicU64>,
        halt: CancellationToken,
    ) -> Self {
        Self {
            source,
            format,
            memory,
            runtime: Handle::current(),
            next: Mutex::new(Next { at, turn: 0 }),
            early: Mutex::default(),
            settled: AtomicU64::new(0),
            image: Mutex::new(Some(image)),
            active: AtomicUsize::new(workers),
            done: AtomicU64::new(at),
            read,
            halt,
        }
    }

    /// All of the disk before this is in parts.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// One worker, from its beginning to its end. The last one to end makes
    /// the last parts.
    pub(super) fn work(&self) -> Result<(), TransferError> {
        let result = self.take_pieces();
        if result.is_err() {
            self.halt.cancel();
        }
        let is_last = self.active.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last && !self.halt.is_cancelled() {
            let image = self.image.lock().take();
            if let Some(image) = image {
                image.finish(self.source.size())?;
            }
            self.done.store(self.source.size(), Ordering::Relaxed);
        }
        result
    }

    fn take_pieces(&self) -> Result<(), TransferError> {
        let mut worker = Worker::new(self.format);
        loop {
            // Before the turn: whoever has the first one needs nothing that
            // another holds.
            let buffer = self.buffer()?;
            let Some((turn, extent)) = self.begin() else {
                return Ok(());
            };
            let piece = worker.settle(&self.source, extent, buffer)?;
            self.read.fetch_add(piece.length, Ordering::Relaxed);
            self.hand_in(turn, piece)?;
        }
    }

    fn buffer(&self) -> Result<Buffer, TransferError> {
        let buffer = self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.halt.cancelled() => None,
                buffer = self.memory.take(buffer_size(self.format)) => Some(buffer),
            }
        });
        buffer.ok_or(TransferError::Cancelled)
    }

    /// Takes the next stretch that may have data. Stretches end at multiples
    /// of [`PIECE`], but for the last one.
    fn begin(&self) -> Option<(u64, Extent)> {
        let size = self.source.size();
        let mut next = self.next.lock();
        let data = self.source.next_data(next.at, size);
        if data >= size {
            next.at = size;
            return None;
        }
        let start = (data - data % CLUSTER as u64).max(next.at);
        let end = (start + 1).next_multiple_of(PIECE as u64).min(size);
        let turn = next.turn;
        next.at = end;
        next.turn += 1;
        Some((turn, Extent::between(start, end)))
    }

    /// Puts in a piece, or leaves it to whoever is at it. One that leaves has
    /// handed in before; whoever was at it looks once more behind that.
    fn hand_in(&self, turn: u64, piece: Piece) -> Result<(), TransferError> {
        self.early.lock().insert(turn, piece);
        while self.is_ready() {
            let Some(mut image) = self.image.try_lock() else {
                return Ok(());
            };
            while let Some(piece) = self.next_ready() {
                if let Some(image) = image.as_mut() {
                    image.put(&piece)?;
                }
                self.done.store(piece.end(), Ordering::Relaxed);
                self.settled.fetch_add(1, Ordering::AcqRel);
            }
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        let settled = self.settled.load(Ordering::Acquire);
        self.early.lock().contains_key(&settled)
    }

    fn next_ready(&self) -> Option<Piece> {
        let settled = self.settled.load(Ordering::Acquire);
        self.early.lock().remove(&settled)
    }

    /// Lets go of what was put in, when no worker is left that goes on.
    pub(super) fn stop(&self) {
        drop(self.image.lock().take());
    }

    /// The first part, which was made to be sent last.
    pub(super) fn take_first(&self) -> Option<(Vec<u8>, First)> {
        self.image.lock().as_mut()?.parts.take_first()
    }
}
