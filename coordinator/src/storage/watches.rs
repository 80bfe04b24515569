//! Watches of what the storage is made of: they tell that a look is due, and
//! nothing else (client required).
//!
//! Only kinds that the API server knows are watched, and only while there is a
//! storage. A watch that is lost costs nothing but time: looks come by
//! themselves too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::{Stream, StreamExt, stream};
use hypercloud_storage::kind::{Kind, Which};
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::dynamic::resource;

/// The watches that run.
#[derive(Debug, Default)]
pub struct Watches {
    kick: Arc<Notify>,
    running: Mutex<BTreeMap<&'static str, Running>>,
}

/// A watch, which ends when this is dropped.
#[derive(Debug)]
struct Running(JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Watches {
    /// Asks for a look.
    pub fn kick(&self) {
        self.kick.notify_one();
    }

    /// An item whenever a look was asked for; several that come together are
    /// one.
    pub fn kicks(&self) -> impl Stream<Item = ()> + Send + use<> {
        stream::unfold(Arc::clone(&self.kick), |kick| async move {
            kick.notified().await;
            Some(((), kick))
        })
    }

    /// Watches these kinds, those of them that tell anything, and no others.
    pub fn keep(&self, client: &Client, kinds: &[&'static Kind]) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = |plural: &str| {
            let mut kinds = kinds.iter();
            kinds.any(|kind| kind.plural == plural && kind.is_telling())
        };
        running.retain(|plural, _| wanted(plural));
        for kind in kinds.iter().filter(|kind| kind.is_telling()) {
            running.entry(kind.plural).or_insert_with(|| {
                let watch = watch(client.clone(), kind, Arc::clone(&self.kick));
                Running(tokio::spawn(watch))
            });
        }
    }
}

async fn watch(client: Client, kind: &'static Kind, kick: Arc<Notify>) {
    let resource = resource(kind);
    // Rook's own, where there are others too: those change with it.
    let which = kind.which.last().copied().unwrap_or(Which::All);
    let objects: Api<PartialObjectMeta<DynamicObject>> = match kind.place(which) {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let mut config = watcher::Config::default();
    if let Some(labels) = which.labels() {
        config = config.labels(labels);
    }
    let mut events = Box::pin(watcher(objects, config).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(_) => kick.notify_one(),
            Err(error) => tracing::debug!(plural = kind.plural, %error, "watching"),
        }
    }
}
