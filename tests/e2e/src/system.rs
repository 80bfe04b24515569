//! The running system: its pods, its leader, and the classes it is tried on.

use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, LogParams};
use tokio::sync::{Mutex, MutexGuard};

use crate::cluster::{Cluster, SYSTEM_NAMESPACE};
use crate::wait::{Seen, until};

/// How long nobody may lead, on a busy machine.
const TAKEOVER: Duration = Duration::from_secs(90);

/// Held by tests that take coordinators away, and by what counts or times
/// them: one at a time.
static DISTURBANCE: Mutex<()> = Mutex::const_new(());

/// Waits until no other test takes coordinators away; none does while the
/// guard is held.
pub async fn disturb() -> MutexGuard<'static, ()> {
    DISTURBANCE.lock().await
}

/// Storage class that the tests use: `HCS_E2E_STORAGE_CLASS`, or the test
/// cluster's.
pub fn storage_class() -> String {
    std::env::var("HCS_E2E_STORAGE_CLASS").unwrap_or_else(|_| "loopfile".into())
}

/// Image with a shell that the reader pods run: `HCS_E2E_SHELL_IMAGE`, or the
/// test cluster's.
pub fn shell_image() -> String {
    std::env::var("HCS_E2E_SHELL_IMAGE").unwrap_or_else(|_| "hcs-test/busybox:1".into())
}

/// A client with the coordinator's own account.
pub async fn coordinator(cluster: &Cluster) -> anyhow::Result<kube::Client> {
    cluster.account(SYSTEM_NAMESPACE, "coordinator").await
}

/// Image with the program that boots disks: `HCS_E2E_MACHINE_IMAGE`, or the
/// test cluster's.
pub fn machine_image() -> String {
    std::env::var("HCS_E2E_MACHINE_IMAGE").unwrap_or_else(|_| "hcs-test/machine:1".into())
}

/// Pods of one component, `coordinator` or `node-agent`.
pub async fn pods(cluster: &Cluster, component: &str) -> anyhow::Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), SYSTEM_NAMESPACE);
    let selector = format!("app.kubernetes.io/component={component}");
    Ok(api
        .list(&ListParams::default().labels(&selector))
        .await?
        .items)
}

/// Everything that the system's pods have logged.
pub async fn logs(cluster: &Cluster) -> anyhow::Result<String> {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), SYSTEM_NAMESPACE);
    let mut all = String::new();
    for component in ["coordinator", "node-agent"] {
        for pod in pods(cluster, component).await? {
            // One that another test has just killed has none.
            let logged = api.logs(&pod.name_any(), &LogParams::default()).await;
            all += &logged.unwrap_or_default();
        }
    }
    Ok(all)
}

/// What the Lease says of whoever leads.
async fn lease(cluster: &Cluster) -> anyhow::Result<LeaseSpec> {
    let api: Api<Lease> = Api::namespaced(cluster.client.clone(), SYSTEM_NAMESPACE);
    let lease = api.get("hypercloud-storage-coordinator").await?;
    lease.spec.context("nobody has led yet")
}

/// Who leads.
pub async fn leader(cluster: &Cluster) -> anyhow::Result<String> {
    lease(cluster)
        .await?
        .holder_identity
        .filter(|identity| !identity.is_empty())
        .context("nobody leads")
}

/// When whoever leads, or led last, wrote the Lease for the last time.
pub async fn last_led(cluster: &Cluster) -> anyhow::Result<Timestamp> {
    let renewed = lease(cluster).await?.renew_time;
    Ok(renewed.context("the Lease was never renewed")?.0)
}

/// Since when whoever leads does.
pub async fn leads_since(cluster: &Cluster) -> anyhow::Result<Timestamp> {
    let acquired = lease(cluster).await?.acquire_time;
    Ok(acquired.context("the Lease was never acquired")?.0)
}

/// Waits until whoever leads has a pod that lives; the pod's name.
pub async fn living_leader(cluster: &Cluster) -> anyhow::Result<String> {
    until("a coordinator leads", TAKEOVER, || async {
        let leader = leader(cluster).await?;
        let pods = pods(cluster, "coordinator").await?;
        let lives = |pod: &&Pod| pod.metadata.deletion_timestamp.is_none();
        let mut living = pods.iter().filter(lives).map(|pod| pod.name_any());
        Ok(living
            .find(|name| leader.contains(name))
            .map_or(Seen::NotYet(leader), Seen::Done))
    })
    .await
}

/// Waits until somebody other than `old` leads.
pub async fn new_leader(cluster: &Cluster, old: &str) -> anyhow::Result<String> {
    until("another coordinator leads", TAKEOVER, || async {
        let leader = leader(cluster).await?;
        Ok(if leader == old {
            Seen::NotYet(leader)
        } else {
            Seen::Done(leader)
        })
    })
    .await
}

/// Kills a pod of the system without giving it time to say goodbye.
pub async fn kill(cluster: &Cluster, pod: &str) -> anyhow::Result<()> {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), SYSTEM_NAMESPACE);
    api.delete(pod, &DeleteParams::default().grace_period(0))
        .await?;
    Ok(())
}

/// The agent pod on a node.
pub async fn agent_on(cluster: &Cluster, node: &str) -> anyhow::Result<Pod> {
    pods(cluster, "node-agent")
        .await?
        .into_iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .find(|pod| pod.spec.as_ref().and_then(|s| s.node_name.as_deref()) == Some(node))
        .with_context(|| format!("no agent on {node}"))
}

/// Whether a pod is Ready.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|c| c.type_ == "Ready" && c.status == "True")
}

/// Waits until every pod of a component is Ready, and at least one is there.
pub async fn all_ready(cluster: &Cluster, component: &str) -> anyhow::Result<()> {
    until("the pods are Ready", Duration::from_secs(120), || async {
        let pods = pods(cluster, component).await?;
        let waiting: Vec<_> = pods
            .iter()
            .filter(|p| !is_ready(p))
            .map(|p| p.name_any())
            .collect();
        Ok(if waiting.is_empty() && !pods.is_empty() {
            Seen::Done(())
        } else {
            Seen::NotYet(format!("{waiting:?} of {}", pods.len()))
        })
    })
    .await
}

/// Makes a pod of the system stop dead, without a signal that it could answer:
/// where its process is this machine's, it is frozen; elsewhere the pod is
/// killed. Returns whether it was frozen.
pub async fn stop_dead(cluster: &Cluster, pod: &str) -> anyhow::Result<bool> {
    let frozen = processes_with(&format!("POD_NAME={pod}"))?;
    freeze(&frozen)?;
    if frozen.is_empty() {
        kill(cluster, pod).await?;
    }
    Ok(!frozen.is_empty())
}

/// Makes the agent of a node stop dead where it is this machine's process;
/// returns whether it is. Kubelet notices, and starts another one.
pub fn freeze_agent(node: &str) -> anyhow::Result<bool> {
    let mut agents = processes_with(&format!("NODE_NAME={node}"))?;
    agents.retain(|process| {
        let name = std::fs::read_to_string(format!("/proc/{process}/comm"));
        name.is_ok_and(|name| name.trim() == "node-agent")
    });
    freeze(&agents)?;
    Ok(!agents.is_empty())
}

fn freeze(processes: &[String]) -> anyhow::Result<()> {
    for process in processes {
        let status = std::process::Command::new("kill")
            .args(["-STOP", process])
            .status()?;
        anyhow::ensure!(status.success(), "process {process} cannot be stopped");
    }
    Ok(())
}

/// Processes of this machine that have the variable `wanted` in their
/// environment, such as those of a pod.
fn processes_with(wanted: &str) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_process = name.bytes().all(|byte| byte.is_ascii_digit());
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if is_process
            && environment
                .split(|byte| *byte == 0)
                .any(|var| var == wanted.as_bytes())
        {
            found.push(name);
        }
    }
    Ok(found)
}
