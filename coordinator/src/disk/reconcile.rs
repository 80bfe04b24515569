//! One reconcile of one disk: the shell around observe, plan, execute and
//! status. It moves values between them and decides nothing.

use k8s_openapi::jiff::Timestamp;
use kube::runtime::controller::Action as Requeue;

use super::execute::execute;
use super::notices::notices;
use super::observation::Observation;
use super::observe::observe;
use super::plan::{Policy, plan};
use super::status;
use super::verdict::Verdict;
use crate::shell::Shell;
use crate::shell::error::ReconcileError;
use crate::shell::report::{self, Report};
use crate::shell::requeue::{Round, rounds};

/// What the reconciles of disks share.
pub struct Context {
    /// What those of every kind share.
    pub shell: Shell,
    /// What the operator set for all disks.
    pub policy: Policy,
}

/// Takes the disk `namespace/name` as far as it goes now.
pub async fn reconcile(
    context: &Context,
    namespace: &str,
    name: &str,
) -> Result<Requeue, ReconcileError> {
    let shell = &context.shell;
    rounds(|| async {
        let agents = shell.agents.as_ref();
        let Some(seen) = observe(&shell.client, agents, namespace, name).await? else {
            return Ok(None);
        };
        let plan = plan(&seen, &context.policy, Timestamp::now());
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
    let disk = &seen.disk;
    let has_claim = seen.own_claim().is_some();
    let new = status::next(disk, verdict, has_claim, Timestamp::now());
    let old = disk.status.as_ref();
    let report = Report {
        old,
        new: &new,
        notices: notices(old, &new),
        attempt: new.attempt.unwrap_or(0),
    };
    report::report(shell, disk, report).await
}
