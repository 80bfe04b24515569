//! What the Jobs that are there come to: which answer holds, what is asked
//! anew, and what is done next. Pure.
//!
//! Invariant: an answer that was asked for before something was done does not
//! hold after it.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::task::{ANNOTATION_FRESH, LABEL_OSD, LABEL_TASK, Task};

/// How old an answer may be, in seconds, before Ceph is asked again: at first,
/// and after many answers between which nothing was done. Data may take days
/// to move.
const FRESH: (i64, i64) = (20, 300);
/// How long after a question that failed it is asked again.
const REPEAT: SignedDuration = SignedDuration::from_secs(15);
/// How long after something was done it may take to show.
const SHOWS: SignedDuration = SignedDuration::from_secs(30);
/// How long after something failed, with all its tries, it is tried anew.
const ANEW: SignedDuration = SignedDuration::from_secs(300);

/// A Job of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSeen {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// What it does.
    pub task: Task,
    /// When it was made.
    pub created: Timestamp,
    /// How it is.
    pub state: JobState,
    /// How many of its pods failed.
    pub failed_pods: i32,
    /// How many seconds its answer is good for.
    pub fresh: i64,
}

/// How a Job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It has not ended.
    Running,
    /// It succeeded then.
    Complete(Timestamp),
    /// It failed then, for this reason.
    Failed(Timestamp, String),
}

impl JobSeen {
    /// What is of interest in a Job; none of one that is not ours, or goes.
    #[must_use]
    pub fn read(job: &Job) -> Option<Self> {
        let metadata = &job.metadata;
        if metadata.deletion_timestamp.is_some() {
            return None;
        }
        let labels = metadata.labels.as_ref()?;
        let osd = labels.get(LABEL_OSD).map(String::as_str);
        let status = job.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let created = metadata.creation_timestamp.as_ref()?.0;
        let mut state = JobState::Running;
        for condition in conditions.into_iter().flatten() {
            let at = condition.last_transition_time.as_ref();
            let at = at.map_or(created, |time| time.0);
            match condition.type_.as_str() {
                _ if condition.status != "True" => {}
                "Complete" => state = JobState::Complete(at),
                "Failed" => {
                    let reason = condition.reason.clone().unwrap_or_default();
                    state = JobState::Failed(at, reason);
                }
                _ => {}
            }
        }
        Some(Self {
            name: metadata.name.clone()?,
            uid: metadata.uid.clone().unwrap_or_default(),
            task: Task::read(labels.get(LABEL_TASK)?, osd)?,
            created,
            state,
            failed_pods: status.and_then(|status| status.failed).unwrap_or(0),
            fresh: fresh(metadata.annotations.as_ref()),
        })
    }

    /// When it ended.
    #[must_use]
    pub fn ended(&self) -> Option<Timestamp> {
        match self.state {
            JobState::Running => None,
            JobState::Complete(at) | JobState::Failed(at, _) => Some(at),
        }
    }

    /// Whether it has been ended, or there, for that long. Clocks that differ
    /// are no reason to wait for ever.
    fn is_past(&self, limit: SignedDuration, now: Timestamp) -> bool {
        let since = self.ended().unwrap_or(self.created);
        let past = now.duration_since(since);
        past >= limit || past < -limit
    }
}

fn fresh(annotations: Option<&BTreeMap<String, String>>) -> i64 {
    let said = annotations.and_then(|annotations| annotations.get(ANNOTATION_FRESH));
    let seconds = said.and_then(|seconds| seconds.parse().ok());
    seconds.unwrap_or(FRESH.0).clamp(FRESH.0, FRESH.1)
}

/// What the Jobs come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course<'a> {
    /// The Job whose answer holds.
    pub answer: Option<&'a JobSeen>,
    /// The question that failed, where it was the last that ended.
    pub failed: Option<&'a JobSeen>,
    /// The question that is being asked.
    pub asking: Option<&'a JobSeen>,
    /// Whether Ceph is asked now.
    pub ask: bool,
    /// How many seconds the next answer is good for.
    pub fresh: i64,
    /// Jobs that are needed no more.
    pub done: Vec<&'a JobSeen>,
}

/// What these Jobs come to.
#[must_use]
pub fn course(jobs: &[JobSeen], now: Timestamp) -> Course<'_> {
    let mut looks: Vec<&JobSeen> = jobs.iter().filter(|job| job.task == Task::Look).collect();
    looks.sort_by_key(|job| (job.created, &job.name));
    let acted = || jobs.iter().filter(|job| job.task != Task::Look);
    let last_act = acted().filter_map(JobSeen::ended).max();
    let (ended, running): (Vec<&JobSeen>, Vec<&JobSeen>) =
        looks.into_iter().partition(|job| job.ended().is_some());
    let newest = ended.last().copied();
    // Times are of whole seconds.
    let holds = |job: &JobSeen| last_act.is_none_or(|at| job.created > at);
    let is_late = match newest {
        None => true,
        Some(job) => match job.state {
            JobState::Failed(..) => job.is_past(REPEAT, now),
            _ => !holds(job) || job.is_past(SignedDuration::from_secs(job.fresh), now),
        },
    };
    let asking = running.iter().copied().find(|job| holds(job));
    let complete = |job: &&JobSeen| matches!(job.state, JobState::Complete(_));
    let answer = newest.filter(complete).filter(|job| holds(job));
    let mut done: Vec<&JobSeen> = ended.iter().rev().skip(1).copied().collect();
    if answer.is_some() {
        // Whether a purge did what it was made for is seen by the answer.
        let marked = |job: &&JobSeen| !matches!(job.task, Task::Purge(_));
        let marks = acted().filter(complete).filter(marked);
        done.extend(marks.filter(|job| job.is_past(SHOWS, now)));
    }
    Course {
        answer,
        failed: newest.filter(|job| !complete(job)),
        ask: asking.is_none() && is_late,
        fresh: answer.map_or(FRESH.0, |job| (job.fresh * 3 / 2).min(FRESH.1)),
        asking,
        done,
    }
}

/// What is done towards a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// Nothing: it is being done, or was done or failed a moment ago.
    Wait,
    /// Its Job is made.
    Make,
    /// These Jobs are taken away first.
    Clear(Vec<&'a JobSeen>),
}

/// What is done towards `task`, which is about an OSD.
#[must_use]
pub fn next(task: Task, jobs: &[JobSeen], now: Timestamp) -> Next<'_> {
    let of_osd = || {
        let looks = |job: &&JobSeen| job.task.osd().is_some() && job.task.osd() == task.osd();
        jobs.iter().filter(looks)
    };
    let others: Vec<&JobSeen> = of_osd()
        .filter(|job| job.task != task && job.ended().is_none())
        .collect();
    if !others.is_empty() {
        return Next::Clear(others);
    }
    let Some(job) = of_osd().find(|job| job.task == task) else {
        return Next::Make;
    };
    let limit = match (&job.state, task) {
        (JobState::Running, _) => return Next::Wait,
        // Rook's says that it is complete whatever came of it.
        (JobState::Failed(..), _) | (_, Task::Purge(_)) => ANEW,
        (JobState::Complete(_), _) => SHOWS,
    };
    match job.is_past(limit, now) {
        true => Next::Clear(vec![job]),
        false => Next::Wait,
    }
}

#[cfg(test)]
mod tests;
