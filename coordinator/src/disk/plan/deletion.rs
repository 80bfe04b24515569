//! The end of a disk: job, holder, prime claim, finalizer, in this order. The
//! disk's claim goes with the disk by its owner reference, unless the user
//! wants it orphaned.
//!
//! Invariant: the finalizer always comes off. Every wait has a deadline;
//! past it, what remains was asked to go already and is Kubernetes' to end.

use std::time::Duration;

use hypercloud_api::{DiskPhase, names};
use k8s_openapi::jiff::Timestamp;

use super::super::observation::Observation;
use super::super::verdict::{Action, Plan, Verdict, waiting};
use super::delete_claim;
use crate::again::Again;
use crate::work::ending::{self, Ending, PATIENCE, Remains};

/// How often the end of something is looked for.
const RECHECK: Duration = Duration::from_secs(5);

/// The finalizer by which `kubectl delete --cascade=orphan` keeps what an
/// object owns.
const ORPHAN: &str = "orphan";

/// The next step of the disk's deletion.
pub(super) fn plan(seen: &Observation, now: Timestamp) -> Plan {
    if !seen.has_finalizer(names::FINALIZER) {
        return Plan::say(Verdict::Keep, Again::OnChange);
    }
    let asked = seen.disk.metadata.deletion_timestamp.as_ref();
    let copy = seen.disk.status.as_ref().and_then(|s| s.copy.as_ref());
    let running = copy
        .filter(|copy| copy.completion_time.is_none())
        .map(|copy| copy.node_name.as_str());
    let remains = Remains {
        holders: &seen.holders,
        agents: &seen.agents,
        running,
        asked: asked.map_or(now, |time| time.0),
    };
    let jobs = match ending::step(&remains, now) {
        Ending::Wait(message) => return wait(message),
        Ending::Act(actions) => {
            let actions = actions.into_iter().map(Action::Copy).collect();
            return act(actions, "the copy and its holder pod are being stopped");
        }
        Ending::Over(jobs) => jobs.into_iter().map(Action::Copy),
    };
    let mut actions: Vec<Action> = jobs.collect();
    if let Some(prime) = seen.own_prime() {
        match prime.deleting_since {
            None => {
                let uid = prime.uid.clone();
                actions.push(Action::DeletePrime { uid });
                return act(actions, "the volume that was being filled is being deleted");
            }
            // A claim whose holder hangs on a lost node waits for it; so
            // would the disk.
            Some(since) if seen.holders.is_empty() && now.duration_since(since) <= PATIENCE => {
                let mut plan = wait("waiting for the end of the former volume".to_owned());
                plan.actions = actions;
                return plan;
            }
            Some(_) => {}
        }
    }
    // Who keeps the claim keeps a disk, not a wait that has no end.
    if let Some(claim) = seen.own_claim()
        && seen.has_finalizer(ORPHAN)
        && claim.handed
        && claim.volume_name.is_none()
        && !(claim.lost || claim.deleting || seen.is_handed_over())
    {
        actions.push(delete_claim(claim));
    }
    actions.push(Action::RemoveFinalizer);
    Plan {
        actions,
        verdict: Verdict::Keep,
        again: Again::OnChange,
    }
}

fn act(actions: Vec<Action>, message: &str) -> Plan {
    Plan {
        actions,
        verdict: waiting(DiskPhase::Deleting, "Deleting", message),
        again: Again::Now,
    }
}

fn wait(message: String) -> Plan {
    let verdict = waiting(DiskPhase::Deleting, "Deleting", message);
    Plan::say(verdict, Again::After(RECHECK))
}
