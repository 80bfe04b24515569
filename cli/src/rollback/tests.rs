//! Whole rollbacks against an API server that says what the test says.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower_test::mock;

use super::course::Step;
use super::*;

const ALL: &str =
    "/apis/hypercloud.tmaxanc.com/v1alpha1/namespaces/team/virtualmachinevolumerollbacks";

/// A rollback of `disk` as the API server has it.
pub(super) fn rollback(version: &str, status: Value) -> VirtualMachineVolumeRollback {
    serde_json::from_value(object(version, status)).unwrap()
}

fn object(version: &str, status: Value) -> Value {
    json!({"apiVersion": "hypercloud.tmaxanc.com/v1alpha1",
        "kind": "VirtualMachineVolumeRollback",
        "metadata": {"name": "disk-x7k2p", "namespace": "team", "uid": "u1",
            "resourceVersion": version},
        "spec": {"pvcName": "disk", "volumeSnapshotName": "before"},
        "status": status})
}

fn status(phase: &str, reason: &str, message: &str) -> Value {
    json!({"phase": phase, "conditions": [{"type": "Complete", "status": "False",
        "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
}

fn event(kind: &str, object: Value) -> Value {
    json!({"type": kind, "object": object})
}

/// One request that is expected, and its answer: several values are a watch.
struct Exchange {
    method: &'static str,
    watch: bool,
    code: u16,
    answer: Vec<Value>,
}

fn create(code: u16, answer: Value) -> Exchange {
    Exchange {
        method: "POST",
        watch: false,
        code,
        answer: vec![answer],
    }
}

fn get(code: u16, answer: Value) -> Exchange {
    Exchange {
        method: "GET",
        watch: false,
        code,
        answer: vec![answer],
    }
}

fn watch(answer: Vec<Value>) -> Exchange {
    Exchange {
        method: "GET",
        watch: true,
        code: 200,
        answer,
    }
}

fn refusal(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": message, "code": code})
}

/// What was told, and what was asked with.
#[derive(Default)]
struct Heard {
    created: Vec<String>,
    steps: Vec<Step>,
    done: Vec<Done>,
}

impl Audience for Heard {
    fn created(&mut self, namespace: &str, name: &str) {
        self.created.push(format!("{namespace}/{name}"));
    }

    fn step(&mut self, step: &Step) {
        self.steps.push(step.clone());
    }

    fn done(&mut self, done: &Done) {
        self.done.push(done.clone());
    }
}

/// The exchanges that were not made, and the bodies of those that were.
type Made = Arc<Mutex<(VecDeque<Exchange>, Vec<Value>)>>;

/// Once the script is at its end, nothing is answered any more.
fn server(script: Vec<Exchange>) -> (Api<VirtualMachineVolumeRollback>, Made) {
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
            assert!(parts.uri.path().starts_with(ALL), "{}", parts.uri);
            if expected.watch {
                assert!(query.contains("metadata.name%3Ddisk-x7k2p"), "{query}");
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
    (Api::namespaced(Client::new(service, "team"), "team"), made)
}

fn order(wait: bool, timeout: Option<Duration>) -> Order {
    Order {
        disk: "disk".into(),
        snapshot: "before".into(),
        wait,
        timeout,
    }
}

async fn played(script: Vec<Exchange>) -> (Result<(), Failure>, Heard) {
    let (api, made) = server(script);
    let mut heard = Heard::default();
    let never = std::future::pending();
    let result = carry_out(&api, order(true, None), &mut heard, never).await;
    assert_eq!(made.lock().unwrap().0.len(), 0, "asked less than expected");
    (result, heard)
}

fn failed(result: Result<(), Failure>) -> (u8, String, String) {
    let failure = result.expect_err("a failure");
    let reason = failure.reason().to_owned();
    (failure.exit_code(), reason, failure.to_string())
}

#[tokio::test]
async fn a_rollback_is_made_and_followed_to_its_end() {
    let working = json!({"phase": "RollingBack", "progress": "42%", "copy": {"jobId": "u1-0",
        "nodeName": "n1", "bytesTotal": 1000, "bytesDone": 420, "bytesWritten": 7}});
    let mut done = status("Succeeded", "RolledBack", "9 bytes written");
    done["copy"] = json!({"jobId": "u1-0", "nodeName": "n1", "bytesDone": 1000, "bytesWritten": 9});
    let (api, made) = server(vec![
        create(201, object("1", json!({}))),
        watch(vec![
            event(
                "MODIFIED",
                object("2", status("Preparing", "Restoring", "soon")),
            ),
            event("MODIFIED", object("3", working)),
            event("MODIFIED", object("4", done)),
        ]),
    ]);
    let mut heard = Heard::default();
    let never = std::future::pending();
    let result = carry_out(&api, order(true, None), &mut heard, never).await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(heard.created, ["team/disk-x7k2p"]);
    let phases: Vec<_> = heard.steps.iter().map(|step| step.phase).collect();
    assert_eq!(phases, ["Pending", "Preparing", "RollingBack"]);
    assert_eq!(heard.steps[2].percent, Some(42));
    assert_eq!(heard.done[0].bytes_written, 9);
    let asked = made.lock().unwrap().1[0].clone();
    assert_eq!(asked["metadata"]["generateName"], "disk-");
    assert!(asked["metadata"].get("name").is_none(), "{asked}");
    let spec = json!({"pvcName": "disk", "volumeSnapshotName": "before"});
    assert_eq!(asked["spec"], spec);
}

#[tokio::test]
async fn a_disk_in_use_is_a_refusal_that_says_by_whom() {
    let in_use = |phase| {
        status(
            phase,
            "VolumeInUse",
            "the pod virt-launcher-vm uses the disk",
        )
    };
    let (result, heard) = played(vec![
        create(201, object("1", json!({}))),
        watch(vec![
            event("MODIFIED", object("2", in_use("Pending"))),
            event("MODIFIED", object("3", in_use("Failed"))),
        ]),
    ])
    .await;
    assert_eq!(heard.steps[1].said.reason, "VolumeInUse");
    let (code, reason, message) = failed(result);
    assert_eq!((code, reason.as_str()), (3, "VolumeInUse"));
    assert_eq!(message, "the pod virt-launcher-vm uses the disk");
    assert!(heard.done.is_empty());
}

#[tokio::test]
async fn a_rollback_that_failed_is_no_refusal() {
    let (result, _) = played(vec![
        create(201, object("1", json!({}))),
        watch(vec![event(
            "MODIFIED",
            object("2", status("Failed", "RetriesExhausted", "given up")),
        )]),
    ])
    .await;
    let expected = (4, "RetriesExhausted".to_owned(), "given up".to_owned());
    assert_eq!(failed(result), expected);
}

#[tokio::test]
async fn what_the_server_does_not_take_is_said_in_its_words() {
    let quota = "exceeded quota: rollbacks";
    let table = [
        (403, "Forbidden", quota, 3, "NotTaken", quota),
        (
            422,
            "Invalid",
            "spec.pvcName: too long",
            3,
            "NotTaken",
            "too long",
        ),
        (
            404,
            "NotFound",
            "namespaces \"team\" not found",
            3,
            "NotTaken",
            "\"team\" not found",
        ),
        (
            404,
            "NotFound",
            "the server could not find the requested resource",
            3,
            "NotInstalled",
            "install HyperCloud Storage",
        ),
        (
            500,
            "InternalError",
            "etcd is away",
            4,
            "ClusterUnreachable",
            "etcd is away",
        ),
    ];
    for (code, kind, said, exit, reason, told) in table {
        let (result, heard) = played(vec![create(code, refusal(code, kind, said))]).await;
        let (found, word, message) = failed(result);
        assert_eq!((found, word.as_str()), (exit, reason), "{message}");
        assert!(message.contains(told), "{message}");
        assert!(heard.created.is_empty());
    }
}

#[tokio::test]
async fn one_that_vanishes_is_told_of() {
    let deleted = watch(vec![event(
        "DELETED",
        object("3", json!({"phase": "Deleting"})),
    )]);
    let mut successor = object("9", json!({}));
    successor["metadata"]["uid"] = json!("u2");
    let seen = || watch(vec![event("MODIFIED", object("2", json!({})))]);
    for rest in [
        vec![deleted],
        vec![seen(), get(404, refusal(404, "NotFound", "gone"))],
        vec![seen(), get(200, successor)],
    ] {
        let mut script = vec![create(201, object("1", json!({})))];
        script.extend(rest);
        let (result, _) = played(script).await;
        let (code, reason, message) = failed(result);
        assert_eq!((code, reason.as_str()), (4, "Vanished"));
        assert!(message.contains("disk-x7k2p"), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_for_a_while_ends_nothing() {
    let away = || get(503, refusal(503, "ServiceUnavailable", "later"));
    let expired = event("ERROR", refusal(410, "Expired", "too old resource version"));
    let (result, heard) = played(vec![
        create(201, object("1", json!({}))),
        watch(vec![expired]),
        away(),
        away(),
        get(200, object("5", status("Preparing", "Restoring", "soon"))),
        watch(vec![event(
            "MODIFIED",
            object("6", json!({"phase": "Succeeded"})),
        )]),
    ])
    .await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(heard.steps.len(), 2);

    // One that stays away is given up, and so is one that does not allow it.
    let mut script = vec![create(201, object("1", json!({}))), watch(vec![])];
    script.extend((0..9).map(|_| away()));
    let (code, reason, message) = failed(played(script).await.0);
    assert_eq!((code, reason.as_str()), (4, "Unseen"));
    assert!(message.contains("it goes on in the cluster"), "{message}");
    let forbidden = Exchange {
        code: 403,
        ..watch(vec![refusal(403, "Forbidden", "no watch for you")])
    };
    let script = vec![create(201, object("1", json!({}))), forbidden];
    let (code, reason, message) = failed(played(script).await.0);
    assert_eq!((code, reason.as_str()), (4, "Unseen"));
    assert!(message.contains("no watch for you"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn who_stops_waiting_is_told_that_it_goes_on() {
    let script = || vec![create(201, object("1", json!({})))];
    let (api, _) = server(script());
    let mut heard = Heard::default();
    let minute = Some(Duration::from_secs(60));
    let never = std::future::pending();
    let result = carry_out(&api, order(true, minute), &mut heard, never).await;
    let (code, reason, message) = failed(result);
    assert_eq!((code, reason.as_str()), (4, "Timeout"));
    assert!(message.contains("not done within 60s; it goes on in the cluster"));

    let (api, _) = server(script());
    let soon = tokio::time::sleep(Duration::from_secs(5));
    let result = carry_out(&api, order(true, minute), &mut heard, soon).await;
    let (code, reason, message) = failed(result);
    assert_eq!((code, reason.as_str()), (1, "Stopped"));
    let command = "kubectl get --namespace team virtualmachinevolumerollback disk-x7k2p --watch";
    assert!(message.contains(command), "{message}");

    let (api, made) = server(script());
    let never = std::future::pending();
    let result = carry_out(&api, order(false, None), &mut heard, never).await;
    assert!(result.is_ok() && made.lock().unwrap().0.is_empty());
}

#[test]
fn durations_and_names_are_read_as_kubectl_reads_them() {
    for (text, seconds) in [("90s", 90), ("5m", 300), ("1h30m", 5400), ("1000ms", 1)] {
        assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
    }
    for text in [
        "",
        "5",
        "m",
        "0s",
        "-5m",
        "5 m",
        "1.5h",
        "5x",
        "99999999999s",
    ] {
        assert!(duration(text).is_err(), "{text}");
    }
    assert_eq!(object_name("vm-root.disk1").as_deref(), Ok("vm-root.disk1"));
    for text in ["", "pvc/disk", "Disk", "-disk", "disk.", "a b"] {
        assert!(object_name(text).is_err(), "{text}");
    }
}

#[test]
fn a_generated_name_is_of_the_disks() {
    let generated = |disk: &str| resource(disk.into(), "s".into()).metadata.generate_name;
    assert_eq!(generated("disk").as_deref(), Some("disk-"));
    let long = "a.".repeat(120) + "a";
    let name = generated(&long).unwrap();
    assert!(name.len() < 210 && name.ends_with("a-"), "{name}");
}
