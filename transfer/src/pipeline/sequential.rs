//! A raw disk whose bytes come in order, and whose size shows at the end.
//!
//! Each part is written by a thread of its own, several at once, while the
//! next is on its way. Where the bytes are in blocks that can be unpacked on
//! their own, each thread unpacks one and writes it. There is no position to
//! come back to: what is packed is imported from its beginning.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hypercloud_disk::plan::raw_virtual_size;
use hypercloud_disk::{Extent, MAX_VIRTUAL_SIZE, Refusal};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::worker::Output;
use super::{ended, workers};
use crate::error::{SourceError, TargetError, TransferError};
use crate::observer::{Observer, Progress};
use crate::options::Options;
use crate::sink::Disk;
use crate::source::unpack::{Block, BlockReader, Blocks, Packed, Part, Plain};

/// All that such an import runs on.
pub(crate) struct Sequential {
    pub(crate) packed: Arc<Packed>,
    pub(crate) supply: Supply,
    /// The size the disk is said to have.
    pub(crate) size: Option<u64>,
    pub(crate) disk: Arc<Disk>,
    /// The most that the target takes.
    pub(crate) room: u64,
    /// How far a device reaches, which is zeroed behind the disk's end.
    pub(crate) capacity: u64,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) options: Options,
}

/// How the bytes come.
pub(crate) enum Supply {
    /// In order.
    Stream {
        /// What was read already.
        first: Option<Part>,
        /// What follows it.
        rest: Plain,
    },
    /// In blocks, in any order.
    Blocks {
        reader: Arc<BlockReader>,
        left: VecDeque<Block>,
    },
}

impl Supply {
    /// The fastest way that there is.
    pub(crate) fn new(
        packed: &Arc<Packed>,
        first: Option<Part>,
        rest: Plain,
        blocks: Option<Blocks>,
        options: &Options,
    ) -> Self {
        // A digest is of the packed bytes in their order.
        let blocks = blocks.filter(|_| packed.tap().is_none());
        let by_blocks = blocks.and_then(|blocks| {
            let reader = packed.by_blocks(&blocks, workers(options))?;
            Some((reader, blocks))
        });
        match by_blocks {
            Some((reader, blocks)) => Self::Blocks {
                reader: Arc::new(reader),
                left: blocks.blocks.into(),
            },
            None => Self::Stream { first, rest },
        }
    }

    fn at_once(&self, options: &Options) -> usize {
        match self {
            Self::Stream { .. } => workers(options),
            Self::Blocks { reader, .. } => reader.at_once,
        }
    }

    /// What comes next. May be dropped and called again.
    async fn next(&mut self) -> Result<Option<Supplied>, SourceError> {
        match self {
            Self::Stream { first, rest } => match first.take() {
                Some(part) => Ok(Some(Supplied::Part(part))),
                None => Ok(rest.next().await?.map(Supplied::Part)),
            },
            Self::Blocks { reader, left } => Ok(left
                .pop_front()
                .map(|block| Supplied::Block(Arc::clone(reader), block))),
        }
    }
}

/// What is to be written next.
enum Supplied {
    Part(Part),
    Block(Arc<BlockReader>, Block),
}

/// The state of a run.
struct Run {
    tasks: JoinSet<Result<u64, TransferError>>,
    flushing: Option<JoinHandle<Result<(), TransferError>>>,
    /// Where on the disk the next part belongs.
    at: u64,
    done: u64,
    written: Arc<AtomicU64>,
    /// `written` when the last flush began.
    flushed_at: u64,
    halt: CancellationToken,
}

impl Sequential {
    /// Writes all there is. When this returns, nothing is being written.
    pub(crate) async fn run(
        mut self,
        cancel: &CancellationToken,
    ) -> Result<Progress, TransferError> {
        let mut run = Run {
            tasks: JoinSet::new(),
            flushing: None,
            at: 0,
            done: 0,
            written: Arc::new(AtomicU64::new(0)),
            flushed_at: 0,
            halt: cancel.child_token(),
        };
        let halt_when_dropped = run.halt.clone().drop_guard();
        let result = self.drive(&mut run, cancel).await;
        drop(halt_when_dropped);
        while run.tasks.join_next().await.is_some() {}
        if let Some(flushing) = run.flushing.take() {
            let _ = flushing.await;
        }
        result.map(|total| Progress {
            total,
            done: total,
            ..self.progress(&run)
        })
    }

    /// The disk's size, once all of it is written.
    async fn drive(
        &mut self,
        run: &mut Run,
        cancel: &CancellationToken,
    ) -> Result<u64, TransferError> {
        let at_once = self.supply.at_once(&self.options);
        let mut ticker = tokio::time::interval(self.options.progress_interval);
        ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // Whether there may be more, and whether the rest is being zeroed.
        let (mut more, mut zeroing) = (true, false);
        loop {
            if !more && run.tasks.is_empty() && run.flushing.is_none() {
                if zeroing {
                    return Ok(run.at.next_multiple_of(512));
                }
                let size = self.judge_size(run.at)?;
                self.zero(run, Extent::between(size, self.capacity));
                zeroing = true;
            }
            let room = run.tasks.len() < at_once && !self.is_behind(run);
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(TransferError::Cancelled),
                Some(joined) = run.tasks.join_next(), if !run.tasks.is_empty() => {
                    run.done += joined.unwrap_or(Err(TransferError::Worker))?;
                    self.flush(run);
                }
                flushed = ended(&mut run.flushing), if run.flushing.is_some() => {
                    run.flushing = None;
                    flushed?;
                }
                _ = ticker.tick() => self.observer.progress(self.progress(run)),
                supplied = self.supply.next(), if more && room => match supplied? {
                    Some(Supplied::Part(part)) => self.write(run, part)?,
                    Some(Supplied::Block(reader, block)) => {
                        self.unpack(run, reader, block)?;
                    }
                    None => more = false,
                },
            }
        }
    }

    /// Goes on to `end` on the disk, if that may be.
    fn advance(&self, run: &mut Run, end: u64) -> Result<(), TransferError> {
        run.at = end;
        let padded = end.next_multiple_of(512);
        if self.size.is_some_and(|size| padded > size) {
            return Err(self.changed());
        }
        if padded > self.room {
            let available = self.room;
            return Err(TargetError::Outgrown { available }.into());
        }
        if padded > MAX_VIRTUAL_SIZE {
            return Err(Refusal::AbsurdVirtualSize(padded).into());
        }
        Ok(())
    }

    /// Begins to write the next part.
    fn write(&self, run: &mut Run, mut part: Part) -> Result<(), TransferError> {
        let at = run.at;
        self.advance(run, at + part.as_ref().len() as u64)?;
        part.pad();
        let writing = Writing::new(&self.disk, run);
        run.tasks.spawn_blocking(move || writing.put(at, &part));
        Ok(())
    }

    /// Begins to unpack and write the next block.
    fn unpack(
        &self,
        run: &mut Run,
        reader: Arc<BlockReader>,
        block: Block,
    ) -> Result<(), TransferError> {
        self.advance(run, block.plain.end())?;
        let writing = Writing::new(&self.disk, run);
        run.tasks.spawn_blocking(move || {
            let mut bytes = 0;
            reader.unpack(block, &writing.halt, |at, mut part| {
                // Only the disk's last part is not of whole sectors.
                part.pad();
                bytes += writing.put(at, &part)?;
                Ok(())
            })?;
            Ok(bytes)
        });
        Ok(())
    }

    fn zero(&self, run: &mut Run, extent: Extent) {
        let (disk, halt) = (Arc::clone(&self.disk), run.halt.clone());
        run.tasks.spawn_blocking(move || {
            if disk.zero(extent, &|| halt.is_cancelled())? {
                Ok(0)
            } else {
                Err(TransferError::Cancelled)
            }
        });
    }

    fn judge_size(&self, length: u64) -> Result<u64, TransferError> {
        let size = raw_virtual_size(length)?;
        if self.size.is_some_and(|said| said != size) {
            return Err(self.changed());
        }
        Ok(size)
    }

    fn changed(&self) -> TransferError {
        SourceError::SourceChanged(self.packed.shown().to_owned()).into()
    }

    fn progress(&self, run: &Run) -> Progress {
        Progress {
            total: self.size.unwrap_or_default(),
            done: run.done,
            received: self.packed.received(),
            written: run.written.load(Ordering::Relaxed),
        }
    }

    fn unflushed(&self, run: &Run) -> u64 {
        run.written.load(Ordering::Relaxed) - run.flushed_at
    }

    /// Whether so much is written and not flushed that the page cache would
    /// fill.
    fn is_behind(&self, run: &Run) -> bool {
        let limit = 4 * self.options.checkpoint_interval.max(1 << 20);
        self.disk.is_cached() && run.flushing.is_some() && self.unflushed(run) > limit
    }

    /// Begins a flush when the page cache holds much.
    fn flush(&self, run: &mut Run) {
        let due = self.unflushed(run) >= self.options.checkpoint_interval;
        if !due || !self.disk.is_cached() || run.flushing.is_some() {
            return;
        }
        run.flushed_at = run.written.load(Ordering::Relaxed);
        let disk = Arc::clone(&self.disk);
        run.flushing = Some(tokio::task::spawn_blocking(move || Ok(disk.flush()?)));
    }
}

/// What a thread that writes needs.
struct Writing {
    disk: Arc<Disk>,
    written: Arc<AtomicU64>,
    halt: CancellationToken,
}

impl Writing {
    fn new(disk: &Arc<Disk>, run: &Run) -> Self {
        Self {
            disk: Arc::clone(disk),
            written: Arc::clone(&run.written),
            halt: run.halt.clone(),
        }
    }

    /// Writes a part; how long it is.
    fn put(&self, at: u64, part: &Part) -> Result<u64, TransferError> {
        if self.halt.is_cancelled() {
            return Err(TransferError::Cancelled);
        }
        let output = Output {
            disk: &self.disk,
            zero_run: self.disk.zero_run(),
            written: &self.written,
            halt: &self.halt,
        };
        output.put(at, part.as_ref())?;
        Ok(part.as_ref().len() as u64)
    }
}
