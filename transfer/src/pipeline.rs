//! From the source onto the disk: fetching, decoding and writing at once.
//!
//! The plan's items are begun in order and end in any order. Each is a task:
//! it fetches its stretch, then borrows a worker, which decodes and writes on
//! a thread that may block. Memory bounds how many are under way. Now and
//! then the disk is flushed, and how far it had got before is a checkpoint.

mod items;
mod ledger;
mod sequential;
mod worker;
mod zeros;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hypercloud_disk::Extent;
use hypercloud_disk::plan::Plan;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use self::items::{Items, Next};
pub(crate) use self::ledger::{Ledger, Position};
pub(crate) use self::sequential::{Sequential, Supply};
pub(crate) use self::worker::Output;
use self::worker::Workers;
pub(crate) use self::zeros::parts;
use crate::buffer::{Buffer, Memory};
use crate::digest::Tap;
use crate::error::{Side, SourceError, TransferError};
use crate::observer::{Observer, Progress};
use crate::options::Options;
use crate::sink::Disk;
use crate::source::Source;

/// The most that is read at once for nothing but the digest.
const GAP: u64 = 2 << 20;
/// The most workers that decode, where none were asked for.
const MOST_WORKERS: usize = 8;
/// Workers that may wait for the disk meanwhile.
const WRITING: usize = 2;

/// Makes a checkpoint of a position and the counts up to it. Waits for who
/// takes in bytes for the digest: not for threads that may not block.
pub(crate) type Mark = Arc<dyn Fn(Position, Progress) -> crate::Checkpoint + Send + Sync>;

/// All that an import runs on.
pub(crate) struct Pipeline {
    pub(crate) source: Arc<Source>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) disk: Arc<Disk>,
    /// The target's size, at least the disk's.
    pub(crate) capacity: u64,
    pub(crate) memory: Arc<Memory>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) options: Options,
    /// `None` when the import could not be resumed anyway.
    pub(crate) mark: Option<Mark>,
    /// Takes in the source's bytes, where a digest was asked for and the
    /// source does not feed it by itself.
    pub(crate) tap: Option<Arc<Tap>>,
}

/// What a task settled: an item, or nothing but the digest of some bytes.
struct Settled(Option<(Position, u64)>);

type Outcome = Result<Settled, TransferError>;

/// The state of a run.
struct Run {
    tasks: JoinSet<Outcome>,
    ledger: Ledger,
    saving: Option<JoinHandle<Result<(), TransferError>>>,
    /// Where the last checkpoint is, or the run began.
    kept: Position,
    /// What was counted before, when this is resumed.
    before: Progress,
    written: Arc<AtomicU64>,
    /// `written` when the flush under way, and when the last one, began.
    flushing_at: u64,
    flushed_at: u64,
    /// Ends what is under way.
    halt: CancellationToken,
    /// Up to here the source's bytes were asked for, for their digest.
    tapped: u64,
}

impl Pipeline {
    /// Runs all items from `start` on. When this returns, none is running.
    pub(crate) async fn run(
        &self,
        start: Position,
        before: Progress,
        cancel: &CancellationToken,
    ) -> Result<Progress, TransferError> {
        let mut run = Run {
            tasks: JoinSet::new(),
            ledger: Ledger::new(start, before.done),
            saving: None,
            kept: start,
            before,
            written: Arc::new(AtomicU64::new(0)),
            flushing_at: 0,
            flushed_at: 0,
            // Also ends the tasks when this future is dropped half way.
            halt: cancel.child_token(),
            tapped: self.tap.as_ref().map_or(0, |tap| tap.position()),
        };
        let halt_when_dropped = run.halt.clone().drop_guard();
        let result = self.drive(&mut run, start, cancel).await;
        drop(halt_when_dropped);
        while let Some(joined) = run.tasks.join_next().await {
            if let Ok(Ok(settled)) = joined {
                run.settled(settled);
            }
        }
        // The first error is the one that is told; but the kernel tells of a
        // lost write only once, so after a flush that failed none is believed.
        let flushed = match run.saving.take() {
            Some(saving) => matches!(saving.await, Ok(Ok(()))),
            None => true,
        };
        match result {
            Ok(()) => Ok(self.progress(&run)),
            Err(error) => {
                if flushed && matches!(error.side(), Side::Source | Side::Cancelled) {
                    self.save_last(&run, &error).await;
                }
                Err(error)
            }
        }
    }

    fn workers(&self) -> usize {
        workers(&self.options)
    }

    async fn drive(
        &self,
        run: &mut Run,
        start: Position,
        cancel: &CancellationToken,
    ) -> Result<(), TransferError> {
        let workers = Workers::new(self.workers(), &self.plan);
        let decoding = 2 * self.workers();
        let mut items = Items::new(
            Arc::clone(&self.source),
            Arc::clone(&self.plan),
            Arc::clone(&self.memory),
            start,
        );
        let mut ticker = tokio::time::interval(self.options.progress_interval);
        ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let most = self.source.reads(&self.options) + decoding;
            // One slow stretch must not let the others run far ahead of what
            // a checkpoint can count.
            let room = run.tasks.len() < most && run.ledger.ahead() < most && !self.is_behind(run);
            let next = items.next();
            if let (Next::Zeros(position), true) = (&next, room) {
                self.zero(run, &items, *position);
                items.began();
                continue;
            }
            let gap = self.gap(run, &next);
            let done = matches!(next, Next::End) && gap.is_none();
            let length = gap.map_or(next.length(), |gap| gap.length as usize);
            if done && run.tasks.is_empty() && run.saving.is_none() {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(TransferError::Cancelled),
                Some(joined) = run.tasks.join_next(), if !run.tasks.is_empty() => {
                    run.settled(finished(joined)?);
                    self.save(run, &items);
                }
                saved = ended(&mut run.saving), if run.saving.is_some() => {
                    run.saving = None;
                    saved?;
                    run.flushed_at = run.flushing_at;
                    // What was written meanwhile may wait for just this.
                    self.save(run, &items);
                }
                _ = ticker.tick() => self.observer.progress(self.progress(run)),
                loaded = items.loaded(), if matches!(next, Next::Loading) => loaded?,
                buffer = self.memory.take(length), if room && length > 0 => match gap {
                    Some(gap) => self.digest(run, &items, gap, buffer),
                    None => {
                        self.fetch(run, &items, &workers, &next, buffer);
                        items.began();
                    }
                },
            }
        }
    }

    fn zero(&self, run: &mut Run, items: &Items, position: Position) {
        run.ledger.begin(position);
        let mut extents = items.zeros();
        let bytes = extents.iter().map(|extent| extent.length).sum();
        if position.window == 0 && self.capacity > self.plan.virtual_size() {
            extents.push(Extent::between(self.plan.virtual_size(), self.capacity));
        }
        let (disk, halt) = (Arc::clone(&self.disk), run.halt.clone());
        run.tasks.spawn_blocking(move || {
            for extent in extents {
                if !disk.zero(extent, &|| halt.is_cancelled())? {
                    return Err(TransferError::Cancelled);
                }
            }
            Ok(Settled(Some((position, bytes))))
        });
    }

    /// What has to be read for the digest alone before the next item: what
    /// lies between the jobs, and behind the last one.
    fn gap(&self, run: &Run, next: &Next) -> Option<Extent> {
        self.tap.as_ref()?;
        let end = match next {
            Next::Job { source, .. } => source.start,
            Next::End => self.source.size()?,
            Next::Zeros(_) | Next::Loading => return None,
        };
        Extent::between(run.tapped, end).parts(GAP).next()
    }

    /// Reads bytes for nothing but their digest.
    fn digest(&self, run: &mut Run, items: &Items, gap: Extent, buffer: Buffer) {
        let Some(tap) = self.tap.clone() else { return };
        run.tapped = gap.end();
        let reading = items.source().read(gap, buffer);
        let halt = run.halt.clone();
        run.tasks.spawn(async move {
            let buffer = tokio::select! {
                () = halt.cancelled() => return Err(TransferError::Cancelled),
                read = reading => read?,
            };
            let taking = tokio::task::spawn_blocking(move || tap.offer(gap, buffer));
            taking.await.map_err(|_| TransferError::Worker)?;
            Ok(Settled(None))
        });
    }

    fn fetch(
        &self,
        run: &mut Run,
        items: &Items,
        workers: &Arc<Workers>,
        next: &Next,
        buffer: Buffer,
    ) {
        let Next::Job {
            position,
            window,
            index,
            ..
        } = next
        else {
            return;
        };
        let (position, window, index) = (*position, Arc::clone(window), *index);
        let Some(source) = window.jobs().get(index).map(|job| job.source) else {
            return;
        };
        run.ledger.begin(position);
        run.tapped = run.tapped.max(source.end());
        // Asked for here, so that a stream is asked in order.
        let reading = items.source().read(source, buffer);
        let (workers, disk) = (Arc::clone(workers), Arc::clone(&self.disk));
        let (written, halt) = (Arc::clone(&run.written), run.halt.clone());
        let tap = self.tap.clone();
        run.tasks.spawn(async move {
            let mut buffer = tokio::select! {
                () = halt.cancelled() => return Err(TransferError::Cancelled),
                read = reading => read?,
            };
            let mut worker = workers.take().await;
            let settling = tokio::task::spawn_blocking(move || {
                let Some(job) = window.jobs().get(index) else {
                    return Err(TransferError::Worker);
                };
                worker.settle(
                    window.pieces(job),
                    job.source.start,
                    &mut buffer,
                    &disk,
                    &written,
                    &halt,
                )?;
                // The next job need not wait for the digest of this one.
                drop(worker);
                if let Some(tap) = tap {
                    tap.offer(job.source, buffer);
                }
                Ok(Settled(Some((position, job.disk_bytes))))
            });
            settling.await.unwrap_or(Err(TransferError::Worker))
        });
    }

    fn progress(&self, run: &Run) -> Progress {
        Progress {
            total: self.plan.virtual_size(),
            done: run.ledger.done(),
            received: run.before.received + self.source.received(),
            written: run.before.written + run.written.load(Ordering::Relaxed),
        }
    }

    /// Whether so much is written and not flushed that the page cache would
    /// fill.
    fn is_behind(&self, run: &Run) -> bool {
        let unflushed = run.written.load(Ordering::Relaxed) - run.flushed_at;
        self.disk.is_cached() && unflushed > 4 * self.options.checkpoint_interval.max(1 << 20)
    }

    /// Bytes written between two checkpoints: what is lost in between is to
    /// be little, in bytes or in part of the whole.
    fn interval(&self) -> u64 {
        let part = self.source.size().unwrap_or(0) / 64;
        part.max(self.options.checkpoint_interval)
    }

    /// Begins a checkpoint when one is due.
    fn save(&self, run: &mut Run, items: &Items) {
        let written = run.written.load(Ordering::Relaxed);
        // Also when nothing may begin before a flush: nothing else would ask.
        let due = written - run.flushing_at >= self.interval() || self.is_behind(run);
        let wanted = self.mark.is_some() || self.disk.is_cached();
        if !due || !wanted || run.saving.is_some() {
            return;
        }
        let (position, done) = run.ledger.settled(items.position());
        // A checkpoint says that something was won, so there is none without.
        let won = position != run.kept;
        if !won && !self.disk.is_cached() {
            return;
        }
        run.flushing_at = written;
        run.kept = position;
        let progress = Progress {
            done,
            ..self.progress(run)
        };
        let mark = self.mark.clone().filter(|_| won);
        let (disk, observer) = (Arc::clone(&self.disk), Arc::clone(&self.observer));
        run.saving = Some(tokio::task::spawn_blocking(move || {
            disk.flush()?;
            match mark {
                Some(mark) => observer
                    .checkpoint(&mark(position, progress))
                    .map_err(TransferError::Journal),
                None => Ok(()),
            }
        }));
    }

    /// After an error that another try may mend, keeps what was done. An
    /// error here changes nothing: the last checkpoint stands.
    async fn save_last(&self, run: &Run, error: &TransferError) {
        let changed = matches!(error, TransferError::Source(SourceError::SourceChanged(_)));
        let Some(mark) = self
            .mark
            .as_ref()
            .filter(|_| error.is_retryable() && !changed)
        else {
            return;
        };
        let (position, done) = run.ledger.settled_to_first_gap();
        if position == run.kept {
            return;
        }
        let progress = Progress {
            done,
            ..self.progress(run)
        };
        let mark = Arc::clone(mark);
        let (disk, observer) = (Arc::clone(&self.disk), Arc::clone(&self.observer));
        let saved = tokio::task::spawn_blocking(move || {
            disk.flush()?;
            observer
                .checkpoint(&mark(position, progress))
                .map_err(TransferError::Journal)
        });
        if let Ok(Err(error)) = saved.await {
            tracing::warn!(error = %error, "keeping a last checkpoint failed");
        }
    }
}

impl Run {
    fn settled(&mut self, Settled(item): Settled) {
        if let Some((position, bytes)) = item {
            self.ledger.finish(position, bytes);
        }
    }
}

/// How many threads decode and write.
pub(crate) fn workers(options: &Options) -> usize {
    // Each has buffers of its own beside the budget. A few more than there
    // are cores: while some wait for the disk, the others decode.
    let cores = || std::thread::available_parallelism().map_or(2, usize::from);
    options
        .workers
        .unwrap_or_else(|| cores().min(MOST_WORKERS) + WRITING)
        .max(1)
}

fn finished(joined: Result<Outcome, JoinError>) -> Outcome {
    joined.unwrap_or(Err(TransferError::Worker))
}

async fn ended(
    saving: &mut Option<JoinHandle<Result<(), TransferError>>>,
) -> Result<(), TransferError> {
    match saving {
        Some(saving) => saving.await.unwrap_or(Err(TransferError::Worker)),
        None => Ok(()),
    }
}
