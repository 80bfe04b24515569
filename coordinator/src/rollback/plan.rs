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
mod entry;
mod hopeless;

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
use crate::copy::{self, Step, Task, VolumeSeen};
use crate::volume::users::in_words;
use crate::work::{self, leftovers, retry};

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
    if let Some(plan) = hopeless::plan(seen) {
        return plan;
    }
    if !deleted && !seen.has_finalizer(names::FINALIZER) {
        return Plan::act([Action::AddFinalizer], Verdict::Keep);
    }
    if let Some(plan) = entry::plan(seen, now) {
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
    let step = copy::step(&task, now);
    if matches!(step, Step::Working { .. } | Step::Completed(_)) && !seen.users.is_empty() {
        return slipped_in(seen);
    }
    match step {
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
        Step::Working { node, job } => Plan::say(Verdict::Writing { node, job }, Again::OnChange),
        Step::Completed(job) => Plan::say(Verdict::Completed(job), Again::Now),
        // Not before the job completed.
        Step::Release(_) | Step::Done => Plan::say(Verdict::Keep, Again::After(RECHECK)),
        Step::Failed(failure) => another(seen, failure),
    }
}

/// The job succeeded: what has the volume goes, then what it was restored
/// from, and that was it.
fn finish(seen: &Observation, now: Timestamp) -> Plan {
    let step: Step = work::plan::release(&seen.holders, &seen.agents, now);
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
        in_words(&seen.users)
    );
    let verdict = waiting(RollbackPhase::RollingBack, "VolumeInUse", message);
    Plan::say(verdict, Again::After(SOON))
}

/// A pod came to use the volume while it was written to, past the admission
/// policy: what it wrote behind the copy's back is found by another try, which
/// compares everything again once the pod is gone.
fn slipped_in(seen: &Observation) -> Plan {
    let message = format!(
        "{} came to use the claim {} while it was rolled back: stop what uses it, and all of the volume is compared again",
        in_words(&seen.users),
        pvc(seen)
    );
    let failure = Failure {
        reason: "VolumeInUse".to_owned(),
        message,
        retryable: true,
    };
    another(seen, failure)
}

/// The present try failed. Once the volume may have been written to, there is
/// always another.
fn another(seen: &Observation, failure: Failure) -> Plan {
    let id = names::job_id(seen.uid(), seen.attempt());
    let untouched = match seen.copy() {
        None => true,
        // What is wrong for good with the volumes was so before a first byte;
        // what may pass may have come after one, whose writer was stopped
        // before it could tell.
        Some(copy) if copy.bytes_total.is_none() && !failure.retryable => {
            let job = seen.agents.job(&copy.node_name, &id);
            copy.job_id == id && job.is_some_and(never_opened)
        }
        Some(_) => false,
    };
    Plan::say(after(seen, failure, untouched), Again::Now)
}

/// The verdict on a job that an agent refuses to start: it does not know of
/// it, so the present try wrote nothing.
pub fn refused(seen: &Observation, failure: Failure) -> Verdict {
    let untouched = seen.copy().is_none_or(|copy| copy.bytes_total.is_none());
    after(seen, failure, untouched)
}

/// Another try, or the end, where nothing was written in any.
fn after(seen: &Observation, failure: Failure, untouched: bool) -> Verdict {
    let retry = seen.status().and_then(|status| status.retry.as_ref());
    if untouched && !retry::is_another(retry, &failure) {
        let (reason, message) = retry::given_up(&failure);
        return failed(&reason, message);
    }
    Verdict::TryFailed { failure, untouched }
}

/// Whether the job ended before it knew the size of its volumes.
fn never_opened(job: &Job) -> bool {
    let progress = &job.progress;
    progress.total == 0 && progress.done == 0 && progress.received == 0 && progress.written == 0
}
