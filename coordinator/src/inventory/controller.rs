//! What sets reconciles off: nodes that come, inventories that somebody
//! touches, and what the agents tell.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use hypercloud_api::NodeDeviceInventory;
use k8s_openapi::api::core::v1::Node;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::controller::{Action as Requeue, Config, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, predicates, reflector, watcher};
use kube::{Api, ResourceExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;

use super::pace::{interval, paced};
use super::reconcile::reconcile;
use crate::agents::table::Change;
use crate::shell::Shell;
use crate::shell::error::ReconcileError;
use crate::shell::trigger::{self, Failures};

/// Inventories that are looked at at the same time: each takes milliseconds,
/// and several times its room in memory.
const CONCURRENCY: u16 = 4;

/// A node, of which only the metadata matters.
type Guarded = trigger::Guarded<PartialObjectMeta<Node>>;

/// Keeps the inventory of every node until `stop`; the reconciles that run
/// then are finished. `changes` tells of the agents.
pub async fn run(
    shell: Arc<Shell>,
    changes: mpsc::UnboundedReceiver<Change>,
    stop: CancellationToken,
) {
    let client = shell.client.clone();
    let (reader, writer) = reflector::store();
    let nodes: Api<PartialObjectMeta<Node>> = Api::all(client.clone());
    // A node's status is written all the time.
    let triggers = watcher(nodes, watcher::Config::default())
        .default_backoff()
        .map_ok(guarded)
        .reflect(writer)
        .applied_objects()
        .predicate_filter(predicates::labels, Default::default());
    let told = UnboundedReceiverStream::new(changes).filter_map(async |change| match change {
        Change::Devices(node) => Some(node),
        Change::Owner(_) | Change::Agents => None,
    });
    // What is written here is touched too.
    let inventories: Api<PartialObjectMeta<NodeDeviceInventory>> = Api::all(client);
    let touched = watcher(inventories, watcher::Config::default())
        .default_backoff()
        .touched_objects()
        .inspect_err(|error| tracing::warn!(%error, "watching inventories"))
        .filter_map(async |inventory| Some(inventory.ok()?.name_any()));
    let agents = Arc::clone(&shell.agents);
    let paced = paced(stream::select(told, touched), move |node| {
        let told = agents.devices(node).told;
        interval(told.map_or(0, |(told, _)| told.inventory.devices.len()))
    });
    let failures = Arc::new(Failures::default());
    let ended = Arc::clone(&failures);
    let policy = move |node: Arc<Guarded>, error: &ReconcileError, shell: Arc<Shell>| {
        failures.retry(&node, error, &shell)
    };
    Controller::for_stream(triggers, reader)
        .with_config(Config::default().concurrency(CONCURRENCY))
        .reconcile_on(paced.map(|node| ObjectRef::new(&node)))
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(one, policy, shell)
        .for_each(|result| {
            ended.ended(result);
            std::future::ready(())
        })
        .await;
}

/// Metadata always fit their type.
fn guarded(event: Event<PartialObjectMeta<Node>>) -> Event<Guarded> {
    let guard = |node| DeserializeGuard(Ok(node));
    match event {
        Event::Apply(node) => Event::Apply(guard(node)),
        Event::Delete(node) => Event::Delete(guard(node)),
        Event::Init => Event::Init,
        Event::InitApply(node) => Event::InitApply(guard(node)),
        Event::InitDone => Event::InitDone,
    }
}

async fn one(node: Arc<Guarded>, shell: Arc<Shell>) -> Result<Requeue, ReconcileError> {
    let inner = Arc::clone(&shell);
    let work = |_: String, name: String| async move { reconcile(&inner, &name).await };
    trigger::one(node, &shell, work).await
}
