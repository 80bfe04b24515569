//! The agents as the coordinator sees them: over gRPC, with its certificate.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use hypercloud_proto::agent::v1::node_agent_client::NodeAgentClient;
use hypercloud_proto::agent::v1::watch_devices_response::Event;
use hypercloud_proto::agent::v1::{Device, Job, ListJobsRequest, Look, WatchDevicesRequest};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;
use kube::api::Api;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::cluster::{Cluster, SYSTEM_NAMESPACE};
use crate::system;
use crate::wait::{Seen, until};

/// Jobs of every agent, by the agent's pod. One that was killed by another
/// test is waited for.
pub async fn jobs(cluster: &Cluster) -> anyhow::Result<Vec<(String, Job)>> {
    let look = || async { Ok(Seen::Done(jobs_now(cluster).await?)) };
    until("every agent answers", Duration::from_secs(120), look).await
}

async fn jobs_now(cluster: &Cluster) -> anyhow::Result<Vec<(String, Job)>> {
    let mut all = Vec::new();
    for pod in system::pods(cluster, "node-agent").await? {
        let mut client = connect(cluster, &pod).await?;
        let jobs = client
            .list_jobs(ListJobsRequest {})
            .await?
            .into_inner()
            .jobs;
        all.extend(jobs.into_iter().map(|job| (pod.name_any(), job)));
    }
    Ok(all)
}

/// The devices that the agent in `pod` sees, as of its next look.
pub async fn devices(cluster: &Cluster, pod: &Pod) -> anyhow::Result<(Look, Vec<Device>)> {
    let mut client = connect(cluster, pod).await?;
    let answer = client.watch_devices(WatchDevicesRequest {}).await?;
    let mut stream = answer.into_inner();
    let mut devices: Vec<Device> = Vec::new();
    while let Some(message) = stream.message().await? {
        match message.event {
            Some(Event::Changed(device)) => {
                devices.retain(|known| known.name != device.name);
                devices.push(device);
            }
            Some(Event::Removed(name)) => devices.retain(|known| known.name != name),
            Some(Event::Look(look)) => return Ok((look, devices)),
            None => {}
        }
    }
    anyhow::bail!("the agent ended its stream without a look")
}

/// Writes into `folder` what lets in at the agents, as files of the names that
/// the coordinator's Secret gives them.
pub async fn certificates(cluster: &Cluster, folder: &Path) -> anyhow::Result<()> {
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), SYSTEM_NAMESPACE);
    let secret = secrets.get("coordinator-tls").await?;
    for (name, bytes) in secret.data.unwrap_or_default() {
        std::fs::write(folder.join(name), bytes.0)?;
    }
    Ok(())
}

/// Where the agent in `pod` listens.
pub fn address(pod: &Pod) -> anyhow::Result<String> {
    let status = pod.status.as_ref();
    let ip = status.and_then(|status| status.pod_ip.as_ref());
    Ok(format!("{}:7443", ip.context("the pod has no IP")?))
}

/// Highest resident memory of the agent in `pod` since it started, in bytes,
/// from its metrics.
pub async fn peak_memory(cluster: &Cluster, pod: &Pod) -> anyhow::Result<u64> {
    let path = format!(
        "/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods/{}:8081/proxy/metrics",
        pod.name_any()
    );
    let request = axum::http::Request::get(path).body(Vec::new())?;
    let text = cluster.client.request_text(request).await?;
    text.lines()
        .find_map(|line| line.strip_prefix("process_resident_memory_max_bytes "))
        .and_then(|value| value.trim().parse().ok())
        .with_context(|| format!("no peak of memory in the metrics: {text}"))
}

async fn connect(cluster: &Cluster, pod: &Pod) -> anyhow::Result<NodeAgentClient<Channel>> {
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), SYSTEM_NAMESPACE);
    let secret = secrets.get("coordinator-tls").await?;
    let bytes = secret.data.unwrap_or_default();
    let part = |key: &str| {
        bytes
            .get(key)
            .map(|b| b.0.clone())
            .with_context(|| key.to_owned())
    };
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(part("ca.crt")?))
        .identity(Identity::from_pem(part("tls.crt")?, part("tls.key")?))
        .domain_name("node-agent.hypercloud-storage");
    let endpoint = Endpoint::from_shared(format!("https://{}", address(pod)?))?.tls_config(tls)?;
    Ok(NodeAgentClient::new(endpoint.connect().await?))
}
