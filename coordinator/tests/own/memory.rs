//! An API server in memory: objects by path, with versions and conflicts. It
//! knows no watch beyond one that never tells anything.

#![allow(dead_code)] // Each test uses a part of it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

#[derive(Clone, Default)]
pub struct Server {
    objects: Arc<Mutex<BTreeMap<String, Value>>>,
    hanging: Arc<AtomicBool>,
    writes: Arc<Mutex<Vec<String>>>,
}

/// Kinds that can be listed.
const LISTED: [&str; 4] = [
    "/pods",
    "/nodes",
    "/nodedeviceinventories",
    "/nodedevicecleanups",
];

/// Kinds that are known only once there is an object of them: until then the
/// answer is no status, but plain text.
const UNKNOWN: &str = "/apis/ceph.rook.io/";

impl Server {
    pub fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Client::new(service, "system")
    }

    pub fn object(&self, path: &str) -> Value {
        self.objects
            .lock()
            .unwrap()
            .get(path)
            .cloned()
            .unwrap_or_default()
    }

    pub fn put(&self, path: &str, mut object: Value) {
        let mut objects = self.objects.lock().unwrap();
        let former = objects.get(path).map_or(0, version);
        object["metadata"]["resourceVersion"] = json!((former + 1).to_string());
        objects.insert(path.to_owned(), object);
    }

    /// Takes an object away.
    pub fn take(&self, path: &str) -> Option<Value> {
        self.objects.lock().unwrap().remove(path)
    }

    /// What was written since the last question, as method and path.
    pub fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.writes.lock().unwrap())
    }

    /// From now on nothing is answered.
    pub fn hang(&self) {
        self.hanging.store(true, Ordering::SeqCst);
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        if watch || self.hanging.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let (method, path) = (
            request.method().to_string(),
            request.uri().path().to_owned(),
        );
        let bytes = request.into_body().collect_bytes().await.unwrap();
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let kind = path.clone();
        let (code, answer) = self.act(&method, path, body);
        if code == 404 && kind.starts_with(UNKNOWN) {
            let body = Body::from(b"404 page not found\n".to_vec());
            return Response::builder().status(404).body(body).unwrap();
        }
        Response::builder()
            .status(code)
            .body(Body::from(serde_json::to_vec(&answer).unwrap()))
            .unwrap()
    }

    fn act(&self, method: &str, path: String, body: Value) -> (u16, Value) {
        if method != "GET" {
            let written = format!("{method} {path}");
            self.writes.lock().unwrap().push(written);
        }
        if let Some(path) = path.strip_suffix("/status") {
            return self.set_status(path, &body);
        }
        let known = self.objects.lock().unwrap().get(&path).cloned();
        match (method, known) {
            ("GET", Some(object)) => (200, object),
            ("GET", None) if LISTED.iter().any(|kind| path.ends_with(kind)) => {
                (200, self.list(&path))
            }
            ("GET", None) => failure(404, "NotFound"),
            ("POST", _) => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                let path = format!("{path}/{name}");
                if self.objects.lock().unwrap().contains_key(&path) {
                    return failure(409, "AlreadyExists");
                }
                self.make(&path, body);
                (201, self.object(&path))
            }
            ("DELETE", Some(object)) => {
                let wanted = &body["preconditions"]["uid"];
                if !wanted.is_null() && *wanted != object["metadata"]["uid"] {
                    return failure(409, "Conflict");
                }
                self.take(&path);
                (200, object)
            }
            ("DELETE", None) => failure(404, "NotFound"),
            ("PUT", Some(object)) => {
                if version(&object) != version(&body) {
                    return failure(409, "Conflict");
                }
                self.put(&path, body);
                (200, self.object(&path))
            }
            ("PATCH", Some(mut object)) => {
                if version(&object) != version(&body) {
                    return failure(409, "Conflict");
                }
                merge(&mut object, &body);
                self.put(&path, object);
                (200, self.object(&path))
            }
            _ => failure(405, "MethodNotAllowed"),
        }
    }

    /// Objects get a UID and the time of their making.
    fn make(&self, path: &str, mut object: Value) {
        let meta = &mut object["metadata"];
        if meta["uid"].is_null() {
            static MADE: AtomicU32 = AtomicU32::new(0);
            meta["uid"] = json!(format!("made-{}", MADE.fetch_add(1, Ordering::SeqCst)));
        }
        self.put(path, object);
    }

    /// A status, written as a whole or applied by its only owner.
    fn set_status(&self, path: &str, body: &Value) -> (u16, Value) {
        let Some(mut object) = self.objects.lock().unwrap().get(path).cloned() else {
            return failure(404, "NotFound");
        };
        let differs = |key: &str| {
            let wanted = &body["metadata"][key];
            !wanted.is_null() && *wanted != object["metadata"][key]
        };
        if differs("uid") || differs("resourceVersion") {
            return failure(409, "Conflict");
        }
        object["status"] = body["status"].clone();
        self.put(path, object);
        (200, self.object(path))
    }

    fn list(&self, path: &str) -> Value {
        let prefix = format!("{path}/");
        let objects = self.objects.lock().unwrap();
        let items: Vec<&Value> = objects
            .iter()
            .filter(|(path, _)| path.starts_with(&prefix))
            .map(|(_, object)| object)
            .collect();
        json!({"metadata": {"resourceVersion": "1"}, "items": items})
    }
}

/// A strategic merge: lists are maps by `name`.
fn merge(object: &mut Value, change: &Value) {
    match (object, change) {
        (Value::Object(object), Value::Object(change)) => {
            for (key, value) in change {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(list), Value::Array(change)) => {
            for value in change {
                match list.iter_mut().find(|known| known["name"] == value["name"]) {
                    Some(known) => merge(known, value),
                    None => list.push(value.clone()),
                }
            }
        }
        (object, change) => *object = change.clone(),
    }
}

fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    let answer = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "for people", "reason": reason, "code": code, "metadata": {}});
    (code, answer)
}
