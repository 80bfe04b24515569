//! An API server that says what the test says.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::api::Api;
use kube::client::Body;
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use serde::Serialize;
use serde_json::{Value, json};
use tower_test::mock;

use super::{Audience, Failure, Followed, Step, Waiting, carry_out};

/// One request that is expected, and its answer: several values are a watch.
pub(crate) struct Exchange {
    pub(crate) method: &'static str,
    pub(crate) watch: bool,
    pub(crate) code: u16,
    pub(crate) answer: Vec<Value>,
}

pub(crate) fn create(code: u16, answer: Value) -> Exchange {
    Exchange {
        method: "POST",
        watch: false,
        code,
        answer: vec![answer],
    }
}

pub(crate) fn get(code: u16, answer: Value) -> Exchange {
    Exchange {
        method: "GET",
        watch: false,
        code,
        answer: vec![answer],
    }
}

pub(crate) fn watch(answer: Vec<Value>) -> Exchange {
    Exchange {
        method: "GET",
        watch: true,
        code: 200,
        answer,
    }
}

pub(crate) fn event(kind: &str, object: Value) -> Value {
    json!({"type": kind, "object": object})
}

pub(crate) fn refusal(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": message, "code": code})
}

/// A status whose condition says why it is not complete.
pub(crate) fn status(phase: &str, reason: &str, message: &str) -> Value {
    json!({"phase": phase, "conditions": [{"type": "Complete", "status": "False",
        "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
}

/// What was told.
pub(crate) struct Heard<K: Followed> {
    pub(crate) created: Vec<String>,
    pub(crate) steps: Vec<Step<K::Figures>>,
    pub(crate) done: Vec<K::Done>,
}

impl<K: Followed> Default for Heard<K> {
    fn default() -> Self {
        Self {
            created: Vec::new(),
            steps: Vec::new(),
            done: Vec::new(),
        }
    }
}

impl<K: Followed<Done: Clone>> Audience<K> for Heard<K> {
    fn created(&mut self, namespace: Option<&str>, name: &str) {
        let namespace = namespace.unwrap_or_default();
        self.created.push(format!("{namespace}/{name}"));
    }

    fn step(&mut self, step: &Step<K::Figures>) {
        self.steps.push(step.clone());
    }

    fn done(&mut self, done: &K::Done) {
        self.done.push(done.clone());
    }
}

/// The exchanges that were not made, and the bodies of those that were.
pub(crate) type Made = Arc<Mutex<(VecDeque<Exchange>, Vec<Value>)>>;

/// A server for the resources of a kind in the namespace `team`.
pub(crate) fn server<K>(name: &'static str, script: Vec<Exchange>) -> (Api<K>, Made)
where
    K: Followed + Resource<Scope = NamespaceResourceScope>,
{
    let (client, made) = client(name, K::url_path(&(), Some("team")), script);
    (Api::namespaced(client, "team"), made)
}

/// A server for the resources below the path `all`, the one of which is called
/// `name`. Once the script is at its end, nothing is answered any more.
pub(crate) fn client(name: &'static str, all: String, script: Vec<Exchange>) -> (Client, Made) {
    let made: Made = Arc::new(Mutex::new((script.into(), Vec::new())));
    let (service, mut handle) = mock::pair::<Request<Body>, Response<Body>>();
    let server = Arc::clone(&made);
    tokio::spawn(async move {
        let mut unanswered = Vec::new();
        while let Some((request, send)) = handle.next_request().await {
            let next = server.lock().unwrap().0.pop_front();
            let Some(expected) = next else {
                unanswered.push(send);
                continue;
            };
            let (parts, body) = request.into_parts();
            let query = parts.uri.query().unwrap_or_default();
            assert_eq!(parts.method.as_str(), expected.method, "{}", parts.uri);
            assert_eq!(query.contains("watch=true"), expected.watch, "{query}");
            assert!(parts.uri.path().starts_with(&all), "{}", parts.uri);
            if expected.watch {
                let one = format!("metadata.name%3D{name}");
                assert!(query.contains(&one), "{query}");
            }
            let body = body.collect_bytes().await.unwrap();
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            server.lock().unwrap().1.push(body);
            let lines = expected.answer.iter().map(|value| format!("{value}\n"));
            let answer = Response::builder()
                .status(expected.code)
                .body(Body::from(lines.collect::<String>().into_bytes()))
                .unwrap();
            send.send_response(answer);
        }
    });
    (Client::new(service, "team"), made)
}

/// Waits for the end, without a limit.
pub(crate) const TO_THE_END: Waiting = Waiting {
    wait: true,
    timeout: None,
};

/// Makes a resource and follows it while the server plays the whole script.
pub(crate) async fn played<K>(
    name: &'static str,
    resource: K,
    script: Vec<Exchange>,
) -> (Result<(), Failure>, Heard<K>)
where
    K: Followed<Done: Clone> + Resource<Scope = NamespaceResourceScope> + Serialize,
{
    let (api, made) = server(name, script);
    let mut heard = Heard::default();
    let never = std::future::pending();
    let result = carry_out(&api, resource, &TO_THE_END, &mut heard, never).await;
    assert_eq!(made.lock().unwrap().0.len(), 0, "asked less than expected");
    (result, heard)
}

/// Exit code, reason and message of a failure.
pub(crate) fn failed<T: Debug>(result: Result<T, Failure>) -> (u8, String, String) {
    let failure = result.expect_err("a failure");
    let reason = failure.reason().to_owned();
    (failure.exit_code(), reason, failure.to_string())
}
