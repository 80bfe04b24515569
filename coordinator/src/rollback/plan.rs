//! What to do next about one rollback. Pure: no client, no runtime, no clock.
//!
//! Each plan takes the rollback one step on, from whatever was found. What
//! must not be forgotten is written to the status *before* anything is done
//! about it, so a coordinator may die between any two actions.
//!
//! The order by which nothing is written while a pod uses the volume: nobody
//! uses it; the snapshot is restored, and the holder has both volumes; the
//! phase becomes RollingBack, by which the admission policy refuses new pods;
//! after the API servers had time to learn of it nobody uses it; the job is
//! chosen; still nobody uses it; the job is started.

mod deletion;

#[cfg(test)]
mod tests;

use hypercloud_api::conditions::{ConditionStatus, find};
use hypercloud_api::{RollbackPhase, names};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::time::Duration;

use super::CLOSED;
use super::observation::{Observation, RestoredSeen, TargetSeen};
use super::verdict::{Action, Plan, Verdict, failed, waiting};
use crate::again::{Again, RECHECK};
use crate::agents::{Failure, Job};
use crate::copy::{self, Step, Task, VolumeSeen, leftovers, retry};

/// How long the volume's users are waited for.
pub const USERS_LIMIT: SignedDuration = SignedDuration::from_mins(5);
/// How long after the phase became RollingBack it is relied upon: the API
/// servers' admission goes by caches, which are behind by far less.
pub const SETTLE: SignedDuration = SignedDuration::from_secs(2);
/// How often it is looked at what other people do: pods that end, claims and
/// snapshots that come.
const SOON: Duration = Duration::from_secs(3);

/// What to do next, given what was seen at `now`.
pub fn plan(seen: &Observation, now: Timestamp) -> Plan {
    let phase = seen.phase();
    let over = matches!(
        phase,
        Some(RollbackPhase::Succeeded | RollbackPhase::Failed)
    );
    let deleted = seen.rollback.metadata.deletion_timestamp.is_some();
    // Work that began is finished first: half a volume helps nobody.
    if deleted && (over || phase == Some(RollbackPhase::Deleting) || !is_begun(seen)) {
        return deletion::plan(seen, now);
    }
    if over {
        return deletion::clean_up(seen, now);
    }
    if seen
        .copy()
        .is_some_and(|copy| copy.completion_time.is_some())
    {
        return finish(seen, now);
    }
    if let Some(plan) = hopeless(seen) {
        return plan;
    }
    if !deleted && !seen.has_finalizer(names::FINALIZER) {
        return Plan::act([Action::AddFinalizer], Verdict::Keep);
    }
    if let Some(plan) = not_yet(seen, now) {
        return plan;
    }
    let Some(target) = &seen.target else {
        return wait_for_claim(seen, "PvcNotFound", "does not exist");
    };
    if let Some(wait) = seen
        .status()
        .and_then(|status| retry::wait(status.retry.as_ref(), now))
    {
        return Plan::say(Verdict::Keep, Again::After(wait));
    }
    match restored(seen, target) {
        Ok(restored) => go_on(seen, target, restored, now),
        Err(plan) => *plan,
    }
}

/// Whether a job may have begun to write.
fn is_begun(seen: &Observation) -> bool {
    seen.copy().is_some()
}

/// Phase to show while something is waited for.
pub(super) fn present(seen: &Observation) -> RollbackPhase {
    match seen.phase() {
        Some(RollbackPhase::RollingBack) => RollbackPhase::RollingBack,
        _ if is_begun(seen) => RollbackPhase::RollingBack,
        Some(RollbackPhase::Preparing) => RollbackPhase::Preparing,
        _ => RollbackPhase::Pending,
    }
}

fn pvc(seen: &Observation) -> &str {
    &seen.rollback.spec.pvc_name
}

fn wait_for_claim(seen: &Observation, reason: &str, what: &str) -> Plan {
    let message = format!("waiting for the claim {}, which {what}", pvc(seen));
    let phase = present(seen);
    Plan::say(waiting(phase, reason, message), Again::After(SOON))
}

fn fail(reason: &str, message: String) -> Option<Plan> {
    Some(Plan::say(failed(reason, message), Again::Now))
}

/// What cannot come to its end any more, or never could.
fn hopeless(seen: &Observation) -> Option<Plan> {
    let name = pvc(seen);
    let mut reserved = names::RESERVED_CLAIM_PREFIXES.iter();
    if reserved.any(|prefix| name.starts_with(prefix)) {
        let message = format!(
            "the claim {name} is the storage system's own, which nobody rolls back: name the claim of a disk"
        );
        return fail("ClaimReserved", message);
    }
    let status = seen.status()?;
    // Nothing was accepted yet, so nothing can have gone away.
    let accepted = status.pvc_uid.as_deref()?;
    let after = if is_begun(seen) {
        "; the volume was being written to, and is gone with it"
    } else {
        "; nothing was written"
    };
    match &seen.target {
        None => return fail("PvcGone", format!("the claim {name} is gone{after}")),
        Some(target) if target.uid != accepted => {
            let message = format!("the claim {name} is another one of the same name{after}");
            return fail("PvcGone", message);
        }
        Some(target) if target.deleting => {
            let message = format!("the claim {name} is being deleted{after}");
            return fail("PvcGone", message);
        }
        Some(target) if target.lost => {
            let message = format!("the claim {name} has lost its volume{after}");
            return fail("PvcGone", message);
        }
        Some(_) => {}
    }
    lost_snapshot(seen)
}

/// The snapshot that was accepted is gone before it was put to use.
fn lost_snapshot(seen: &Observation) -> Option<Plan> {
    let status = seen.status()?;
    // What was restored while the snapshot was there is of that snapshot; one
    // of its name may have come since.
    let usable = |restored: &RestoredSeen| {
        restored.deleting_since.is_none() && !restored.lost && restored.volume_name.is_some()
    };
    if is_begun(seen) && seen.restored.as_ref().is_some_and(usable) {
        return None;
    }
    let same = |snapshot: &&crate::volume::snapshot::SnapshotSeen| {
        !snapshot.deleting && Some(&snapshot.uid) == status.volume_snapshot_uid.as_ref()
    };
    if seen.snapshot.as_ref().filter(same).is_some() {
        return None;
    }
    let snapshot = &seen.rollback.spec.volume_snapshot_name;
    let after = if is_begun(seen) {
        format!(
            "the volume of {} holds parts of both states: roll it back to another snapshot",
            pvc(seen)
        )
    } else {
        "nothing was written".to_owned()
    };
    let message = format!("the snapshot {snapshot} went away meanwhile; {after}");
    fail("SnapshotGone", message)
}

/// What has to be so before a job may begin to write.
fn not_yet(seen: &Observation, now: Timestamp) -> Option<Plan> {
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
        pods(&seen.users)
    );
    Plan::say(failed("VolumeInUse", message), Again::Now)
}

/// Names of pods, in words.
pub(super) fn pods(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let kind = if names.len() == 1 { "pod" } else { "pods" };
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>();
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("the {kind} {}{more}", shown.join(", "))
}

/// The claim that the snapshot is restored to.
fn restored<'a>(seen: &'a Observation, target: &TargetSeen) -> Result<&'a RestoredSeen, Box<Plan>> {
    let name = names::restored_claim(seen.uid());
    let phase = match present(seen) {
        RollbackPhase::Pending => RollbackPhase::Preparing,
        phase => phase,
    };
    let Some(restored) = &seen.restored else {
        let least = seen.snapshot.as_ref().and_then(|seen| seen.restore_size);
        let size = least.unwrap_or(target.capacity);
        let message = "the snapshot is being restored beside the volume";
        let verdict = waiting(phase, "Restoring", message);
        let node = meeting_place(seen, target);
        let plan = Plan::act([Action::CreateRestored { size, node }], verdict);
        return Err(Box::new(plan));
    };
    if restored.deleting_since.is_some() {
        let message = format!("waiting for the deletion of the former claim {name}");
        let verdict = waiting(phase, "ClaimTerminating", message);
        // What holds it keeps it from going.
        let holders = leftovers::release(&seen.holders, |_| true);
        return Err(Box::new(Plan {
            actions: holders.into_iter().map(Action::Copy).collect(),
            verdict,
            again: Again::After(RECHECK),
        }));
    }
    if restored.lost {
        let message = format!("replacing the claim {name}, which lost its volume");
        let uid = restored.uid.clone();
        let verdict = waiting(phase, "ClaimTerminating", message);
        let plan = Plan::act([Action::DeleteRestored { uid }], verdict);
        return Err(Box::new(plan));
    }
    Ok(restored)
}

/// A node that both volumes can be attached to, where the restored one could
/// be made elsewhere; one with an agent, if there is one.
fn meeting_place(seen: &Observation, target: &TargetSeen) -> Option<String> {
    let nodes = target.nodes.as_ref()?;
    let with_agent = |node: &&String| seen.agents.synced.contains(node);
    nodes.iter().find(with_agent).or(nodes.first()).cloned()
}

/// The step of the copy that comes next.
fn go_on(seen: &Observation, target: &TargetSeen, restored: &RestoredSeen, now: Timestamp) -> Plan {
    let holder_name = seen.holder_name();
    let kind = target.mode.into();
    let task = Task {
        uid: seen.uid(),
        attempt: seen.attempt(),
        holder_name: &holder_name,
        holders: &seen.holders,
        agents: &seen.agents,
        status: seen.copy(),
        source: VolumeSeen {
            name: restored.volume_name.as_deref(),
            kind,
            problem: restored.problem.as_ref(),
        },
        target: VolumeSeen {
            name: target.volume_name.as_deref(),
            kind,
            problem: None,
        },
        many_nodes: target.many_nodes(),
        only_differences: true,
    };
    let phase = present(seen);
    match copy::step(&task, now) {
        Step::Clear(actions) => Plan::act(actions.into_iter().map(Action::Copy), Verdict::Keep),
        Step::CreateHolder => {
            let message = "the pod that attaches both volumes is being made";
            let action = Action::Copy(copy::Action::CreateHolder);
            Plan::act([action], waiting(phase, "CreatingHolder", message))
        }
        Step::Wait { reason, message } => {
            Plan::say(waiting(phase, &reason, message), Again::After(RECHECK))
        }
        Step::Pause => Plan::say(Verdict::Keep, Again::After(RECHECK)),
        Step::Choose {
            job_id,
            node,
            holder_uid,
        } => choose(
            seen,
            Verdict::Chosen {
                job_id,
                node,
                holder_uid,
            },
            now,
        ),
        Step::Start { node, job } => start(seen, node, job),
        Step::Copying { node, job } => Plan::say(Verdict::Writing { node, job }, Again::OnChange),
        Step::Completed(job) => Plan::say(Verdict::Completed(job), Again::Now),
        // Not before the job completed.
        Step::Release(_) | Step::Done => Plan::say(Verdict::Keep, Again::After(RECHECK)),
        Step::Failed(failure) => another(seen, failure),
    }
}

/// The job succeeded: what has the volume goes, then what it was restored
/// from, and that was it.
fn finish(seen: &Observation, now: Timestamp) -> Plan {
    let step = copy::plan::release(&seen.holders, &seen.agents, now);
    match step {
        Step::Release(actions) => Plan::act(actions.into_iter().map(Action::Copy), Verdict::Keep),
        Step::Wait { reason, message } => {
            let verdict = waiting(RollbackPhase::RollingBack, &reason, message);
            Plan::say(verdict, Again::After(RECHECK))
        }
        _ => {
            let kept = |restored: &&RestoredSeen| restored.deleting_since.is_none();
            let delete = seen.restored.as_ref().filter(kept).map(|restored| {
                let uid = restored.uid.clone();
                Action::DeleteRestored { uid }
            });
            Plan::act(delete, Verdict::Succeeded)
        }
    }
}

/// Everything is in place: the volume is closed to pods, and then the job is
/// chosen.
fn choose(seen: &Observation, chosen: Verdict, now: Timestamp) -> Plan {
    if is_begun(seen) {
        return Plan::say(chosen, Again::Now);
    }
    let closed = seen
        .status()
        .and_then(|status| find(&status.conditions, CLOSED))
        .filter(|closed| closed.status == ConditionStatus::True.as_str())
        .filter(|_| seen.phase() == Some(RollbackPhase::RollingBack));
    let Some(closed) = closed else {
        return Plan::say(Verdict::Closed, Again::Now);
    };
    let wait = SETTLE - now.duration_since(closed.last_transition_time.0);
    match Duration::try_from(wait) {
        Ok(wait) if !wait.is_zero() => Plan::say(Verdict::Keep, Again::After(wait)),
        _ => Plan::say(chosen, Again::Now),
    }
}

/// The job is started, unless a pod slipped in.
fn start(seen: &Observation, node: String, job: crate::agents::CopyJob) -> Plan {
    if seen.users.is_empty() {
        return Plan {
            actions: vec![Action::Copy(copy::Action::StartJob { node, job })],
            verdict: Verdict::Keep,
            again: Again::OnChange,
        };
    }
    let message = format!(
        "the claim {} is in use by {}, though its rollback has begun: stop what uses it, and the rollback goes on",
        pvc(seen),
        pods(&seen.users)
    );
    let verdict = waiting(RollbackPhase::RollingBack, "VolumeInUse", message);
    Plan::say(verdict, Again::After(SOON))
}

/// The present try failed. Once the volume may have been written to, there is
/// always another.
pub(super) fn another(seen: &Observation, failure: Failure) -> Plan {
    let untouched = match seen.copy() {
        None => true,
        Some(copy) => {
            let id = names::job_id(seen.uid(), seen.attempt());
            let agents = &seen.agents;
            let job = agents
                .job(&copy.node_name, &id)
                .filter(|_| copy.job_id == id);
            copy.bytes_total.is_none() && job.is_some_and(never_opened)
        }
    };
    let retry = seen.status().and_then(|status| status.retry.as_ref());
    if untouched && !retry::is_another(retry, &failure) {
        let (reason, message) = retry::given_up(&failure);
        return Plan::say(failed(&reason, message), Again::Now);
    }
    Plan::say(Verdict::TryFailed { failure, untouched }, Again::Now)
}

/// Whether the job ended before it knew the size of its volumes: it cannot
/// have written to them.
fn never_opened(job: &Job) -> bool {
    let progress = &job.progress;
    progress.total == 0 && progress.done == 0 && progress.received == 0 && progress.written == 0
}
