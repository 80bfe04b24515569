//! What to do next about one export. Pure: no client, no runtime, no clock.
//!
//! Each plan takes the export one step on, from whatever was found. What must
//! not be forgotten is written to the status *before* anything is done about
//! it, so a coordinator may die between any two actions.
//!
//! The order by which the disk is one that it was at some instant: nobody uses
//! the volume, and while it is read it is looked whether that stays so; or the
//! storage took a snapshot of it. The order by which nothing stays in the
//! store: an upload is in the status until it is complete or its parts are
//! known to be gone, and no try begins before.

mod deletion;
mod entry;
mod finish;
mod source;
mod upload;

#[cfg(test)]
mod tests;

use std::time::Duration;

use hypercloud_api::{ExportPhase, ExportReadFrom, names};
use k8s_openapi::jiff::Timestamp;

use super::observation::Observation;
use super::retry;
use super::validate::validate;
use super::verdict::{Action, Plan, Verdict, failed, waiting};
use crate::again::Again;
use crate::agents::{AgentsSeen, Failure, JobSeen, JobState};
use crate::backoff;
use crate::holder::Problem;
use crate::work::retry::failures;

/// How often it is looked at what other people do: pods that come and go,
/// claims and snapshots.
const SOON: Duration = Duration::from_secs(3);
/// How often it is looked for pods on a volume that is read itself, and at what
/// ends in a moment.
const WATCH: Duration = Duration::from_secs(1);

/// What to do next, given what was seen at `now`.
pub fn plan(seen: &Observation, now: Timestamp) -> Plan {
    let wanted = validate(&seen.export.spec);
    if seen.export.metadata.deletion_timestamp.is_some() {
        return deletion::plan(seen, wanted.ok().as_ref(), now);
    }
    if is_over(seen) {
        return deletion::clean_up(seen, wanted.ok().as_ref(), now);
    }
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(invalid) => {
            return Plan::say(failed(invalid.reason(), invalid.to_string()), Again::Now);
        }
    };
    if seen.is_complete() {
        return finish::plan(seen, &wanted, now);
    }
    if let Some(plan) = hopeless(seen) {
        return plan;
    }
    if !seen.has_finalizer(names::FINALIZER) {
        return Plan::act([Action::AddFinalizer], Verdict::Keep);
    }
    if let Some(plan) = completing(seen) {
        return plan;
    }
    if matches!(seen.phase(), None | Some(ExportPhase::Pending)) {
        return entry::plan(seen, &wanted, now);
    }
    match source::readable(seen, now) {
        Ok(volume) => upload::plan(seen, &wanted, volume, now),
        Err(plan) => *plan,
    }
}

/// Whether the export came to its end.
fn is_over(seen: &Observation) -> bool {
    matches!(
        seen.phase(),
        Some(ExportPhase::Succeeded | ExportPhase::Failed)
    )
}

/// Phase to show while something is waited for.
fn present(seen: &Observation) -> ExportPhase {
    match seen.phase() {
        _ if seen.export.metadata.deletion_timestamp.is_some() => ExportPhase::Deleting,
        Some(ExportPhase::Preparing) => ExportPhase::Preparing,
        Some(phase @ (ExportPhase::Exporting | ExportPhase::Failed)) => phase,
        _ => ExportPhase::Pending,
    }
}

/// The verdict on what an upload left and could not be removed, for which
/// these `secrets` were shown.
pub fn undiscarded(seen: &Observation, failure: Failure, secrets: &[String]) -> Verdict {
    if seen.export.metadata.deletion_timestamp.is_some() {
        let Failure {
            reason, message, ..
        } = failure;
        return Verdict::Attempted {
            phase: ExportPhase::Deleting,
            reason,
            message: format!("the parts that were stored cannot be removed: {message}"),
        };
    }
    if is_over(seen) {
        return Verdict::Attempted {
            phase: ExportPhase::Failed,
            reason: failure.reason,
            message: failure.message,
        };
    }
    retry::judge_shown(seen, failure, secrets)
}

/// The verdict on `problem`, which people are to read of while it is waited
/// for: not for ever where there is only the end to come to.
pub fn told(seen: &Observation, problem: Problem) -> Verdict {
    let deleted = seen.export.metadata.deletion_timestamp.is_some();
    let Problem { reason, message } = problem;
    let phase = present(seen);
    if deleted || is_over(seen) || seen.is_complete() {
        return Verdict::Attempted {
            phase,
            reason,
            message,
        };
    }
    waiting(phase, &reason, message)
}

/// Attempts at what is left to be done that failed so far.
fn attempts(seen: &Observation) -> i32 {
    failures(seen.status().and_then(|status| status.retry.as_ref()))
}

/// What cannot come to its end any more, or never could.
fn hopeless(seen: &Observation) -> Option<Plan> {
    let name = seen.pvc();
    let fail = |reason: &str, message: String| {
        let mut verdict = failed(reason, message);
        if let Verdict::Failed { upload_id, .. } = &mut verdict {
            *upload_id = retry::left(seen);
        }
        Some(Plan::say(verdict, Again::Now))
    };
    let mut reserved = names::RESERVED_CLAIM_PREFIXES.iter();
    if reserved.any(|prefix| name.starts_with(prefix)) {
        let message = format!(
            "the claim {name} is the storage system's own, which nobody exports: name the claim of a disk; of an image, make a disk with a VirtualMachinePvc and export that"
        );
        return fail("ClaimReserved", message);
    }
    // Nothing was accepted yet, so nothing can have gone away; what a snapshot
    // was taken of is not needed any more, nor what was read to its end.
    let accepted = seen.status()?.pvc_uid.as_deref()?;
    if is_kept(seen) || seen.has_read() {
        return None;
    }
    let what = match &seen.target {
        None => "is gone",
        Some(target) if target.uid != accepted => "is another one of the same name",
        Some(target) if target.deleting => "is being deleted",
        Some(target) if target.lost => "has lost its volume",
        Some(_) => return None,
    };
    let message = format!("the claim {name} {what}; nothing was exported");
    fail("PvcGone", message)
}

/// A former try's upload that the store is just asked to complete is not
/// stopped: it ends in a moment, and the next try replaces what it makes.
fn completing(seen: &Observation) -> Option<Plan> {
    let id = seen.job_id();
    let AgentsSeen { jobs, synced, .. } = &seen.agents;
    let completing = |other: &JobSeen| {
        let state = &other.job.state;
        other.job.id != id
            && matches!(state, JobState::Verifying | JobState::Finalizing)
            && synced.contains(&other.node)
    };
    let any = jobs.iter().any(completing);
    any.then(|| Plan::say(Verdict::Keep, Again::After(WATCH)))
}

/// Whether the disk is kept as it was, in a snapshot or in what that was
/// restored to.
fn is_kept(seen: &Observation) -> bool {
    let snapshot = seen.snapshot.as_ref().is_some_and(|own| own.is_usable());
    seen.has_the_disk() || (seen.read_from() == Some(ExportReadFrom::Snapshot) && snapshot)
}

/// Any agent: which one is spread over the exports.
fn any_agent(seen: &Observation) -> Option<&String> {
    let agents = &seen.agents.synced;
    let pick = backoff::hash(seen.uid(), seen.attempt()) as usize;
    agents.get(pick.checked_rem(agents.len())?)
}

/// The present try is given up, and it is nobody's fault.
fn start_over(seen: &Observation, reason: &str, message: String) -> Plan {
    let verdict = Verdict::StartOver {
        reason: reason.to_owned(),
        message,
        upload_id: retry::left(seen),
    };
    Plan::say(verdict, Again::Now)
}
