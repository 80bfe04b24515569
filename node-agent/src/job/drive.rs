//! One job on its way: carries the effects of its machine out.
//!
//! Invariants: a state is in the journal before anyone sees it, where the
//! machine asks for that; two events of one job are never handled at once;
//! a job that is stopped leaves the journal as it stands.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::board::{Board, Status};
use super::journal::{Journal, JournalError};
use super::record::Record;
use super::retry;
use super::spec::JobSpec;
use super::state::{Checkpoint, Effect, Event, Failure, Phase, Progress, State, Work, step};
use crate::engine::{CopyOrder, Engine, ImportOrder, Imported, Observer};
use crate::source::{Access, Facts};
use crate::volume::{PodVolume, Volume, VolumeError, Volumes};

/// Shortest time between two progress reports of one job.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// What every job works with.
#[derive(Clone)]
pub struct Tools {
    /// Moves the bytes.
    pub engine: Arc<dyn Engine>,
    /// Finds the volumes.
    pub volumes: Arc<dyn Volumes>,
    /// Makes states durable.
    pub journal: Arc<Journal>,
    /// Makes states visible.
    pub board: Board,
}

/// One job with its state.
pub struct Drive {
    tools: Tools,
    /// How the source is reached; here and nowhere else while the job runs.
    access: Access,
    driven: Mutex<Driven>,
}

/// The volumes of a job, found.
#[derive(Clone)]
struct Held {
    /// Of a copy.
    source: Option<Volume>,
    target: Volume,
}

struct Driven {
    record: Record,
    /// Progress that came too soon after the last to be worth an event.
    unreported: Option<Progress>,
    reported_at: Option<Instant>,
}

impl Drive {
    /// Takes a job whose record is in the journal, and which reaches its
    /// source by `access`.
    pub fn new(record: Record, access: Access, tools: Tools) -> Self {
        let driven = Driven {
            record,
            unreported: None,
            reported_at: None,
        };
        Self {
            tools,
            access,
            driven: Mutex::new(driven),
        }
    }

    /// Runs the job from `Pending` to its end, or until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut event = Event::Admitted;
        let mut held = None;
        loop {
            let work = match self.clone().apply_off_thread(event).await {
                Ok(Some(work)) => work,
                Ok(None) => return,
                Err(failure) => return self.fail_in_memory(failure),
            };
            let next = match work {
                Work::Prepare => self.prepare(&stop, &mut held).await,
                Work::Transfer => self.clone().transfer(&stop, held.as_ref()).await,
                Work::Release => Some(self.release(held.as_ref()).await),
            };
            let Some(next) = next else { return };
            event = next;
        }
    }

    /// The volumes that the job reads and writes.
    fn wanted(&self) -> (Option<PodVolume>, PodVolume) {
        let spec = &self.driven.lock().record.spec;
        (spec.source().cloned(), spec.target().clone())
    }

    async fn prepare(&self, stop: &CancellationToken, held: &mut Option<Held>) -> Option<Event> {
        let (source, target) = self.wanted();
        // Both at once: kubelet takes its time only once.
        let locate = async {
            let source = async {
                match &source {
                    Some(source) => self.tools.volumes.locate(source).await.map(Some),
                    None => Ok(None),
                }
            };
            tokio::try_join!(source, self.tools.volumes.locate(&target))
        };
        let located = tokio::select! {
            () = stop.cancelled() => return None,
            located = locate => located,
        };
        Some(match located {
            Ok((source, target)) => {
                *held = Some(Held { source, target });
                Event::Prepared
            }
            Err(error) => Event::Failed(volume_failure(&error)),
        })
    }

    /// Moves the bytes, and sits out what [`retry`] says is worth it.
    async fn transfer(
        self: Arc<Self>,
        stop: &CancellationToken,
        held: Option<&Held>,
    ) -> Option<Event> {
        let mut fruitless = 0;
        loop {
            let before = self.driven.lock().record.state.checkpoint.clone();
            let failure = match self.clone().try_transfer(stop, held?).await {
                Ok(completed) => return Some(completed),
                Err(_) if stop.is_cancelled() => return None,
                Err(failure) => failure,
            };
            let pause = {
                let state = &self.driven.lock().record.state;
                fruitless = if state.checkpoint == before {
                    fruitless
                } else {
                    0
                };
                retry::pause(state, &failure, fruitless)
            };
            let Some(pause) = pause else {
                return Some(Event::Failed(failure));
            };
            fruitless += 1;
            let Failure {
                reason, message, ..
            } = failure;
            tracing::warn!(reason, message, ?pause, "source is away, trying again");
            tokio::select! {
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(pause) => {}
            }
            // Much can happen to a volume in a pause.
            if let gone @ Event::Failed(_) = self.release(held).await {
                return Some(gone);
            }
        }
    }

    /// One try; its good end is an event.
    async fn try_transfer(
        self: Arc<Self>,
        stop: &CancellationToken,
        held: &Held,
    ) -> Result<Event, Failure> {
        let (spec, resume) = {
            let record = &self.driven.lock().record;
            (record.spec.clone(), record.state.checkpoint.clone())
        };
        let (held, stop) = (held.clone(), stop.child_token());
        let transfer = async move {
            match spec {
                JobSpec::Import(spec) => {
                    let order = ImportOrder {
                        source: spec.source,
                        access: self.access.clone(),
                        volume: held.target,
                        expected: spec.expected,
                        checksum: spec.checksum,
                        format: spec.format,
                        preallocation: spec.preallocation,
                        resume,
                    };
                    let engine = self.tools.engine.clone();
                    let Imported {
                        facts,
                        progress,
                        digest,
                    } = engine.import(order, self, stop).await?;
                    Ok(Event::Completed {
                        facts: Some(facts),
                        progress,
                        digest,
                    })
                }
                JobSpec::Copy(spec) => {
                    let source = held
                        .source
                        .ok_or_else(|| fault("the copy has no volume to read"))?;
                    let order = CopyOrder {
                        source,
                        target: held.target,
                        only_differences: spec.only_differences,
                        resume,
                    };
                    let engine = self.tools.engine.clone();
                    let progress = engine.copy(order, self, stop).await?;
                    Ok(Event::Completed {
                        facts: None,
                        progress,
                        digest: None,
                    })
                }
            }
        };
        let ended = AssertUnwindSafe(transfer).catch_unwind().await;
        ended.unwrap_or_else(|_| Err(fault("the transfer ended by a fault of the agent")))
    }

    /// Looks whether the volumes are still the ones that were found.
    async fn release(&self, held: Option<&Held>) -> Event {
        let Some(held) = held else {
            return Event::Released;
        };
        let (source, target) = self.wanted();
        let recheck = async {
            if let (Some(source), Some(found)) = (&source, &held.source) {
                self.tools.volumes.recheck(source, found).await?;
            }
            self.tools.volumes.recheck(&target, &held.target).await
        };
        match recheck.await {
            Ok(()) => Event::Released,
            Err(error) => Event::Failed(volume_failure(&error)),
        }
    }

    /// Handles an event on a thread that may wait for the disk.
    async fn apply_off_thread(self: Arc<Self>, event: Event) -> Result<Option<Work>, Failure> {
        let span = tracing::Span::current();
        let applied =
            tokio::task::spawn_blocking(move || span.in_scope(|| self.apply(event))).await;
        match applied {
            Ok(Ok(work)) => Ok(work),
            Ok(Err(error)) => Err(journal_failure(&error)),
            Err(error) => Err(fault(&error.to_string())),
        }
    }

    /// Handles an event; the state stays as it was if the journal fails.
    fn apply(&self, event: Event) -> Result<Option<Work>, JournalError> {
        let driven = &mut *self.driven.lock();
        let mut state = driven.record.state.clone();
        if let Some(progress) = driven.unreported.take() {
            state = step(state, Event::Progressed(progress)).0;
        }
        let (state, effects) = step(state, event);
        let before = std::mem::replace(&mut driven.record.state, state);
        let mut work = None;
        for effect in effects {
            match effect {
                Effect::Persist => {
                    if let Err(error) = self.tools.journal.write(&driven.record) {
                        driven.record.state = before;
                        return Err(error);
                    }
                }
                Effect::Report | Effect::ReportProgress => {
                    driven.reported_at = Some(Instant::now());
                    self.tools
                        .board
                        .put(Status::new(&driven.record.id, &driven.record.state));
                }
                Effect::Begin(begun) => work = Some(begun),
            }
        }
        log_transition(&before, &driven.record.state);
        Ok(work)
    }

    /// Shows the job as failed although the journal cannot say so: at the
    /// next start it is taken up again from what the journal has.
    fn fail_in_memory(&self, failure: Failure) {
        let driven = &mut *self.driven.lock();
        let (state, _) = step(driven.record.state.clone(), Event::Failed(failure));
        log_transition(&driven.record.state, &state);
        driven.record.state = state;
        self.tools
            .board
            .put(Status::new(&driven.record.id, &driven.record.state));
    }

    fn observe(&self, event: Event) {
        if let Err(error) = self.apply(event) {
            // None of the events that come here is persisted.
            tracing::error!(%error, "event of a job was lost");
        }
    }
}

impl Observer for Drive {
    fn facts(&self, facts: Facts) {
        self.observe(Event::FactsFound(facts));
    }

    fn progress(&self, progress: Progress) {
        // A checkpoint on its way to the disk holds the lock; the bytes must
        // not wait for it, and the next report says more anyway.
        let Some(mut driven) = self.driven.try_lock() else {
            return;
        };
        if driven
            .reported_at
            .is_some_and(|at| at.elapsed() < PROGRESS_EVERY)
        {
            driven.unreported = Some(progress);
            return;
        }
        driven.unreported = None;
        drop(driven);
        self.observe(Event::Progressed(progress));
    }

    fn checkpoint(&self, checkpoint: Checkpoint) -> io::Result<()> {
        self.apply(Event::Checkpointed(checkpoint))
            .map(|_| ())
            .map_err(io::Error::other)
    }

    fn verifying(&self) {
        self.observe(Event::Verifying);
    }
}

/// A failure that is nobody's but the agent's own.
fn fault(what: &str) -> Failure {
    Failure {
        reason: "InternalError".to_owned(),
        message: format!("{what}, see its log"),
        retryable: true,
    }
}

fn volume_failure(error: &VolumeError) -> Failure {
    Failure {
        reason: error.reason().to_owned(),
        message: chain(error),
        retryable: true,
    }
}

fn journal_failure(error: &JournalError) -> Failure {
    Failure {
        reason: "JournalFailed".to_owned(),
        message: chain(error),
        retryable: true,
    }
}

/// An error with everything that it says lies behind it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

fn log_transition(before: &State, after: &State) {
    if before.phase == after.phase {
        return;
    }
    match &after.phase {
        Phase::Failed(Failure {
            reason,
            message,
            retryable,
        }) => {
            tracing::error!(reason, message, retryable, "job failed");
        }
        phase => {
            let Progress {
                total,
                done,
                received,
                written,
            } = after.progress;
            tracing::info!(?phase, total, done, received, written, "job went on");
        }
    }
}
