//! The end of an image: job, holder, claim, finalizer, in this order.
//!
//! Invariant: the finalizer always comes off. Every wait but one has a
//! deadline; past it, what remains was asked to go already and is Kubernetes'
//! to end (owner references), and a job on an agent that comes back later
//! belongs to no image and is collected. Clones under way are waited for as
//! long as their owners want them: with the claim gone they would never come
//! to their data.

use hypercloud_api::{ImagePhase, names};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::super::CLONING_UNDER_WAY;
use super::super::observation::Observation;
use super::super::verdict::{Action, Plan, Verdict, waiting};
use super::leftovers::{cancel, release};
use crate::again::{Again, RECHECK};
use crate::agents::{AgentState, JobSeen, JobState};
use crate::holder::HolderSeen;

/// How long an agent that is away is waited for, to cancel its job.
const AGENT_PATIENCE: SignedDuration = SignedDuration::from_secs(30);
/// How long a cancellation is waited for.
const CANCEL_PATIENCE: SignedDuration = SignedDuration::from_mins(2);
/// How long a holder is waited for on a node that does not answer.
const LOST_HOLDER_PATIENCE: SignedDuration = SignedDuration::from_secs(60);
/// How long anything that is being deleted is waited for.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// The finalizer by which `kubectl delete --cascade=orphan` keeps what an
/// object owns.
const ORPHAN: &str = "orphan";

/// Claims that a message names; of the others it says how many they are.
const NAMED: usize = 3;

/// The next step of the image's deletion. Jobs whose time to be cancelled is
/// over, perhaps because nobody led meanwhile, are cancelled beside it.
pub(super) fn plan(seen: &Observation, now: Timestamp) -> Plan {
    if !seen.has_finalizer(names::FINALIZER) {
        return Plan::say(Verdict::Keep, Again::OnChange);
    }
    let asked = seen
        .image
        .metadata
        .deletion_timestamp
        .as_ref()
        .map_or(now, |time| time.0);
    let mut plan = step(seen, asked, now);
    if now.duration_since(asked) > CANCEL_PATIENCE {
        plan.actions.splice(..0, cancel(seen, |_| true));
    }
    plan
}

/// What the deletion that was `asked` for waits for, or does next.
fn step(seen: &Observation, asked: Timestamp, now: Timestamp) -> Plan {
    if let Some(node) = awaited_agent(seen, asked, now) {
        let message = format!("waiting for the agent of node {node} to stop the job");
        return wait(message);
    }
    let mut actions = Vec::new();
    if now.duration_since(asked) <= CANCEL_PATIENCE {
        actions.extend(cancel(seen, |_| true));
    }
    actions.extend(release(seen, |_| true));
    if !actions.is_empty() {
        return act(actions, "the job and its holder pod are being stopped");
    }
    if let Some(holder) = seen
        .holders
        .iter()
        .find(|holder| awaited(seen, holder, now))
    {
        return wait(format!(
            "waiting for the end of the holder pod {}",
            holder.name
        ));
    }
    if let Some(claim) = seen.own_claim()
        && !seen.has_finalizer(ORPHAN)
    {
        let name = names::image_claim(seen.name());
        match claim.deleting_since {
            None if !seen.clones.is_empty() => return cloning(&seen.clones),
            None => {
                let uid = claim.uid.clone();
                let message = format!("the claim {name} is being deleted");
                return act(vec![Action::DeleteClaim { uid }], &message);
            }
            // A claim whose holder hangs on a lost node waits for it; so
            // would the image.
            Some(since) if seen.holders.is_empty() && now.duration_since(since) <= PATIENCE => {
                return wait(format!("waiting for the end of the claim {name}"));
            }
            Some(_) => {}
        }
    }
    Plan::one(Action::RemoveFinalizer, Verdict::Keep, Again::OnChange)
}

/// A node whose agent has a job of the image, or may have one, and is away,
/// but not for too long.
fn awaited_agent(seen: &Observation, asked: Timestamp, now: Timestamp) -> Option<String> {
    let status = seen.image.status.as_ref();
    let running = status
        .filter(|status| !matches!(status.phase, Some(ImagePhase::Ready | ImagePhase::Failed)))
        .and_then(|status| status.transfer.as_ref())
        .filter(|transfer| transfer.completion_time.is_none())
        .map(|transfer| transfer.node_name.as_str());
    // A job that ended has closed its volume.
    let at_work =
        |job: &&JobSeen| !matches!(job.job.state, JobState::Succeeded | JobState::Failed(_));
    let jobs = seen.agents.jobs.iter().filter(at_work);
    let known = jobs.map(|job| job.node.as_str());
    running
        .into_iter()
        .chain(known)
        .find(|node| match seen.agents.state(node, now) {
            AgentState::Synced => false,
            AgentState::Away { since } => {
                now.duration_since(asked.max(since)) <= AGENT_PATIENCE
                    && now.duration_since(asked) <= CANCEL_PATIENCE
            }
        })
        .map(str::to_owned)
}

/// Whether the end of a holder is still worth waiting for.
fn awaited(seen: &Observation, holder: &HolderSeen, now: Timestamp) -> bool {
    let since = holder.deleting_since.unwrap_or(now);
    now.duration_since(since) <= PATIENCE
        && !holder.is_abandoned(&seen.agents, LOST_HOLDER_PATIENCE, now)
}

/// The claims called `clones` are still to come to the image's data.
fn cloning(clones: &[String]) -> Plan {
    let (named, others) = clones.split_at(clones.len().min(NAMED));
    let more = match others.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let message = format!(
        "waiting for the claims that are being cloned from the image: {}{more}; the deletion goes on when they are Bound, or when their VirtualMachinePvcs are deleted",
        named.join(", ")
    );
    let verdict = waiting(ImagePhase::Deleting, CLONING_UNDER_WAY, message);
    Plan::say(verdict, Again::After(RECHECK))
}

fn act(actions: Vec<Action>, message: &str) -> Plan {
    Plan {
        actions,
        verdict: waiting(ImagePhase::Deleting, "Deleting", message),
        again: Again::Now,
    }
}

fn wait(message: String) -> Plan {
    let verdict = waiting(ImagePhase::Deleting, "Deleting", message);
    Plan::say(
        verdict,
        Again::After(RECHECK.min(std::time::Duration::from_secs(5))),
    )
}
