//! A scripted API server and a simulated agent.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use http::{Request, Response};
use hypercloud_coordinator::access::DefaultStore;
use hypercloud_coordinator::agents::devices::{Cleaned, CleaningOrder, DeviceLink, DevicesSeen};
use hypercloud_coordinator::agents::source::{SignedAddress, Source, Stored};
use hypercloud_coordinator::agents::{
    AgentError, AgentState, Agents, CopyJob, ExportJob, Facts, Failure, ImageFormat, ImportJob,
    Job, JobSeen, JobState, Probed, Progress,
};
use hypercloud_coordinator::holder::HolderTemplate;
use hypercloud_coordinator::image::plan::Policy;
use hypercloud_coordinator::image::reconcile::Context;
use hypercloud_coordinator::image::size::Overhead;
use hypercloud_coordinator::metrics::Metrics;
use hypercloud_coordinator::shell::Shell;
use kube::Client;
use kube::client::Body;
use kube::runtime::events::{Recorder, Reporter};
use serde_json::{Value, json};
use tower_test::mock;

/// Requests that are expected, in order, each with its answer.
#[derive(Default)]
pub struct Script(VecDeque<(String, String, u16, Value)>);

impl Script {
    pub fn on(&mut self, method: &str, path: &str, code: u16, answer: Value) {
        self.0.push_back((method.into(), path.into(), code, answer));
    }

    /// What is asked for at `path` is answered like this after all.
    pub fn answer(&mut self, path: &str, answer: Value) {
        let expected = self.0.iter_mut().filter(|expected| expected.1 == path);
        expected.for_each(|expected| expected.3 = answer.clone());
    }
}

/// What was asked of the API server.
#[derive(Clone, Default)]
pub struct Requests {
    script: Arc<Mutex<Script>>,
    seen: Arc<Mutex<Vec<(String, String, Value)>>>,
}

impl Requests {
    /// Expected requests that were not made.
    pub fn left(&self) -> usize {
        self.script.lock().unwrap().0.len()
    }

    /// The bodies of the requests of this method and path.
    pub fn bodies(&self, method: &str, path: &str) -> Vec<Value> {
        let seen = self.seen.lock().unwrap();
        seen.iter()
            .filter(|(m, p, _)| m == method && p == path)
            .map(|(_, _, body)| body.clone())
            .collect()
    }

    /// The body of the first of them.
    pub fn body(&self, method: &str, path: &str) -> Value {
        let bodies = self.bodies(method, path);
        bodies
            .first()
            .cloned()
            .unwrap_or_else(|| panic!("no {method} {path}"))
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (method, path) = (
            request.method().to_string(),
            request.uri().path().to_owned(),
        );
        let bytes = request.into_body().collect_bytes().await.unwrap();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let next = self.script.lock().unwrap().0.pop_front();
        let expected = next.unwrap_or_else(|| panic!("unexpected {method} {path} {body}"));
        assert_eq!((&expected.0, &expected.1), (&method, &path), "{body}");
        self.seen.lock().unwrap().push((method, path, body));
        Response::builder()
            .status(expected.2)
            .body(Body::from(serde_json::to_vec(&expected.3).unwrap()))
            .unwrap()
    }
}

/// A reconciler's context on a scripted API server.
pub fn context(script: Script, agent: Agent) -> (Context, Requests) {
    let (service, mut handle) = mock::pair::<Request<Body>, Response<Body>>();
    let requests = Requests {
        script: Arc::new(Mutex::new(script)),
        seen: Arc::default(),
    };
    let server = requests.clone();
    tokio::spawn(async move {
        while let Some((request, send)) = handle.next_request().await {
            send.send_response(server.answer(request).await);
        }
    });
    let client = Client::new(service, "team");
    let reporter = Reporter {
        controller: "test".into(),
        instance: Some("test".into()),
    };
    let shell = Shell {
        client: client.clone(),
        agents: Arc::new(agent),
        recorder: Recorder::new(client, reporter),
        template: HolderTemplate {
            image: "agent:test".into(),
            agent_namespace: "system".into(),
        },
        metrics: Arc::new(Metrics::default()),
    };
    let policy = Policy {
        overhead: Overhead::DEFAULT,
        store: DefaultStore::default(),
    };
    let context = Context { shell, policy };
    (context, requests)
}

/// An agent on node n1.
pub struct Agent {
    pub probe: Probed,
    pub jobs: Vec<JobSeen>,
    /// What every call ends with.
    pub trouble: Option<AgentError>,
    /// The sources it was asked for.
    pub asked: Arc<Mutex<Vec<Source>>>,
    /// What is known of the node's devices.
    pub devices: DevicesSeen,
    /// How every cleaning ends.
    pub cleaned: Result<Cleaned, Failure>,
    /// The cleanings it was asked for.
    pub cleanings: Arc<Mutex<Vec<CleaningOrder>>>,
}

impl Default for Agent {
    fn default() -> Self {
        let facts = Facts {
            format: ImageFormat::Raw,
            packing: None,
            virtual_size: Some(1 << 30),
            source_size: None,
            validator: None,
            ranges: false,
        };
        Self {
            probe: Ok(facts),
            jobs: vec![],
            trouble: None,
            asked: Arc::default(),
            devices: DevicesSeen {
                link: DeviceLink::TooOld,
                told: None,
            },
            cleaned: Ok(Cleaned::default()),
            cleanings: Arc::default(),
        }
    }
}

impl Agent {
    pub fn with_job(id: &str, state: JobState, done: u64) -> Self {
        let job = Job {
            id: id.into(),
            state,
            progress: Progress {
                total: 100,
                done,
                received: 5,
                written: 6,
            },
            ..Job::default()
        };
        let node = "n1".to_owned();
        Self {
            jobs: vec![JobSeen { node, job }],
            ..Self::default()
        }
    }
}

#[async_trait]
impl Agents for Agent {
    fn synced(&self) -> Vec<String> {
        vec!["n1".into()]
    }

    fn state(&self, _: &str) -> AgentState {
        AgentState::Synced
    }

    fn jobs(&self) -> Vec<JobSeen> {
        self.jobs.clone()
    }

    fn jobs_of(&self, _: &str) -> Vec<JobSeen> {
        self.jobs.clone()
    }

    async fn probe(&self, _: &str, source: &Source) -> Result<Probed, AgentError> {
        self.asked.lock().unwrap().push(source.clone());
        self.trouble.clone().map_or(Ok(self.probe.clone()), Err)
    }

    async fn start(&self, node: &str, _: &ImportJob, source: &Source) -> Result<Job, AgentError> {
        self.asked.lock().unwrap().push(source.clone());
        let away = AgentError::Away { node: node.into() };
        Err(self.trouble.clone().unwrap_or(away))
    }

    async fn copy(&self, node: &str, _: &CopyJob) -> Result<Job, AgentError> {
        let away = AgentError::Away { node: node.into() };
        Err(self.trouble.clone().unwrap_or(away))
    }

    async fn export(&self, node: &str, _: &ExportJob, object: &Stored) -> Result<Job, AgentError> {
        self.asked.lock().unwrap().push(object.clone().into());
        let away = AgentError::Away { node: node.into() };
        Err(self.trouble.clone().unwrap_or(away))
    }

    async fn discard(
        &self,
        _: &str,
        object: &Stored,
        _: &str,
    ) -> Result<Result<(), Failure>, AgentError> {
        self.asked.lock().unwrap().push(object.clone().into());
        self.trouble.clone().map_or(Ok(Ok(())), Err)
    }

    async fn presign(
        &self,
        _: &str,
        object: &Stored,
        _: Duration,
    ) -> Result<Result<SignedAddress, Failure>, AgentError> {
        self.asked.lock().unwrap().push(object.clone().into());
        let address = SignedAddress::new("http://store/vms/disk?X-Amz-Signature=s3cret".into());
        self.trouble.clone().map_or(Ok(Ok(address)), Err)
    }

    async fn cancel(&self, _: &str, _: &str) -> Result<(), AgentError> {
        self.trouble.clone().map_or(Ok(()), Err)
    }

    fn devices(&self, _: &str) -> DevicesSeen {
        self.devices.clone()
    }

    async fn clean(
        &self,
        _: &str,
        order: &CleaningOrder,
    ) -> Result<Result<Cleaned, Failure>, AgentError> {
        self.cleanings.lock().unwrap().push(order.clone());
        self.trouble.clone().map_or(Ok(self.cleaned.clone()), Err)
    }
}

pub fn image() -> Value {
    json!({
        "apiVersion": "hypercloud.tmaxanc.com/v1alpha1",
        "kind": "VirtualMachineImage",
        "metadata": {"name": "disk", "namespace": "team", "uid": "uid", "resourceVersion": "7",
            "generation": 1, "finalizers": ["hypercloud.tmaxanc.com/cleanup"]},
        "spec": {"storageClassName": "fast", "source": {"http": "http://example.com/disk.img"}}
    })
}

pub fn probed() -> Value {
    json!({
        "phase": "Preparing", "attempt": 0, "size": "1Gi",
        "source": {"format": "raw", "virtualSize": 1 << 30, "ranges": false},
        "conditions": [{"type": "SourceVerified", "status": "True", "reason": "Probed",
            "message": "raw, virtual size 1Gi", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    })
}

pub fn transferring() -> Value {
    let mut status = probed();
    status["phase"] = json!("Importing");
    status["pvcName"] = json!("vmim-disk");
    status["transfer"] = json!({"jobId": "uid-0", "nodeName": "n1", "holderUid": "pod",
        "bytesReceived": 0, "bytesWritten": 0});
    status
}

/// A failure as the API server says it.
pub fn failure(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "for people", "reason": reason, "code": code, "metadata": {}})
}
