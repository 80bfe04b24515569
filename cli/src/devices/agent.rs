//! An agent that is asked for its node's devices.

mod wire;

use std::path::{Path, PathBuf};
use std::time::Duration;

use hypercloud_inventory::Inventory;
use hypercloud_proto::agent::v1 as proto;
use hypercloud_proto::agent::v1::node_agent_client::NodeAgentClient;
use hypercloud_proto::agent::v1::watch_devices_response::Event;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Error, Identity};
use tonic::{Code, Status, Streaming};

use self::wire::Known;

/// Name that every agent's certificate speaks for.
const AGENT_NAME: &str = "node-agent.hypercloud-storage";
/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// Agents look at least once a minute; one that says nothing for longer than
/// this is not there any more, or hangs.
const SILENCE: Duration = Duration::from_secs(90);
/// Interval of the keep-alive pings, and how long an answer may take.
const KEEP_ALIVE: Duration = Duration::from_secs(8);

/// Why an agent's devices are not had.
#[derive(Debug, thiserror::Error)]
pub(super) enum AgentFailure {
    /// A file that lets in cannot be read.
    #[error("cannot read {}: {source}; --tls names a folder with tls.crt, tls.key and ca.crt, as the Secret coordinator-tls has them", path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    /// The address or the certificates are none.
    #[error("--agent and --tls do not lead to an agent: {}", words(.0))]
    Senseless(Error),
    #[error("the agent cannot be reached: {}; look whether it listens there and whether the certificates are those of this cluster", words(.0))]
    Unreachable(Error),
    /// The agent says no, or goes.
    #[error("the agent does not tell its devices: {}", said(.0))]
    Refused(Status),
    #[error("the agent has not told of its devices for {:?}", SILENCE)]
    Silent,
    #[error("the agent ended the stream of its devices")]
    Ended,
    #[error("the agent told {told} devices and says that it has {counted}")]
    Miscounted { told: u64, counted: u64 },
}

impl AgentFailure {
    /// Whether the command line is to blame.
    pub(super) fn is_usage(&self) -> bool {
        matches!(self, Self::File { .. } | Self::Senseless(_))
    }
}

/// An error with its causes.
fn words(error: &Error) -> String {
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}

fn said(status: &Status) -> String {
    match status.code() {
        Code::Unimplemented => "it is of an older version, which does not know them".to_owned(),
        code => format!("{} ({code:?})", status.message()),
    }
}

/// An agent that tells its devices.
pub(super) struct Agent {
    stream: Streaming<proto::WatchDevicesResponse>,
    known: Known,
}

impl Agent {
    /// Connects to the agent at `address` with the certificates in `folder`.
    ///
    /// # Errors
    /// It is not reached, or does not let in.
    pub(super) async fn connect(address: &str, folder: &Path) -> Result<Self, AgentFailure> {
        let file = |name: &str| {
            let path = folder.join(name);
            std::fs::read(&path).map_err(|source| AgentFailure::File { path, source })
        };
        let tls = ClientTlsConfig::new()
            .domain_name(AGENT_NAME)
            .ca_certificate(Certificate::from_pem(file("ca.crt")?))
            .identity(Identity::from_pem(file("tls.crt")?, file("tls.key")?));
        let channel = Endpoint::new(format!("https://{address}"))
            .map_err(AgentFailure::Senseless)?
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .tls_config(tls)
            .map_err(AgentFailure::Senseless)?
            .connect()
            .await
            .map_err(AgentFailure::Unreachable)?;
        let mut client = NodeAgentClient::new(channel);
        let answer = client.watch_devices(proto::WatchDevicesRequest {});
        let answer = tokio::time::timeout(SILENCE, answer).await;
        let answer = answer.map_err(|_| AgentFailure::Silent)?;
        Ok(Self {
            stream: answer.map_err(AgentFailure::Refused)?.into_inner(),
            known: Known::default(),
        })
    }

    /// The devices at the agent's next look.
    ///
    /// # Errors
    /// The agent does not tell them.
    pub(super) async fn look(&mut self) -> Result<Inventory, AgentFailure> {
        loop {
            let message = tokio::time::timeout(SILENCE, self.stream.message()).await;
            let message = message
                .map_err(|_| AgentFailure::Silent)?
                .map_err(AgentFailure::Refused)?
                .ok_or(AgentFailure::Ended)?;
            match message.event {
                Some(Event::Changed(device)) => self.known.changed(device),
                Some(Event::Removed(name)) => self.known.removed(&name),
                Some(Event::Look(look)) => {
                    let told = self.known.count();
                    if told != look.devices {
                        let counted = look.devices;
                        return Err(AgentFailure::Miscounted { told, counted });
                    }
                    return Ok(self.known.inventory(&look));
                }
                // An event of a newer agent.
                None => {}
            }
        }
    }
}
