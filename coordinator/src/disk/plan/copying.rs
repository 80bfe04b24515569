//! A node agent copies the data of the source's claim to the prime claim.

use hypercloud_api::DiskPhase;
use k8s_openapi::jiff::Timestamp;

use super::super::observation::{Observation, OriginSeen, PrimeSeen};
use super::super::verdict::{Action, NewHolder, Plan, Verdict, tried, waiting};
use super::handover::Task;
use super::source;
use crate::again::{Again, RECHECK};
use crate::agents::{Failure, VolumeKind};
use crate::copy::{self, Step, VolumeSeen};

/// What keeps a copy from being begun.
pub(super) fn obstacle(seen: &Observation, origin: &OriginSeen) -> Option<Plan> {
    // A copy is of the volume that it was begun with, and that is gone.
    if seen.disk.status.as_ref().is_some_and(|s| s.copy.is_some()) {
        let failure = Failure {
            reason: "ClaimLost".to_owned(),
            message: "the volume that the data was copied to is gone".to_owned(),
            retryable: true,
        };
        return Some(judge(seen, failure));
    }
    if let Some(plan) = source::rolled_back(origin) {
        return Some(plan);
    }
    in_use(origin).map(|message| {
        let verdict = waiting(DiskPhase::Pending, "SourceInUse", message);
        Plan::say(verdict, Again::After(RECHECK))
    })
}

/// Why the source cannot be copied now: what is written to meanwhile would be
/// read in parts of different age.
fn in_use(origin: &OriginSeen) -> Option<String> {
    (!origin.users.is_empty()).then(|| {
        format!(
            "the data has to be copied, and the claim {} is in use by {}: waiting for its end; a snapshot of the claim can be made into a disk meanwhile",
            origin.name,
            origin.users.join(", ")
        )
    })
}

/// The step that comes next, the prime claim having its volume.
pub(super) fn plan(seen: &Observation, task: &Task<'_>, prime: &PrimeSeen, now: Timestamp) -> Plan {
    let origin = task.origin;
    let target = prime.volume.as_ref().map(|volume| volume.name.as_str());
    if let Some(message) = in_use(origin).filter(|_| !seen.is_copied()) {
        let reason = "SourceInUse";
        let begun = seen.disk.status.as_ref().is_some_and(|s| s.copy.is_some());
        let name = seen.holder_name();
        if begun || seen.holders.iter().any(|holder| holder.name == name) {
            let reason = reason.to_owned();
            return Plan::say(Verdict::StartOver { reason, message }, Again::Now);
        }
        let verdict = waiting(DiskPhase::Pending, reason, message);
        return Plan::say(verdict, Again::After(RECHECK));
    }
    let source = VolumeSeen {
        name: origin.volume_name.as_deref(),
        kind: VolumeKind::from(origin.mode),
        problem: None,
    };
    let target = VolumeSeen {
        name: target,
        kind: VolumeKind::from(task.recipe.mode),
        problem: None,
    };
    let modes = &task.recipe.access_modes;
    let many_nodes = modes.iter().any(|mode| !mode.starts_with("ReadWriteOnce"));
    let holder = NewHolder {
        source: origin.name.clone(),
        from: origin.mode,
        to: task.recipe.mode,
        node: prime.node.clone(),
    };
    let name = seen.holder_name();
    match step(seen, &name, source, target, many_nodes, now) {
        Step::Clear(actions) | Step::Release(actions) => acting(actions),
        Step::CreateHolder => Plan::one(Action::CreateHolder(holder), Verdict::Keep, Again::Now),
        Step::Wait { reason, message } => wait(&reason, message),
        Step::Pause => Plan::say(Verdict::Keep, Again::After(RECHECK)),
        Step::Choose {
            job_id,
            node,
            holder_uid,
        } => {
            let verdict = Verdict::CopyChosen {
                job_id,
                node,
                holder_uid,
            };
            Plan::say(verdict, Again::Now)
        }
        Step::Start { node, job } => {
            let action = Action::Copy(copy::Action::StartJob { node, job });
            Plan::one(action, Verdict::Keep, Again::OnChange)
        }
        Step::Working { node, job } => {
            Plan::say(Verdict::Copying { node, job }, Again::After(RECHECK))
        }
        Step::Completed(job) => Plan::say(Verdict::Copied(job), Again::Now),
        // The hand-over is next, as soon as the volume itself is seen.
        Step::Done => Plan::say(Verdict::Keep, Again::After(RECHECK)),
        Step::Failed(failure) => judge(seen, failure),
    }
}

/// What is still to be done before a volume that was copied to can change
/// hands. `None` where it was not copied to yet.
pub(super) fn unfinished(seen: &Observation, now: Timestamp) -> Option<Option<Plan>> {
    if !seen.is_copied() {
        return None;
    }
    let none = VolumeSeen {
        name: None,
        kind: VolumeKind::Block,
        problem: None,
    };
    let name = seen.holder_name();
    match step(seen, &name, none, none, false, now) {
        Step::Done => Some(None),
        Step::Release(actions) => Some(Some(acting(actions))),
        Step::Wait { reason, message } => Some(Some(wait(&reason, message))),
        _ => None,
    }
}

fn step(
    seen: &Observation,
    holder_name: &str,
    source: VolumeSeen<'_>,
    target: VolumeSeen<'_>,
    many_nodes: bool,
    now: Timestamp,
) -> Step {
    let task = copy::Task {
        uid: seen.uid(),
        attempt: seen.attempt(),
        holder_name,
        holders: &seen.holders,
        agents: &seen.agents,
        status: seen.disk.status.as_ref().and_then(|s| s.copy.as_ref()),
        source,
        target,
        many_nodes,
        only_differences: false,
    };
    copy::step(&task, now)
}

/// The verdict on a try that failed.
fn judge(seen: &Observation, failure: Failure) -> Plan {
    let retry = seen.disk.status.as_ref().and_then(|s| s.retry.as_ref());
    Plan::say(tried(retry, failure), Again::Now)
}

fn acting(actions: Vec<copy::Action>) -> Plan {
    Plan {
        actions: actions.into_iter().map(Action::Copy).collect(),
        verdict: Verdict::Keep,
        again: Again::Now,
    }
}

fn wait(reason: &str, message: String) -> Plan {
    let verdict = waiting(DiskPhase::Copying, reason, message);
    Plan::say(verdict, Again::After(RECHECK))
}
