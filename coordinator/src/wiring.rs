//! Puts the parts together: health, leadership, and what a leader runs.
//!
//! One token stops everything: a signal, a lost Lease or the end of any part
//! cancels it, and then every task listens. A lost Lease ends the process,
//! and Kubernetes starts a fresh one.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::events::{Recorder, Reporter};
use kube::{Client, Config as ApiConfig};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::admission;
use crate::admission::answer::{DEADLINE, Judge};
use crate::admission::certificate::Certificate;
use crate::agents::pool::{Endpoints, Pool};
use crate::agents::{Agents, collect, discover};
use crate::cleanup;
use crate::config::{Config, LogFormat};
use crate::disk;
use crate::export;
use crate::health;
use crate::holder::HolderTemplate;
use crate::image;
use crate::image::plan::Policy;
use crate::inventory;
use crate::leader::Candidate;
use crate::metrics::Metrics;
use crate::rollback;
use crate::shell::Shell;
use crate::storage;
use crate::tls;

/// Name by which Events say who speaks.
const REPORTER: &str = "hypercloud-storage-coordinator";

/// How long reconciles that run may take to end; below the 30 s that a pod
/// is given.
const GRACE: Duration = Duration::from_secs(20);

/// How long a connection to the API server may take.
const CONNECT: Duration = Duration::from_secs(10);

/// How long the API server may say nothing on a connection that it was asked
/// on. Longer than a watch without events, which the server ends after 290 s
/// and its watcher 5 s later.
const SILENCE: Duration = Duration::from_secs(300);

/// Sets up the log.
pub fn log(format: LogFormat) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| "info,kube_client=warn".into());
    let builder = tracing_subscriber::fmt().with_env_filter(filter);
    match format {
        LogFormat::Json => builder.json().init(),
        LogFormat::Text => builder.init(),
    }
}

/// Runs the coordinator until a signal, or until it no longer leads.
pub async fn run(config: Config) -> anyhow::Result<()> {
    // Fails only if a provider is set already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = client().await.context("no cluster to talk to")?;
    let stop = CancellationToken::new();
    stop_on_signal(&stop)?;
    let metrics = Arc::new(Metrics::default());
    let listener = TcpListener::bind(config.health_address)
        .await
        .with_context(|| format!("cannot listen at {}", config.health_address))?;
    let certificate = Arc::new(Certificate::default());
    let shown = Arc::clone(&certificate);
    let is_ready = move || shown.is_set();
    let health = health::serve(listener, Arc::clone(&metrics), is_ready, stop.clone());
    let health = tokio::spawn(health);
    let judge = Judge::new(client.clone(), Arc::clone(&metrics), DEADLINE);
    let admission = tokio::spawn(admit(
        client.clone(),
        config.clone(),
        certificate,
        judge,
        stop.clone(),
    ));

    let namespace = &config.namespace;
    let mut candidate = Candidate::new(client.clone(), namespace, config.identity.clone());
    if candidate.elected(&stop).await {
        tracing::info!(identity = %config.identity, "leading");
        metrics.set_leading(true);
        let mut work = tokio::spawn(lead(client, config.clone(), metrics, stop.clone()));
        // The Lease is renewed until the work has come to its end.
        tokio::select! {
            lost = candidate.lead() => {
                // Nothing of this leader may act once another can lead.
                work.abort();
                stop.cancel();
                return Err(lost).context("leadership lost");
            }
            worked = &mut work => {
                candidate.release().await.context("cannot release the lease")?;
                worked.context("the leader's work panicked")??;
            }
            () = overdue(&stop) => {
                work.abort();
                candidate.release().await.context("cannot release the lease")?;
                tracing::warn!("stopped with work under way");
            }
        }
    }
    admission.await?.context("the webhook failed")?;
    health.await?.context("the health endpoints failed")
}

/// What every replica answers to the API server, until `stop`.
async fn admit(
    client: Client,
    config: Config,
    certificate: Arc<Certificate>,
    judge: Judge,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    // Without it a replica must not stay in the Service.
    let _stop = stop.clone().drop_guard();
    let address = config.admission_address;
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen at {address}"))?;
    let kept = Arc::clone(&certificate);
    let keep = admission::register::keep(client, &config.namespace, kept, stop.clone());
    let serve = admission::serve::serve(listener, certificate, judge, stop.clone());
    let (served, ()) = tokio::join!(serve, keep);
    Ok(served?)
}

/// A client whose requests all come to an end.
async fn client() -> anyhow::Result<Client> {
    let mut config = ApiConfig::infer().await?;
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    // A pooled connection's idle time is no silence of the server's.
    config.reset_reader_on_write = true;
    Ok(Client::try_from(config)?)
}

/// What a leader runs, until `stop`.
async fn lead(
    client: Client,
    config: Config,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let _stop = stop.clone().drop_guard();
    let namespace = config.namespace.as_str();
    let certificates = tls::ensure(&client, namespace, Timestamp::now()).await?;
    let (tls_sender, tls_receiver) = watch::channel(certificates);
    let (endpoints_sender, endpoints) = watch::channel(Endpoints::new());
    let pool = Pool::new(tls_receiver);
    let image_changes = pool.changes();
    let disk_changes = pool.changes();
    let rollback_changes = pool.changes();
    let export_changes = pool.changes();
    let inventory_changes = pool.changes();
    let cleanup_changes = pool.changes();
    let agents: Arc<dyn Agents> = Arc::new(pool.clone());
    let reporter = Reporter {
        controller: REPORTER.to_owned(),
        instance: Some(config.identity.clone()),
    };
    let shell = Shell {
        client: client.clone(),
        agents: Arc::clone(&agents),
        recorder: Recorder::new(client.clone(), reporter),
        template: HolderTemplate {
            image: config.holder_image.clone(),
            agent_namespace: config.namespace.clone(),
        },
        metrics,
    };
    let images = image::reconcile::Context {
        shell: shell.clone(),
        policy: Policy {
            overhead: config.filesystem_overhead,
            store: config.default_store(),
        },
    };
    let disks = disk::reconcile::Context {
        shell: shell.clone(),
        policy: disk::plan::Policy {
            overhead: config.filesystem_overhead,
        },
    };
    let exports = export::reconcile::Context {
        shell: shell.clone(),
        store: config.default_store(),
    };
    let cleanups = cleanup::reconcile::Context {
        shell: shell.clone(),
        stop: stop.clone(),
    };
    let storages = storage::reconcile::Context::new(shell.clone(), namespace);
    let storages = config.storage.then(|| Arc::new(storages));
    let shell = Arc::new(shell);
    let port = config.agent_port;
    tokio::join!(
        tls::renew(client.clone(), namespace, tls_sender, stop.clone()),
        discover::discover(
            client.clone(),
            namespace,
            port,
            endpoints_sender,
            stop.clone()
        ),
        pool.run(endpoints, stop.clone()),
        collect::collect(client.clone(), agents, stop.clone()),
        inventory::collect::collect(client, stop.clone()),
        async {
            image::controller::run(Arc::new(images), image_changes, stop.clone()).await;
            // Without its controllers a leader must not hold the Lease.
            stop.cancel();
        },
        async {
            disk::controller::run(Arc::new(disks), disk_changes, stop.clone()).await;
            stop.cancel();
        },
        async {
            rollback::controller::run(Arc::clone(&shell), rollback_changes, stop.clone()).await;
            stop.cancel();
        },
        async {
            export::controller::run(Arc::new(exports), export_changes, stop.clone()).await;
            stop.cancel();
        },
        async {
            inventory::controller::run(Arc::clone(&shell), inventory_changes, stop.clone()).await;
            stop.cancel();
        },
        async {
            cleanup::controller::run(Arc::new(cleanups), cleanup_changes, stop.clone()).await;
            stop.cancel();
        },
        async {
            if let Some(storages) = storages {
                storage::controller::run(storages, stop.clone()).await;
                stop.cancel();
            }
        },
    );
    Ok(())
}

/// Ends when the time for a graceful end is over.
async fn overdue(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(GRACE).await;
}

/// SIGTERM and SIGINT cancel `stop`.
fn stop_on_signal(stop: &CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        stop.cancel();
    });
    Ok(())
}
