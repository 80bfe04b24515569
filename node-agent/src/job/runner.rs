//! All jobs of the node: starts, resumes and cancels them.
//!
//! Invariants: a job that was answered for is in the journal; the same
//! identity is the same job; a volume that one job writes no other job has at
//! the same time, but several may read one; not more
//! than the set number of jobs move bytes; a job is forgotten only when
//! nothing of it runs any more, and an export not before its parts were
//! discarded, as far as it is let in to do so. A caller that goes away in the
//! middle of a call changes nothing of that. An access is in no journal: a
//! job that needs one and was found in the journal waits until it is started
//! again, holding neither its volume nor a slot.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::board::{Board, Status};
use super::claims::{Claims, Use};
use super::drive::{Drive, Tools};
use super::journal::{Journal, JournalError, SetAside};
use super::record::Record;
use super::spec::{JobId, JobSpec};
use super::state::{Effect, Event, State, step};
use crate::engine::Engine;
use crate::source::Access;
use crate::volume::{VolumeName, Volumes};

/// All jobs of one node. Cheap to clone; clones are the same jobs.
#[derive(Clone)]
pub struct Jobs {
    shared: Arc<Shared>,
}

struct Shared {
    tools: Tools,
    entries: Mutex<HashMap<JobId, Arc<Entry>>>,
    /// Held while the set of jobs changes; the next job's sequence number.
    admission: tokio::sync::Mutex<u64>,
    slots: Arc<Semaphore>,
    claims: Claims,
    stopping: CancellationToken,
    tasks: TaskTracker,
}

struct Entry {
    spec: JobSpec,
    /// Asks the job's task to stop.
    stop: CancellationToken,
    /// Nothing of the job runs any more.
    ended: CancellationToken,
    /// Someone asked to forget the job.
    forgetting: CancellationToken,
    /// Where the source's access is handed in, while the job waits for it.
    awaiting: Mutex<Option<oneshot::Sender<Access>>>,
}

/// Why a job was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The identity belongs to a job that was asked to do something else.
    #[error("job {0} exists with another specification")]
    Conflict(JobId),
    /// The job of this identity is just being forgotten.
    #[error("job {0} is being cancelled")]
    Cancelling(JobId),
    /// The agent is about to stop.
    #[error("the agent is shutting down")]
    ShuttingDown,
    /// It could not be made durable.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A task of the agent ended by a fault.
    #[error("a task of the agent failed")]
    Task(#[from] tokio::task::JoinError),
}

/// Why a job was not forgotten.
#[derive(Debug, thiserror::Error)]
pub enum CancelError {
    /// It stopped, but is still in the journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A task of the agent ended by a fault.
    #[error("a task of the agent failed")]
    Task(#[from] tokio::task::JoinError),
}

impl Jobs {
    /// Opens the journal in `directory` and takes up every unfinished job in
    /// it. Not more than `concurrent` jobs move bytes at a time. Also says
    /// which of the journal's files were set aside.
    pub fn open(
        directory: &Path,
        engine: Arc<dyn Engine>,
        volumes: Arc<dyn Volumes>,
        concurrent: usize,
    ) -> Result<(Self, Vec<SetAside>), JournalError> {
        let (journal, loaded) = Journal::open(directory)?;
        let tools = Tools {
            engine,
            volumes,
            journal: Arc::new(journal),
            board: Board::default(),
        };
        let next = loaded.records.last().map_or(0, |r| r.sequence + 1);
        let shared = Shared {
            tools,
            entries: Mutex::default(),
            admission: tokio::sync::Mutex::new(next),
            slots: Arc::new(Semaphore::new(concurrent.max(1))),
            claims: Claims::default(),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let jobs = Self {
            shared: Arc::new(shared),
        };
        for record in loaded.records {
            jobs.restart(record);
        }
        Ok((jobs, loaded.set_aside))
    }

    /// Starts a job that reaches its source by `access`, or answers with the
    /// job of that identity as it stands. One that waits for its access goes
    /// on with this one; one that runs keeps what it has.
    pub async fn start(
        &self,
        id: JobId,
        spec: impl Into<JobSpec>,
        access: Access,
    ) -> Result<Status, StartError> {
        let (this, spec) = (self.clone(), spec.into());
        self.shared
            .tasks
            .spawn(async move { this.admit(id, spec, access).await })
            .await?
    }

    /// Stops a job and forgets it; answers when nothing of it runs any more.
    pub async fn cancel(&self, id: JobId) -> Result<(), CancelError> {
        let this = self.clone();
        self.shared
            .tasks
            .spawn(async move { this.forget(id).await })
            .await?
    }

    /// The table of all jobs.
    pub fn board(&self) -> &Board {
        &self.shared.tools.board
    }

    /// Stops every job at its last checkpoint and answers when nothing runs
    /// any more. The journal stays as it is.
    pub async fn stop(&self) {
        self.shared.stopping.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    fn restart(&self, mut record: Record) {
        let (state, effects) = step(record.state, Event::Restarted);
        record.state = state;
        let unfinished = effects.contains(&Effect::Report);
        let awaiting_access = unfinished && record.spec.needs_access();
        self.board().put(Status {
            awaiting_access,
            ..Status::new(&record.id, &record.state)
        });
        let (entry, ended) = self.enter(&record);
        if unfinished {
            tracing::info!(
                job = %record.id, awaiting_access, "job found in the journal is taken up again"
            );
            let (sender, access) = oneshot::channel();
            if awaiting_access {
                *entry.awaiting.lock() = Some(sender);
            } else {
                // The receiver is right here.
                let _ = sender.send(Access::default());
            }
            self.spawn(record, &entry, ended, access);
        }
    }

    async fn admit(&self, id: JobId, spec: JobSpec, access: Access) -> Result<Status, StartError> {
        let mut next = self.shared.admission.lock().await;
        let known = self.shared.entries.lock().get(&id).cloned();
        if let Some(entry) = known {
            return match self.board().get(&id) {
                _ if entry.forgetting.is_cancelled() => Err(StartError::Cancelling(id)),
                Some(status) if entry.spec == spec => Ok(self.hand_in(&entry, status, access)),
                _ => Err(StartError::Conflict(id)),
            };
        }
        if self.shared.stopping.is_cancelled() {
            return Err(StartError::ShuttingDown);
        }
        let record = Record {
            id,
            sequence: *next,
            spec,
            state: State::accepted(),
        };
        let journal = self.shared.tools.journal.clone();
        let record = tokio::task::spawn_blocking(move || match journal.write(&record) {
            Ok(()) => Ok(record),
            Err(error) => {
                // The record may be there all the same. Who was refused must
                // not see the job run after the next start.
                let _ = journal.remove(&record.id);
                Err(error)
            }
        })
        .await??;
        *next += 1;
        let status = Status::new(&record.id, &record.state);
        self.board().put(status.clone());
        let (entry, ended) = self.enter(&record);
        let (source, destination) = (record.spec.from_where(), record.spec.to_where());
        tracing::info!(job = %record.id, source, destination, "job accepted");
        let (sender, receiver) = oneshot::channel();
        // The receiver is right here.
        let _ = sender.send(access);
        self.spawn(record, &entry, ended, receiver);
        Ok(status)
    }

    /// Gives a job that waits for its source's access what it waits for.
    fn hand_in(&self, entry: &Entry, status: Status, access: Access) -> Status {
        let Some(sender) = entry.awaiting.lock().take() else {
            return status;
        };
        tracing::info!(job = %status.id, "job has its access again");
        let status = Status {
            awaiting_access: false,
            ..status
        };
        // Before the job itself shows anything.
        self.board().put(status.clone());
        // A job that is stopped meanwhile does not need it.
        let _ = sender.send(access);
        status
    }

    /// Makes the job known. Whoever drops the guard says that it ended.
    fn enter(&self, record: &Record) -> (Arc<Entry>, DropGuard) {
        let entry = Arc::new(Entry {
            spec: record.spec.clone(),
            stop: self.shared.stopping.child_token(),
            ended: CancellationToken::new(),
            forgetting: CancellationToken::new(),
            awaiting: Mutex::default(),
        });
        self.shared
            .entries
            .lock()
            .insert(record.id.clone(), entry.clone());
        let ended = entry.ended.clone().drop_guard();
        (entry, ended)
    }

    /// Lets a job run as soon as `access` is there and its turn has come.
    fn spawn(
        &self,
        record: Record,
        entry: &Entry,
        ended: DropGuard,
        access: oneshot::Receiver<Access>,
    ) {
        let span = tracing::info_span!("job", job = %record.id);
        let volumes = wanted(&record.spec);
        let (this, stop) = (self.clone(), entry.stop.clone());
        let forgetting = entry.forgetting.clone();
        let task = async move {
            let _ended = ended;
            let access = tokio::select! {
                () = stop.cancelled() => None,
                access = access => access.ok(),
            };
            // Without an access nobody will hand one in any more.
            let Some(access) = access else { return };
            let tools = this.shared.tools.clone();
            let drive = Arc::new(Drive::new(record, access, tools, Handle::current()));
            let turn = async {
                let claimed = this.shared.claims.take(volumes).await;
                let slot = this.shared.slots.clone().acquire_owned().await;
                (claimed, slot)
            };
            let turn = tokio::select! {
                () = stop.cancelled() => None,
                turn = turn => Some(turn),
            };
            if let Some((_claimed, _slot)) = turn {
                drive.clone().run(stop).await;
            }
            // Nobody will go on with what it has stored.
            if forgetting.is_cancelled() {
                drive.discard().await;
            }
        };
        self.shared.tasks.spawn(task.instrument(span));
    }

    async fn forget(&self, id: JobId) -> Result<(), CancelError> {
        let known = self.shared.entries.lock().get(&id).cloned();
        let Some(entry) = known else { return Ok(()) };
        entry.forgetting.cancel();
        entry.stop.cancel();
        entry.ended.cancelled().await;

        let _admission = self.shared.admission.lock().await;
        let now = self.shared.entries.lock().get(&id).cloned();
        if !now.is_some_and(|now| Arc::ptr_eq(&now, &entry)) {
            // Another call forgot it, and someone may have begun anew.
            return Ok(());
        }
        let journal = self.shared.tools.journal.clone();
        let gone = id.clone();
        tokio::task::spawn_blocking(move || journal.remove(&gone)).await??;
        self.shared.entries.lock().remove(&id);
        self.board().remove(&id);
        tracing::info!(job = %id, "job forgotten");
        Ok(())
    }
}

/// The volumes that a job has to have, and for what. The name of a
/// PersistentVolume is one volume, whichever pod holds it.
fn wanted(spec: &JobSpec) -> Vec<(VolumeName, Use)> {
    let source = spec.source().map(|volume| (volume, Use::Read));
    let target = spec.target().map(|volume| (volume, Use::Write));
    [source, target]
        .into_iter()
        .flatten()
        .map(|(volume, what)| (volume.volume_name.clone(), what))
        .collect()
}
