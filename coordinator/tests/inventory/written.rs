//! Reconciles against an API server in memory: what is written, and how
//! often.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use hypercloud_coordinator::agents::devices::{Cleaned, CleaningOrder, DeviceLink, DevicesSeen};
use hypercloud_coordinator::agents::source::{SignedAddress, Source, Stored};
use hypercloud_coordinator::agents::{
    AgentError, AgentState, Agents, CopyJob, ExportJob, Failure, ImportJob, Job, JobSeen, Probed,
};
use hypercloud_coordinator::holder::HolderTemplate;
use hypercloud_coordinator::inventory::collect::collect_once;
use hypercloud_coordinator::inventory::reconcile::reconcile;
use hypercloud_coordinator::metrics::Metrics;
use hypercloud_coordinator::shell::Shell;
use hypercloud_inventory::Device;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::runtime::events::{Recorder, Reporter};
use serde_json::{Value, json};

use super::devices::{device, large, told};
use super::memory::Server;

const NODE: &str = "/api/v1/nodes/n1";
const INVENTORIES: &str = "/apis/hypercloud.tmaxanc.com/v1alpha1/nodedeviceinventories";
const INVENTORY: &str = "/apis/hypercloud.tmaxanc.com/v1alpha1/nodedeviceinventories/n1";

/// Agents that tell devices and nothing else.
#[derive(Clone)]
struct Telling(Arc<Mutex<DevicesSeen>>);

impl Telling {
    fn tell(&self, revision: u64, devices: Vec<Device>) {
        let now = Timestamp::now();
        *self.0.lock().unwrap() = DevicesSeen {
            link: DeviceLink::Following { since: now },
            told: Some((told(revision, devices), now)),
        };
    }
}

fn none(node: &str) -> AgentError {
    AgentError::Away { node: node.into() }
}

#[async_trait]
impl Agents for Telling {
    fn synced(&self) -> Vec<String> {
        vec![]
    }

    fn state(&self, _: &str) -> AgentState {
        AgentState::Synced
    }

    fn jobs(&self) -> Vec<JobSeen> {
        vec![]
    }

    fn jobs_of(&self, _: &str) -> Vec<JobSeen> {
        vec![]
    }

    async fn probe(&self, node: &str, _: &Source) -> Result<Probed, AgentError> {
        Err(none(node))
    }

    async fn start(&self, node: &str, _: &ImportJob, _: &Source) -> Result<Job, AgentError> {
        Err(none(node))
    }

    async fn copy(&self, node: &str, _: &CopyJob) -> Result<Job, AgentError> {
        Err(none(node))
    }

    async fn export(&self, node: &str, _: &ExportJob, _: &Stored) -> Result<Job, AgentError> {
        Err(none(node))
    }

    async fn discard(
        &self,
        node: &str,
        _: &Stored,
        _: &str,
    ) -> Result<Result<(), Failure>, AgentError> {
        Err(none(node))
    }

    async fn presign(
        &self,
        node: &str,
        _: &Stored,
        _: Duration,
    ) -> Result<Result<SignedAddress, Failure>, AgentError> {
        Err(none(node))
    }

    async fn cancel(&self, node: &str, _: &str) -> Result<(), AgentError> {
        Err(none(node))
    }

    fn devices(&self, _: &str) -> DevicesSeen {
        self.0.lock().unwrap().clone()
    }

    async fn clean(
        &self,
        node: &str,
        _: &CleaningOrder,
    ) -> Result<Result<Cleaned, Failure>, AgentError> {
        Err(none(node))
    }
}

fn world() -> (Server, Telling, Shell) {
    let server = Server::default();
    let node = json!({"metadata": {"name": "n1", "uid": "node",
        "labels": {"kubernetes.io/hostname": "worker-1"}}});
    server.put(NODE, node);
    let seen = DevicesSeen {
        link: DeviceLink::Away {
            since: Timestamp::now(),
        },
        told: None,
    };
    let agents = Telling(Arc::new(Mutex::new(seen)));
    let reporter = Reporter {
        controller: "test".into(),
        instance: None,
    };
    let shell = Shell {
        client: server.client(),
        agents: Arc::new(agents.clone()),
        recorder: Recorder::new(server.client(), reporter),
        template: HolderTemplate {
            image: "agent:test".into(),
            agent_namespace: "system".into(),
        },
        metrics: Arc::new(Metrics::default()),
    };
    (server, agents, shell)
}

/// One look of the controller; what it wrote.
async fn look(server: &Server, shell: &Shell) -> Vec<String> {
    reconcile(shell, "n1").await.unwrap();
    server.writes()
}

fn status(server: &Server) -> Value {
    server.object(INVENTORY)["status"].clone()
}

#[tokio::test]
async fn an_inventory_is_made_kept_and_written_on_change_only() {
    let (server, agents, shell) = world();
    let made = [
        format!("POST {INVENTORIES}"),
        format!("PUT {INVENTORY}/status"),
    ];
    assert_eq!(look(&server, &shell).await, made);
    let owner = &server.object(INVENTORY)["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&json!("Node"), &json!("node"))
    );
    assert_eq!(status(&server)["state"], "Pending");

    let written = [format!("PUT {INVENTORY}/status")];
    let mut devices: Vec<Device> = (0..500).map(|n| large(&format!("sd{n}"), n > 9)).collect();
    agents.tell(1, devices.clone());
    assert_eq!(look(&server, &shell).await, written);
    assert_eq!(status(&server)["availableCount"], 490);
    assert_eq!(status(&server)["hostname"], "worker-1");
    for _ in 0..20 {
        // Heard again and again, with nothing new.
        agents.tell(1, devices.clone());
        assert_eq!(look(&server, &shell).await, Vec::<String>::new());
    }
    devices[0] = large("sd0", true);
    agents.tell(2, devices.clone());
    assert_eq!(look(&server, &shell).await, written);
    assert_eq!(status(&server)["availableCount"], 491);

    let mut edited = server.object(INVENTORY);
    edited["status"]["devices"] = json!([]);
    edited["status"]["omittedDevices"] = json!(7);
    server.put(INVENTORY, edited);
    assert_eq!(look(&server, &shell).await, written);
    assert_eq!(status(&server)["devices"].as_array().unwrap().len(), 500);
    assert_eq!(status(&server)["omittedDevices"], Value::Null);

    server.take(INVENTORY);
    assert_eq!(look(&server, &shell).await, made);
    assert_eq!(status(&server)["deviceCount"], 500);
}

#[tokio::test]
async fn a_heartbeat_that_is_due_is_renewed() {
    let (server, agents, shell) = world();
    agents.tell(1, vec![device("sda", true)]);
    look(&server, &shell).await;
    let mut old = server.object(INVENTORY);
    let before = Timestamp::now() - SignedDuration::from_mins(6);
    old["status"]["heartbeatTime"] = json!(before.to_string());
    server.put(INVENTORY, old);
    assert_eq!(look(&server, &shell).await.len(), 1);
    assert_ne!(status(&server)["heartbeatTime"], json!(before.to_string()));
    assert_eq!(look(&server, &shell).await.len(), 0);
}

#[tokio::test]
async fn a_status_that_cannot_be_read_is_written_anew() {
    let (server, agents, shell) = world();
    agents.tell(1, vec![device("sda", true)]);
    look(&server, &shell).await;
    let mut strange = server.object(INVENTORY);
    strange["status"]["devices"][0]["kind"] = json!("hologram");
    server.put(INVENTORY, strange);
    assert_eq!(look(&server, &shell).await.len(), 1);
    assert_eq!(status(&server)["devices"][0]["kind"], "disk");
}

#[tokio::test]
async fn a_node_of_the_same_name_gets_an_inventory_of_its_own() {
    let (server, agents, shell) = world();
    agents.tell(1, vec![device("sda", true)]);
    look(&server, &shell).await;
    let former = server.object(INVENTORY)["metadata"]["uid"].clone();
    server.put(NODE, json!({"metadata": {"name": "n1", "uid": "another"}}));
    let written = look(&server, &shell).await;
    assert_eq!(written[0], format!("DELETE {INVENTORY}"));
    let now = server.object(INVENTORY);
    assert_ne!(now["metadata"]["uid"], former);
    assert_eq!(now["metadata"]["ownerReferences"][0]["uid"], "another");
}

#[tokio::test]
async fn inventories_without_a_node_are_taken_away() {
    let (server, agents, shell) = world();
    agents.tell(1, vec![device("sda", true)]);
    look(&server, &shell).await;
    let stray = format!("{INVENTORIES}/n9");
    server.put(
        &stray,
        json!({"metadata": {"name": "n9", "uid": "stray"}, "spec": {}}),
    );
    collect_once(&shell.client).await.unwrap();
    assert_eq!(server.writes(), [format!("DELETE {stray}")]);
    assert_eq!(server.object(INVENTORY)["metadata"]["name"], "n1");

    server.take(NODE);
    assert_eq!(look(&server, &shell).await, [format!("DELETE {INVENTORY}")]);
}
