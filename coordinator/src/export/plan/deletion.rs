//! What is done when it is over: after the export's end everything that was
//! made for it goes, but the object; when the resource is deleted, the
//! finalizer after that.
//!
//! Invariant: the finalizer always comes off. Parts of an upload that cannot
//! be removed in time are told of, with the upload's identity.

use std::time::Duration;

use hypercloud_api::{ExportPhase, UploadStatus, names};
use k8s_openapi::jiff::Timestamp;

use super::super::observation::Observation;
use super::super::validate::Wanted;
use super::super::verdict::{Action, Plan, Upload, Verdict, waiting};
use super::super::{DISCARD_LIMIT, UPLOAD_LEFT};
use super::{entry, source};
use crate::again::{Again, RECHECK, SLOW_RECHECK};
use crate::agents::AgentsSeen;
use crate::work;
use crate::work::ending::{Ending, PATIENCE, Remains, step};
use crate::work::retry::failures;

/// How often what is being deleted is looked at.
const SOON: Duration = Duration::from_secs(3);
/// How often it is tried to remove what an upload left where what lets in at the store is gone: in a namespace that is
/// being deleted it does not come back.
const ACCESS_LIMIT: i32 = 3;

/// After success or failure: nothing is kept but the resource, and the object.
pub(super) fn clean_up(seen: &Observation, wanted: Option<&Wanted>, now: Timestamp) -> Plan {
    let created = seen.export.metadata.creation_timestamp.as_ref();
    let asked = created.map_or(Timestamp::MIN, |time| time.0);
    let (mut actions, wait) = match step(&remains(seen, asked), now) {
        Ending::Act(actions) => (works(actions), false),
        Ending::Wait(_) => (Vec::new(), true),
        Ending::Over(beside) => (works(beside), false),
    };
    if seen.holders.is_empty() {
        actions.extend(source::remove(seen));
    }
    let mut left = false;
    if actions.is_empty() && is_stopped(seen) {
        left = seen.upload_id().is_some();
        let retry = seen.status().and_then(|status| status.retry.as_ref());
        let counted = retry.filter(|retry| retry.last_reason == UPLOAD_LEFT);
        left &= failures(counted) < DISCARD_LIMIT;
        let wanted = wanted.filter(|_| left);
        let discard = wanted.and_then(|wanted| entry::discard(seen, wanted));
        actions.extend(discard);
    }
    let again = match (actions.is_empty(), wait) {
        (false, _) => Again::Now,
        (true, true) => Again::After(RECHECK),
        (true, false) if left => Again::After(SLOW_RECHECK),
        (true, false) => Again::OnChange,
    };
    Plan {
        actions,
        verdict: Verdict::Keep,
        again,
    }
}

/// The next step of the resource's deletion.
pub(super) fn plan(seen: &Observation, wanted: Option<&Wanted>, now: Timestamp) -> Plan {
    if !seen.has_finalizer(names::FINALIZER) {
        return Plan::say(Verdict::Keep, Again::OnChange);
    }
    let deletion = seen.export.metadata.deletion_timestamp.as_ref();
    let asked = deletion.map_or(now, |time| time.0);
    let ending = step(&remains(seen, asked), now);
    if let Ending::Act(actions) = ending {
        let message = "the job and its holder pod are being stopped";
        return Plan::act(works(actions), deleting(message));
    }
    if let Some(upload_id) = seen.upload_id()
        && (is_stopped(seen) || matches!(ending, Ending::Over(_)))
    {
        return discard(seen, wanted, upload_id);
    }
    let mut beside = match ending {
        Ending::Wait(message) => return Plan::say(deleting(message), Again::After(SOON)),
        Ending::Act(actions) | Ending::Over(actions) => works(actions),
    };
    let removed = source::remove(seen);
    if !removed.is_empty() {
        beside.extend(removed);
        let message = "the snapshot that was made for the export is being deleted";
        return Plan::act(beside, deleting(message));
    }
    if let Some(since) = going(seen)
        && seen.holders.is_empty()
        && now.duration_since(since) <= PATIENCE
    {
        return Plan {
            actions: beside,
            verdict: deleting("waiting for the end of the snapshot that was made for the export"),
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

/// Removes what the upload left, or gives it up.
fn discard(seen: &Observation, wanted: Option<&Wanted>, upload_id: &str) -> Plan {
    let retry = seen.status().and_then(|status| status.retry.as_ref());
    let retry = retry.filter(|_| seen.phase() == Some(ExportPhase::Deleting));
    let gone = retry.is_some_and(|retry| {
        matches!(
            retry.last_reason.as_str(),
            "SecretNotFound" | "ConfigMapNotFound"
        )
    });
    let most = if gone { ACCESS_LIMIT } else { DISCARD_LIMIT };
    let Some(wanted) = wanted.filter(|_| failures(retry) < most) else {
        let why = retry.map_or("", |retry| retry.last_message.as_str());
        let message = format!(
            "parts of the upload {upload_id} of {} may have stayed in the bucket, where they take up room until it is aborted ({why})",
            seen.export.spec.object_store.object_name
        );
        return Plan::say(Verdict::UploadLeft { message }, Again::Now);
    };
    match entry::discard(seen, wanted) {
        Some(discard) => Plan::act([discard], Verdict::Keep),
        None => {
            let verdict = Verdict::Attempted {
                phase: ExportPhase::Deleting,
                reason: "NoAgentReady".to_owned(),
                message: "waiting for a node agent that is ready, to remove the parts that were stored: none is connected".to_owned(),
            };
            Plan::say(verdict, Again::After(RECHECK))
        }
    }
}

/// Whether nothing of the export is at work where it could be stopped.
fn is_stopped(seen: &Observation) -> bool {
    let AgentsSeen { jobs, synced, .. } = &seen.agents;
    !jobs.iter().any(|job| synced.contains(&job.node))
}

/// Since when something of the snapshot is going.
fn going(seen: &Observation) -> Option<Timestamp> {
    let restored = seen.restored.as_ref();
    let snapshot = seen.own_snapshot();
    restored
        .and_then(|restored| restored.deleting_since)
        .or_else(|| snapshot?.deleting_since)
}

fn remains(seen: &Observation, asked: Timestamp) -> Remains<'_> {
    let at_work = |upload: &&UploadStatus| upload.completion_time.is_none();
    Remains {
        holders: &seen.holders,
        agents: &seen.agents,
        running: seen
            .upload()
            .filter(at_work)
            .map(|upload| upload.node_name.as_str()),
        asked,
    }
}

fn works(actions: Vec<work::Action<Upload>>) -> Vec<Action> {
    actions.into_iter().map(Action::Work).collect()
}

fn deleting(message: impl Into<String>) -> Verdict {
    waiting(ExportPhase::Deleting, "Deleting", message)
}
