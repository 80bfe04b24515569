//! What sets reconciles off: changes of rollbacks, of the claims and pods
//! made for them, and of what the agents do. What other people do (pods that
//! end, snapshots that come) is looked at every few seconds while it is
//! waited for.

use std::sync::Arc;

use futures::StreamExt;
use hypercloud_api::{RollbackPhase, VirtualMachineVolumeRollback};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::core::PartialObjectMeta;
use kube::runtime::controller::{Action as Requeue, Config, Controller};
use kube::{Api, Resource};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::reconcile::reconcile;
use crate::agents::table::Change;
use crate::shell::Shell;
use crate::shell::error::ReconcileError;
use crate::shell::trigger::{self, CONCURRENCY, Failures};

/// A rollback that may not fit its type.
type Guarded = trigger::Guarded<VirtualMachineVolumeRollback>;

/// Reconciles every rollback until `stop`; the reconciles that run then are
/// finished. `changes` tells of the agents.
pub async fn run(
    shell: Arc<Shell>,
    changes: mpsc::UnboundedReceiver<Change>,
    stop: CancellationToken,
) {
    let client = shell.client.clone();
    let (reader, triggers) = trigger::changes_of::<VirtualMachineVolumeRollback>(&client);
    let failures = Arc::new(Failures::default());
    let ended = Arc::clone(&failures);
    let policy = move |rollback: Arc<Guarded>, error: &ReconcileError, shell: Arc<Shell>| {
        failures.retry(&rollback, error, &shell)
    };
    Controller::for_stream(triggers, reader.clone())
        .with_config(Config::default().concurrency(CONCURRENCY))
        .owns(
            Api::<PartialObjectMeta<PersistentVolumeClaim>>::all(client.clone()),
            trigger::ours(),
        )
        .owns(Api::<PartialObjectMeta<Pod>>::all(client), trigger::ours())
        .reconcile_on(trigger::concerned(changes, reader, under_way))
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(one, policy, shell)
        .for_each(|result| {
            ended.ended(result);
            std::future::ready(())
        })
        .await;
}

/// Whether an agent may matter to the rollback.
fn under_way(rollback: &Guarded) -> bool {
    let phase = rollback
        .0
        .as_ref()
        .ok()
        .and_then(|rollback| rollback.status.as_ref()?.phase);
    rollback.meta().deletion_timestamp.is_some()
        || !matches!(
            phase,
            Some(RollbackPhase::Succeeded | RollbackPhase::Failed)
        )
}

async fn one(rollback: Arc<Guarded>, shell: Arc<Shell>) -> Result<Requeue, ReconcileError> {
    let inner = Arc::clone(&shell);
    let work =
        |namespace: String, name: String| async move { reconcile(&inner, &namespace, &name).await };
    trigger::one(rollback, &shell, work).await
}
