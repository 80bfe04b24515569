//! How work is given up, because its resource is deleted or has failed: the
//! job is stopped, then its holders go. Pure.
//!
//! Invariant: it always ends. Every wait has a deadline; past it, what
//! remains was asked to go already and is Kubernetes' to end, and a job on an
//! agent that comes back later belongs to nobody and is collected.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::leftovers::{cancel, release};
use super::plan::Action;
use crate::agents::{AgentState, AgentsSeen, JobSeen, JobState};
use crate::holder::HolderSeen;

/// How long an agent that is away is waited for, to cancel its job.
const AGENT_PATIENCE: SignedDuration = SignedDuration::from_secs(30);
/// How long a cancellation is waited for.
const CANCEL_PATIENCE: SignedDuration = SignedDuration::from_mins(2);
/// How long a holder is waited for on a node that does not answer.
const LOST_HOLDER_PATIENCE: SignedDuration = SignedDuration::from_secs(60);
/// How long anything that is being deleted is waited for.
pub const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// What is left of the work.
#[derive(Clone, Copy, Debug)]
pub struct Remains<'a> {
    /// Every holder of the resource.
    pub holders: &'a [HolderSeen],
    /// The agents, and what they do for the resource.
    pub agents: &'a AgentsSeen,
    /// Node of a job that may be at work, as far as the status tells.
    pub running: Option<&'a str>,
    /// When the end was asked for.
    pub asked: Timestamp,
}

/// How far the end is, of work with jobs `J`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending<J> {
    /// These are to be done; then it is looked at again.
    Act(Vec<Action<J>>),
    /// Something is waited for.
    Wait(String),
    /// Nothing is left that is worth waiting for. Jobs whose time to be
    /// cancelled is over are cancelled beside what comes next.
    Over(Vec<Action<J>>),
}

/// The next step of the end.
pub fn step<J>(remains: &Remains<'_>, now: Timestamp) -> Ending<J> {
    let Remains {
        holders,
        agents,
        asked,
        ..
    } = *remains;
    if let Some(node) = awaited_agent(remains, now) {
        return Ending::Wait(format!(
            "waiting for the agent of node {node} to stop the job"
        ));
    }
    let late = now.duration_since(asked) > CANCEL_PATIENCE;
    let jobs = cancel(agents, |_| true);
    let pods = release(holders, |_| true);
    if !pods.is_empty() || !(late || jobs.is_empty()) {
        return Ending::Act(jobs.into_iter().chain(pods).collect());
    }
    let awaited = |holder: &&HolderSeen| {
        let since = holder.deleting_since.unwrap_or(now);
        now.duration_since(since) <= PATIENCE
            && !holder.is_abandoned(agents, LOST_HOLDER_PATIENCE, now)
    };
    match holders.iter().find(awaited) {
        Some(holder) => Ending::Wait(format!(
            "waiting for the end of the holder pod {}",
            holder.name
        )),
        None => Ending::Over(jobs),
    }
}

/// A node whose agent has a job of the resource, or may have one, and is
/// away, but not for too long.
fn awaited_agent(remains: &Remains<'_>, now: Timestamp) -> Option<String> {
    let Remains { agents, asked, .. } = *remains;
    // A job that ended has closed its volumes.
    let at_work =
        |job: &&JobSeen| !matches!(job.job.state, JobState::Succeeded | JobState::Failed(_));
    let known = agents.jobs.iter().filter(at_work);
    let known = known.map(|job| job.node.as_str());
    remains
        .running
        .into_iter()
        .chain(known)
        .find(|node| match agents.state(node, now) {
            AgentState::Synced => false,
            AgentState::Away { since } => {
                now.duration_since(asked.max(since)) <= AGENT_PATIENCE
                    && now.duration_since(asked) <= CANCEL_PATIENCE
            }
        })
        .map(str::to_owned)
}
