//! One reconcile of one export: the shell around observe, plan, execute and
//! status. It moves values between them and decides nothing.

use k8s_openapi::jiff::Timestamp;
use kube::runtime::controller::Action as Requeue;

use super::execute::{Hands, execute};
use super::notices::notices;
use super::observation::Observation;
use super::observe::observe;
use super::plan::plan;
use super::status;
use super::verdict::Verdict;
use crate::access::{DefaultStore, Scope};
use crate::shell::Shell;
use crate::shell::error::ReconcileError;
use crate::shell::report::{self, Report};
use crate::shell::requeue::{Round, rounds};

/// What the reconciles of exports share.
pub struct Context {
    /// What those of every kind share.
    pub shell: Shell,
    /// The object store of exports that name none.
    pub store: DefaultStore,
}

/// Takes the export `namespace/name` as far as it goes now.
pub async fn reconcile(
    context: &Context,
    namespace: &str,
    name: &str,
) -> Result<Requeue, ReconcileError> {
    let shell = &context.shell;
    let hands = Hands {
        shell,
        scope: Scope {
            namespace,
            store: &context.store,
        },
    };
    rounds(|| async {
        let agents = shell.agents.as_ref();
        let observed = observe(&shell.client, agents, &context.store, namespace, name).await?;
        let Some(seen) = observed else {
            return Ok(None);
        };
        let plan = plan(&seen, Timestamp::now());
        let outcome = execute(hands, &seen, &plan).await?;
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
    let export = &seen.export;
    let new = status::next(export, verdict, Timestamp::now());
    let old = export.status.as_ref();
    let report = Report {
        old,
        new: &new,
        notices: notices(old, &new),
        attempt: new.attempt.unwrap_or(0),
    };
    report::report(shell, export, report).await
}
