//! One reconcile of one cleanup: the shell around observe, plan, execute and
//! status. It moves values between them and decides nothing.

use hypercloud_api::NodeDeviceCleanup;
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::controller::Action as Requeue;
use kube::{Api, Resource};
use tokio_util::sync::CancellationToken;

use super::execute::execute;
use super::notices::{notices, on_node};
use super::observation::{Observation, is_over};
use super::observe::observe;
use super::plan::plan;
use super::status;
use super::verdict::Verdict;
use crate::shell::Shell;
use crate::shell::error::{ObserveError, ReconcileError};
use crate::shell::report::{self, Report};
use crate::shell::requeue::{Round, rounds};

/// How often an agent's answer is written anew where somebody else wrote
/// meanwhile.
const WRITES: u32 = 5;

/// What reconciles of cleanups share.
pub struct Context {
    /// What they share with the others.
    pub shell: Shell,
    /// Ends the waiting for agents.
    pub stop: CancellationToken,
}

/// Takes the cleanup `name` as far as it goes now.
pub async fn reconcile(context: &Context, name: &str) -> Result<Requeue, ReconcileError> {
    let shell = &context.shell;
    rounds(|| async {
        let observed = observe(&shell.client, shell.agents.as_ref(), name).await?;
        let Some(seen) = observed else {
            return Ok(None);
        };
        let plan = plan(&seen, Timestamp::now());
        let outcome = execute(shell, &seen, &plan, &context.stop).await?;
        report(shell, &seen, &outcome.verdict).await?;
        Ok(Some(Round {
            again: outcome.again,
            uid: seen.uid().to_owned(),
        }))
    })
    .await
}

/// Writes the status that follows from `verdict`. What an agent answered is
/// not asked for again because somebody put a label on the resource.
async fn report(
    shell: &Shell,
    seen: &Observation,
    verdict: &Verdict,
) -> Result<(), ReconcileError> {
    let mut cleanup = seen.cleanup.clone();
    for left in (0..WRITES).rev() {
        match write(shell, seen, &cleanup, verdict).await {
            Err(error) if error.is_conflict() && verdict.is_answer() && left > 0 => {
                let cleanups: Api<NodeDeviceCleanup> = Api::all(shell.client.clone());
                let now = cleanups.get_opt(seen.name()).await.map_err(|source| {
                    let what = "the cleanup";
                    ObserveError::Read { what, source }
                })?;
                match now {
                    Some(now) if now.metadata.uid == cleanup.metadata.uid && !is_over(&now) => {
                        cleanup = now;
                    }
                    // Gone, or another coordinator has heard the end of it.
                    _ => return Ok(()),
                }
            }
            written => return written,
        }
    }
    Ok(())
}

async fn write(
    shell: &Shell,
    seen: &Observation,
    cleanup: &NodeDeviceCleanup,
    verdict: &Verdict,
) -> Result<(), ReconcileError> {
    let new = status::next(cleanup, verdict, Timestamp::now());
    let old = cleanup.status.as_ref();
    let notices = notices(old, &new);
    let told = on_node(seen.name(), &notices);
    let attempt = i64::from(new.retry.as_ref().map_or(0, |retry| retry.failures));
    let report = Report {
        old,
        new: &new,
        notices,
        attempt,
    };
    report::report(shell, cleanup, report).await?;
    if let Some(node) = &seen.node {
        let node = ObjectReference {
            api_version: Some(Node::api_version(&()).into_owned()),
            kind: Some(Node::kind(&()).into_owned()),
            name: Some(seen.node_name().to_owned()),
            uid: Some(node.uid.clone()),
            ..ObjectReference::default()
        };
        for notice in told {
            report::publish(&shell.recorder, &node, notice, seen.uid()).await;
        }
    }
    Ok(())
}
