//! The next step of work on volumes. Pure: no client, no runtime, no clock.

use hypercloud_api::names;
use k8s_openapi::jiff::Timestamp;

use super::leftovers;
use crate::agents::seen::{AGENT_GRACE, AGENT_LIMIT};
use crate::agents::{AgentState, AgentsSeen, Failure, Job, JobState, JobVolume, VolumeKind};
use crate::holder::{HolderSeen, HolderState, Problem};

/// What deciding about one piece of work needs.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a, const N: usize> {
    /// UID of the resource that the work is for.
    pub uid: &'a str,
    /// Number of the present try.
    pub attempt: u32,
    /// Name of the present try's holder.
    pub holder_name: &'a str,
    /// Every holder of the resource, of any try.
    pub holders: &'a [HolderSeen],
    /// The agents, and what they do for the resource.
    pub agents: &'a AgentsSeen,
    /// What is written down of the work, of any try.
    pub chosen: Option<Chosen<'a>>,
    /// The volumes that it takes.
    pub volumes: [VolumeSeen<'a>; N],
    /// Whether a volume that is written may be attached to several nodes at
    /// once: then nothing but its end keeps a former holder's agent from
    /// writing.
    pub many_nodes: bool,
}

/// A job as it is written down.
#[derive(Clone, Copy, Debug)]
pub struct Chosen<'a> {
    /// Identity of the job.
    pub job_id: &'a str,
    /// Node of the agent.
    pub node: &'a str,
    /// UID of the holder that has the volumes.
    pub holder_uid: Option<&'a str>,
    /// Whether it was seen to succeed.
    pub ended: bool,
}

/// A volume that work takes.
#[derive(Clone, Copy, Debug)]
pub struct VolumeSeen<'a> {
    /// Name of the PersistentVolume, once the claim is bound.
    pub name: Option<&'a str>,
    /// How the volume is presented.
    pub kind: VolumeKind,
    /// Why the claim is not bound, where something says so.
    pub problem: Option<&'a Problem>,
}

/// What a job needs to begin: everything is in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin<const N: usize> {
    /// Identity of the job.
    pub id: String,
    /// UID of the pod that holds the volumes.
    pub pod_uid: String,
    /// The volumes, in the task's order.
    pub volumes: [JobVolume; N],
}

/// One thing to do, for a job `J`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<J> {
    /// Make the holder pod of the present try.
    CreateHolder,
    /// Delete a holder pod, if it still is the one that was seen.
    DeleteHolder {
        /// Name of the pod.
        name: String,
        /// UID of the pod.
        uid: String,
    },
    /// Start a job, or find it running, or give it what it waits for.
    StartJob {
        /// Node of the agent.
        node: String,
        /// The job.
        job: J,
    },
    /// Stop and forget a job.
    CancelJob {
        /// Node of the agent.
        node: String,
        /// Identity of the job.
        job_id: String,
    },
}

/// What comes next, for a job `J`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<J> {
    /// What former tries left is to be removed.
    Clear(Vec<Action<J>>),
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
        job: J,
    },
    /// The job is at work.
    Working {
        /// Node of the agent.
        node: String,
        /// The job as last reported.
        job: Job,
    },
    /// The job succeeded: to be written down before the holder goes.
    Completed(Job),
    /// The job succeeded; what had to do with it is to go.
    Release(Vec<Action<J>>),
    /// The job succeeded, and no holder has the volumes any more.
    Done,
    /// The present try failed.
    Failed(Failure),
}

/// The next step of the work that `task` describes; `job` makes the job that
/// is started.
pub fn step<J, const N: usize>(
    task: &Task<'_, N>,
    now: Timestamp,
    job: impl FnOnce(Begin<N>) -> J,
) -> Step<J> {
    let id = names::job_id(task.uid, task.attempt);
    let chosen = task.chosen.filter(|chosen| chosen.job_id == id);
    if chosen.is_some_and(|chosen| chosen.ended) {
        return release(task.holders, task.agents, now);
    }
    if let Some(step) = leftovers::of_other_tries(task, &id, now) {
        return step;
    }
    match chosen {
        Some(chosen) => follow(task, chosen, now, job),
        None => choose(task, id, now),
    }
}

/// After the work: the holder goes, and the job is forgotten.
pub fn release<J>(holders: &[HolderSeen], agents: &AgentsSeen, now: Timestamp) -> Step<J> {
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
                "the work is done; waiting for the end of the holder pod {}",
                holder.name
            ),
        },
        None => Step::Done,
    }
}

/// Brings the volumes to a node, and settles on that node's agent.
fn choose<J, const N: usize>(task: &Task<'_, N>, job_id: String, now: Timestamp) -> Step<J> {
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
    if task.volumes.iter().any(|volume| volume.name.is_none()) {
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
fn follow<J, const N: usize>(
    task: &Task<'_, N>,
    chosen: Chosen<'_>,
    now: Timestamp,
    start: impl FnOnce(Begin<N>) -> J,
) -> Step<J> {
    let node = chosen.node;
    let job = task.agents.job(node, chosen.job_id);
    // What ended is believed even if the agent went away since.
    match job.map(|job| (job, &job.state)) {
        Some((job, JobState::Succeeded)) => return Step::Completed(job.clone()),
        Some((_, JobState::Failed(failure))) => return Step::Failed(failure.clone()),
        _ => {}
    }
    let Some(holder) = present(task) else {
        return lost("is gone");
    };
    if chosen.holder_uid != Some(holder.uid.as_str()) {
        return lost("was replaced");
    }
    if let Some(why) = holder.gone() {
        return lost(&why);
    }
    if let AgentState::Away { since } = task.agents.state(node, now) {
        return wait_for_agent(node, since, now);
    }
    if let Some(job) = job.filter(|job| !job.awaiting_access) {
        return Step::Working {
            node: node.to_owned(),
            job: job.clone(),
        };
    }
    let unbound = task.volumes.iter().any(|volume| volume.name.is_none());
    if unbound || holder.state != HolderState::Holding {
        return wait_for_holder(task, None);
    }
    let volumes = task.volumes.map(|volume| JobVolume {
        name: volume.name.unwrap_or_default().to_owned(),
        kind: volume.kind,
    });
    Step::Start {
        node: node.to_owned(),
        job: start(Begin {
            id: chosen.job_id.to_owned(),
            pod_uid: holder.uid.clone(),
            volumes,
        }),
    }
}

/// The present try's holder.
fn present<'a, const N: usize>(task: &Task<'a, N>) -> Option<&'a HolderSeen> {
    task.holders
        .iter()
        .find(|holder| holder.name == task.holder_name)
}

fn lost<J>(what: &str) -> Step<J> {
    Step::Failed(Failure {
        reason: "HolderLost".to_owned(),
        message: format!("the pod that holds the volumes {what}"),
        retryable: true,
    })
}

/// The holder is on its way, or something is in its way.
fn wait_for_holder<J, const N: usize>(task: &Task<'_, N>, problem: Option<&Problem>) -> Step<J> {
    let told = || task.volumes.iter().find_map(|volume| volume.problem);
    match problem.or_else(told) {
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
fn wait_for_agent<J>(node: &str, since: Timestamp, now: Timestamp) -> Step<J> {
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
