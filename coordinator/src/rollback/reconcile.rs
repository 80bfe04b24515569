//! One reconcile of one rollback: the shell around observe, plan, execute and
//! status. It moves values between them and decides nothing.

use k8s_openapi::jiff::Timestamp;
use kube::runtime::controller::Action as Requeue;

use super::execute::execute;
use super::notices::notices;
use super::observation::Observation;
use super::observe::observe;
use super::plan::plan;
use super::status;
use super::verdict::Verdict;
use crate::shell::Shell;
use crate::shell::error::ReconcileError;
use crate::shell::report::{self, Report};
use crate::shell::requeue::{Round, rounds};

/// Takes the rollback `namespace/name` as far as it goes now.
pub async fn reconcile(
    shell: &Shell,
    namespace: &str,
    name: &str,
) -> Result<Requeue, ReconcileError> {
    rounds(|| async {
        let observed = observe(&shell.client, shell.agents.as_ref(), namespace, name).await?;
        let Some(seen) = observed else {
            return Ok(None);
        };
        let plan = plan(&seen, Timestamp::now());
        let outcome = execute(shell, &seen, &plan).await?;
        report(shell, &seen, &outcome.verdict).await?;
        Ok(Some(Round {
            again: outcome.again,
            uid: seen.uid().to_owned(),
        }))
    })
    .await
}

/// Writes the status that follows from `verdict`.
async fn report(
    shell: &Shell,
    seen: &Observation,
    verdict: &Verdict,
) -> Result<(), ReconcileError> {
    let rollback = &seen.rollback;
    let new = status::next(rollback, verdict, Timestamp::now());
    let old = rollback.status.as_ref();
    let report = Report {
        old,
        new: &new,
        notices: notices(old, &new),
        attempt: new.attempt.unwrap_or(0),
    };
    report::report(shell, rollback, report).await
}
