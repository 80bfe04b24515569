//! Serves with the identity of the moment.
//!
//! When the files of the identity change, a server with the new one takes
//! over the listener, and the old one finishes what it was asked and closes
//! its connections: a client that the new CA no longer knows is gone too.
//! Files that are no identity (half of an update, say) change nothing. No job
//! notices.

use std::sync::Arc;
use std::time::Duration;

use hypercloud_proto::agent::v1::node_agent_server::NodeAgentServer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;

use super::listen::encrypted;
use super::service::AgentService;
use crate::job::drive::chain;
use crate::tls::{Identity, IdentityError, IdentityFiles};

/// Pings on an idle connection, so that one whose client vanished is noticed.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));
/// Longest time that a server goes on after another took over.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// How the server is to work.
#[derive(Debug, Clone)]
pub struct Serving {
    /// Where the identity is read from.
    pub identity: IdentityFiles,
    /// Time between two looks at its files.
    pub look_every: Duration,
    /// Says whether there is an identity to serve with.
    pub ready: watch::Sender<bool>,
}

/// Serves on `listener` until `stop`, and then until what was asked is done.
pub async fn serve(
    listener: TcpListener,
    service: AgentService,
    serving: Serving,
    stop: CancellationToken,
) {
    let listener = Arc::new(listener);
    let servers = TaskTracker::new();
    let mut current: Option<Current> = None;
    let mut complaint = None;
    while !stop.is_cancelled() {
        if current
            .take_if(|current| current.task.is_finished())
            .is_some()
        {
            serving.ready.send_replace(false);
            tracing::error!("server ended by itself, starting another");
        }
        match serving.look(current.as_ref().map(|c| &c.identity)).await {
            Ok(Some(identity)) => {
                let retire = stop.child_token();
                let (socket, service) = (listener.clone(), service.clone());
                let task = servers.spawn(run(socket, identity.clone(), service, retire.clone()));
                if let Some(old) = current.replace(Current {
                    identity,
                    retire,
                    task,
                }) {
                    old.retire.cancel();
                }
                serving.ready.send_replace(true);
                complaint = None;
                tracing::info!("serving with the certificates as they are now");
            }
            Ok(None) => complaint = None,
            Err(error) => {
                let text = chain(&error);
                if complaint.as_ref() != Some(&text) {
                    tracing::warn!(error = text, "certificates cannot be used");
                    complaint = Some(text);
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(serving.look_every) => {}
        }
    }
    servers.close();
    servers.wait().await;
}

/// The server that has the listener.
struct Current {
    identity: Identity,
    retire: CancellationToken,
    task: JoinHandle<()>,
}

impl Serving {
    async fn look(&self, last: Option<&Identity>) -> Result<Option<Identity>, IdentityError> {
        let (files, last) = (self.identity.clone(), last.cloned());
        let look = move || files.read_if_changed(last.as_ref());
        tokio::task::spawn_blocking(look).await.unwrap_or(Ok(None))
    }
}

async fn run(
    listener: Arc<TcpListener>,
    identity: Identity,
    service: AgentService,
    retire: CancellationToken,
) {
    let service = NodeAgentServer::new(service.until(retire.clone()));
    let connections = encrypted(listener, identity.server_config(), retire.clone());
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE.0))
        .http2_keepalive_timeout(Some(KEEPALIVE.1))
        .add_service(service)
        .serve_with_incoming_shutdown(connections, retire.clone().cancelled_owned());
    let limit = async {
        retire.cancelled().await;
        tokio::time::sleep(DRAIN_LIMIT).await;
    };
    tokio::select! {
        served = server => if let Err(error) = served {
            tracing::error!(error = chain(&error), "server failed");
        },
        () = limit => tracing::warn!("connections did not close in time"),
    }
}
