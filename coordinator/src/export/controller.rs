//! What sets reconciles off: changes of exports, of the claims and pods
//! made for them, and of what the agents do. What other people do (pods that
//! end, snapshots that come) is looked at every few seconds while it is
//! waited for.

use std::sync::Arc;

use futures::StreamExt;
use hypercloud_api::{ExportPhase, VirtualMachineVolumeExport};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::core::PartialObjectMeta;
use kube::runtime::controller::{Action as Requeue, Config, Controller};
use kube::{Api, Resource};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::reconcile::{Context, reconcile};
use crate::agents::table::Change;
use crate::shell::error::ReconcileError;
use crate::shell::trigger::{self, CONCURRENCY, Failures};

/// An export that may not fit its type.
type Guarded = trigger::Guarded<VirtualMachineVolumeExport>;

/// Reconciles every export until `stop`; the reconciles that run then are
/// finished. `changes` tells of the agents.
pub async fn run(
    context: Arc<Context>,
    changes: mpsc::UnboundedReceiver<Change>,
    stop: CancellationToken,
) {
    let client = context.shell.client.clone();
    let (reader, triggers) = trigger::changes_of::<VirtualMachineVolumeExport>(&client);
    let failures = Arc::new(Failures::default());
    let ended = Arc::clone(&failures);
    let policy = move |export: Arc<Guarded>, error: &ReconcileError, context: Arc<Context>| {
        failures.retry(&export, error, &context.shell)
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
        .run(one, policy, context)
        .for_each(|result| {
            ended.ended(result);
            std::future::ready(())
        })
        .await;
}

/// Whether an agent may matter to the export.
fn under_way(export: &Guarded) -> bool {
    let phase = export
        .0
        .as_ref()
        .ok()
        .and_then(|export| export.status.as_ref()?.phase);
    export.meta().deletion_timestamp.is_some()
        || !matches!(phase, Some(ExportPhase::Succeeded | ExportPhase::Failed))
}

async fn one(export: Arc<Guarded>, context: Arc<Context>) -> Result<Requeue, ReconcileError> {
    let inner = Arc::clone(&context);
    let work =
        |namespace: String, name: String| async move { reconcile(&inner, &namespace, &name).await };
    trigger::one(export, &context.shell, work).await
}
