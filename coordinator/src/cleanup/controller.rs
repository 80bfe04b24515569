//! What sets reconciles off: cleanups that are made, and what the agents of
//! their nodes do. What only other cleanups end is looked at every few
//! seconds.

use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use hypercloud_api::NodeDeviceCleanup;
use kube::runtime::controller::{Action as Requeue, Config, Controller};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;

use super::observation::is_over;
use super::reconcile::{Context, reconcile};
use crate::agents::table::Change;
use crate::shell::error::ReconcileError;
use crate::shell::trigger::{self, CONCURRENCY, Failures};

/// A cleanup that may not fit its type.
type Guarded = trigger::Guarded<NodeDeviceCleanup>;

/// Reconciles every cleanup until `stop`; the reconciles that run then are
/// finished. `changes` tells of the agents.
pub async fn run(
    context: Arc<Context>,
    changes: mpsc::UnboundedReceiver<Change>,
    stop: CancellationToken,
) {
    let client = context.shell.client.clone();
    let (reader, triggers) = trigger::changes_of::<NodeDeviceCleanup>(&client);
    let failures = Arc::new(Failures::default());
    let ended = Arc::clone(&failures);
    let policy = move |cleanup: Arc<Guarded>, error: &ReconcileError, context: Arc<Context>| {
        failures.retry(&cleanup, error, &context.shell)
    };
    Controller::for_stream(triggers, reader.clone())
        .with_config(Config::default().concurrency(CONCURRENCY))
        .reconcile_on(concerned(changes, reader))
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(one, policy, context)
        .for_each(|result| {
            ended.ended(result);
            std::future::ready(())
        })
        .await;
}

/// The cleanups that a change at an agent concerns.
fn concerned(
    changes: mpsc::UnboundedReceiver<Change>,
    cleanups: Store<Guarded>,
) -> impl Stream<Item = ObjectRef<Guarded>> + Send {
    UnboundedReceiverStream::new(changes).flat_map(move |change| {
        let found = cleanups.state_filter(|cleanup| {
            let Ok(cleanup) = &cleanup.0 else {
                return false;
            };
            !is_over(cleanup)
                && match &change {
                    Change::Agents => true,
                    Change::Devices(node) => *node == cleanup.spec.node_name,
                    Change::Owner(_) => false,
                }
        });
        let references: Vec<_> = found
            .iter()
            .map(|cleanup| ObjectRef::from_obj(cleanup.as_ref()))
            .collect();
        stream::iter(references)
    })
}

async fn one(cleanup: Arc<Guarded>, context: Arc<Context>) -> Result<Requeue, ReconcileError> {
    let inner = Arc::clone(&context);
    let work = |_: String, name: String| async move { reconcile(&inner, &name).await };
    trigger::one(cleanup, &context.shell, work).await
}
