//! What sets reconciles off: changes of images, of the claims and pods made
//! for them, of storage classes, and of what the agents do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt, stream};
use hypercloud_api::{ImagePhase, VirtualMachineImage, names};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::controller::{Action as Requeue, Config, Controller, Error as ControllerError};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{Predicate, WatchStreamExt, predicates, reflector, watcher};
use kube::{Api, Resource, ResourceExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::error::ReconcileError;
use super::reconcile::{Context, reconcile};
use crate::agents::table::Change;
use crate::backoff::Backoff;

/// An image that may not fit its type: one of those must not stop the watch.
type Guarded = DeserializeGuard<VirtualMachineImage>;

/// Images that are reconciled at the same time. A reconcile mostly waits for
/// answers, some of them slow; probes, the slowest, are limited to half of
/// this by the pool, so that sources that do not answer hold up nothing but
/// one another.
const CONCURRENCY: u16 = 64;

/// Delay after a failed reconcile.
const ERRORS: Backoff = Backoff {
    base: Duration::from_millis(500),
    cap: Duration::from_secs(120),
};

/// How often in a row the reconciles of each image failed.
#[derive(Default)]
struct Failures(Mutex<HashMap<ObjectRef<Guarded>, u32>>);

impl Failures {
    fn again(&self, image: ObjectRef<Guarded>) -> u32 {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(image).or_default();
        *count = count.saturating_add(1);
        *count
    }

    fn over(&self, image: &ObjectRef<Guarded>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.remove(image);
    }
}

/// Reconciles every image until `stop`; the reconciles that run then are
/// finished. `changes` tells of the agents.
pub async fn run(
    context: Arc<Context>,
    changes: mpsc::UnboundedReceiver<Change>,
    stop: CancellationToken,
) {
    let client = context.client.clone();
    let images: Api<Guarded> = Api::all(client.clone());
    let (reader, writer) = reflector::store();
    // Status writes leave the generation alone, and the end of a deletion is
    // a change of finalizers.
    let filter = predicates::generation.combine(predicates::finalizers);
    let triggers = watcher(images, watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .predicate_filter(filter, Default::default());
    let ours = watcher::Config::default().labels(&format!(
        "{}={}",
        names::LABEL_MANAGED_BY,
        names::MANAGED_BY
    ));
    let classes: Api<PartialObjectMeta<StorageClass>> = Api::all(client.clone());
    let classes = watcher(classes, watcher::Config::default())
        .default_backoff()
        .touched_objects()
        .filter_map(async |class| class.is_ok().then_some(()));
    let failures = Arc::new(Failures::default());
    let succeeded = Arc::clone(&failures);
    let policy = move |image: Arc<Guarded>, error: &ReconcileError, context: Arc<Context>| {
        retry(&failures, &image, error, &context)
    };
    Controller::for_stream(triggers, reader.clone())
        .with_config(Config::default().concurrency(CONCURRENCY))
        .owns(
            Api::<PartialObjectMeta<PersistentVolumeClaim>>::all(client.clone()),
            ours.clone(),
        )
        .owns(Api::<PartialObjectMeta<Pod>>::all(client), ours)
        .reconcile_all_on(classes)
        .reconcile_on(concerned(changes, reader))
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(one, policy, context)
        .for_each(|result| {
            match result {
                Ok((image, _)) => succeeded.over(&image),
                Err(error @ (ControllerError::QueueError(_) | ControllerError::RunnerError(_))) => {
                    tracing::warn!(cause = chain(&error), %error, "watching failed")
                }
                // Told of where it is decided when to try again, or an image
                // that went away while it waited for its turn.
                Err(_) => {}
            }
            std::future::ready(())
        })
        .await;
}

/// The images that a change at an agent concerns.
fn concerned(
    changes: mpsc::UnboundedReceiver<Change>,
    images: Store<Guarded>,
) -> impl Stream<Item = ObjectRef<Guarded>> + Send {
    UnboundedReceiverStream::new(changes).flat_map(move |change| {
        let found = match change {
            Change::Owner(uid) => images.state_filter(|image| image.uid().as_ref() == Some(&uid)),
            Change::Agents => images.state_filter(under_way),
        };
        let references: Vec<_> = found
            .iter()
            .map(|image| ObjectRef::from_obj(image.as_ref()))
            .collect();
        stream::iter(references)
    })
}

/// Whether an agent may matter to the image.
fn under_way(image: &Guarded) -> bool {
    let phase = image
        .0
        .as_ref()
        .ok()
        .and_then(|image| image.status.as_ref()?.phase);
    image.meta().deletion_timestamp.is_some()
        || !matches!(phase, Some(ImagePhase::Ready | ImagePhase::Failed))
}

/// One reconcile, in its span.
async fn one(image: Arc<Guarded>, context: Arc<Context>) -> Result<Requeue, ReconcileError> {
    let name = image.name_any();
    let namespace = image.namespace().unwrap_or_default();
    let span = tracing::info_span!("reconcile", %namespace, image = %name);
    let work = async {
        if let Err(invalid) = &image.0 {
            return Err(ReconcileError::Malformed {
                problem: invalid.error.clone(),
            });
        }
        reconcile(&context, &namespace, &name).await
    };
    let begun = Instant::now();
    let result = work.instrument(span).await;
    context.metrics.reconciled(begun.elapsed());
    context.metrics.set_agents(context.agents.synced().len());
    result
}

/// When a failed reconcile is tried again.
fn retry(
    failures: &Failures,
    image: &Guarded,
    error: &ReconcileError,
    context: &Context,
) -> Requeue {
    let reason = error.reason();
    context.metrics.reconcile_failed(reason);
    let reference = ObjectRef::from_obj(image);
    let (namespace, name) = (image.namespace().unwrap_or_default(), image.name_any());
    if !error.is_retryable() {
        tracing::error!(%namespace, image = %name, reason, %error, "reconcile cannot succeed");
        return Requeue::requeue(ERRORS.cap);
    }
    let count = failures.again(reference);
    let delay = ERRORS.delay(&image.uid().unwrap_or_default(), count);
    if error.is_ordinary() && count < 3 {
        tracing::debug!(%namespace, image = %name, ?delay, reason, "to be tried again");
    } else {
        let cause = chain(error);
        tracing::warn!(%namespace, image = %name, reason, %error, cause, ?delay, "reconcile failed");
    }
    Requeue::requeue(delay)
}

/// What an error was caused by, outermost first.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}
