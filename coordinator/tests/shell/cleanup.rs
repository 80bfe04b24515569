//! Cleanups: what is written before and after an agent is asked, and where it
//! is told.

use std::sync::Arc;

use hypercloud_coordinator::agents::Failure;
use hypercloud_coordinator::agents::devices::{Cleaned, DeviceLink, DevicesSeen, Told};
use hypercloud_coordinator::cleanup::reconcile::{Context, reconcile};
use hypercloud_inventory::Inventory;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::fake::{self, Agent, Requests, Script};

const CLEANUP: &str = "/apis/hypercloud.tmaxanc.com/v1alpha1/nodedevicecleanups/it";
const CLEANUPS: &str = "/apis/hypercloud.tmaxanc.com/v1alpha1/nodedevicecleanups";
const STATUS: &str = "/apis/hypercloud.tmaxanc.com/v1alpha1/nodedevicecleanups/it/status";
const NODE: &str = "/api/v1/nodes/n1";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn cleanup(version: u32, status: Value) -> Value {
    json!({
        "apiVersion": "hypercloud.tmaxanc.com/v1alpha1", "kind": "NodeDeviceCleanup",
        "metadata": {"name": "it", "uid": "uid", "generation": 1,
            "resourceVersion": version.to_string(),
            "creationTimestamp": Timestamp::now().to_string()},
        "spec": {"nodeName": "n1", "device": "/dev/sdb",
            "confirmation": "yes-really-destroy-data"},
        "status": status
    })
}

fn look(script: &mut Script, cleanup: &Value) {
    script.on("GET", CLEANUP, 200, cleanup.clone());
    let node = json!({"metadata": {"name": "n1", "uid": "node"}});
    script.on("GET", NODE, 200, node);
    let list = json!({"metadata": {}, "items": [cleanup]});
    script.on("GET", CLEANUPS, 200, list);
}

/// A status and its Events, on the cleanup and on the node.
fn told(script: &mut Script, version: u32) {
    script.on("PATCH", STATUS, 200, cleanup(version, json!({})));
    for _ in 0..2 {
        let event = json!({"metadata": {}, "eventTime": null});
        script.on("POST", EVENTS, 201, event);
    }
}

/// A node with one disk, which carries an old file system.
fn agent() -> Agent {
    let now = Timestamp::now();
    let devices = json!([{"name": "sdb", "path": "/dev/sdb", "kind": "disk", "available": false,
        "reasons": [{"reason": "FileSystem", "message": "a file system (ext4)"}],
        "identity": {"serial": "S1", "diskSequence": 9}, "size": 4096}]);
    let told = Told {
        revision: 1,
        inventory: Inventory {
            hostname: None,
            boot_id: Some("boot".into()),
            devices: serde_json::from_value(devices).unwrap(),
        },
    };
    Agent {
        devices: DevicesSeen {
            link: DeviceLink::Following { since: now },
            told: Some((Arc::new(told), now)),
        },
        cleaned: Ok(Cleaned {
            removed: vec!["ext4 at byte 1080".into()],
            discarded: true,
        }),
        ..Agent::default()
    }
}

fn context(script: Script, agent: Agent) -> (Context, Requests) {
    let (context, requests) = fake::context(script, agent);
    let shell = context.shell;
    let stop = CancellationToken::new();
    (Context { shell, stop }, requests)
}

fn chosen() -> Value {
    json!({"phase": "Cleaning", "device": {"path": "/dev/sdb", "serial": "S1", "size": 4096,
        "bootId": "boot", "diskSequence": 9}})
}

#[tokio::test]
async fn the_device_is_written_down_before_the_agent_is_asked() {
    let mut script = Script::default();
    look(&mut script, &cleanup(1, Value::Null));
    // Somebody else wrote meanwhile: nothing was done.
    script.on("PATCH", STATUS, 409, fake::failure(409, "Conflict"));
    let agent = agent();
    let cleanings = Arc::clone(&agent.cleanings);
    let (context, requests) = context(script, agent);
    let error = reconcile(&context, "it").await.unwrap_err();
    assert!(error.is_conflict());
    assert_eq!(requests.left(), 0);
    assert!(cleanings.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_answer_is_kept_whoever_else_writes() {
    let mut script = Script::default();
    look(&mut script, &cleanup(1, Value::Null));
    told(&mut script, 2);
    look(&mut script, &cleanup(2, chosen()));
    script.on("PATCH", STATUS, 409, fake::failure(409, "Conflict"));
    script.on("GET", CLEANUP, 200, cleanup(3, chosen()));
    told(&mut script, 4);
    let agent = agent();
    let cleanings = Arc::clone(&agent.cleanings);
    let (context, requests) = context(script, agent);
    reconcile(&context, "it").await.unwrap();
    assert_eq!(requests.left(), 0);

    let statuses = requests.bodies("PATCH", STATUS);
    assert_eq!(statuses[0]["status"]["device"], chosen()["device"]);
    assert_eq!(statuses[0]["status"]["phase"], "Cleaning");
    assert_eq!(statuses[2]["metadata"]["resourceVersion"], "3");
    assert_eq!(statuses[2]["status"]["phase"], "Succeeded");
    assert_eq!(
        statuses[2]["status"]["removed"],
        json!(["ext4 at byte 1080"])
    );
    let cleanings = cleanings.lock().unwrap();
    assert_eq!(cleanings.len(), 1, "asked once");
    assert_eq!(cleanings[0].reference, "NodeDeviceCleanup it (uid)");
    assert_eq!(cleanings[0].device.disk_sequence, Some(9));

    let events = requests.bodies("POST", EVENTS);
    let about = |event: &Value| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&event["reason"]), text(&event["regarding"]["kind"]))
    };
    let expected = [
        ("Cleaning", "NodeDeviceCleanup"),
        ("Cleaning", "Node"),
        ("Cleaned", "NodeDeviceCleanup"),
        ("Cleaned", "Node"),
    ];
    let expected = expected.map(|(reason, kind)| (reason.to_owned(), kind.to_owned()));
    assert_eq!(events.iter().map(about).collect::<Vec<_>>(), expected);
    let note = events[3]["note"].as_str().unwrap();
    assert!(note.starts_with("NodeDeviceCleanup it: /dev/sdb of node n1 is cleaned"));
}

#[tokio::test]
async fn the_end_that_another_coordinator_wrote_stands() {
    let mut script = Script::default();
    look(&mut script, &cleanup(2, chosen()));
    script.on("PATCH", STATUS, 409, fake::failure(409, "Conflict"));
    let mut over = chosen();
    over["phase"] = json!("Succeeded");
    script.on("GET", CLEANUP, 200, cleanup(3, over.clone()));
    // What is over is not looked at any further.
    script.on("GET", CLEANUP, 200, cleanup(3, over));
    let mut agent = agent();
    agent.cleaned = Err(Failure {
        reason: "CleaningInterrupted".into(),
        message: "the agent ends".into(),
        retryable: true,
    });
    let (context, requests) = context(script, agent);
    reconcile(&context, "it").await.unwrap();
    assert_eq!(requests.left(), 0);
}

#[tokio::test]
async fn what_the_agent_refuses_is_refused() {
    let mut script = Script::default();
    look(&mut script, &cleanup(2, chosen()));
    told(&mut script, 3);
    let mut agent = agent();
    agent.cleaned = Err(Failure {
        reason: "Held".into(),
        message: "dm-0 is made of it".into(),
        retryable: false,
    });
    let (context, requests) = context(script, agent);
    reconcile(&context, "it").await.unwrap();
    assert_eq!(requests.left(), 0);
    let status = &requests.body("PATCH", STATUS)["status"];
    assert_eq!(
        (&status["phase"], &status["conditions"][0]["reason"]),
        (&json!("Failed"), &json!("Held"))
    );
    let event = requests.body("POST", EVENTS);
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&json!("Warning"), &json!("CleaningRefused"))
    );
}

#[tokio::test]
async fn a_coordinator_that_stops_waits_for_nobody() {
    let mut script = Script::default();
    look(&mut script, &cleanup(2, chosen()));
    let (context, requests) = context(script, agent());
    context.stop.cancel();
    reconcile(&context, "it").await.unwrap();
    assert_eq!(requests.left(), 0);
}
