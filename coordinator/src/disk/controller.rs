//! What sets reconciles off: changes of disks, of the claims and pods made
//! for them, of images, claims, snapshots and classes that they wait for, and
//! of what the agents do.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use hypercloud_api::conditions::find;
use hypercloud_api::{DiskPhase, VirtualMachineImage, VirtualMachinePvc, names};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DynamicObject};
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::controller::{Action as Requeue, Config, Controller};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Resource, ResourceExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::observation::source_namespace;
use super::reconcile::{Context, reconcile};
use crate::agents::table::Change;
use crate::shell::error::ReconcileError;
use crate::shell::trigger::{self, CONCURRENCY, Failures};
use crate::volume::snapshot;

/// A disk that may not fit its type.
type Guarded = trigger::Guarded<VirtualMachinePvc>;
/// The disks of the cluster.
type Disks = Store<Guarded>;

/// Reconciles every disk until `stop`; the reconciles that run then are
/// finished. `changes` tells of the agents.
pub async fn run(
    context: Arc<Context>,
    changes: mpsc::UnboundedReceiver<Change>,
    stop: CancellationToken,
) {
    let client = context.shell.client.clone();
    let (reader, triggers) = trigger::changes_of::<VirtualMachinePvc>(&client);
    let failures = Arc::new(Failures::default());
    let ended = Arc::clone(&failures);
    let policy = move |disk: Arc<Guarded>, error: &ReconcileError, context: Arc<Context>| {
        failures.retry(&disk, error, &context.shell)
    };
    let all = watcher::Config::default;
    // All claims, because any may be a source.
    let claims: Api<PartialObjectMeta<PersistentVolumeClaim>> = Api::all(client.clone());
    let claims = watcher(claims, all()).default_backoff().touched_objects();
    let pods: Api<PartialObjectMeta<Pod>> = Api::all(client.clone());
    let pods = watcher(pods, trigger::ours())
        .default_backoff()
        .touched_objects();
    let classes: Api<PartialObjectMeta<StorageClass>> = Api::all(client.clone());
    let classes = watcher(classes, all()).default_backoff().touched_objects();
    let images: Api<DeserializeGuard<VirtualMachineImage>> = Api::all(client.clone());
    let images = watcher(images, all())
        .default_backoff()
        .touched_objects()
        .predicate_filter(news, Default::default());
    // Where snapshots are not installed the watch goes on asking for them.
    let resource = snapshot::snapshots();
    let snapshots: Api<DynamicObject> = Api::all_with(client, &resource);
    let snapshots = watcher(snapshots, all())
        .default_backoff()
        .touched_objects();
    Controller::for_stream(triggers, reader.clone())
        .with_config(Config::default().concurrency(CONCURRENCY))
        .reconcile_on(map(claims, reader.clone(), of_claim))
        .reconcile_on(map(pods, reader.clone(), |_, pod| owner(&pod.metadata)))
        .reconcile_on(map(classes, reader.clone(), |disks, _| {
            waiting(disks, |_| true)
        }))
        .reconcile_on(map(images, reader.clone(), of_image))
        .reconcile_on(map(snapshots, reader.clone(), of_snapshot))
        .reconcile_on(trigger::concerned(changes, reader, under_way))
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(one, policy, context)
        .for_each(|result| {
            ended.ended(result);
            std::future::ready(())
        })
        .await;
}

/// The disks that the objects of a watch concern.
fn map<K: Send + 'static, E: std::error::Error + Send + 'static>(
    objects: impl Stream<Item = Result<K, E>> + Send + 'static,
    disks: Disks,
    concerned: impl Fn(&Disks, &K) -> Vec<ObjectRef<Guarded>> + Send + 'static,
) -> impl Stream<Item = ObjectRef<Guarded>> + Send + 'static {
    objects
        .filter_map(|object| {
            // Such as snapshots that are not installed; it is watched on.
            let object = object.inspect_err(|error| tracing::debug!(%error, "watching"));
            std::future::ready(object.ok())
        })
        .flat_map(move |object| stream::iter(concerned(&disks, &object)))
}

/// What of an image can matter to a disk; its progress is none of it.
fn news(image: &DeserializeGuard<VirtualMachineImage>) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let meta = image.meta();
    (&meta.uid, meta.deletion_timestamp.is_some()).hash(&mut hasher);
    if let Ok(image) = &image.0 {
        let status = image.status.as_ref();
        let phase = status.and_then(|status| status.phase);
        phase.map(|phase| phase.as_str()).hash(&mut hasher);
        let ready = status.and_then(|status| find(&status.conditions, crate::image::READY));
        ready.map(|ready| &ready.reason).hash(&mut hasher);
        let shared = image.spec.shared_with.as_ref();
        shared.map(|sharing| &sharing.namespaces).hash(&mut hasher);
    }
    Some(hasher.finish())
}

/// The disks made from an image.
fn of_image(
    disks: &Disks,
    image: &DeserializeGuard<VirtualMachineImage>,
) -> Vec<ObjectRef<Guarded>> {
    let (namespace, name) = (image.namespace(), image.name_any());
    waiting(disks, |disk| {
        let other = &disk.spec.virtual_machine_image_namespace;
        disk.spec.virtual_machine_image_name.as_ref() == Some(&name)
            && other.as_ref().or(disk.metadata.namespace.as_ref()) == namespace.as_ref()
    })
}

/// The disk that a claim was made for, and those made from it.
fn of_claim(
    disks: &Disks,
    claim: &PartialObjectMeta<PersistentVolumeClaim>,
) -> Vec<ObjectRef<Guarded>> {
    let (namespace, name) = (claim.namespace(), claim.name_any());
    let mut found = owner(&claim.metadata);
    // The claim of the name of a disk that is not its own stands in its way.
    found.extend(waiting(disks, |disk| {
        let spec = &disk.spec;
        let named =
            spec.pvc_name.as_ref() == Some(&name) || disk.metadata.name.as_ref() == Some(&name);
        let image = spec.virtual_machine_image_name.as_deref();
        let of_image = image.is_some_and(|image| names::image_claim(image) == name);
        let namespace = namespace.as_deref().unwrap_or_default();
        named && disk.metadata.namespace.as_deref() == Some(namespace)
            || of_image && source_namespace(disk) == namespace
    }));
    found
}

/// The disks made from a snapshot.
fn of_snapshot(disks: &Disks, snapshot: &DynamicObject) -> Vec<ObjectRef<Guarded>> {
    let (namespace, name) = (snapshot.namespace(), snapshot.name_any());
    waiting(disks, |disk| {
        disk.metadata.namespace == namespace
            && disk.spec.volume_snapshot_name.as_ref() == Some(&name)
    })
}

/// The disks that are not done, and that `which` picks.
fn waiting(disks: &Disks, which: impl Fn(&VirtualMachinePvc) -> bool) -> Vec<ObjectRef<Guarded>> {
    let picked = |disk: &Guarded| under_way(disk) && disk.0.as_ref().is_ok_and(&which);
    let found = disks.state_filter(picked);
    found
        .iter()
        .map(|disk| ObjectRef::from_obj(disk.as_ref()))
        .collect()
}

/// The disk that an object belongs to, by its controller or by what is
/// written on it.
fn owner(meta: &ObjectMeta) -> Vec<ObjectRef<Guarded>> {
    let reference = |namespace: &str, name: &str| ObjectRef::new(name).within(namespace);
    let kind = VirtualMachinePvc::kind(&());
    let mut owners = meta.owner_references.iter().flatten();
    let controller = owners.find(|owner| owner.kind == kind && owner.controller == Some(true));
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let written = meta
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(names::ANNOTATION_DISK))
        .and_then(|disk| disk.split_once('/'));
    match (controller, written) {
        (Some(owner), _) => vec![reference(namespace, &owner.name)],
        (None, Some((namespace, name))) => vec![reference(namespace, name)],
        (None, None) => Vec::new(),
    }
}

/// Whether something is still to be done for the disk.
fn under_way(disk: &Guarded) -> bool {
    let status = disk.0.as_ref().ok().and_then(|disk| disk.status.as_ref());
    let phase = status.and_then(|status| status.phase);
    disk.meta().deletion_timestamp.is_some()
        || !matches!(phase, Some(DiskPhase::Ready | DiskPhase::Failed))
}

async fn one(disk: Arc<Guarded>, context: Arc<Context>) -> Result<Requeue, ReconcileError> {
    let inner = Arc::clone(&context);
    let work =
        |namespace: String, name: String| async move { reconcile(&inner, &namespace, &name).await };
    trigger::one(disk, &context.shell, work).await
}
