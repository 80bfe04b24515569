//! Does the actions of a plan (client required). Nothing is decided here.
//!
//! An order may be given again: the agent joins what it is at, and looks at
//! the device anew each time.

use tokio_util::sync::CancellationToken;

use super::observation::Observation;
use super::plan::judge;
use super::verdict::{Action, Plan, Verdict, waiting};
use crate::again::{Again, RECHECK};
use crate::agents::devices::CleaningOrder;
use crate::agents::{AgentError, Failure};
use crate::decision::Outcome;
use crate::shell::Shell;
use crate::shell::act::{self, Rules};
use crate::shell::error::ExecuteError;

/// Does the actions of `plan` in order and answers with what holds after
/// them. A coordinator that has to `stop` waits for no agent.
pub async fn execute(
    shell: &Shell,
    seen: &Observation,
    plan: &Plan,
    stop: &CancellationToken,
) -> Result<Outcome<Verdict>, ExecuteError> {
    let rules = Rules {
        is_cancellation: |_| false,
        again,
    };
    let acting = act::execute(plan, rules, |action| act(shell, seen, action));
    match stop.run_until_cancelled(acting).await {
        Some(outcome) => outcome,
        None => Ok(Outcome {
            verdict: Verdict::Keep,
            again: Again::OnChange,
        }),
    }
}

fn again(learnt: &Verdict) -> Option<Again> {
    Some(match learnt {
        Verdict::Waiting { .. } => Again::After(RECHECK),
        Verdict::TryFailed(_) => Again::Now,
        _ => Again::OnChange,
    })
}

/// Does one action; answers with a verdict where something was learnt.
async fn act(
    shell: &Shell,
    seen: &Observation,
    action: &Action,
) -> Result<Option<Verdict>, ExecuteError> {
    let Action::Clean(device) = action;
    let node = seen.node_name();
    let order = CleaningOrder {
        device: device.clone(),
        reference: seen.reference(),
    };
    let path = &device.path;
    let manager = manager(seen);
    tracing::info!(
        %node, %path, by_id = device.by_id, serial = device.serial, wwn = device.wwn,
        size = device.size, uid = %seen.uid(), manager, "device is being cleaned"
    );
    let failure = match shell.agents.clean(node, &order).await {
        Ok(Ok(cleaned)) => {
            let removed = cleaned.removed.join(", ");
            let discarded = cleaned.discarded;
            tracing::info!(%node, %path, uid = %seen.uid(), %removed, discarded, "device is clean");
            return Ok(Some(Verdict::Cleaned(cleaned)));
        }
        Ok(Err(failure)) => failure,
        // It is at it still.
        Err(AgentError::Late { .. }) => return Ok(None),
        Err(error @ AgentError::Away { .. }) => {
            return Ok(Some(waiting("AgentUnreachable", error.to_string())));
        }
        Err(source @ AgentError::Busy { .. }) => {
            let what = "have the device cleaned";
            return Err(ExecuteError::Agent { what, source });
        }
        Err(error) => Failure {
            reason: error.reason().to_owned(),
            message: error.to_string(),
            retryable: error.is_retryable(),
        },
    };
    Ok(Some(judge(seen.status(), failure)))
}

/// Whatever wrote the resource first says it is called; the user is in the
/// audit log of the API server.
fn manager(seen: &Observation) -> Option<&str> {
    let fields = seen.cleanup.metadata.managed_fields.as_ref()?;
    let mut writers = fields
        .iter()
        .filter(|entry| entry.subresource.as_deref().unwrap_or_default().is_empty());
    writers.next()?.manager.as_deref()
}
