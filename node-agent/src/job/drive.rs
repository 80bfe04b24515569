//! One job on its way: carries the effects of its machine out.
//!
//! Invariants: a state is in the journal before anyone sees it, where the
//! machine asks for that; two events of one job are never handled at once;
//! a job that is stopped leaves the journal as it stands; an export that
//! fails has its parts discarded before anyone sees that it did.

mod attempt;
mod held;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::board::{Board, Status};
use super::journal::{Journal, JournalError};
use super::record::Record;
use super::retry;
use super::spec::JobSpec;
use super::state::{Checkpoint, Effect, Event, Failure, Phase, Progress, State, Work, step};
use crate::engine::{Engine, Observer};
use crate::source::{Access, Facts, ObjectLocation};
use crate::volume::{VolumeError, Volumes};
use held::{Held, Wanted};

/// Shortest time between two progress reports of one job.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);
/// Longest time that is spent on discarding what an export left: less than
/// whoever cancels a job waits for the answer.
const DISCARD_LIMIT: Duration = Duration::from_secs(15);

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
    /// How the source is reached, or the store that an export goes to; here
    /// and nowhere else while the job runs.
    access: Access,
    driven: Mutex<Driven>,
    /// The volumes, once they were found.
    held: Mutex<Option<Held>>,
    /// Why an export's object was not to be made.
    refused: Mutex<Option<Failure>>,
    runtime: Handle,
}

struct Driven {
    record: Record,
    /// Progress that came too soon after the last to be worth an event.
    unreported: Option<Progress>,
    reported_at: Option<Instant>,
}

impl Drive {
    /// Takes a job whose record is in the journal, and which reaches its
    /// source or its store by `access`. What waits for others runs on
    /// `runtime`.
    pub fn new(record: Record, access: Access, tools: Tools, runtime: Handle) -> Self {
        let driven = Driven {
            record,
            unreported: None,
            reported_at: None,
        };
        Self {
            tools,
            access,
            driven: Mutex::new(driven),
            held: Mutex::default(),
            refused: Mutex::default(),
            runtime,
        }
    }

    /// Runs the job from `Pending` to its end, or until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut event = Event::Admitted;
        loop {
            let work = match self.clone().apply_off_thread(event).await {
                Ok(Some(work)) => work,
                Ok(None) => break,
                Err(failure) => {
                    self.fail_in_memory(failure);
                    break;
                }
            };
            let next = match work {
                Work::Prepare => self.prepare(&stop).await,
                Work::Transfer => self.clone().transfer(&stop).await,
                Work::Release => Some(self.release().await),
            };
            let Some(next) = next else { break };
            if let Event::Failed(_) = next {
                self.discard().await;
            }
            event = next;
        }
        // Nothing of the volumes stays open.
        self.held.lock().take();
    }

    /// Removes what an export has in the store and will not go on with. What
    /// cannot be removed stays in the state, for whoever can.
    pub async fn discard(&self) {
        let Some((object, upload)) = self.stored() else {
            return;
        };
        let discarding = self
            .tools
            .engine
            .discard_upload(&object, &self.access, &upload);
        match tokio::time::timeout(DISCARD_LIMIT, discarding).await {
            Ok(Ok(())) => {
                tracing::info!(%object, upload, "parts of the upload discarded");
                self.observe(Event::Discarded);
            }
            Ok(Err(Failure {
                reason, message, ..
            })) => {
                tracing::warn!(%object, upload, reason, message, "parts of the upload stay");
            }
            Err(_) => tracing::warn!(%object, upload, "parts of the upload stay: no answer"),
        }
    }

    /// The upload of an export that may have parts in the store.
    fn stored(&self) -> Option<(ObjectLocation, String)> {
        let record = &self.driven.lock().record;
        match &record.spec {
            JobSpec::Export(export) => Some((export.object.clone(), record.state.upload.clone()?)),
            JobSpec::Import(_) | JobSpec::Copy(_) => None,
        }
    }

    async fn prepare(&self, stop: &CancellationToken) -> Option<Event> {
        let wanted = self.wanted();
        let located = tokio::select! {
            () = stop.cancelled() => return None,
            located = wanted.locate(&*self.tools.volumes) => located,
        };
        Some(match located {
            Ok(held) => {
                *self.held.lock() = Some(held);
                Event::Prepared
            }
            Err(error) => Event::Failed(volume_failure(&error)),
        })
    }

    fn wanted(&self) -> Wanted {
        Wanted::of(&self.driven.lock().record.spec)
    }

    /// Moves the bytes, and sits out what [`retry`] says is worth it.
    async fn transfer(self: Arc<Self>, stop: &CancellationToken) -> Option<Event> {
        let mut fruitless = 0;
        loop {
            let before = self.driven.lock().record.state.checkpoint.clone();
            let failure = match self.clone().attempt(stop).await {
                Ok(completed) => return Some(completed),
                Err(_) if stop.is_cancelled() => return None,
                Err(failure) => self.refused.lock().take().unwrap_or(failure),
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
            tracing::warn!(reason, message, ?pause, "other side is away, trying again");
            tokio::select! {
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(pause) => {}
            }
            // Much can happen to a volume in a pause.
            if let gone @ Event::Failed(_) = self.release().await {
                return Some(gone);
            }
        }
    }

    /// Looks whether the volumes are still the ones that were found. Once an
    /// object is there it is too late to ask.
    async fn release(&self) -> Event {
        if self.driven.lock().record.state.object.is_some() {
            return Event::Released;
        }
        match self.recheck().await {
            Ok(()) => Event::Released,
            Err(error) => Event::Failed(volume_failure(&error)),
        }
    }

    async fn recheck(&self) -> Result<(), VolumeError> {
        let held = self.held.lock().clone();
        match held {
            Some(held) => self.wanted().recheck(&held, &*self.tools.volumes).await,
            None => Ok(()),
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

    fn uploading(&self, upload: &str) {
        self.observe(Event::Uploading(upload.to_owned()));
    }

    fn verifying(&self) {
        self.observe(Event::Verifying);
    }

    fn completing(&self) -> io::Result<()> {
        let Err(error) = self.runtime.block_on(self.recheck()) else {
            return Ok(());
        };
        *self.refused.lock() = Some(volume_failure(&error));
        Err(io::Error::other(error))
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
