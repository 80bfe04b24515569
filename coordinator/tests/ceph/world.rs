//! A small Ceph: Jobs are carried out by it, and Deployments are its OSDs.

use std::sync::{Arc, Mutex};

use hypercloud_api::{HyperCloudStorage, HyperCloudStorageSpec, SettledDevice};
use hypercloud_coordinator::shell::error::{ExecuteError, ObserveError};
use hypercloud_coordinator::storage::ceph;
use hypercloud_coordinator::storage::ceph::heard::Heard;
use hypercloud_coordinator::storage::nodes::Nodes;
use hypercloud_storage::object::Seen;
use hypercloud_storage::plan::removal::{Action, Osds};
use hypercloud_storage::state::Problem;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::{Value, json};

use crate::server::{Answer, Request, failure, list, missing, serve};

const JOBS: &str = "/apis/batch/v1/namespaces/rook-ceph/jobs";
const PODS: &str = "/api/v1/namespaces/rook-ceph/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/rook-ceph/deployments/";

/// An OSD of the small Ceph.
#[derive(Clone, Debug, PartialEq)]
pub struct Osd {
    pub id: u32,
    pub up: bool,
    pub is_in: bool,
    pub safe: bool,
    pub link: String,
    pub deployment: Value,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    None,
    /// Jobs fail.
    Fails,
    /// Purges do nothing, and succeed.
    PurgesNothing,
    /// Pods are not placed.
    Unplaced,
    /// Nothing may be made.
    Forbidden,
    /// Pods are gone with their logs.
    NoPods,
    /// The node that has the logs is away.
    NoLogs,
}

pub struct State {
    pub osds: Vec<Osd>,
    pub jobs: Vec<Value>,
    pub trouble: Trouble,
    /// What was done, in order.
    pub log: Vec<String>,
    /// Every so many requests the API server fails.
    pub fails_every: usize,
    requests: usize,
    /// Seconds that have passed.
    clock: i64,
    made: u32,
}

/// The world, and a coordinator that forgets everything between two looks.
pub struct World {
    pub state: Arc<Mutex<State>>,
    pub client: Client,
    pub resource: HyperCloudStorage,
}

fn osd(id: u32) -> Osd {
    let link = format!("/dev/disk/by-id/wwn-{id}");
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": format!("rook-ceph-osd-{id}"), "namespace": "rook-ceph",
            "labels": {"app": "rook-ceph-osd", "ceph-osd-id": id.to_string()}},
        "spec": {"replicas": 1, "template": {"spec": {
            "nodeSelector": {"kubernetes.io/hostname": format!("host-{id}")},
            "containers": [{"name": "osd", "env": [
                {"name": "ROOK_BLOCK_PATH", "value": link}]}]}}},
        "status": {"replicas": 1}});
    Osd {
        id,
        up: true,
        is_in: true,
        safe: false,
        link,
        deployment,
    }
}

pub fn device(id: u32) -> SettledDevice {
    SettledDevice {
        hostname: format!("host-{id}"),
        device: "/dev/sda".into(),
        by_id: format!("/dev/disk/by-id/wwn-{id}"),
        device_class: None,
    }
}

impl World {
    /// Four OSDs, of which the last is given up.
    pub fn new() -> Self {
        let state = Arc::new(Mutex::new(State {
            osds: (0..4).map(osd).collect(),
            jobs: Vec::new(),
            trouble: Trouble::None,
            log: Vec::new(),
            fails_every: usize::MAX,
            requests: 0,
            clock: 0,
            made: 0,
        }));
        let shared = state.clone();
        let client = serve(move |request| shared.lock().unwrap().try_answer(request));
        let mut resource = HyperCloudStorage::new("hypercloud", HyperCloudStorageSpec::default());
        resource.status = Some(Default::default());
        resource.status.as_mut().unwrap().removing = vec![device(3)];
        Self {
            state,
            client,
            resource,
        }
    }

    pub fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }

    fn seen(&self) -> Seen {
        let state = self.state.lock().unwrap();
        let cluster = json!({"apiVersion": "ceph.rook.io/v1", "kind": "CephCluster",
            "metadata": {"name": "rook-ceph", "namespace": "rook-ceph"},
            "spec": {"cephVersion": {"image": "ceph"}}});
        let operator = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "rook-ceph-operator", "namespace": "rook-ceph"},
            "spec": {"template": {"spec": {"containers": [{"image": "rook"}]}}}});
        let osds = state.osds.iter().map(|osd| osd.deployment.clone());
        [cluster, operator].into_iter().chain(osds).collect()
    }

    /// A look at the OSDs.
    pub async fn look(&self) -> Osds {
        self.try_look().await.unwrap()
    }

    /// Each by a coordinator that has just begun, and remembers nothing.
    pub async fn try_look(&self) -> Result<Osds, ObserveError> {
        self.look_again(&Heard::default()).await
    }

    /// One of a coordinator that has heard of Ceph before.
    pub async fn look_again(&self, heard: &Heard) -> Result<Osds, ObserveError> {
        let nodes = Nodes::default();
        let seen = self.seen();
        ceph::osds(&self.client, heard, &self.resource, &seen, &nodes).await
    }

    pub async fn act(&self, action: &Action) {
        assert_eq!(self.try_act(action).await.unwrap(), None);
    }

    pub async fn try_act(&self, action: &Action) -> Result<Option<Problem>, ExecuteError> {
        let seen = self.seen();
        ceph::act(&self.client, &self.resource, &seen, action).await
    }

    /// What the cluster does by itself meanwhile.
    pub fn pass(&self) {
        self.state.lock().unwrap().pass();
    }
}

fn words(job: &Value, container: usize) -> Vec<String> {
    let container = &job["spec"]["template"]["spec"]["containers"][container];
    serde_json::from_value(container["args"].clone()).unwrap()
}

impl State {
    /// The time, which is past: nothing in a test waits for a clock.
    fn now(&self) -> String {
        let begin = Timestamp::now() - SignedDuration::from_hours(1);
        let now = begin + SignedDuration::from_secs(self.clock);
        now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// A request that fails may have been carried out all the same.
    fn try_answer(&mut self, request: &Request) -> Answer {
        self.requests += 1;
        let fails = self.requests.is_multiple_of(self.fails_every);
        if fails && self.requests.is_multiple_of(2) {
            return failure(500, "InternalError");
        }
        let answer = self.answer(request);
        match fails {
            true => failure(504, "Timeout"),
            false => answer,
        }
    }

    fn answer(&mut self, request: &Request) -> Answer {
        let (method, path) = (request.method.as_str(), request.path.as_str());
        match method {
            "GET" if path == JOBS => list(self.jobs.clone()),
            "POST" if path == JOBS => self.make(request.body.clone()),
            "DELETE" if path.starts_with(JOBS) => self.remove(&path[JOBS.len() + 1..]),
            "GET" if path == PODS => self.pods(request.query("labelSelector").unwrap()),
            "GET" if path.starts_with(PODS) => {
                let name = path[PODS.len() + 1..].trim_end_matches("-pod/log");
                self.print(name, request.query("container").unwrap())
            }
            "GET" if path == "/api/v1/nodes" => list(Vec::new()),
            "PATCH" if path.starts_with(DEPLOYMENTS) => {
                self.patch(&path[DEPLOYMENTS.len()..], &request.body)
            }
            _ => panic!("unexpected {method} {path}"),
        }
    }

    fn make(&mut self, mut job: Value) -> Answer {
        if self.trouble == Trouble::Forbidden {
            return failure(403, "Forbidden");
        }
        self.made += 1;
        if let Some(begin) = job["metadata"]["generateName"].as_str() {
            job["metadata"]["name"] = json!(format!("{begin}{:03}", self.made));
        }
        let name = job["metadata"]["name"].clone();
        if self
            .jobs
            .iter()
            .any(|other| other["metadata"]["name"] == name)
        {
            return failure(409, "AlreadyExists");
        }
        job["metadata"]["uid"] = json!(format!("uid-{}", self.made));
        job["metadata"]["creationTimestamp"] = json!(self.now());
        self.jobs.push(job.clone());
        Answer::Json(201, job)
    }

    fn remove(&mut self, name: &str) -> Answer {
        let before = self.jobs.len();
        self.jobs.retain(|job| job["metadata"]["name"] != name);
        match self.jobs.len() < before {
            true => Answer::Json(200, json!({"kind": "Status", "status": "Success"})),
            false => missing(),
        }
    }

    fn pods(&self, selector: &str) -> Answer {
        let name = selector.split_once('=').unwrap().1;
        let job = self.jobs.iter().find(|job| job["metadata"]["name"] == name);
        let Some(job) = job.filter(|_| self.trouble != Trouble::NoPods) else {
            return list(Vec::new());
        };
        let containers = job["spec"]["template"]["spec"]["containers"].as_array();
        let code = i32::from(self.trouble == Trouble::Fails);
        let state = json!({"terminated": {"exitCode": code}});
        let statuses: Vec<Value> = containers
            .unwrap()
            .iter()
            .map(|container| {
                json!({"name": container["name"], "image": "i", "imageID": "",
                       "ready": false, "restartCount": 0, "state": state})
            })
            .collect();
        let status = match self.trouble {
            Trouble::Unplaced => json!({"conditions": [{"type": "PodScheduled",
                "status": "False", "message": "0/3 nodes are available"}]}),
            _ => json!({"containerStatuses": statuses}),
        };
        list(vec![
            json!({"metadata": {"name": format!("{name}-pod")}, "status": status}),
        ])
    }

    fn print(&self, job: &str, container: &str) -> Answer {
        if self.trouble == Trouble::NoLogs {
            return failure(502, "BadGateway");
        }
        if self.trouble == Trouble::Fails {
            return Answer::Text("starting\nError: timed out after 30 s\n".into());
        }
        let value = match container {
            "dump" => {
                let osds = self.osds.iter().map(
                    |osd| json!({"osd": osd.id, "up": u8::from(osd.up), "in": u8::from(osd.is_in)}),
                );
                json!({"osds": osds.collect::<Vec<_>>()})
            }
            "metadata" => {
                let osds = self.osds.iter();
                let all = osds.map(|osd| json!({"id": osd.id, "hostname": "n"}));
                json!(all.collect::<Vec<_>>())
            }
            "safe" => {
                let safe = self.osds.iter().filter(|osd| osd.safe);
                json!({"safe_to_destroy": safe.map(|osd| osd.id).collect::<Vec<_>>()})
            }
            _ => return Answer::Text(format!("{job} ended\n")),
        };
        Answer::Text(format!("a warning\n{value}\n"))
    }

    fn patch(&mut self, name: &str, patch: &Value) -> Answer {
        let found = self.osds.iter_mut();
        let named = |osd: &&mut Osd| osd.deployment["metadata"]["name"] == name;
        let Some(osd) = found.into_iter().find(named) else {
            return missing();
        };
        let replicas = patch["spec"]["replicas"].clone();
        self.log.push(format!("{name} has {replicas}"));
        for part in ["labels", "annotations"] {
            for (key, value) in patch["metadata"][part].as_object().unwrap() {
                let kept = &mut osd.deployment["metadata"][part];
                kept[key] = value.clone();
                if value.is_null() {
                    kept.as_object_mut().unwrap().remove(key);
                }
            }
        }
        osd.deployment["spec"]["replicas"] = replicas;
        Answer::Json(200, osd.deployment.clone())
    }

    /// Jobs run, and pods follow their Deployments.
    fn pass(&mut self) {
        self.clock += 1;
        for index in 0..self.jobs.len() {
            if self.jobs[index]["status"].is_null() {
                self.run(index);
            }
        }
        for osd in &mut self.osds {
            let replicas = osd.deployment["spec"]["replicas"].clone();
            osd.up = replicas != 0;
            osd.deployment["status"]["replicas"] = replicas;
        }
        self.clock += 1;
    }

    fn run(&mut self, index: usize) {
        let args = words(&self.jobs[index], 0);
        let last = args.last().unwrap().clone();
        let ended = |type_: &str, at: String| {
            json!({"failed": 1, "conditions": [{"type": type_, "status": "True",
                   "reason": "BackoffLimitExceeded", "lastTransitionTime": at}]})
        };
        match self.trouble {
            Trouble::Unplaced => return,
            Trouble::Fails => {
                self.jobs[index]["status"] = ended("Failed", self.now());
                return;
            }
            _ => {}
        }
        let id = last.parse().unwrap_or(u32::MAX);
        let osd = self.osds.iter_mut().find(|osd| osd.id == id);
        let has = |word: &str| args.iter().any(|arg| arg == word);
        if let Some(osd) = osd {
            if has("out") || has("in") {
                osd.is_in = has("in");
                osd.safe = !osd.is_in;
                let word = if osd.is_in { "in" } else { "out" };
                self.log.push(format!("{id} is {word}"));
            } else if has("remove") && !osd.up && self.trouble != Trouble::PurgesNothing {
                assert!(osd.safe, "purged with data");
                self.log.push(format!("{id} is purged"));
                self.osds.retain(|osd| osd.id != id);
            }
        }
        self.jobs[index]["status"] = ended("Complete", self.now());
    }
}
