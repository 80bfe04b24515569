//! Following an agent's devices over a link that is up.

use std::convert::Infallible;
use std::time::Duration;

use hypercloud_proto::agent::v1 as proto;
use hypercloud_proto::agent::v1::node_agent_client::NodeAgentClient;
use hypercloud_proto::agent::v1::watch_devices_response::Event;
use k8s_openapi::jiff::Timestamp;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::super::devices::table::Mismatch;
use super::super::wire;
use super::{QUICK, Shared, lock};
use crate::backoff::Backoff;

/// Delay before the next stream.
const RETRY: Backoff = Backoff {
    base: Duration::from_millis(500),
    cap: Duration::from_secs(30),
};

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
enum StreamError {
    #[error("WatchDevices failed")]
    Call(#[source] Status),
    #[error("the agent told of a device without {missing}")]
    Incomplete { missing: &'static str },
    #[error(transparent)]
    Mismatch(Mismatch),
    #[error("the agent ended its stream of devices")]
    Ended,
}

/// Follows the devices of `node` as long as its link is up. What goes wrong
/// with them is no reason to give the link up, on which jobs are followed.
pub(super) async fn devices(
    shared: &Shared,
    node: &str,
    mut client: NodeAgentClient<Channel>,
) -> Infallible {
    let mut failures = 0;
    loop {
        let mut looked = false;
        let Err(error) = stream(shared, node, &mut client, &mut looked).await;
        if let StreamError::Call(status) = &error
            && status.code() == Code::Unimplemented
        {
            tracing::warn!(%node, "the agent is of a version that tells no devices");
            shared.change_devices(|devices| devices.too_old(node, Timestamp::now()));
            return std::future::pending().await;
        }
        shared.change_devices(|devices| devices.ended(node, Timestamp::now()));
        failures = if looked { 1 } else { failures + 1 };
        let delay = RETRY.delay(node, failures);
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        tracing::warn!(%node, %error, cause, ?delay, "devices are not followed");
        tokio::time::sleep(delay).await;
    }
}

/// Follows one stream; ends only with an error.
async fn stream(
    shared: &Shared,
    node: &str,
    client: &mut NodeAgentClient<Channel>,
    looked: &mut bool,
) -> Result<Infallible, StreamError> {
    let watch = client.watch_devices(proto::WatchDevicesRequest {});
    let answer = tokio::time::timeout(QUICK, watch)
        .await
        .unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer")));
    let mut stream = answer.map_err(StreamError::Call)?.into_inner();
    shared.change_devices(|devices| devices.began(node, Timestamp::now()));
    while let Some(message) = stream.message().await.map_err(StreamError::Call)? {
        match message.event {
            Some(Event::Changed(device)) => {
                let device = wire::devices::device(device)
                    .map_err(|missing| StreamError::Incomplete { missing: missing.0 })?;
                lock(&shared.devices).changed(node, device);
            }
            Some(Event::Removed(name)) => lock(&shared.devices).removed(node, &name),
            Some(Event::Look(look)) => {
                let look = wire::devices::look(look);
                let told = lock(&shared.devices).looked(node, look, Timestamp::now());
                shared.tell(told.map_err(StreamError::Mismatch)?);
                *looked = true;
            }
            // An event of a newer agent.
            None => {}
        }
    }
    Err(StreamError::Ended)
}
