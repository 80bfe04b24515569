//! Rook's operator: looks, does the next small thing for each of its
//! resources, and looks again.

mod cluster;
mod resource;
mod supplies;

use std::time::Duration;

use anyhow::Context;
use futures::StreamExt;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::follow::{self, EverySecond};
use crate::orders::Orders;
use crate::{api, bucket, osd, pod};

/// How often it looks though nothing changed.
const LOOK: Duration = Duration::from_secs(2);
/// How long changes are collected.
const COLLECT: Duration = Duration::from_millis(150);

/// The operator and what it has in its head.
pub struct Operator {
    pub client: Client,
    pub namespace: String,
    /// The version of its image, as `v1.20.6`.
    pub version: String,
    /// Its image.
    pub image: String,
    /// When it looked at Ceph last, and by which orders.
    looked: Option<(Instant, Orders)>,
    /// When a reconcile failed last.
    failed: Option<Instant>,
    /// The cluster that was given its supplies, and when.
    supplied: Option<(Value, Instant)>,
    /// The cluster whose nodes are being cleaned.
    pub cleaning: Option<tokio::task::JoinHandle<()>>,
    /// What Ceph remembers of the OSDs.
    written: String,
}

/// What is there.
pub struct Look {
    pub clusters: Vec<Value>,
    pub pools: Vec<Value>,
    pub stores: Vec<Value>,
    pub users: Vec<Value>,
    pub filesystems: Vec<Value>,
    pub claims: Vec<Value>,
    pub deployments: Vec<Value>,
    pub now: Timestamp,
}

/// Runs for as long as the program does.
pub async fn run(client: &Client) -> anyhow::Result<()> {
    let namespace = pod::namespace();
    let name = std::env::var("POD_NAME").context("no POD_NAME")?;
    let own = api::get(client, api::POD, Some(&namespace), &name).await?;
    let own = own.context("the operator's own pod is not there")?;
    let image = own["spec"]["containers"][0]["image"]
        .as_str()
        .context("the operator's pod has no image")?
        .to_owned();
    let version = image.rsplit(':').next().unwrap_or_default().to_owned();
    println!("operator {version} in {namespace}");
    let mut orders = follow::orders(client);
    let changed = changes(client, &namespace);
    let mut operator = Operator {
        client: client.clone(),
        namespace,
        version,
        image,
        looked: None,
        failed: None,
        supplied: None,
        cleaning: None,
        written: String::new(),
    };
    loop {
        let now = orders.borrow_and_update().clone();
        if now.runs
            && let Err(error) = operator.pass(&now).await
        {
            // Somebody else changed it; the next look sees how.
            if !error.downcast_ref().is_some_and(api::is_conflict) {
                eprintln!("{error:#}");
            }
        }
        wait(&changed, &mut orders).await?;
    }
}

async fn wait(changed: &Notify, orders: &mut watch::Receiver<Orders>) -> anyhow::Result<()> {
    let something = async {
        tokio::select! {
            () = changed.notified() => Ok(()),
            changed = orders.changed() => changed,
        }
    };
    match timeout(LOOK, something).await {
        Ok(Err(_)) => anyhow::bail!("nobody gives orders any more"),
        Ok(Ok(())) => sleep(COLLECT).await,
        Err(_) => {}
    }
    Ok(())
}

/// Tells of changes of everything that is looked at.
fn changes(client: &Client, namespace: &str) -> std::sync::Arc<Notify> {
    let changed = std::sync::Arc::new(Notify::new());
    for (kind, scope) in [
        (api::CLUSTER, Some(namespace)),
        (api::POOL, Some(namespace)),
        (api::STORE, Some(namespace)),
        (api::USER, Some(namespace)),
        (api::DEPLOYMENT, Some(namespace)),
        (api::CLAIM, None),
    ] {
        let objects = api::of(client, kind, scope);
        let notify = std::sync::Arc::clone(&changed);
        tokio::spawn(async move {
            let stream = watcher(objects, watcher::Config::default());
            let mut stream = Box::pin(stream.backoff(EverySecond));
            while let Some(event) = stream.next().await {
                if event.is_ok() {
                    notify.notify_one();
                }
            }
        });
    }
    changed
}

impl Operator {
    async fn look(&self) -> kube::Result<Look> {
        let own = |kind| api::list(&self.client, kind, Some(&self.namespace), "");
        Ok(Look {
            clusters: own(api::CLUSTER).await?,
            pools: own(api::POOL).await?,
            stores: own(api::STORE).await?,
            users: own(api::USER).await?,
            filesystems: own(api::FILESYSTEM).await?,
            claims: api::list(&self.client, api::CLAIM, None, "").await?,
            deployments: own(api::DEPLOYMENT).await?,
            now: Timestamp::now(),
        })
    }

    /// Does the next small thing for each resource.
    async fn pass(&mut self, orders: &Orders) -> anyhow::Result<()> {
        let look = self.look().await?;
        self.remember(&look).await;
        let mut result = Ok(());
        let mut and = |done: anyhow::Result<()>| {
            if result.is_ok() {
                result = done;
            }
        };
        for cluster in &look.clusters {
            and(self.cluster(cluster, &look, orders).await);
        }
        and(self.resources(&look, orders).await);
        and(bucket::claims(self, &look, orders).await);
        result
    }

    /// What Ceph knows of its OSDs. Without a place for that there is nothing
    /// to be asked either.
    async fn remember(&mut self, look: &Look) {
        let seen = osd::written(&look.deployments);
        if seen == self.written {
            return;
        }
        let mut data = serde_json::json!({osd::SEEN: seen});
        if !look
            .deployments
            .iter()
            .any(|object| osd::of(object).is_some())
        {
            // A Ceph without an OSD knows of none that is out, whatever one
            // before it knew.
            let name = crate::MEMORY;
            let former = api::get(&self.client, api::CONFIG_MAP, Some(crate::NAMESPACE), name);
            let former = former.await.ok().flatten().unwrap_or_default();
            for key in former["data"].as_object().into_iter().flatten() {
                if key.0.starts_with("out-") {
                    data[key.0] = Value::Null;
                }
            }
        }
        if api::remember(&self.client, data).await.is_ok() {
            self.written = seen;
        }
    }

    /// Waits between two steps, where that was ordered.
    pub async fn pace(&self, orders: &Orders) {
        if !orders.pace.is_zero() {
            sleep(orders.pace).await;
        }
    }
}

impl Look {
    /// Whether Ceph is there for its resources, as Rook finds out.
    pub fn ceph_is_ready(&self) -> bool {
        self.clusters.iter().any(|cluster| {
            let health = cluster["status"]["ceph"]["health"].as_str();
            cluster["status"]["phase"] == "Ready"
                && matches!(health, Some("HEALTH_OK" | "HEALTH_WARN"))
        })
    }
}
