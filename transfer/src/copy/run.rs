//! The workers of one copy, and what they share.
//!
//! Each worker is a thread that may block. It takes the next piece, settles
//! it, and takes a checkpoint when one is due; nobody waits for that but
//! whoever would write more than the page cache should hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hypercloud_disk::Extent;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::checkpoint::CopyCheckpoint;
use super::pieces::{Data, Task, piece};
use super::request::{CopyMode, CopyObserver};
use super::worker::{Sides, Worker};
use super::{BLOCK, blocking};
use crate::error::{Side, SourceError, TransferError};
use crate::observer::Progress;
use crate::options::Options;
use crate::pipeline::{Ledger, Position, workers};
use crate::raw_disk::SourceDisk;
use crate::sink::{Disk, Target};

/// The most workers: enough to keep distant storage busy.
const MOST_WORKERS: usize = 16;
/// The most memory for their buffers, whatever the budget.
const MOST_MEMORY: usize = 32 << 20;
/// A checkpoint is due after so much has been gone through for each byte
/// that would make one due by being written.
const PASSED: u64 = 8;

/// How a copy goes about it.
pub(super) struct Settings {
    pub(super) mode: CopyMode,
    pub(super) compares: bool,
    pub(super) options: Options,
    pub(super) observer: Arc<dyn CopyObserver>,
}

/// One copy under way.
pub(super) struct Run {
    source: SourceDisk,
    disk: Arc<Disk>,
    /// What tells the target from another.
    identity: u64,
    /// Up to where the target has to hold what it is to hold.
    end: u64,
    zero_run: usize,
    settings: Settings,
    course: Mutex<Course>,
    /// Held while a checkpoint is taken.
    kept: Mutex<Kept>,
    /// What was counted before, when this is resumed.
    before: Progress,
    read: AtomicU64,
    written: AtomicU64,
    /// `written` when the last flush began.
    flushed_at: AtomicU64,
    halt: CancellationToken,
}

/// How far the pieces are.
struct Course {
    /// Where the next one begins.
    next: u64,
    ledger: Ledger,
}

/// The last checkpoint, or the beginning.
struct Kept {
    offset: u64,
    written: u64,
}

/// A place on the disk, as the ledger has it.
fn position(offset: u64) -> Position {
    Position {
        window: 0,
        item: offset,
    }
}

impl Run {
    pub(super) fn new(
        source: SourceDisk,
        target: &Target,
        settings: Settings,
        resume: Option<&CopyCheckpoint>,
    ) -> Self {
        let offset = resume.map_or(0, CopyCheckpoint::offset);
        let before = resume.map_or(Progress::default(), CopyCheckpoint::progress);
        // In a file, holes cost nothing; on a device each is a call to it.
        let zero_run = if target.is_file() {
            BLOCK
        } else {
            target.disk.zero_run()
        };
        Self {
            source,
            disk: Arc::clone(&target.disk),
            identity: target.identity,
            end: target.capacity,
            zero_run,
            settings,
            course: Mutex::new(Course {
                next: offset,
                ledger: Ledger::new(position(offset), before.done),
            }),
            kept: Mutex::new(Kept { offset, written: 0 }),
            before,
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
            flushed_at: AtomicU64::new(0),
            halt: CancellationToken::new(),
        }
    }

    pub(super) fn source(&self) -> &SourceDisk {
        &self.source
    }

    pub(super) fn progress(&self) -> Progress {
        let done = self.course.lock().ledger.done();
        Progress {
            total: self.end,
            done,
            received: self.before.received + self.read.load(Ordering::Relaxed),
            written: self.before.written + self.written.load(Ordering::Relaxed),
        }
    }

    fn workers(&self) -> usize {
        let memory = self.settings.options.memory_budget.min(MOST_MEMORY);
        let affordable = memory / Worker::size(self.settings.compares);
        // Most of the time each waits for one side or the other.
        (2 * workers(&self.settings.options))
            .min(MOST_WORKERS)
            .min(affordable)
            .max(1)
    }

    fn work(&self) -> Result<(), TransferError> {
        let mut worker = Worker::new(self.settings.compares);
        let sides = Sides {
            source: &self.source,
            disk: &self.disk,
            zero_run: self.zero_run,
            read: &self.read,
            written: &self.written,
            halt: &self.halt,
        };
        while let Some((extent, task)) = self.begin() {
            if self.halt.is_cancelled() {
                return Err(TransferError::Cancelled);
            }
            worker.settle(&sides, extent, task)?;
            self.course
                .lock()
                .ledger
                .finish(position(extent.start), extent.length);
            self.save()?;
        }
        Ok(())
    }

    /// Takes the next piece.
    fn begin(&self) -> Option<(Extent, Task)> {
        let mut course = self.course.lock();
        let at = course.next;
        if at >= self.end {
            return None;
        }
        let data = Data {
            source: self.source.next_data(at, self.end),
            target: self
                .settings
                .compares
                .then(|| self.disk.next_data(at, self.end)),
        };
        let (extent, task) = piece(at, self.end, data);
        course.ledger.begin(position(at));
        course.next = extent.end();
        Some((extent, task))
    }

    /// Bytes written between two checkpoints: what is lost in between is to
    /// be little, in bytes or in part of the whole.
    fn interval(&self) -> u64 {
        (self.end / 64).max(self.settings.options.checkpoint_interval)
    }

    /// Whether so much is written and not flushed that the page cache would
    /// fill.
    fn is_behind(&self) -> bool {
        let limit = 4 * self.settings.options.checkpoint_interval.max(1 << 20);
        let flushed_at = self.flushed_at.load(Ordering::Relaxed);
        let unflushed = self
            .written
            .load(Ordering::Relaxed)
            .saturating_sub(flushed_at);
        self.disk.is_cached() && unflushed > limit
    }

    /// Takes a checkpoint when one is due.
    fn save(&self) -> Result<(), TransferError> {
        let mut kept = if self.is_behind() {
            self.kept.lock()
        } else {
            match self.kept.try_lock() {
                Some(kept) => kept,
                // Somebody else is at it.
                None => return Ok(()),
            }
        };
        let (offset, done) = {
            let mut course = self.course.lock();
            let next = position(course.next);
            let (settled, done) = course.ledger.settled(next);
            (settled.item, done)
        };
        let written = self.written.load(Ordering::Relaxed);
        let due = written - kept.written >= self.interval()
            || offset - kept.offset >= self.interval().saturating_mul(PASSED);
        let behind = self.is_behind();
        let won = offset > kept.offset;
        if !(behind || due && won) {
            return Ok(());
        }
        let checkpoint = won.then(|| self.mark(offset, done));
        self.disk.flush()?;
        self.flushed_at.store(written, Ordering::Relaxed);
        if let Some(checkpoint) = checkpoint {
            self.keep(&checkpoint)?;
            *kept = Kept { offset, written };
        }
        Ok(())
    }

    fn mark(&self, offset: u64, done: u64) -> CopyCheckpoint {
        let progress = Progress {
            done,
            ..self.progress()
        };
        CopyCheckpoint::new(
            &self.source,
            self.identity,
            self.settings.mode,
            offset,
            progress,
        )
    }

    fn keep(&self, checkpoint: &CopyCheckpoint) -> Result<(), TransferError> {
        self.settings
            .observer
            .checkpoint(checkpoint)
            .map_err(TransferError::Journal)
    }

    /// After a read that failed and may succeed later, keeps what was done.
    fn save_last(&self) -> Result<(), TransferError> {
        let (settled, done) = self.course.lock().ledger.settled_to_first_gap();
        let mut kept = self.kept.lock();
        if settled.item <= kept.offset {
            return Ok(());
        }
        let checkpoint = self.mark(settled.item, done);
        self.disk.flush()?;
        self.keep(&checkpoint)?;
        kept.offset = settled.item;
        Ok(())
    }
}

/// Runs all pieces. When this returns, none is running.
pub(super) async fn drive(run: &Arc<Run>, cancel: &CancellationToken) -> Result<(), TransferError> {
    // Also ends the workers when this future is dropped half way.
    let _halt_when_dropped = run.halt.clone().drop_guard();
    let mut working = JoinSet::new();
    for _ in 0..run.workers() {
        let run = Arc::clone(run);
        working.spawn_blocking(move || run.work());
    }
    let mut ticker = tokio::time::interval(run.settings.options.progress_interval);
    ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first error is the one that is told.
    let mut result = Ok(());
    loop {
        tokio::select! {
            biased;
            () = cancel.cancelled(), if result.is_ok() => {
                result = Err(TransferError::Cancelled);
                run.halt.cancel();
            }
            joined = working.join_next() => {
                let Some(joined) = joined else { break };
                let ended = joined.unwrap_or(Err(TransferError::Worker));
                if ended.is_err() && result.is_ok() {
                    result = ended;
                    run.halt.cancel();
                }
            }
            _ = ticker.tick() => run.settings.observer.progress(run.progress()),
        }
    }
    if let Err(error) = &result
        && error.side() == Side::Source
        && error.is_retryable()
        && !matches!(error, TransferError::Source(SourceError::SourceChanged(_)))
    {
        let run = Arc::clone(run);
        // An error here changes nothing: the last checkpoint stands.
        if let Err(error) = blocking(move || run.save_last()).await {
            tracing::warn!(error = %error, "keeping a last checkpoint failed");
        }
    }
    result
}
