//! Jobs and holders that former tries left behind. Pure.
//!
//! Order: the job first, because its answer says that the volumes are closed;
//! then the holder, because its end releases them.

use k8s_openapi::jiff::Timestamp;

use super::plan::{Action, Step, Task};
use crate::agents::seen::AGENT_LIMIT;
use crate::agents::{AgentsSeen, JobSeen};
use crate::holder::HolderSeen;

/// What former tries left; the present one, whose job is `id`, waits until it
/// is gone.
pub(super) fn of_other_tries<J, const N: usize>(
    task: &Task<'_, N>,
    id: &str,
    now: Timestamp,
) -> Option<Step<J>> {
    let stale_job = |seen: &JobSeen| {
        let chosen = task
            .chosen
            .filter(|chosen| chosen.job_id == id && chosen.node == seen.node);
        seen.job.id != id || chosen.is_none()
    };
    let mut actions = cancel(task.agents, stale_job);
    actions.extend(release(task.holders, |holder| {
        holder.name != task.holder_name
    }));
    if !actions.is_empty() {
        return Some(Step::Clear(actions));
    }
    let others = task
        .holders
        .iter()
        .filter(|holder| holder.name != task.holder_name);
    let (former, abandoned) = others
        .map(|holder| (holder, holder.is_abandoned(task.agents, AGENT_LIMIT, now)))
        .find(|(_, abandoned)| task.many_nodes || !abandoned)?;
    let mut message = format!(
        "waiting for the end of the former holder pod {}",
        former.name
    );
    if abandoned {
        // No attachment keeps the former agent from writing on.
        let node = former.node.as_deref().unwrap_or_default();
        message += &format!(
            ": node {node} does not answer and could still write to the volume, which several nodes may attach; bring the node back, or delete the pod by force once the node is off"
        );
    }
    Some(Step::Wait {
        reason: "HolderTerminating".to_owned(),
        message,
    })
}

/// Cancels the jobs that `which` picks, where the agent can be asked.
pub fn cancel<J>(agents: &AgentsSeen, which: impl Fn(&JobSeen) -> bool) -> Vec<Action<J>> {
    agents
        .jobs
        .iter()
        .filter(|job| agents.synced.contains(&job.node) && which(job))
        .map(|job| Action::CancelJob {
            node: job.node.clone(),
            job_id: job.job.id.clone(),
        })
        .collect()
}

/// Deletes the holders that `which` picks and nobody deleted yet.
pub fn release<J>(holders: &[HolderSeen], which: impl Fn(&HolderSeen) -> bool) -> Vec<Action<J>> {
    holders
        .iter()
        .filter(|holder| holder.deleting_since.is_none() && which(holder))
        .map(|holder| Action::DeleteHolder {
            name: holder.name.clone(),
            uid: holder.uid.clone(),
        })
        .collect()
}
