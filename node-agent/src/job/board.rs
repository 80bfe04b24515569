//! What every job looks like from outside, and who wants to know.
//!
//! Invariants: a watcher compares what it has shown with the table, so it
//! can be as slow as it likes: states in between are skipped, the last one
//! never is, and nothing queues up. A job's revision only grows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::spec::JobId;
use super::state::{ExportedObject, Phase, Progress, State};
use crate::source::{Checksum, Facts};

/// A job as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Identity of the job.
    pub id: JobId,
    /// Where it is in its life.
    pub phase: Phase,
    /// How far it is.
    pub progress: Progress,
    /// What was found at the source.
    pub facts: Option<Facts>,
    /// Whether it waits for its source's access, which a restart lost.
    pub awaiting_access: bool,
    /// Digest of the source's bytes, where it was computed.
    pub digest: Option<Checksum>,
    /// The upload that may have parts in the store.
    pub upload: Option<String>,
    /// The object that an export made.
    pub object: Option<ExportedObject>,
}

impl Status {
    /// What is shown of the state of a job that waits for no access.
    pub fn new(id: &JobId, state: &State) -> Self {
        Self {
            id: id.clone(),
            phase: state.phase.clone(),
            progress: state.progress,
            facts: state.facts.clone(),
            awaiting_access: false,
            digest: state.digest.clone(),
            upload: state.upload.clone(),
            object: state.object.clone(),
        }
    }
}

/// A difference between two looks at the board.
#[expect(
    clippy::large_enum_variant,
    reason = "few changes are looked at at once, and most are of jobs that are there"
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The job as it stands now.
    Changed(Status),
    /// The job is gone.
    Removed(JobId),
}

#[derive(Default)]
struct Table {
    revision: u64,
    jobs: BTreeMap<JobId, (u64, Status)>,
}

/// The table of all jobs.
#[derive(Clone)]
pub struct Board {
    table: Arc<Mutex<Table>>,
    revisions: watch::Sender<u64>,
}

impl Default for Board {
    fn default() -> Self {
        Self {
            table: Arc::default(),
            revisions: watch::Sender::new(0),
        }
    }
}

impl Board {
    /// Shows a job as it stands.
    pub fn put(&self, status: Status) {
        self.change(|table| {
            table
                .jobs
                .insert(status.id.clone(), (table.revision, status));
        });
    }

    /// Takes a job off.
    pub fn remove(&self, id: &JobId) {
        self.change(|table| {
            table.jobs.remove(id);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Table)) {
        let mut table = self.table.lock();
        table.revision += 1;
        change(&mut table);
        self.revisions.send_replace(table.revision);
    }

    /// One job.
    pub fn get(&self, id: &JobId) -> Option<Status> {
        self.table
            .lock()
            .jobs
            .get(id)
            .map(|(_, status)| status.clone())
    }

    /// All jobs.
    pub fn list(&self) -> Vec<Status> {
        self.table
            .lock()
            .jobs
            .values()
            .map(|(_, status)| status.clone())
            .collect()
    }

    /// Looks at all jobs, and then at what changes.
    pub fn watch(&self) -> Watcher {
        Watcher {
            board: self.clone(),
            revisions: self.revisions.subscribe(),
            seen: 0,
            shown: BTreeSet::new(),
            fresh: true,
        }
    }
}

/// One look after another at a board.
pub struct Watcher {
    board: Board,
    revisions: watch::Receiver<u64>,
    seen: u64,
    shown: BTreeSet<JobId>,
    fresh: bool,
}

impl Watcher {
    /// The first time every job, at once; then what is different, as soon as
    /// something is.
    pub async fn next(&mut self) -> Vec<Change> {
        loop {
            self.revisions.mark_unchanged();
            let changes = self.difference();
            if self.fresh || !changes.is_empty() {
                self.fresh = false;
                return changes;
            }
            // The sender lives in the board that this watcher holds.
            let _ = self.revisions.changed().await;
        }
    }

    fn difference(&mut self) -> Vec<Change> {
        let table = self.board.table.lock();
        let mut changes = Vec::new();
        self.shown.retain(|id| {
            let stays = table.jobs.contains_key(id);
            if !stays {
                changes.push(Change::Removed(id.clone()));
            }
            stays
        });
        for (id, (revision, status)) in &table.jobs {
            if *revision > self.seen {
                self.shown.insert(id.clone());
                changes.push(Change::Changed(status.clone()));
            }
        }
        self.seen = table.revision;
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(id: &str, phase: Phase, done: u64) -> Status {
        let progress = Progress {
            done,
            ..Progress::default()
        };
        Status {
            id: JobId::parse(id).unwrap(),
            phase,
            progress,
            facts: None,
            awaiting_access: false,
            digest: None,
            upload: None,
            object: None,
        }
    }

    #[tokio::test]
    async fn a_slow_watcher_skips_what_lies_between_but_no_end() {
        let board = Board::default();
        board.put(status("a", Phase::Pending, 0));
        let mut watcher = board.watch();
        assert_eq!(
            watcher.next().await,
            [Change::Changed(status("a", Phase::Pending, 0))]
        );
        for done in 0..10_000 {
            board.put(status("a", Phase::Transferring, done));
        }
        board.put(status("a", Phase::Succeeded, 10_000));
        board.put(status("b", Phase::Pending, 0));
        let seen = watcher.next().await;
        let expected = [
            status("a", Phase::Succeeded, 10_000),
            status("b", Phase::Pending, 0),
        ];
        assert_eq!(seen, expected.map(Change::Changed));
    }

    #[tokio::test]
    async fn removal_is_told_once_and_only_of_what_was_shown() {
        let board = Board::default();
        let mut watcher = board.watch();
        assert_eq!(watcher.next().await, []);
        board.put(status("a", Phase::Pending, 0));
        watcher.next().await;
        board.put(status("b", Phase::Pending, 0));
        board.remove(&JobId::parse("b").unwrap());
        board.remove(&JobId::parse("a").unwrap());
        assert_eq!(
            watcher.next().await,
            [Change::Removed(JobId::parse("a").unwrap())]
        );
        board.put(status("c", Phase::Pending, 0));
        assert_eq!(watcher.next().await.len(), 1);
    }

    #[tokio::test]
    async fn a_watcher_that_waits_is_woken() {
        let board = Board::default();
        let mut watcher = board.watch();
        watcher.next().await;
        let (seen, ()) = tokio::join!(watcher.next(), async {
            tokio::task::yield_now().await;
            board.put(status("a", Phase::Pending, 0));
        });
        assert_eq!(seen.len(), 1);
    }
}
