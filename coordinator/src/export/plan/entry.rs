//! What has to be so before anything is made: the claim is there, what former
//! tries left is gone, it is known what is read, and the store can be asked.

use std::time::Duration;

use hypercloud_api::{ExportPhase, ExportReadFrom};
use k8s_openapi::jiff::Timestamp;

use super::super::observation::Observation;
use super::super::validate::Wanted;
use super::super::verdict::{Action, Plan, Verdict, waiting};
use super::{SOON, any_agent, is_kept, source};
use crate::again::{Again, RECHECK};
use crate::volume::users::in_words;
use crate::work::{leftovers, retry};

/// The next step of an export that waits.
pub(super) fn plan(seen: &Observation, wanted: &Wanted, now: Timestamp) -> Plan {
    let former = leave(seen);
    if !former.is_empty() {
        return Plan::act(former, Verdict::Keep);
    }
    let kept = is_kept(seen);
    if !kept && let Some(plan) = claim(seen) {
        return plan;
    }
    let retry = seen.status().and_then(|status| status.retry.as_ref());
    if let Some(wait) = retry::wait(retry, now) {
        return Plan::say(Verdict::Keep, Again::After(wait));
    }
    if !kept && let Some(plan) = clear(seen) {
        return plan;
    }
    let read_from = match choose(seen, kept) {
        Ok(read_from) => read_from,
        Err(plan) => return *plan,
    };
    let check = Action::Check(wanted.object.clone());
    if seen.upload_id().is_some() {
        return match discard(seen, wanted) {
            Some(discard) => Plan::act([check, discard], Verdict::Keep),
            None => {
                let message = "waiting for a node agent that is ready, to remove what a former try left in the store: none is connected";
                wait("NoAgentReady", message.to_owned(), RECHECK)
            }
        };
    }
    let status = seen.status();
    let accepted = status.and_then(|status| status.pvc_uid.clone());
    let present = || seen.target.as_ref().map(|target| target.uid.clone());
    let snapshot = status.and_then(|status| status.taken_at.as_ref());
    let verdict = Verdict::Accepted {
        pvc_uid: accepted.or_else(present).unwrap_or_default(),
        read_from,
        taken_at: match read_from {
            ExportReadFrom::Volume => Some(now),
            ExportReadFrom::Snapshot => snapshot.filter(|_| kept).map(|time| time.0),
        },
    };
    Plan::act([check], verdict)
}

/// Stops what former tries left at work, and lets go of the volume.
fn leave(seen: &Observation) -> Vec<Action> {
    let mut actions = leftovers::cancel(&seen.agents, |_| true);
    actions.extend(leftovers::release(&seen.holders, |_| true));
    actions.into_iter().map(Action::Work).collect()
}

/// What keeps the claim from being read.
fn claim(seen: &Observation) -> Option<Plan> {
    let name = seen.pvc();
    let Some(target) = &seen.target else {
        let message = format!("waiting for the claim {name}, which does not exist");
        return Some(wait("PvcNotFound", message, SOON));
    };
    let what = match target {
        target if target.deleting => "is being deleted",
        target if target.volume_name.is_none() => "is not bound to a volume",
        _ => {
            let rollback = seen.rollback.as_ref()?;
            let message = format!(
                "the claim {name} is being put back by the VirtualMachineVolumeRollback {rollback}: the export begins when that is over"
            );
            return Some(wait("RollbackUnderWay", message, SOON));
        }
    };
    let message = format!("waiting for the claim {name}, which {what}");
    Some(wait("PvcNotBound", message, SOON))
}

/// A snapshot that nobody is to read any more goes, with what it was restored
/// to.
fn clear(seen: &Observation) -> Option<Plan> {
    let actions = source::remove(seen);
    if !actions.is_empty() {
        return Some(Plan::act(actions, Verdict::Keep));
    }
    if seen.restored.is_none() && seen.own_snapshot().is_none() {
        return None;
    }
    let rejected = seen
        .status()
        .is_some_and(|status| !status.rejected_credentials.is_empty());
    if rejected {
        // It is the Secret that is waited for.
        return Some(Plan::say(Verdict::Keep, Again::After(SOON)));
    }
    let message = "waiting for the end of a former snapshot of the claim";
    Some(wait("CleaningUp", message.to_owned(), SOON))
}

/// What is to be read.
fn choose(seen: &Observation, kept: bool) -> Result<ExportReadFrom, Box<Plan>> {
    if kept {
        return Ok(ExportReadFrom::Snapshot);
    }
    // Pods that come again and again would have it begun anew for ever.
    let was_used = seen.attempt() > 0 && source::told_of(seen, "VolumeInUse");
    match source::class(seen) {
        Ok(_) if was_used => Ok(ExportReadFrom::Snapshot),
        _ if seen.users.is_empty() => Ok(ExportReadFrom::Volume),
        Ok(_) => Ok(ExportReadFrom::Snapshot),
        Err(why) => {
            let message = format!(
                "the claim {} is in use by {}, and {why}: stop what uses it, or have such a class made, and the export begins",
                seen.pvc(),
                in_words(&seen.users)
            );
            Err(Box::new(wait("VolumeInUse", message, SOON)))
        }
    }
}

/// Removes what a former upload left, by any agent.
pub(super) fn discard(seen: &Observation, wanted: &Wanted) -> Option<Action> {
    Some(Action::Discard {
        node: any_agent(seen)?.clone(),
        object: wanted.object.clone(),
        upload_id: seen.upload_id()?.to_owned(),
    })
}

fn wait(reason: &str, message: String, delay: Duration) -> Plan {
    let verdict = waiting(ExportPhase::Pending, reason, message);
    Plan::say(verdict, Again::After(delay))
}
