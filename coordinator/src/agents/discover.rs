//! Where the agents are: the agents' pods of the coordinator's own namespace
//! (client required).
//!
//! A pod counts as long as it runs, ready or not: whether its agent can be
//! asked is seen by asking it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::pool::Endpoints;
use crate::holder::build::{AGENT_COMPONENT, AGENT_LABEL};

/// Follows the agents' pods in `namespace` until `stop`; each agent listens
/// at `port`.
pub async fn discover(
    client: Client,
    namespace: &str,
    port: u16,
    endpoints: watch::Sender<Endpoints>,
    stop: CancellationToken,
) {
    let pods: Api<Pod> = Api::namespaced(client, namespace);
    let selector = format!("{AGENT_LABEL}={AGENT_COMPONENT}");
    let (reader, writer) = reflector::store();
    let changes = watcher(pods, watcher::Config::default().labels(&selector))
        .default_backoff()
        .reflect(writer)
        .inspect_err(|error| tracing::warn!(%error, "watching the agents' pods"))
        .take_until(stop.cancelled_owned());
    let mut changes = std::pin::pin!(changes);
    // Every event counts: the first list is in the store only with its end.
    while let Some(event) = changes.next().await {
        if event.is_err() {
            continue;
        }
        let pods = reader.state();
        let found = endpoints_of(pods.iter().map(AsRef::as_ref), port);
        endpoints.send_if_modified(|known| {
            let modified = *known != found;
            *known = found;
            modified
        });
    }
}

/// The endpoint of each node's agent; of two on one node (one on its way
/// out) the younger.
fn endpoints_of<'a>(pods: impl Iterator<Item = &'a Pod>, port: u16) -> Endpoints {
    let mut found: BTreeMap<String, (Option<Timestamp>, SocketAddr)> = BTreeMap::new();
    for pod in pods {
        let Some((node, address)) = endpoint_of(pod) else {
            continue;
        };
        let born = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let endpoint = (born, SocketAddr::new(address, port));
        let kept = found.entry(node).or_insert(endpoint);
        if kept.0 < born {
            *kept = endpoint;
        }
    }
    found
        .into_iter()
        .map(|(node, (_, address))| (node, address))
        .collect()
}

fn endpoint_of(pod: &Pod) -> Option<(String, IpAddr)> {
    let status = pod.status.as_ref()?;
    if status.phase.as_deref() != Some("Running") {
        return None;
    }
    let address = status.pod_ip.as_deref()?.parse().ok()?;
    let node = pod.spec.as_ref()?.node_name.clone()?;
    Some((node, address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(node: &str, ip: &str, phase: &str, second: u8) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"creationTimestamp": format!("2026-01-01T00:00:{second:02}Z")},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": phase, "podIP": ip}
        }))
        .unwrap()
    }

    #[test]
    fn the_younger_running_pod_of_a_node_counts() {
        let pods = [
            pod("n1", "10.0.0.1", "Running", 1),
            pod("n1", "10.0.0.2", "Running", 2),
            pod("n1", "10.0.0.3", "Pending", 3),
            pod("n2", "fd00::1", "Running", 1),
            pod("n3", "", "Running", 1),
        ];
        let found = endpoints_of(pods.iter(), 7443);
        assert_eq!(
            found,
            Endpoints::from([
                ("n1".into(), "10.0.0.2:7443".parse().unwrap()),
                ("n2".into(), "[fd00::1]:7443".parse().unwrap()),
            ])
        );
    }
}
