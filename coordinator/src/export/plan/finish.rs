//! The object is there: what had to do with it goes, and an address to fetch
//! it by is made where one is asked for.

use hypercloud_api::ExportPhase;
use k8s_openapi::jiff::Timestamp;
use std::time::Duration;

use super::super::observation::Observation;
use super::super::validate::Wanted;
use super::super::verdict::{Action, Plan, Upload, Verdict, waiting};
use super::{any_agent, attempts, source};
use crate::again::{Again, RECHECK};
use crate::work::{self, Step};

/// How often an address is tried to be made: five minutes long.
const SIGNING_LIMIT: i32 = 20;

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
        Some(valid) => sign(seen, wanted, valid),
        None => Plan::say(Verdict::Succeeded { unsigned: None }, Again::Now),
    }
}

/// Has the address made, or gives it up.
fn sign(seen: &Observation, wanted: &Wanted, valid: Duration) -> Plan {
    if attempts(seen) >= SIGNING_LIMIT {
        let retry = seen.status().and_then(|status| status.retry.as_ref());
        let unsigned = retry.map(|retry| retry.last_message.clone());
        return Plan::say(Verdict::Succeeded { unsigned }, Again::Now);
    }
    let Some(node) = any_agent(seen) else {
        let verdict = Verdict::Attempted {
            phase: ExportPhase::Exporting,
            reason: "NoAgentReady".to_owned(),
            message:
                "waiting for a node agent that is ready, to sign the address: none is connected"
                    .to_owned(),
        };
        return Plan::say(verdict, Again::After(RECHECK));
    };
    let sign = Action::Sign {
        node: node.clone(),
        object: wanted.object.clone(),
        valid,
    };
    Plan::act([sign], Verdict::Keep)
}
