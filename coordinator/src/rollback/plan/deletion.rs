//! What is done when it is over: after the rollback's end the restored claim,
//! holders and jobs go; when the resource is deleted, the finalizer after
//! them.
//!
//! Invariant: the finalizer always comes off. Work that began is finished
//! before, unless it cannot be; see [`plan`](super::plan).

use hypercloud_api::{RollbackPhase, names};
use k8s_openapi::jiff::Timestamp;
use std::time::Duration;

use super::super::observation::Observation;
use super::super::verdict::{Action, Plan, Verdict, waiting};
use crate::again::{Again, RECHECK};
use crate::copy;
use crate::work::ending::{Ending, PATIENCE, Remains, step};

/// How often what is being deleted is looked at.
const SOON: Duration = Duration::from_secs(3);

/// After success or failure: nothing is kept but the resource.
pub(super) fn clean_up(seen: &Observation, now: Timestamp) -> Plan {
    let created = seen.rollback.metadata.creation_timestamp.as_ref();
    let asked = created.map_or(Timestamp::MIN, |time| time.0);
    let (mut actions, wait) = match step(&remains(seen, asked), now) {
        Ending::Act(actions) => (copies(actions), false),
        Ending::Wait(_) => (Vec::new(), true),
        Ending::Over(beside) => (copies(beside), false),
    };
    if seen.holders.is_empty() {
        actions.extend(delete_restored(seen));
    }
    let again = match (actions.is_empty(), wait) {
        (false, _) => Again::Now,
        (true, true) => Again::After(RECHECK),
        (true, false) => Again::OnChange,
    };
    Plan {
        actions,
        verdict: Verdict::Keep,
        again,
    }
}

/// The next step of the resource's deletion.
pub(super) fn plan(seen: &Observation, now: Timestamp) -> Plan {
    if !seen.has_finalizer(names::FINALIZER) {
        return Plan::say(Verdict::Keep, Again::OnChange);
    }
    let deletion = seen.rollback.metadata.deletion_timestamp.as_ref();
    let asked = deletion.map_or(now, |time| time.0);
    let mut beside = match step(&remains(seen, asked), now) {
        Ending::Act(actions) => {
            let message = "the job and its holder pod are being stopped";
            return Plan::act(copies(actions), deleting(message));
        }
        Ending::Wait(message) => return Plan::say(deleting(message), Again::After(SOON)),
        Ending::Over(beside) => copies(beside),
    };
    let name = names::restored_claim(seen.uid());
    if let Some(delete) = delete_restored(seen) {
        beside.push(delete);
        return Plan::act(
            beside,
            deleting(format!("the claim {name} is being deleted")),
        );
    }
    let since = seen
        .restored
        .as_ref()
        .and_then(|claim| claim.deleting_since);
    if let Some(since) = since
        && seen.holders.is_empty()
        && now.duration_since(since) <= PATIENCE
    {
        return Plan {
            actions: beside,
            verdict: deleting(format!("waiting for the end of the claim {name}")),
            again: Again::After(SOON),
        };
    }
    beside.push(Action::RemoveFinalizer);
    Plan {
        actions: beside,
        verdict: Verdict::Keep,
        again: Again::OnChange,
    }
}

fn remains(seen: &Observation, asked: Timestamp) -> Remains<'_> {
    let at_work = |copy: &&hypercloud_api::CopyStatus| copy.completion_time.is_none();
    Remains {
        holders: &seen.holders,
        agents: &seen.agents,
        running: seen
            .copy()
            .filter(at_work)
            .map(|copy| copy.node_name.as_str()),
        asked,
    }
}

fn delete_restored(seen: &Observation) -> Option<Action> {
    let restored = seen.restored.as_ref()?;
    restored
        .deleting_since
        .is_none()
        .then(|| Action::DeleteRestored {
            uid: restored.uid.clone(),
        })
}

fn copies(actions: Vec<copy::Action>) -> Vec<Action> {
    actions.into_iter().map(Action::Copy).collect()
}

fn deleting(message: impl Into<String>) -> Verdict {
    waiting(RollbackPhase::Deleting, "Deleting", message)
}
