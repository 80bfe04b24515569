//! What one look found of the agents, as values that a plan can be made of.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{AgentState, Agents, Job, JobSeen};

/// How long an agent may be away before a try is given up.
pub const AGENT_LIMIT: SignedDuration = SignedDuration::from_mins(5);
/// How long an agent may be away before a status speaks of it.
pub const AGENT_GRACE: SignedDuration = SignedDuration::from_secs(15);

/// The agents as they concern one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentsSeen {
    /// Nodes whose agent can be asked, sorted.
    pub synced: Vec<String>,
    /// Nodes that matter to the resource and whose agent cannot be asked, with
    /// the time since when.
    pub away: BTreeMap<String, Timestamp>,
    /// Jobs that belong to the resource, of any try.
    pub jobs: Vec<JobSeen>,
}

impl AgentsSeen {
    /// What the agents' streams told of the resource with this UID, of
    /// `nodes` and of the nodes its jobs are on.
    pub fn of<'a>(
        agents: &dyn Agents,
        uid: &str,
        nodes: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let jobs = agents.jobs_of(uid);
        let mut nodes: BTreeSet<String> = nodes.into_iter().map(str::to_owned).collect();
        nodes.extend(jobs.iter().map(|job| job.node.clone()));
        let away: BTreeMap<_, _> = nodes
            .into_iter()
            .filter_map(|node| match agents.state(&node) {
                AgentState::Away { since } => Some((node, since)),
                AgentState::Synced => None,
            })
            .collect();
        Self {
            synced: agents.synced(),
            away,
            jobs,
        }
    }

    /// Whether the agent of `node` can be asked.
    pub fn state(&self, node: &str, now: Timestamp) -> AgentState {
        if self.synced.iter().any(|name| name == node) {
            return AgentState::Synced;
        }
        AgentState::Away {
            since: self.away.get(node).copied().unwrap_or(now),
        }
    }

    /// The job of this identity on `node`.
    pub fn job(&self, node: &str, id: &str) -> Option<&Job> {
        self.jobs
            .iter()
            .find(|seen| seen.node == node && seen.job.id == id)
            .map(|seen| &seen.job)
    }
}
