//! The program, whichever it is.

use anyhow::{Context, bail};
use kube::Client;
use tokio::signal::unix::{SignalKind, signal};

use crate::role::{self, Role};
use crate::{cdi, csi, images, key, operator, pod};

/// Runs as what the words say, until a signal.
///
/// # Errors
/// Words that mean nothing, and whatever the program fails of.
pub async fn run(words: &[String]) -> anyhow::Result<()> {
    let is_cdi = std::env::var_os("DEPLOY_CLUSTER_RESOURCES").is_some();
    let role = role::of(words, is_cdi).with_context(|| format!("{words:?} means nothing"))?;
    if role == Role::Images {
        for name in images() {
            println!("{name}");
        }
        return Ok(());
    }
    // Fails only if a provider is set already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = key::client().await?;
    let mut terminate = signal(SignalKind::terminate())?;
    let work = act(&client, role);
    tokio::select! {
        done = work => done,
        _ = terminate.recv() => Ok(()),
    }
}

async fn act(client: &Client, role: Role) -> anyhow::Result<()> {
    match role {
        Role::Operator => tokio::select! {
            ended = operator::run(client) => ended,
            ended = pod::lasting(client, "rook-ceph-operator") => ended,
        },
        Role::CsiOperator => csi::run(client).await,
        Role::CdiOperator => cdi::run(client).await,
        Role::Toolbox => pod::lasting(client, "rook-ceph-tools").await,
        Role::Daemon => pod::daemon(client).await,
        Role::Ceph(words) => pod::ceph(client, &words).await,
        Role::RemoveOsds(ids) => pod::remove_osds(client, &ids).await,
        Role::Clean => pod::clean(client).await,
        Role::Images => bail!("no cluster is needed for that"),
    }
}
