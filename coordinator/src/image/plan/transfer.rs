//! From a claim to its filled volume: the holder pod, the job, its end.

use hypercloud_api::{ImagePhase, TransferStatus};
use k8s_openapi::jiff::Timestamp;

use super::super::observation::{ClaimSeen, Observation};
use super::super::retry;
use super::super::validate::Wanted;
use super::super::verdict::{Action, Plan, TryFailure, Verdict, waiting};
use crate::access::{Scope, is_guarded};
use crate::again::{Again, RECHECK};
use crate::agents::seen::{AGENT_GRACE, AGENT_LIMIT};
use crate::agents::{AgentState, Facts, ImportJob, Job, JobState};
use crate::holder::{HolderSeen, HolderState, Problem};

/// What is to be brought where.
pub(super) struct Task<'a> {
    /// What the image asks for.
    pub wanted: &'a Wanted,
    /// What its source is.
    pub facts: &'a Facts,
    /// The claim that it goes to.
    pub claim: &'a ClaimSeen,
    /// Where its references lead.
    pub scope: Scope<'a>,
}

/// The step that comes next, the claim being there.
pub(super) fn plan(seen: &Observation, task: &Task<'_>, now: Timestamp) -> Plan {
    let id = seen.job_id();
    let status = seen.image.status.as_ref();
    let chosen = status
        .and_then(|status| status.transfer.as_ref())
        .filter(|transfer| transfer.job_id == id);
    match chosen {
        Some(transfer) if transfer.completion_time.is_some() => detach(seen, now),
        Some(transfer) => follow(seen, task, transfer, now),
        None => choose(seen, task.claim, &id, now),
    }
}

/// The job succeeded: the holder goes, and then the image is ready.
fn detach(seen: &Observation, now: Timestamp) -> Plan {
    let holder = match seen.holder() {
        Some(holder) if !holder.is_abandoned(&seen.agents, AGENT_LIMIT, now) => holder,
        _ => return Plan::say(Verdict::Ready, Again::Now),
    };
    if holder.deleting_since.is_some() {
        return Plan::say(Verdict::Keep, Again::After(RECHECK));
    }
    Plan::one(
        Action::DeleteHolder {
            name: holder.name.clone(),
            uid: holder.uid.clone(),
        },
        Verdict::Keep,
        Again::Now,
    )
}

/// Brings the volume to a node, and settles on that node's agent.
fn choose(seen: &Observation, claim: &ClaimSeen, id: &str, now: Timestamp) -> Plan {
    let Some(holder) = seen.holder() else {
        return Plan::one(
            Action::CreateHolder,
            waiting(
                ImagePhase::Preparing,
                "CreatingHolder",
                "the pod that attaches the volume is being made",
            ),
            Again::Now,
        );
    };
    if let Some(why) = holder.gone() {
        return failed(seen, lost(&why));
    }
    let node = match (&holder.state, &holder.node) {
        (HolderState::Holding, Some(node)) => node,
        (HolderState::Waiting(problem), _) => return wait_for_holder(claim, problem.as_ref()),
        _ => return wait_for_holder(claim, None),
    };
    if claim.volume_name.is_none() {
        return wait_for_holder(claim, None);
    }
    match seen.agents.state(node, now) {
        AgentState::Synced => {
            let verdict = Verdict::TransferChosen {
                job_id: id.to_owned(),
                node: node.clone(),
                holder_uid: holder.uid.clone(),
            };
            Plan::say(verdict, Again::Now)
        }
        AgentState::Away { since } => wait_for_agent(seen, node, since, now),
    }
}

/// The job is on its node: starts it if it is not known there, or waits for
/// what lets in at its source; reports it if it is at work.
fn follow(seen: &Observation, task: &Task<'_>, transfer: &TransferStatus, now: Timestamp) -> Plan {
    let Task {
        wanted,
        facts,
        claim,
        scope,
    } = *task;
    let node = &transfer.node_name;
    let job = seen.agents.job(node, &transfer.job_id);
    // What ended is believed even if the agent went away since.
    match job.map(|job| (job, &job.state)) {
        Some((job, JobState::Succeeded)) => {
            return match unverified(wanted, node, job) {
                Some(failure) => failed(seen, failure),
                None => Plan::say(Verdict::Completed(job.clone()), Again::Now),
            };
        }
        Some((_, JobState::Failed(failure))) => {
            let guarded = is_guarded(&wanted.source, scope);
            let verdict = retry::judge_job(seen.image.status.as_ref(), failure, guarded);
            return Plan::say(verdict, Again::Now);
        }
        _ => {}
    }
    let holder = match held(seen, transfer) {
        Ok(holder) => holder,
        Err(failure) => return failed(seen, failure),
    };
    if let AgentState::Away { since } = seen.agents.state(node, now) {
        return wait_for_agent(seen, node, since, now);
    }
    if let Some(job) = job.filter(|job| !job.awaiting_access) {
        let verdict = Verdict::Importing {
            node: node.clone(),
            job: job.clone(),
        };
        return Plan::say(verdict, Again::OnChange);
    }
    let Some(volume_name) = claim.volume_name.clone() else {
        return wait_for_holder(claim, None);
    };
    if holder.state != HolderState::Holding {
        return wait_for_holder(claim, None);
    }
    Plan::one(
        Action::StartJob {
            node: node.clone(),
            job: ImportJob {
                id: transfer.job_id.clone(),
                expected: facts.clone(),
                checksum: wanted.checksum.clone(),
                format: wanted.format,
                preallocation: wanted.preallocation,
                pod_uid: holder.uid.clone(),
                volume_name,
                volume_kind: wanted.mode.into(),
            },
            source: wanted.source.clone(),
        },
        Verdict::Keep,
        Again::OnChange,
    )
}

/// A success that does not show that the checksum was compared: an agent of an
/// older version knows of none.
fn unverified(wanted: &Wanted, node: &str, job: &Job) -> Option<TryFailure> {
    let checksum = wanted.checksum.as_deref()?;
    let told = match job.digest.as_deref() {
        Some(digest) if digest.eq_ignore_ascii_case(checksum) => return None,
        Some(digest) => format!("the digest {digest} where {checksum} was asked for"),
        None => "no digest to hold against source.checksum".to_owned(),
    };
    Some(TryFailure {
        reason: "DigestMissing".to_owned(),
        message: format!(
            "the agent of node {node} tells {told}: it may be of an older version, which the next try may find replaced"
        ),
        source: false,
    })
}

/// The holder that the transfer was begun with, if it still holds.
fn held<'a>(
    seen: &'a Observation,
    transfer: &TransferStatus,
) -> Result<&'a HolderSeen, TryFailure> {
    let holder = seen.holder().ok_or_else(|| lost("is gone"))?;
    if transfer.holder_uid.as_deref() != Some(&holder.uid) {
        return Err(lost("was replaced"));
    }
    match holder.gone() {
        Some(why) => Err(lost(&why)),
        None => Ok(holder),
    }
}

fn lost(what: &str) -> TryFailure {
    TryFailure {
        reason: "HolderLost".to_owned(),
        message: format!("the pod that holds the volume {what}"),
        source: false,
    }
}

fn failed(seen: &Observation, failure: TryFailure) -> Plan {
    let verdict = retry::another(seen.image.status.as_ref(), failure);
    Plan::say(verdict, Again::Now)
}

/// The holder is on its way, or something is in its way.
fn wait_for_holder(claim: &ClaimSeen, problem: Option<&Problem>) -> Plan {
    let verdict = match problem.or(claim.problem.as_ref()) {
        Some(problem) => waiting(ImagePhase::Preparing, &problem.reason, &problem.message),
        None => waiting(
            ImagePhase::Preparing,
            "HolderStarting",
            "waiting for the volume to be provisioned, attached and mounted",
        ),
    };
    Plan::say(verdict, Again::After(RECHECK))
}

/// The agent is away: silence at first, then a word, then another try.
fn wait_for_agent(seen: &Observation, node: &str, since: Timestamp, now: Timestamp) -> Plan {
    let away = now.duration_since(since);
    if away > AGENT_LIMIT {
        let failure = TryFailure {
            reason: "AgentLost".to_owned(),
            message: format!(
                "the agent of node {node} has not answered for {} minutes",
                AGENT_LIMIT.as_mins()
            ),
            source: false,
        };
        return failed(seen, failure);
    }
    let verdict = if away < AGENT_GRACE {
        Verdict::Keep
    } else {
        let phase = super::phase(seen).unwrap_or_default();
        let message = format!("waiting for the agent of node {node}, which does not answer");
        waiting(phase, "AgentUnreachable", message)
    };
    Plan::say(verdict, Again::After(RECHECK))
}
