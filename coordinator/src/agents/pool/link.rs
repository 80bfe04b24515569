//! The link to one agent: connect, identify, follow, start over.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hypercloud_proto::agent::v1 as proto;
use hypercloud_proto::agent::v1::node_agent_client::NodeAgentClient;
use hypercloud_proto::agent::v1::watch_jobs_response::Event;
use k8s_openapi::jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};

use super::super::wire;
use super::{AGENT_NAME, ClientTls, KEEP_ALIVE, QUICK, Shared, follow, lock};
use crate::backoff::Backoff;

/// Delay before the next connection.
const RECONNECT: Backoff = Backoff {
    base: Duration::from_millis(250),
    cap: Duration::from_secs(15),
};

/// Why a link ended.
#[derive(Debug, thiserror::Error)]
enum LinkError {
    #[error("cannot connect")]
    Connect(#[source] tonic::transport::Error),
    #[error("{call} failed")]
    Call {
        call: &'static str,
        #[source]
        source: Status,
    },
    #[error("the agent says that it is of node {found:?}")]
    OtherNode { found: String },
    #[error("the agent sent a job without {missing}")]
    Incomplete { missing: &'static str },
    #[error("the agent ended its job stream")]
    Ended,
}

/// Keeps the link to the agent of `node` until `stop`.
pub(super) async fn keep(
    shared: Arc<Shared>,
    node: String,
    address: SocketAddr,
    stop: CancellationToken,
) {
    let mut failures = 0;
    loop {
        let mut established = false;
        let ended = tokio::select! {
            () = stop.cancelled() => None,
            Err(error) = hold(&shared, &node, address, &mut established) => Some(error),
        };
        lock(&shared.channels).remove(&node);
        shared.change_devices(|devices| devices.ended(&node, Timestamp::now()));
        shared.change(|table| table.disconnected(&node, Timestamp::now()));
        let Some(error) = ended else {
            tracing::info!(%node, "agent link closed");
            return;
        };
        failures = if established { 1 } else { failures + 1 };
        let delay = RECONNECT.delay(&node, failures);
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        tracing::warn!(%node, %address, %error, cause, ?delay, "agent link lost");
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(delay) => {}
        }
    }
}

/// Connects and follows the streams; ends only with an error.
async fn hold(
    shared: &Shared,
    node: &str,
    address: SocketAddr,
    established: &mut bool,
) -> Result<std::convert::Infallible, LinkError> {
    let tls = shared.tls.borrow().clone();
    let channel = endpoint(address, &tls)?
        .connect()
        .await
        .map_err(LinkError::Connect)?;
    let mut client = NodeAgentClient::new(channel.clone());
    let devices = NodeAgentClient::new(channel.clone());
    let calling = |call| move |source| LinkError::Call { call, source };
    let mut who = Request::new(proto::GetNodeRequest {});
    who.set_timeout(QUICK);
    let answer = client.get_node(who).await.map_err(calling("GetNode"))?;
    let found = answer.into_inner();
    if found.name != node {
        return Err(LinkError::OtherNode { found: found.name });
    }
    let watch = client.watch_jobs(proto::WatchJobsRequest {});
    let answer = tokio::time::timeout(QUICK, watch)
        .await
        .unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer")));
    let mut stream = answer.map_err(calling("WatchJobs"))?.into_inner();
    lock(&shared.table).connected(node);
    let jobs = async {
        while let Some(message) = stream.message().await.map_err(calling("WatchJobs"))? {
            match message.event {
                Some(Event::Changed(job)) => {
                    let job = wire::job(job)
                        .map_err(|missing| LinkError::Incomplete { missing: missing.0 })?;
                    shared.change(|table| table.changed(node, job, Instant::now()));
                }
                Some(Event::Removed(id)) => shared.change(|table| table.removed(node, &id)),
                Some(Event::Synced(_)) => {
                    // Calls are possible before anyone is told so.
                    lock(&shared.channels).insert(node.to_owned(), channel.clone());
                    shared.change(|table| table.complete(node));
                    *established = true;
                    let version = &found.version;
                    tracing::info!(%node, %version, "agent link established");
                }
                // An event of a newer agent.
                None => {}
            }
        }
        Err(LinkError::Ended)
    };
    tokio::select! {
        ended = jobs => ended,
        never = follow::devices(shared, node, devices) => match never {},
    }
}

fn endpoint(address: SocketAddr, tls: &ClientTls) -> Result<Endpoint, LinkError> {
    let config = ClientTlsConfig::new()
        .domain_name(AGENT_NAME)
        .ca_certificate(Certificate::from_pem(&tls.authorities))
        .identity(Identity::from_pem(&tls.certificate, &tls.key));
    Endpoint::new(format!("https://{address}"))
        .map_err(LinkError::Connect)?
        .connect_timeout(Duration::from_secs(5))
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true)
        .tls_config(config)
        .map_err(LinkError::Connect)
}
