//! Jobs, holders and claims that a former state of the disk left behind.
//!
//! Order: the job first, because its answer says that the volumes are closed;
//! then the holder, because its end releases them; then the claims.

use hypercloud_api::DiskPhase;
use k8s_openapi::jiff::Timestamp;

use super::super::observation::{ClaimSeen, Observation};
use super::super::verdict::{Action, Plan, Verdict, waiting};
use super::delete_claim;
use crate::again::{Again, RECHECK};
use crate::agents::seen::AGENT_LIMIT;
use crate::holder::HolderSeen;
use crate::work::leftovers::{cancel, release};

/// After the end of every try: nothing is kept but a claim that was the
/// disk once.
pub(super) fn after_failure(seen: &Observation, now: Timestamp) -> Plan {
    let actions = everything(seen, now);
    rest(actions, Verdict::Keep)
}

/// The claim is the disk: nothing else is needed any more.
pub(super) fn after_success(seen: &Observation, claim: &ClaimSeen, now: Timestamp) -> Plan {
    let mut actions = stop(seen);
    actions.extend(prime(seen, now));
    let capacity = claim.capacity;
    rest(actions, Verdict::Ready { capacity })
}

/// What former tries of a copy left is asked to go before the next try's
/// time has come.
pub(super) fn of_other_tries(seen: &Observation) -> Option<Plan> {
    let (id, name) = (seen.job_id(), seen.holder_name());
    let mut actions = cancel(&seen.agents, |job| job.job.id != id);
    actions.extend(release(&seen.holders, |holder| holder.name != name));
    let actions: Vec<Action> = actions.into_iter().map(Action::Copy).collect();
    (!actions.is_empty()).then(|| rest(actions, Verdict::Keep))
}

/// Takes away everything that was made, but for a claim that has its volume.
/// `None` once nothing is left.
pub(super) fn clear(seen: &Observation, now: Timestamp) -> Option<Plan> {
    let actions = everything(seen, now);
    let wait = |message: String| {
        let verdict = waiting(DiskPhase::Pending, "CleaningUp", message);
        Some(Plan::say(verdict, Again::After(RECHECK)))
    };
    if !actions.is_empty() {
        return Some(rest(actions, Verdict::Keep));
    }
    if let Some(holder) = left(seen, now) {
        return wait(format!(
            "waiting for the end of the former holder pod {}",
            holder.name
        ));
    }
    if seen.own_prime().is_some() {
        return wait("waiting for the end of the former volume".to_owned());
    }
    None
}

fn everything(seen: &Observation, now: Timestamp) -> Vec<Action> {
    let mut actions = stop(seen);
    actions.extend(prime(seen, now));
    let claim = seen.own_claim();
    let unfilled =
        claim.filter(|claim| claim.volume_name.is_none() && !claim.lost && !claim.deleting);
    actions.extend(unfilled.map(delete_claim));
    actions
}

/// Stops every job and lets go of every holder.
pub(super) fn stop(seen: &Observation) -> Vec<Action> {
    let mut actions = cancel(&seen.agents, |_| true);
    actions.extend(release(&seen.holders, |_| true));
    actions.into_iter().map(Action::Copy).collect()
}

/// Deletes the prime claim once no holder has it any more.
pub(super) fn prime(seen: &Observation, now: Timestamp) -> Option<Action> {
    let prime = seen.own_prime()?;
    let uid = prime.uid.clone();
    let free = left(seen, now).is_none() && prime.deleting_since.is_none();
    free.then_some(Action::DeletePrime { uid })
}

/// A holder whose end is worth waiting for.
fn left(seen: &Observation, now: Timestamp) -> Option<&HolderSeen> {
    let mut holders = seen.holders.iter();
    holders.find(|holder| !holder.is_abandoned(&seen.agents, AGENT_LIMIT, now))
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
