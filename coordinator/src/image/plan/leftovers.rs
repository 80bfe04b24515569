//! Jobs, holders and claims that a former state of the image left behind.
//!
//! Order: the job first, because its answer says that the volume is closed;
//! then the holder, because its end releases the volume; then the claim.

use hypercloud_api::ImagePhase;
use k8s_openapi::jiff::Timestamp;

use super::super::observation::Observation;
use super::super::verdict::{Action, Plan, Verdict, waiting};
use crate::again::{Again, RECHECK};
use crate::agents::JobSeen;
use crate::agents::seen::AGENT_LIMIT;
use crate::holder::HolderSeen;

/// After the end of every try: nothing is kept, least of all a claim that is
/// half filled.
pub(super) fn after_failure(seen: &Observation) -> Plan {
    let mut actions = cancel(seen, |_| true);
    actions.extend(release(seen, |_| true));
    // Behind the cancellations, which may fail for ever.
    if seen.holders.is_empty()
        && let Some(claim) = seen.own_claim()
        && claim.deleting_since.is_none()
    {
        actions.push(Action::DeleteClaim {
            uid: claim.uid.clone(),
        });
    }
    rest(actions, Verdict::Keep)
}

/// After the import: the job is forgotten, the claim stays.
pub(super) fn after_success(seen: &Observation) -> Plan {
    let mut actions = release(seen, |_| true);
    actions.extend(cancel(seen, |_| true));
    rest(actions, Verdict::Ready)
}

/// What former tries left; the present one waits until it is gone.
pub(super) fn of_other_tries(seen: &Observation, now: Timestamp) -> Option<Plan> {
    let id = seen.job_id();
    let name = seen.holder_name();
    let transfer = seen
        .image
        .status
        .as_ref()
        .and_then(|status| status.transfer.as_ref());
    let stale_job = |seen: &JobSeen| {
        seen.job.id != id
            || transfer.is_none_or(|chosen| chosen.job_id != id || chosen.node_name != seen.node)
    };
    let mut actions = cancel(seen, stale_job);
    actions.extend(release(seen, |holder| holder.name != name));
    if !actions.is_empty() {
        return Some(Plan {
            actions,
            verdict: Verdict::Keep,
            again: Again::Now,
        });
    }
    let many_nodes = seen.own_claim().is_some_and(|claim| claim.many_nodes);
    let others = seen.holders.iter().filter(|holder| holder.name != name);
    let (former, abandoned) = others
        .map(|holder| (holder, holder.is_abandoned(&seen.agents, AGENT_LIMIT, now)))
        .find(|(_, abandoned)| many_nodes || !abandoned)?;
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
    let verdict = waiting(ImagePhase::Preparing, "HolderTerminating", message);
    Some(Plan::say(verdict, Again::After(RECHECK)))
}

/// Cancels the jobs that `which` picks, where the agent can be asked.
pub(super) fn cancel(seen: &Observation, which: impl Fn(&JobSeen) -> bool) -> Vec<Action> {
    let agents = &seen.agents;
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
pub(super) fn release(seen: &Observation, which: impl Fn(&HolderSeen) -> bool) -> Vec<Action> {
    seen.holders
        .iter()
        .filter(|holder| holder.deleting_since.is_none() && which(holder))
        .map(|holder| Action::DeleteHolder {
            name: holder.name.clone(),
            uid: holder.uid.clone(),
        })
        .collect()
}

/// Does `actions` and looks again; with none, waits for a change.
fn rest(actions: Vec<Action>, verdict: Verdict) -> Plan {
    let again = if actions.is_empty() {
        Again::OnChange
    } else {
        Again::Now
    };
    Plan {
        actions,
        verdict,
        again,
    }
}
