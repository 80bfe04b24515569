//! An API server in memory that applies, creates, lists by labels and deletes,
//! and a context on it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hypercloud_coordinator::holder::HolderTemplate;
use hypercloud_coordinator::metrics::Metrics;
use hypercloud_coordinator::shell::Shell;
use hypercloud_coordinator::storage::reconcile::{Context, reconcile};
use hypercloud_storage::object::Key;
use kube::runtime::events::{Recorder, Reporter};
use serde_json::{Value, json};

use super::fake::Agent;
use super::server::{Answer, Request, failure, list, serve};

pub const STORAGE: &str = "/apis/hypercloud.tmaxanc.com/v1alpha1/hypercloudstorages/hypercloud";

/// What the server has.
#[derive(Default)]
pub struct World {
    pub objects: BTreeMap<String, Value>,
    /// Beginnings of paths that it does not know.
    pub unknown: Vec<&'static str>,
    /// Answers to requests that it does not do, by method and path.
    pub refused: BTreeMap<String, (u16, &'static str)>,
    /// What was written, in order.
    pub log: Vec<String>,
    version: u64,
}

/// A world that is shared with its server.
#[derive(Clone, Default)]
pub struct Cluster(Arc<Mutex<World>>);

impl Cluster {
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub fn context(&self) -> Context {
        let world = Arc::clone(&self.0);
        let client = serve(move |request| world.lock().unwrap().answer(request));
        let reporter = Reporter {
            controller: "test".into(),
            instance: Some("test".into()),
        };
        let shell = Shell {
            client: client.clone(),
            agents: Arc::new(Agent::default()),
            recorder: Recorder::new(client, reporter),
            template: HolderTemplate {
                image: "agent:test".into(),
                agent_namespace: "system".into(),
            },
            metrics: Arc::new(Metrics::default()),
        };
        Context::new(shell, "system")
    }

    pub fn status(&self) -> Value {
        self.world().objects[STORAGE]["status"].clone()
    }

    /// Reconciles until something holds.
    pub async fn until(&self, context: &Context, what: &str, holds: impl Fn(&World) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds(&self.world()) {
            assert!(Instant::now() < deadline, "{what}: {:#}", self.status());
            // What somebody else wrote meanwhile is met again.
            let _ = reconcile(context, "hypercloud").await;
        }
    }
}

/// A HyperCloudStorage with this specification beside the smallest one.
pub fn storage(more: &Value) -> Value {
    let mut storage = json!({
        "apiVersion": "hypercloud.tmaxanc.com/v1alpha1", "kind": "HyperCloudStorage",
        "metadata": {"name": "hypercloud", "uid": "uid", "generation": 1,
            "resourceVersion": "1"},
        "spec": {"storage": {"replicas": 1, "allowSingleReplica": true,
            "nodes": [{"hostname": "a", "devices": ["/dev/sda"]}]}},
    });
    for (key, value) in more.as_object().unwrap() {
        storage["spec"][key] = value.clone();
    }
    storage
}

/// Where an object is.
pub fn path(key: &Key, plural: &str) -> String {
    let root = match key.api_version.contains('/') {
        true => format!("/apis/{}", key.api_version),
        false => format!("/api/{}", key.api_version),
    };
    match &key.namespace {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}/{}", key.name),
        None => format!("{root}/{plural}/{}", key.name),
    }
}

impl World {
    pub fn put(&mut self, path: &str, mut object: Value) {
        self.version += 1;
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = json!(self.version.to_string());
        if metadata["uid"].is_null() {
            metadata["uid"] = json!(format!("made-{}", self.version));
        }
        self.objects.insert(path.to_owned(), object);
    }

    /// Somebody else changes a field of an object: it is his from then on.
    pub fn change(&mut self, path: &str, field: &str, value: Value) {
        let mut object = self.objects[path].clone();
        *object.pointer_mut(field).unwrap() = value;
        let fields = &mut object["metadata"]["managedFields"][0]["fieldsV1"];
        fields.as_object_mut().unwrap().remove(field);
        self.put(path, object);
    }

    /// What was written since the last question.
    pub fn writes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    fn answer(&mut self, request: &Request) -> Answer {
        let (method, path) = (request.method.as_str(), request.path.as_str());
        if path == "/version" {
            let text = [
                "buildDate",
                "compiler",
                "gitCommit",
                "gitTreeState",
                "gitVersion",
                "goVersion",
                "platform",
            ];
            let mut version = json!({"major": "1", "minor": "34"});
            for name in text {
                version[name] = json!("");
            }
            return Answer::Json(200, version);
        }
        if method != "GET" && !path.contains("/events") {
            self.log.push(format!("{method} {path}"));
        }
        if self.unknown.iter().any(|start| path.starts_with(start)) {
            return Answer::Json(404, json!("404 page not found"));
        }
        if let Some((code, reason)) = self.refused.get(&format!("{method} {path}")) {
            return failure(*code, reason);
        }
        // Nothing is told by watches.
        if request.query("watch").is_some() {
            return failure(500, "NoWatch");
        }
        match method {
            "GET" => match self.objects.get(path) {
                Some(object) => Answer::Json(200, object.clone()),
                None if path.rsplit('/').next().unwrap().ends_with('s') => {
                    list(self.list(path, request.query("labelSelector")))
                }
                None => failure(404, "NotFound"),
            },
            "POST" => {
                let name = request.body["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default();
                let path = format!("{path}/{name}");
                if self.objects.contains_key(&path) {
                    return failure(409, "AlreadyExists");
                }
                self.put(&path, request.body.clone());
                Answer::Json(201, self.objects[&path].clone())
            }
            "PATCH" => self.patch(path, &request.body),
            "DELETE" => self.delete(path, &request.body),
            _ => failure(405, "MethodNotAllowed"),
        }
    }

    fn list(&self, path: &str, labels: Option<&str>) -> Vec<Value> {
        let (root, plural) = path.rsplit_once('/').unwrap();
        let of_kind = |object: &&String| {
            let (parent, _) = object.rsplit_once('/').unwrap();
            object.starts_with(&format!("{root}/")) && parent.ends_with(&format!("/{plural}"))
        };
        let fits = |object: &&Value| {
            let label = |key: &str| object["metadata"]["labels"][key].as_str();
            match labels {
                None => true,
                Some(labels) => match (labels.split_once(" in "), labels.split_once('=')) {
                    (Some((key, values)), _) => {
                        let mut values = values.trim_matches(['(', ')']).split(',');
                        values.any(|value| label(key) == Some(value))
                    }
                    (None, Some((key, value))) => label(key) == Some(value),
                    (None, None) => label(labels).is_some(),
                },
            }
        };
        let found = self.objects.iter().filter(|(path, _)| of_kind(path));
        let found = found.map(|(_, object)| object).filter(fits);
        found.cloned().collect()
    }

    fn patch(&mut self, path: &str, body: &Value) -> Answer {
        if let Some(path) = path.strip_suffix("/status") {
            let Some(mut object) = self.objects.get(path).cloned() else {
                return failure(404, "NotFound");
            };
            if body["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
                return failure(409, "Conflict");
            }
            object["status"] = body["status"].clone();
            self.put(path, object.clone());
            return Answer::Json(200, object);
        }
        let mut object = self.objects.get(path).cloned().unwrap_or(json!({}));
        merge(&mut object, body);
        if !body["apiVersion"].is_null() {
            let fields: serde_json::Map<String, Value> = leaves("", body)
                .into_iter()
                .map(|leaf| (leaf, json!({})))
                .collect();
            object["metadata"]["managedFields"] = json!([{
                "manager": "hypercloud-storage-coordinator", "operation": "Apply",
                "fieldsV1": fields}]);
        }
        let gone = object["metadata"]["finalizers"] == json!([])
            && !object["metadata"]["deletionTimestamp"].is_null();
        if gone {
            self.objects.remove(path);
            return Answer::Json(200, object);
        }
        self.put(path, object);
        Answer::Json(200, self.objects[path].clone())
    }

    fn delete(&mut self, path: &str, body: &Value) -> Answer {
        let Some(object) = self.objects.get(path).cloned() else {
            return failure(404, "NotFound");
        };
        let wanted = &body["preconditions"]["uid"];
        assert!(!wanted.is_null(), "{path} is deleted whatever it is");
        if *wanted != object["metadata"]["uid"] {
            return failure(409, "Conflict");
        }
        self.objects.remove(path);
        Answer::Json(200, object)
    }
}

fn merge(object: &mut Value, change: &Value) {
    match (object, change) {
        (Value::Object(object), Value::Object(change)) => {
            for (key, value) in change {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, change) => *object = change.clone(),
    }
}

/// Pointers to every leaf of an object.
fn leaves(at: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) => map
            .iter()
            .flat_map(|(key, value)| {
                let key = key.replace('~', "~0").replace('/', "~1");
                leaves(&format!("{at}/{key}"), value)
            })
            .collect(),
        _ => vec![at.to_owned()],
    }
}
