//! The next step of a copy. Pure: no client, no runtime, no clock.

use hypercloud_api::{CopyStatus, names};
use k8s_openapi::jiff::Timestamp;

use super::leftovers;
use crate::agents::seen::{AGENT_GRACE, AGENT_LIMIT};
use crate::agents::{
    AgentState, AgentsSeen, CopyJob, CopyVolume, Failure, Job, JobState, VolumeKind,
};
use crate::holder::{HolderSeen, HolderState, Problem};

/// What deciding about one copy needs.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// UID of the resource that the copy is for.
    pub uid: &'a str,
    /// Number of the present try.
    pub attempt: u32,
    /// Name of the present try's holder.
    pub holder_name: &'a str,
    /// Every holder of the resource, of any try.
    pub holders: &'a [HolderSeen],
    /// The agents, and what they do for the resource.
    pub agents: &'a AgentsSeen,
    /// What is written down of the copy, of any try.
    pub status: Option<&'a CopyStatus>,
    /// Volume that is read.
    pub source: VolumeSeen<'a>,
    /// Volume that is written.
    pub target: VolumeSeen<'a>,
    /// Whether the target may be attached to several nodes at once: then
    /// nothing but its end keeps a former holder's agent from writing.
    pub many_nodes: bool,
    /// Whether the target holds another state of the same disk.
    pub only_differences: bool,
}

/// One of the two volumes of a copy.
#[derive(Clone, Copy, Debug)]
pub struct VolumeSeen<'a> {
    /// Name of the PersistentVolume, once the claim is bound.
    pub name: Option<&'a str>,
    /// How the volume is presented.
    pub kind: VolumeKind,
    /// Why the claim is not bound, where something says so.
    pub problem: Option<&'a Problem>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make the holder pod of the present try.
    CreateHolder,
    /// Delete a holder pod, if it still is the one that was seen.
    DeleteHolder {
        /// Name of the pod.
        name: String,
        /// UID of the pod.
        uid: String,
    },
    /// Start a job, or find it running.
    StartJob {
        /// Node of the agent.
        node: String,
        /// The job.
        job: CopyJob,
    },
    /// Stop and forget a job.
    CancelJob {
        /// Node of the agent.
        node: String,
        /// Identity of the job.
        job_id: String,
    },
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// What former tries left is to be removed.
    Clear(Vec<Action>),
    /// The holder is to be made.
    CreateHolder,
    /// Not now, for a reason that is no failure; looked at again soon.
    Wait {
        /// One CamelCase word.
        reason: String,
        /// For people.
        message: String,
    },
    /// Not now, and not worth a word yet.
    Pause,
    /// The job is about to be started: to be written down before it is.
    Choose {
        /// Identity of the job.
        job_id: String,
        /// Node of the agent.
        node: String,
        /// UID of the holder that has the volumes.
        holder_uid: String,
    },
    /// The job that was chosen is to be started.
    Start {
        /// Node of the agent.
        node: String,
        /// The job.
        job: CopyJob,
    },
    /// The job is at work.
    Copying {
        /// Node of the agent.
        node: String,
        /// The job as last reported.
        job: Job,
    },
    /// The job succeeded: to be written down before the holder goes.
    Completed(Job),
    /// The job succeeded; what had to do with it is to go.
    Release(Vec<Action>),
    /// The job succeeded, and no holder has the volumes any more.
    Done,
    /// The present try failed.
    Failed(Failure),
}

/// The next step of the copy that `task` describes.
pub fn step(task: &Task<'_>, now: Timestamp) -> Step {
    let id = names::job_id(task.uid, task.attempt);
    let chosen = task.status.filter(|status| status.job_id == id);
    if chosen.is_some_and(|status| status.completion_time.is_some()) {
        return release(task.holders, task.agents, now);
    }
    if let Some(step) = leftovers::of_other_tries(task, &id, now) {
        return step;
    }
    match chosen {
        Some(status) => follow(task, status, now),
        None => choose(task, id, now),
    }
}

/// After the copy: the holder goes, and the job is forgotten.
pub fn release(holders: &[HolderSeen], agents: &AgentsSeen, now: Timestamp) -> Step {
    let mut actions = leftovers::release(holders, |_| true);
    actions.extend(leftovers::cancel(agents, |_| true));
    if !actions.is_empty() {
        return Step::Release(actions);
    }
    let left = |holder: &&HolderSeen| !holder.is_abandoned(agents, AGENT_LIMIT, now);
    match holders.iter().find(left) {
        Some(holder) => Step::Wait {
            reason: "Detaching".to_owned(),
            message: format!(
                "all is copied; waiting for the end of the holder pod {}",
                holder.name
            ),
        },
        None => Step::Done,
    }
}

/// Brings the volumes to a node, and settles on that node's agent.
fn choose(task: &Task<'_>, job_id: String, now: Timestamp) -> Step {
    let Some(holder) = present(task) else {
        return Step::CreateHolder;
    };
    if let Some(why) = holder.gone() {
        return lost(&why);
    }
    let node = match (&holder.state, &holder.node) {
        (HolderState::Holding, Some(node)) => node,
        (HolderState::Waiting(problem), _) => return wait_for_holder(task, problem.as_ref()),
        _ => return wait_for_holder(task, None),
    };
    if task.source.name.is_none() || task.target.name.is_none() {
        return wait_for_holder(task, None);
    }
    match task.agents.state(node, now) {
        AgentState::Synced => Step::Choose {
            job_id,
            node: node.clone(),
            holder_uid: holder.uid.clone(),
        },
        AgentState::Away { since } => wait_for_agent(node, since, now),
    }
}

/// The job is on its node: starts it if it is not known there; reports it if
/// it is at work.
fn follow(task: &Task<'_>, status: &CopyStatus, now: Timestamp) -> Step {
    let node = &status.node_name;
    let job = task.agents.job(node, &status.job_id);
    // What ended is believed even if the agent went away since.
    match job.map(|job| (job, &job.state)) {
        Some((job, JobState::Succeeded)) => return Step::Completed(job.clone()),
        Some((_, JobState::Failed(failure))) => return Step::Failed(failure.clone()),
        _ => {}
    }
    let Some(holder) = present(task) else {
        return lost("is gone");
    };
    if status.holder_uid.as_deref() != Some(&holder.uid) {
        return lost("was replaced");
    }
    if let Some(why) = holder.gone() {
        return lost(&why);
    }
    if let AgentState::Away { since } = task.agents.state(node, now) {
        return wait_for_agent(node, since, now);
    }
    if let Some(job) = job.filter(|job| !job.awaiting_access) {
        return Step::Copying {
            node: node.clone(),
            job: job.clone(),
        };
    }
    let (Some(source), Some(target)) = (task.source.name, task.target.name) else {
        return wait_for_holder(task, None);
    };
    if holder.state != HolderState::Holding {
        return wait_for_holder(task, None);
    }
    let volume = |name: &str, kind| CopyVolume {
        name: name.to_owned(),
        kind,
    };
    Step::Start {
        node: node.clone(),
        job: CopyJob {
            id: status.job_id.clone(),
            pod_uid: holder.uid.clone(),
            source: volume(source, task.source.kind),
            target: volume(target, task.target.kind),
            only_differences: task.only_differences,
        },
    }
}

/// The present try's holder.
fn present<'a>(task: &Task<'a>) -> Option<&'a HolderSeen> {
    task.holders
        .iter()
        .find(|holder| holder.name == task.holder_name)
}

fn lost(what: &str) -> Step {
    Step::Failed(Failure {
        reason: "HolderLost".to_owned(),
        message: format!("the pod that holds the volumes {what}"),
        retryable: true,
    })
}

/// The holder is on its way, or something is in its way.
fn wait_for_holder(task: &Task<'_>, problem: Option<&Problem>) -> Step {
    match problem.or(task.source.problem).or(task.target.problem) {
        Some(problem) => Step::Wait {
            reason: problem.reason.clone(),
            message: problem.message.clone(),
        },
        None => Step::Wait {
            reason: "HolderStarting".to_owned(),
            message: "waiting for the volumes to be provisioned, attached and mounted".to_owned(),
        },
    }
}

/// The agent is away: silence at first, then a word, then another try.
fn wait_for_agent(node: &str, since: Timestamp, now: Timestamp) -> Step {
    let away = now.duration_since(since);
    if away > AGENT_LIMIT {
        return Step::Failed(Failure {
            reason: "AgentLost".to_owned(),
            message: format!(
                "the agent of node {node} has not answered for {} minutes",
                AGENT_LIMIT.as_mins()
            ),
            retryable: true,
        });
    }
    if away < AGENT_GRACE {
        return Step::Pause;
    }
    Step::Wait {
        reason: "AgentUnreachable".to_owned(),
        message: format!("waiting for the agent of node {node}, which does not answer"),
    }
}
