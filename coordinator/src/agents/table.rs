//! What the agents' streams told: every node's link and jobs. Pure: time is
//! an argument.
//!
//! Invariants: a node counts as synced only once its snapshot is complete,
//! and the jobs of a snapshot replace the former ones as a whole; progress
//! alone wakes the owner of a job at most once per [`PROGRESS_INTERVAL`],
//! while a change of state, of what it waits for, or of what it may have in a
//! store, always does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use hypercloud_api::names;
use k8s_openapi::jiff::Timestamp;

use super::rate::Meter;
use super::{AgentState, Job, JobSeen};

/// How often progress alone is worth a reconcile.
pub const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Who has to look because of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The resource with this UID.
    Owner(String),
    /// Every resource with something under way: an agent came or went.
    Agents,
    /// Whoever has to do with the devices of this node.
    Devices(String),
}

/// The agents' links and jobs.
#[derive(Debug)]
pub struct Table {
    nodes: BTreeMap<String, Node>,
    started: Timestamp,
}

#[derive(Debug)]
struct Node {
    link: Link,
    jobs: BTreeMap<String, Known>,
}

#[derive(Debug)]
enum Link {
    Away {
        since: Timestamp,
    },
    /// Connected; the snapshot is on its way.
    Syncing {
        since: Timestamp,
        snapshot: BTreeMap<String, Known>,
    },
    Synced,
}

#[derive(Clone, Debug)]
struct Known {
    job: Job,
    told: Instant,
    meter: Meter,
}

impl Known {
    fn new(job: Job, now: Instant) -> Self {
        let meter = Meter::new(job.progress.received, now);
        Self {
            job,
            told: now,
            meter,
        }
    }
}

impl Table {
    /// A table of a coordinator that knows of no agent before `started`.
    pub fn new(started: Timestamp) -> Self {
        Self {
            nodes: BTreeMap::new(),
            started,
        }
    }

    /// Nodes whose agent can be asked.
    pub fn synced(&self) -> Vec<String> {
        let synced = |node: &&Node| matches!(node.link, Link::Synced);
        self.nodes
            .iter()
            .filter(|(_, node)| synced(node))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Whether the agent of `node` can be asked.
    pub fn state(&self, node: &str) -> AgentState {
        match self.nodes.get(node).map(|node| &node.link) {
            Some(Link::Synced) => AgentState::Synced,
            Some(Link::Away { since } | Link::Syncing { since, .. }) => {
                AgentState::Away { since: *since }
            }
            None => AgentState::Away {
                since: self.started,
            },
        }
    }

    /// Every known job.
    pub fn jobs(&self) -> Vec<JobSeen> {
        let jobs = |(name, node): (&String, &Node)| {
            let seen = |known: &Known| JobSeen {
                node: name.clone(),
                job: known.job.clone(),
            };
            node.jobs.values().map(seen).collect::<Vec<_>>()
        };
        self.nodes.iter().flat_map(jobs).collect()
    }

    /// The jobs that belong to the resource with this UID.
    pub fn jobs_of(&self, uid: &str) -> Vec<JobSeen> {
        let mut jobs = self.jobs();
        jobs.retain(|seen| owner(&seen.job.id) == Some(uid));
        jobs
    }

    /// The agent answers; its snapshot follows.
    pub fn connected(&mut self, node: &str) {
        let since = match self.state(node) {
            AgentState::Away { since } => since,
            AgentState::Synced => self.started,
        };
        self.entry(node).link = Link::Syncing {
            since,
            snapshot: BTreeMap::new(),
        };
    }

    /// A job as it stands.
    pub fn changed(&mut self, node: &str, mut job: Job, now: Instant) -> Option<Change> {
        let entry = self.entry(node);
        if let Link::Syncing { snapshot, .. } = &mut entry.link {
            snapshot.insert(job.id.clone(), Known::new(job, now));
            return None;
        }
        let change = owner(&job.id).map(|uid| Change::Owner(uid.to_owned()));
        let Some(known) = entry.jobs.get_mut(&job.id) else {
            entry.jobs.insert(job.id.clone(), Known::new(job, now));
            return change;
        };
        known.meter.update(job.progress.received, now);
        job.rate = known.meter.rate();
        let tell = known.job.state != job.state
            || known.job.awaiting_access != job.awaiting_access
            || known.job.upload_id != job.upload_id
            || now.duration_since(known.told) >= PROGRESS_INTERVAL;
        if tell {
            known.told = now;
        }
        known.job = job;
        change.filter(|_| tell)
    }

    /// The snapshot is complete. Owners of its jobs have to look even where
    /// nothing of theirs is under way: the job is left from before.
    pub fn complete(&mut self, node: &str) -> Vec<Change> {
        let entry = self.entry(node);
        match std::mem::replace(&mut entry.link, Link::Synced) {
            Link::Syncing { snapshot, .. } => {
                entry.jobs = snapshot;
                let owners: BTreeSet<&str> = entry.jobs.keys().filter_map(|id| owner(id)).collect();
                let owners = owners.into_iter().map(|uid| Change::Owner(uid.to_owned()));
                std::iter::once(Change::Agents).chain(owners).collect()
            }
            Link::Synced | Link::Away { .. } => Vec::new(),
        }
    }

    /// A job is gone.
    pub fn removed(&mut self, node: &str, id: &str) -> Option<Change> {
        let entry = self.entry(node);
        if let Link::Syncing { snapshot, .. } = &mut entry.link {
            snapshot.remove(id);
        }
        entry.jobs.remove(id)?;
        owner(id).map(|uid| Change::Owner(uid.to_owned()))
    }

    /// A job that the agent says it started. The stream may have told more
    /// of it already.
    pub fn started(&mut self, node: &str, job: &Job, now: Instant) {
        let known = Known::new(job.clone(), now);
        self.entry(node).jobs.entry(job.id.clone()).or_insert(known);
    }

    /// The agent does not answer any more, or its pod is gone. What it was
    /// doing is remembered.
    pub fn disconnected(&mut self, node: &str, now: Timestamp) -> Option<Change> {
        let started = self.started;
        let entry = self.entry(node);
        let (since, change) = match &entry.link {
            Link::Synced => (now, Some(Change::Agents)),
            Link::Away { since } | Link::Syncing { since, .. } => (*since, None),
        };
        entry.link = Link::Away {
            since: since.max(started),
        };
        change
    }

    fn entry(&mut self, node: &str) -> &mut Node {
        let since = self.started;
        self.nodes.entry(node.to_owned()).or_insert_with(|| Node {
            link: Link::Away { since },
            jobs: BTreeMap::new(),
        })
    }
}

/// UID of the resource that a job belongs to.
fn owner(job_id: &str) -> Option<&str> {
    names::parse_job_id(job_id).map(|(uid, _)| uid)
}

#[cfg(test)]
mod tests {
    use super::super::{JobState, Progress};
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn job(id: &str, state: JobState, done: u64) -> Job {
        let progress = Progress {
            total: 100,
            done,
            ..Progress::default()
        };
        Job {
            id: id.into(),
            state,
            progress,
            ..Job::default()
        }
    }

    fn synced(jobs: &[Job], now: Instant) -> Table {
        let mut table = Table::new(at(0));
        table.connected("n1");
        for job in jobs {
            assert_eq!(table.changed("n1", job.clone(), now), None);
        }
        assert_eq!(table.synced(), Vec::<String>::new());
        let told = table.complete("n1");
        assert_eq!(told[0], Change::Agents);
        let owners: Vec<_> = jobs.iter().filter_map(|job| owner(&job.id)).collect();
        let owners: Vec<_> = owners
            .iter()
            .map(|uid| Change::Owner((*uid).to_owned()))
            .collect();
        assert_eq!(told[1..], owners);
        table
    }

    #[test]
    fn a_snapshot_counts_as_a_whole() {
        let now = Instant::now();
        let mut table = synced(&[job("a-0", JobState::Pending, 0)], now);
        assert_eq!(table.synced(), ["n1"]);
        assert_eq!(table.jobs_of("a").len(), 1);
        assert_eq!(table.jobs_of("b").len(), 0);
        // The agent comes back without its job: it is gone.
        assert_eq!(table.disconnected("n1", at(50)), Some(Change::Agents));
        assert_eq!(table.state("n1"), AgentState::Away { since: at(50) });
        assert_eq!(table.jobs_of("a").len(), 1);
        table.connected("n1");
        assert_eq!(table.state("n1"), AgentState::Away { since: at(50) });
        assert_eq!(table.complete("n1"), [Change::Agents]);
        assert_eq!(table.jobs_of("a").len(), 0);
    }

    #[test]
    fn progress_wakes_once_a_second_and_a_state_always() {
        let now = Instant::now();
        let mut table = synced(&[job("a-0", JobState::Transferring, 0)], now);
        let later = |ms| now + Duration::from_millis(ms);
        let owner = Some(Change::Owner("a".into()));
        let step = |done| job("a-0", JobState::Transferring, done);
        assert_eq!(table.changed("n1", step(1), later(300)), None);
        assert_eq!(table.changed("n1", step(2), later(600)), None);
        assert_eq!(table.changed("n1", step(3), later(1000)), owner);
        assert_eq!(table.changed("n1", step(4), later(1300)), None);
        let done = job("a-0", JobState::Succeeded, 100);
        assert_eq!(table.changed("n1", done.clone(), later(1301)), owner);
        assert_eq!(table.jobs_of("a")[0].job.state, done.state);
    }

    #[test]
    fn a_job_that_waits_wakes_and_one_that_receives_has_a_rate() {
        let now = Instant::now();
        let waiting = Job {
            awaiting_access: true,
            ..job("a-0", JobState::Pending, 0)
        };
        let mut table = synced(&[waiting], now);
        let later = |ms| now + Duration::from_millis(ms);
        let owner = Some(Change::Owner("a".into()));
        let mut next = job("a-0", JobState::Pending, 0);
        assert_eq!(table.changed("n1", next.clone(), later(10)), owner);
        next.progress.received = 3000;
        table.changed("n1", next, later(3000));
        assert_eq!(table.jobs_of("a")[0].job.rate, Some(1000));
    }

    #[test]
    fn an_answer_never_overtakes_the_stream() {
        let now = Instant::now();
        let mut table = synced(&[], now);
        let done = job("a-0", JobState::Succeeded, 100);
        table.changed("n1", done.clone(), now);
        table.started("n1", &job("a-0", JobState::Pending, 0), now);
        assert_eq!(table.jobs_of("a")[0].job, done);
        assert_eq!(table.removed("n1", "a-0"), Some(Change::Owner("a".into())));
        assert_eq!(table.removed("n1", "a-0"), None);
    }

    #[test]
    fn a_node_never_heard_of_is_away_since_the_start() {
        let mut table = Table::new(at(7));
        assert_eq!(table.state("n9"), AgentState::Away { since: at(7) });
        assert_eq!(table.disconnected("n9", at(90)), None);
        assert_eq!(table.state("n9"), AgentState::Away { since: at(7) });
    }
}
