//! The agent put together: journal, engine, devices, servers, and an orderly
//! end.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use hypercloud_inventory::{Policy, Tree};
use hypercloud_transfer::{AddressPolicy, Options, ProxySettings, give_memory_back};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cli::ServeOptions;
use crate::devices::Devices;
use crate::engine::Engine;
use crate::engine::streaming::StreamingEngine;
use crate::health::{self, Health};
use crate::hold::termination;
use crate::job::drive::chain;
use crate::job::runner::Jobs;
use crate::node::Node;
use crate::server::{self, AgentService, Serving};
use crate::tls::IdentityFiles;
use crate::volume::KubeletVolumes;

/// How long kubelet may take to set a volume up.
const VOLUME_PATIENCE: Duration = Duration::from_secs(120);
/// Time between two looks at the certificates.
const IDENTITY_EVERY: Duration = Duration::from_secs(5);
/// Shortest time between two progress reports of a transfer.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);
/// Longest time that an orderly end may take. What is cut short then is taken
/// up from the journal as after a crash.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(9);
/// Least memory for one job's image data.
const LEAST_BUDGET: usize = 8 << 20;

/// Runs the agent until SIGTERM or SIGINT.
pub fn run(options: ServeOptions) -> anyhow::Result<()> {
    give_memory_back();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let served = runtime.block_on(serve(options));
    // A thread that hangs in the kernel must not hold up the end.
    runtime.shutdown_background();
    served
}

async fn serve(options: ServeOptions) -> anyhow::Result<()> {
    let terminated = termination()?;
    let concurrent = usize::from(options.concurrent_jobs);
    let budget = options.memory_budget / concurrent;
    ensure!(
        budget >= LEAST_BUDGET,
        "a memory budget of {} bytes is too small for {concurrent} jobs: each needs {LEAST_BUDGET}",
        options.memory_budget
    );
    ensure!(
        !options.node_name.is_empty(),
        "--node-name or NODE_NAME is missing"
    );

    let engine: Arc<dyn Engine> = Arc::new(StreamingEngine::new(Options {
        memory_budget: budget,
        address_policy: if options.allow_any_source_address {
            AddressPolicy::Any
        } else {
            AddressPolicy::PublicAndPrivate
        },
        progress_interval: PROGRESS_EVERY,
        proxies: ProxySettings::from_environment(),
        ..Options::default()
    }));
    let volumes = Arc::new(KubeletVolumes::new(&options.kubelet_root, VOLUME_PATIENCE));
    let node = Node::this(options.node_name)?;
    let listener = bind(options.listen).await?;
    let health_listener = bind(options.health.health_listen).await?;

    let directory = options.state_dir.join("jobs");
    let (jobs, set_aside) = Jobs::open(&directory, engine.clone(), volumes, concurrent)?;
    for file in &set_aside {
        tracing::error!(
            file = file.name,
            cause = chain(&file.cause),
            "journal file set aside"
        );
    }

    let tree = Tree::live_below(options.host_root);
    let policy = Policy::default().with_kubelet(&options.kubelet_root.to_string_lossy());
    let devices = Devices::start(tree, policy, &options.state_dir.join("devices"))
        .context("the node's devices cannot be watched")?;
    let stop = CancellationToken::new();
    let (ready, is_ready) = watch::channel(false);
    let health = Health {
        board: jobs.board().clone(),
        devices: devices.board.clone(),
        ready: is_ready,
        set_aside: set_aside.len(),
    };
    let health = tokio::spawn(health::serve(health_listener, health, stop.clone()));
    let serving = Serving {
        identity: IdentityFiles::new(options.tls_dir),
        look_every: IDENTITY_EVERY,
        ready,
    };
    let service = AgentService::new(node.clone(), jobs.clone(), engine, devices.clone());
    let mut server = tokio::spawn(server::serve(listener, service, serving, stop.clone()));
    tracing::info!(node = node.name, version = node.version, "agent started");

    let told = tokio::select! {
        () = terminated => true,
        _ = &mut server => false,
    };
    ensure!(told, "the server ended by a fault of the agent");
    tracing::info!("agent stops, jobs stay in the journal");
    stop.cancel();
    devices.cleaner.stop();
    let orderly = async {
        jobs.stop().await;
        let _ = tokio::join!(server, health);
    };
    if tokio::time::timeout(SHUTDOWN_LIMIT, orderly).await.is_err() {
        tracing::warn!("agent did not stop in time");
    }
    Ok(())
}

async fn bind(address: std::net::SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))
}
