//! The object is there: what had to do with it goes, and an address to fetch
//! it by is made where one is asked for.

use hypercloud_api::ExportPhase;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::time::Duration;

use super::super::COMPLETE;
use super::super::observation::Observation;
use super::super::validate::Wanted;
use super::super::verdict::{Action, Plan, Upload, Verdict, waiting};
use super::{any_agent, source};
use crate::again::{Again, RECHECK};
use crate::work::{self, Step};
use hypercloud_api::conditions::find;

/// How long an address is tried to be made.
const SIGNING_LIMIT: SignedDuration = SignedDuration::from_mins(5);

/// The next step.
pub(super) fn plan(seen: &Observation, wanted: &Wanted, now: Timestamp) -> Plan {
    let step: Step<Upload> = work::plan::release(&seen.holders, &seen.agents, now);
    match step {
        Step::Release(actions) => {
            return Plan::act(actions.into_iter().map(Action::Work), Verdict::Keep);
        }
        Step::Wait { reason, message } => {
            let verdict = waiting(ExportPhase::Exporting, &reason, message);
            return Plan::say(verdict, Again::After(RECHECK));
        }
        _ => {}
    }
    let actions = source::remove(seen);
    if !actions.is_empty() {
        return Plan::act(actions, Verdict::Keep);
    }
    let made = seen
        .status()
        .is_some_and(|status| status.download_url.is_some());
    match wanted.download.filter(|_| !made) {
        Some(valid) => sign(seen, wanted, valid, now),
        None => Plan::say(Verdict::Succeeded { unsigned: None }, Again::Now),
    }
}

/// Has the address made, or gives it up.
fn sign(seen: &Observation, wanted: &Wanted, valid: Duration, now: Timestamp) -> Plan {
    let since = seen
        .upload()
        .and_then(|upload| upload.completion_time.as_ref())
        .map_or(now, |time| time.0);
    if now.duration_since(since) > SIGNING_LIMIT {
        let conditions = seen.status().map(|status| status.conditions.as_slice());
        let told = find(conditions.unwrap_or_default(), COMPLETE);
        let unsigned = told.map_or_else(String::new, |told| told.message.clone());
        let verdict = Verdict::Succeeded {
            unsigned: Some(unsigned),
        };
        return Plan::say(verdict, Again::Now);
    }
    let Some(node) = any_agent(seen) else {
        let message =
            "waiting for a node agent that is ready, to sign the address: none is connected";
        let verdict = waiting(ExportPhase::Exporting, "NoAgentReady", message);
        return Plan::say(verdict, Again::After(RECHECK));
    };
    let sign = Action::Sign {
        node: node.clone(),
        object: wanted.object.clone(),
        valid,
    };
    Plan::act([sign], Verdict::Keep)
}
