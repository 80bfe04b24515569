//! What sets reconciles off, and what becomes of one that failed.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt, stream};
use hypercloud_api::names;
use kube::core::DeserializeGuard;
use kube::runtime::controller::{Action as Requeue, Error as ControllerError};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{Predicate, WatchStreamExt, predicates, reflector, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tracing::Instrument;

use super::Shell;
use super::error::ReconcileError;
use crate::agents::table::Change;
use crate::backoff::Backoff;

/// A resource that may not fit its type: one of those must not stop the
/// watch.
pub type Guarded<K> = DeserializeGuard<K>;

/// Resources of a kind that are reconciled at the same time. A reconcile
/// mostly waits for answers, some of them slow; probes, the slowest, are
/// limited to half of this by the pool, so that sources that do not answer
/// hold up nothing but one another.
pub const CONCURRENCY: u16 = 64;

/// Delay after a failed reconcile.
const ERRORS: Backoff = Backoff {
    base: Duration::from_millis(500),
    cap: Duration::from_secs(120),
};

/// A kind that is reconciled.
pub trait Kind:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// The resources of a kind, and the changes of them that are worth a
/// reconcile: status writes leave the generation alone, and the end of a
/// deletion is a change of finalizers.
pub fn changes_of<K: Kind>(
    client: &Client,
) -> (
    Store<Guarded<K>>,
    impl Stream<Item = Result<Guarded<K>, watcher::Error>> + Send + 'static,
) {
    let (reader, writer) = reflector::store();
    let filter = predicates::generation.combine(predicates::finalizers);
    let objects: Api<Guarded<K>> = Api::all(client.clone());
    let triggers = watcher(objects, watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .predicate_filter(filter, Default::default());
    (reader, triggers)
}

/// A watch of what the coordinator made.
pub fn ours() -> watcher::Config {
    let label = format!("{}={}", names::LABEL_MANAGED_BY, names::MANAGED_BY);
    watcher::Config::default().labels(&label)
}

/// The resources that a change at an agent concerns; where an agent came or
/// went, those that `under_way` picks.
pub fn concerned<K: Kind>(
    changes: mpsc::UnboundedReceiver<Change>,
    objects: Store<Guarded<K>>,
    under_way: fn(&Guarded<K>) -> bool,
) -> impl Stream<Item = ObjectRef<Guarded<K>>> + Send {
    UnboundedReceiverStream::new(changes).flat_map(move |change| {
        let found = match change {
            Change::Owner(uid) => {
                objects.state_filter(|object| object.uid().as_ref() == Some(&uid))
            }
            Change::Agents => objects.state_filter(under_way),
            Change::Devices(_) => Vec::new(),
        };
        let references: Vec<_> = found
            .iter()
            .map(|object| ObjectRef::from_obj(object.as_ref()))
            .collect();
        stream::iter(references)
    })
}

/// One reconcile, in its span.
pub async fn one<K, F>(
    object: Arc<Guarded<K>>,
    shell: &Shell,
    reconcile: impl FnOnce(String, String) -> F,
) -> Result<Requeue, ReconcileError>
where
    K: Kind,
    F: Future<Output = Result<Requeue, ReconcileError>>,
{
    let name = object.name_any();
    let namespace = object.namespace().unwrap_or_default();
    let kind = K::kind(&());
    let span = tracing::info_span!("reconcile", %kind, %namespace, %name);
    let work = async {
        if let Err(invalid) = &object.0 {
            return Err(ReconcileError::Malformed {
                problem: invalid.error.clone(),
            });
        }
        reconcile(namespace, name).await
    };
    let begun = Instant::now();
    let result = work.instrument(span).await;
    shell.metrics.reconciled(begun.elapsed());
    shell.metrics.set_agents(shell.agents.synced().len());
    result
}

/// How the controller says that a reconcile ended.
pub type Ended<K> =
    Result<(ObjectRef<Guarded<K>>, Requeue), ControllerError<ReconcileError, watcher::Error>>;

/// How often in a row the reconciles of each resource of a kind failed.
pub struct Failures<K: Kind>(Mutex<HashMap<ObjectRef<Guarded<K>>, u32>>);

impl<K: Kind> Default for Failures<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Kind> Failures<K> {
    fn again(&self, object: ObjectRef<Guarded<K>>) -> u32 {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(object).or_default();
        *count = count.saturating_add(1);
        *count
    }

    fn over(&self, object: &ObjectRef<Guarded<K>>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.remove(object);
    }

    /// When a failed reconcile is tried again.
    pub fn retry(&self, object: &Guarded<K>, error: &ReconcileError, shell: &Shell) -> Requeue {
        let reason = error.reason();
        shell.metrics.reconcile_failed(reason);
        let kind = K::kind(&());
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        if !error.is_retryable() {
            tracing::error!(%kind, %namespace, %name, reason, %error, "reconcile cannot succeed");
            return Requeue::requeue(ERRORS.cap);
        }
        let count = self.again(ObjectRef::from_obj(object));
        let delay = ERRORS.delay(&object.uid().unwrap_or_default(), count);
        if error.is_ordinary() && count < 3 {
            tracing::debug!(%kind, %namespace, %name, ?delay, reason, "to be tried again");
        } else {
            let cause = chain(error);
            tracing::warn!(%kind, %namespace, %name, reason, %error, cause, ?delay, "reconcile failed");
        }
        Requeue::requeue(delay)
    }

    /// Takes note of how a reconcile ended.
    pub fn ended(&self, result: Ended<K>) {
        match result {
            Ok((object, _)) => self.over(&object),
            Err(error @ (ControllerError::QueueError(_) | ControllerError::RunnerError(_))) => {
                tracing::warn!(cause = chain(&error), %error, "watching failed")
            }
            // Told of where it is decided when to try again, or a resource
            // that went away while it waited for its turn.
            Err(_) => {}
        }
    }
}

/// What an error was caused by, outermost first.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}
