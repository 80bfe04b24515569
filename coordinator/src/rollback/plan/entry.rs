//! What has to be so before a job may begin to write: claim and snapshot are
//! there and belong together, no other rollback goes first, nobody uses the
//! volume.

use hypercloud_api::RollbackPhase;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::super::observation::{Observation, TargetSeen};
use super::super::verdict::{Action, Plan, Verdict, failed, waiting};
use super::{SOON, is_begun, pvc, wait_for_claim};
use crate::again::Again;
use crate::volume::users::in_words;
use crate::work::{leftovers, retry};

/// How long the volume's users are waited for.
const USERS_LIMIT: SignedDuration = SignedDuration::from_mins(5);

/// What has to be so before a job may begin to write.
pub(super) fn plan(seen: &Observation, now: Timestamp) -> Option<Plan> {
    if is_begun(seen) {
        return None;
    }
    let Some(target) = &seen.target else {
        return Some(wait_for_claim(seen, "PvcNotFound", "does not exist"));
    };
    let Some(_) = target.volume_name.as_ref().filter(|_| !target.deleting) else {
        let what = if target.deleting {
            "is being deleted"
        } else {
            "is not bound to a volume"
        };
        return Some(wait_for_claim(seen, "PvcNotBound", what));
    };
    let accepted = seen.status().is_some_and(|status| status.pvc_uid.is_some());
    let snapshot_uid = match snapshot(seen, target) {
        Ok(uid) => uid,
        Err(plan) => return Some(*plan),
    };
    if let Some(before) = &seen.before {
        let message = format!(
            "the rollback {before} of the same claim goes first; this one begins when it is over"
        );
        let verdict = waiting(RollbackPhase::Pending, "RollbackUnderWay", message);
        return Some(step_aside(seen, verdict));
    }
    if !seen.users.is_empty() {
        return Some(in_use(seen, now));
    }
    let waited = seen
        .status()
        .is_some_and(|status| status.in_use_since.is_some());
    let idle = !matches!(
        seen.phase(),
        Some(RollbackPhase::Preparing | RollbackPhase::RollingBack)
    );
    let backing_off = seen
        .status()
        .is_some_and(|status| retry::wait(status.retry.as_ref(), now).is_some());
    if !accepted || waited || (idle && !backing_off) {
        let verdict = Verdict::Accepted {
            pvc_uid: target.uid.clone(),
            snapshot_uid,
        };
        return Some(Plan::say(verdict, Again::Now));
    }
    None
}

/// UID of the snapshot, if the volume can be put back to it.
fn snapshot(seen: &Observation, target: &TargetSeen) -> Result<String, Box<Plan>> {
    let name = &seen.rollback.spec.volume_snapshot_name;
    let wait = |reason, message| {
        let verdict = waiting(RollbackPhase::Pending, reason, message);
        Err(Box::new(Plan::say(verdict, Again::After(SOON))))
    };
    let other = |message| {
        let verdict = failed("SnapshotOfOtherVolume", message);
        Err(Box::new(Plan::say(verdict, Again::Now)))
    };
    let Some(snapshot) = seen.snapshot.as_ref().filter(|seen| !seen.deleting) else {
        let message = format!("waiting for the VolumeSnapshot {name}, which does not exist");
        return wait("SnapshotNotFound", message);
    };
    let claim = pvc(seen);
    match snapshot.claim.as_deref() {
        Some(of) if of == claim => {}
        Some(of) => {
            return other(format!(
                "the snapshot {name} is of the claim {of}, not of {claim}: name a snapshot of {claim}, or make a new disk of this one with a VirtualMachinePvc"
            ));
        }
        None => {
            return other(format!(
                "the snapshot {name} does not say which claim it is of: make a new disk of it with a VirtualMachinePvc"
            ));
        }
    }
    if !snapshot.ready {
        let why = snapshot.problem.as_deref();
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        let message = format!("waiting for the snapshot {name} to be ready to use{why}");
        return wait("SnapshotNotReady", message);
    }
    let taken_of = snapshot
        .content
        .as_ref()
        .and_then(|content| content.volume_handle.as_deref());
    match (taken_of, target.volume_handle.as_deref()) {
        (Some(taken_of), Some(volume)) if taken_of != volume => other(format!(
            "the snapshot {name} is of a former claim {claim}: its volume was {taken_of}, that of the present one is {volume}"
        )),
        _ => Ok(snapshot.uid.clone()),
    }
}

/// Nothing of ours has the volume while others do or are to.
fn step_aside(seen: &Observation, verdict: Verdict) -> Plan {
    let mut actions = leftovers::cancel(&seen.agents, |_| true);
    actions.extend(leftovers::release(&seen.holders, |_| true));
    Plan {
        actions: actions.into_iter().map(Action::Copy).collect(),
        verdict,
        again: Again::After(SOON),
    }
}

/// Pods use the volume: they are waited for, but not for ever.
fn in_use(seen: &Observation, now: Timestamp) -> Plan {
    let since = seen
        .status()
        .and_then(|status| status.in_use_since.as_ref())
        .map_or(now, |since| since.0);
    if now.duration_since(since) <= USERS_LIMIT {
        let pods = seen.users.clone();
        return step_aside(seen, Verdict::InUse { pods });
    }
    let message = format!(
        "the claim {} was in use for {} minutes, by {}; nothing was written: stop what uses it, and create another rollback",
        pvc(seen),
        USERS_LIMIT.as_mins(),
        in_words(&seen.users)
    );
    Plan::say(failed("VolumeInUse", message), Again::Now)
}
