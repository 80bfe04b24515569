//! What sets reconciles off: changes of images, of the claims and pods made
//! for them, of the claims that are cloned from them, of storage classes, and
//! of what the agents do.

use std::sync::Arc;

use futures::StreamExt;
use hypercloud_api::{ImagePhase, VirtualMachineImage, names};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::core::PartialObjectMeta;
use kube::runtime::controller::{Action as Requeue, Config, Controller};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::reconcile::{Context, reconcile};
use crate::agents::table::Change;
use crate::shell::error::ReconcileError;
use crate::shell::trigger::{self, CONCURRENCY, Failures};

/// An image that may not fit its type.
type Guarded = trigger::Guarded<VirtualMachineImage>;

/// Reconciles every image until `stop`; the reconciles that run then are
/// finished. `changes` tells of the agents.
pub async fn run(
    context: Arc<Context>,
    changes: mpsc::UnboundedReceiver<Change>,
    stop: CancellationToken,
) {
    let client = context.shell.client.clone();
    let (reader, triggers) = trigger::changes_of::<VirtualMachineImage>(&client);
    let classes: Api<PartialObjectMeta<StorageClass>> = Api::all(client.clone());
    let classes = watcher(classes, watcher::Config::default())
        .default_backoff()
        .touched_objects()
        .filter_map(async |class| class.is_ok().then_some(()));
    let clones = watcher::Config::default().labels(names::LABEL_SOURCE_IMAGE_UID);
    let sources = reader.clone();
    let failures = Arc::new(Failures::default());
    let ended = Arc::clone(&failures);
    let policy = move |image: Arc<Guarded>, error: &ReconcileError, context: Arc<Context>| {
        failures.retry(&image, error, &context.shell)
    };
    Controller::for_stream(triggers, reader.clone())
        .with_config(Config::default().concurrency(CONCURRENCY))
        .owns(
            Api::<PartialObjectMeta<PersistentVolumeClaim>>::all(client.clone()),
            trigger::ours(),
        )
        .owns(
            Api::<PartialObjectMeta<Pod>>::all(client.clone()),
            trigger::ours(),
        )
        .watches(
            Api::<PartialObjectMeta<PersistentVolumeClaim>>::all(client),
            clones,
            move |clone| awaiting(&clone, &sources),
        )
        .reconcile_all_on(classes)
        .reconcile_on(trigger::concerned(changes, reader, under_way))
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(one, policy, context)
        .for_each(|result| {
            ended.ended(result);
            std::future::ready(())
        })
        .await;
}

/// The image whose deletion waits for `clone`, if there is one.
fn awaiting(
    clone: &PartialObjectMeta<PersistentVolumeClaim>,
    images: &Store<Guarded>,
) -> Option<ObjectRef<Guarded>> {
    let source = clone.labels().get(names::LABEL_SOURCE_IMAGE_UID)?;
    let found = images.find(|image| {
        image.meta().deletion_timestamp.is_some() && image.uid().as_ref() == Some(source)
    });
    found.map(|image| ObjectRef::from_obj(image.as_ref()))
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

async fn one(image: Arc<Guarded>, context: Arc<Context>) -> Result<Requeue, ReconcileError> {
    let inner = Arc::clone(&context);
    let work =
        |namespace: String, name: String| async move { reconcile(&inner, &namespace, &name).await };
    trigger::one(image, &context.shell, work).await
}
