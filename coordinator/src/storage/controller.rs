//! What sets reconciles off: changes of the resource and of what it is made
//! of, and the time.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use hypercloud_api::{HYPERCLOUD_STORAGE_NAME, HyperCloudStorage};
use kube::runtime::controller::{Action as Requeue, Config, Controller};
use kube::runtime::reflector::ObjectRef;
use tokio_util::sync::CancellationToken;

use super::reconcile::{Context, reconcile};
use crate::inventory::pace::paced;
use crate::shell::error::ReconcileError;
use crate::shell::trigger::{self, Failures};

/// How long after one look the next may come that a watch asks for: a storm of
/// events is a look a second.
const PACE: Duration = Duration::from_secs(1);
/// How long after a failed look the next comes: what cannot be looked at may
/// have failed.
const FAILED: Duration = Duration::from_secs(5);
/// How long after a look that somebody else's write made worthless.
const OVERTAKEN: Duration = Duration::from_millis(300);

/// A storage that may not fit its type.
type Guarded = trigger::Guarded<HyperCloudStorage>;

/// Keeps the storage until `stop`; a reconcile that runs then is finished.
pub async fn run(context: Arc<Context>, stop: CancellationToken) {
    let client = context.shell.client.clone();
    let (reader, triggers) = trigger::changes_of::<HyperCloudStorage>(&client);
    let name = || HYPERCLOUD_STORAGE_NAME.to_owned();
    let kicks = context.watches.kicks().map(move |()| name());
    let kicks = paced(kicks, |_| PACE);
    let failures = Arc::new(Failures::default());
    let ended = Arc::clone(&failures);
    let policy = move |storage: Arc<Guarded>, error: &ReconcileError, context: Arc<Context>| {
        // Told there; when to look again is this storage's own.
        let _ = failures.retry(&storage, error, &context.shell);
        Requeue::requeue(match error.is_ordinary() {
            true => OVERTAKEN,
            false => FAILED,
        })
    };
    Controller::for_stream(triggers, reader)
        .with_config(Config::default().concurrency(1))
        .reconcile_on(kicks.map(|name| ObjectRef::<Guarded>::new(&name)))
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(one, policy, context)
        .for_each(|result| {
            ended.ended(result);
            std::future::ready(())
        })
        .await;
}

async fn one(storage: Arc<Guarded>, context: Arc<Context>) -> Result<Requeue, ReconcileError> {
    let inner = Arc::clone(&context);
    let work = |_: String, name: String| async move { reconcile(&inner, &name).await };
    trigger::one(storage, &context.shell, work).await
}
