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
use super::state::{Checkpoint, Effect, Event, Failure, Phase, Progress, State, Work, step};
use crate::engine::{Engine, ImportOrder, Imported, Observer};
use crate::source::{Access, Facts};
use crate::volume::{Volume, VolumeError, Volumes};

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
        let mut volume = None;
        loop {
            let work = match self.clone().apply_off_thread(event).await {
                Ok(Some(work)) => work,
                Ok(None) => return,
                Err(failure) => return self.fail_in_memory(failure),
            };
            let next = match work {
                Work::Prepare => self.prepare(&stop, &mut volume).await,
                Work::Transfer => self.clone().transfer(&stop, volume.as_ref()).await,
                Work::Release => Some(self.release(volume.as_ref()).await),
            };
            let Some(next) = next else { return };
            event = next;
        }
    }

    async fn prepare(
        &self,
        stop: &CancellationToken,
        volume: &mut Option<Volume>,
    ) -> Option<Event> {
        let wanted = self.driven.lock().record.spec.volume.clone();
        let located = tokio::select! {
            () = stop.cancelled() => return None,
            located = self.tools.volumes.locate(&wanted) => located,
        };
        Some(match located {
            Ok(found) => {
                *volume = Some(found);
                Event::Prepared
            }
            Err(error) => Event::Failed(volume_failure(&error)),
        })
    }

    /// Moves the bytes, and sits out what [`retry`] says is worth it.
    async fn transfer(
        self: Arc<Self>,
        stop: &CancellationToken,
        volume: Option<&Volume>,
    ) -> Option<Event> {
        let mut fruitless = 0;
        loop {
            let before = self.driven.lock().record.state.checkpoint.clone();
            let failure = match self.clone().try_transfer(stop, volume?).await {
                Ok(done) => {
                    let Imported {
                        facts,
                        progress,
                        digest,
                    } = done;
                    return Some(Event::Imported {
                        facts,
                        progress,
                        digest,
                    });
                }
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
            if let gone @ Event::Failed(_) = self.release(volume).await {
                return Some(gone);
            }
        }
    }

    async fn try_transfer(
        self: Arc<Self>,
        stop: &CancellationToken,
        volume: &Volume,
    ) -> Result<Imported, Failure> {
        let order = {
            let record = &self.driven.lock().record;
            let spec = record.spec.clone();
            ImportOrder {
                source: spec.source,
                access: self.access.clone(),
                volume: volume.clone(),
                expected: spec.expected,
                checksum: spec.checksum,
                format: spec.format,
                preallocation: spec.preallocation,
                resume: record.state.checkpoint.clone(),
            }
        };
        let engine = self.tools.engine.clone();
        let import = engine.import(order, self, stop.child_token());
        let ended = AssertUnwindSafe(import).catch_unwind().await;
        ended.unwrap_or_else(|_| Err(fault("the transfer ended by a fault of the agent")))
    }

    async fn release(&self, volume: Option<&Volume>) -> Event {
        let wanted = self.driven.lock().record.spec.volume.clone();
        let Some(volume) = volume else {
            return Event::Released;
        };
        match self.tools.volumes.recheck(&wanted, volume).await {
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
