//! The reconcile's shell against a scripted API server and a simulated
//! agent: what is sent, and what is made of the answers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod access;
mod cleanup;
mod export;
mod fake;

use fake::{Agent, Script, context, image};
use hypercloud_coordinator::agents::{AgentError, Failure, JobState};
use hypercloud_coordinator::image::reconcile::reconcile;
use serde_json::{Value, json};

const IMAGE: &str =
    "/apis/hypercloud.tmaxanc.com/v1alpha1/namespaces/team/virtualmachineimages/disk";
const CLAIM: &str = "/api/v1/namespaces/team/persistentvolumeclaims/vmim-disk";
const CLAIMS: &str = "/api/v1/namespaces/team/persistentvolumeclaims";
const PODS: &str = "/api/v1/namespaces/team/pods";
const CLASS: &str = "/apis/storage.k8s.io/v1/storageclasses/fast";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/team/events";

fn status_path() -> String {
    format!("{IMAGE}/status")
}

/// The answers to one look at an image without claim and pods.
fn look(script: &mut Script, image: &Value) {
    script.on("GET", IMAGE, 200, image.clone());
    script.on("GET", CLAIM, 404, fake::failure(404, "NotFound"));
    script.on("GET", PODS, 200, json!({"metadata": {}, "items": []}));
    script.on(
        "GET",
        CLASS,
        200,
        json!({"metadata": {"name": "fast"}, "provisioner": "p"}),
    );
}

fn conditions(status: &Value) -> Vec<(String, String, String)> {
    let text = |condition: &Value, key: &str| condition[key].as_str().unwrap_or_default().into();
    status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|c| (text(c, "type"), text(c, "status"), text(c, "reason")))
        .collect()
}

#[tokio::test]
async fn an_image_that_is_gone_is_left_at_that() {
    let mut script = Script::default();
    script.on("GET", IMAGE, 404, fake::failure(404, "NotFound"));
    let (context, requests) = context(script, Agent::default());
    reconcile(&context, "team", "disk").await.unwrap();
    assert_eq!(requests.left(), 0);
}

#[tokio::test]
async fn a_source_that_makes_no_sense_is_said_in_status_and_event() {
    let mut image = image();
    image["spec"]["source"] = json!({"objectStore": {"objectName": "x"}});
    let mut script = Script::default();
    look(&mut script, &image);
    script.on("PATCH", &status_path(), 200, image.clone());
    script.on(
        "POST",
        EVENTS,
        201,
        json!({"metadata": {}, "eventTime": null}),
    );
    image["status"] = json!({"phase": "Failed"});
    look(&mut script, &image);
    let (context, requests) = context(script, Agent::default());
    reconcile(&context, "team", "disk").await.unwrap();
    assert_eq!(requests.left(), 0);
    let status = requests.body("PATCH", &status_path());
    assert_eq!(status["metadata"]["resourceVersion"], "7");
    assert_eq!(status["status"]["phase"], "Failed");
    let ready = ("Ready".into(), "False".into(), "SourceInvalid".into());
    assert!(conditions(&status["status"]).contains(&ready), "{status}");
    let event = requests.body("POST", EVENTS);
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&json!("Warning"), &json!("ImportFailed"))
    );
}

#[tokio::test]
async fn facts_go_to_the_status_and_then_the_claim_is_made() {
    let mut image = image();
    image["status"] = json!({"phase": "Pending"});
    let mut script = Script::default();
    look(&mut script, &image);
    script.on("PATCH", &status_path(), 200, image.clone());
    script.on(
        "POST",
        EVENTS,
        201,
        json!({"metadata": {}, "eventTime": null}),
    );
    image["status"] = fake::probed();
    look(&mut script, &image);
    // Such as a webhook that does not answer.
    script.on("POST", CLAIMS, 500, fake::failure(500, "InternalError"));
    script.on("PATCH", &status_path(), 200, image.clone());
    script.on(
        "POST",
        EVENTS,
        201,
        json!({"metadata": {}, "eventTime": null}),
    );
    let (context, requests) = context(script, Agent::default());
    // A refusal is not run into again at once.
    reconcile(&context, "team", "disk").await.unwrap();
    assert_eq!(requests.left(), 0);
    let statuses = requests.bodies("PATCH", &status_path());
    assert_eq!(statuses[0]["status"]["source"]["virtualSize"], 1 << 30);
    assert_eq!(statuses[0]["status"]["size"], "1Gi");
    // A refusal is the user's to read of, and no error.
    let refused = ("Ready".into(), "False".into(), "ClaimRefused".into());
    assert!(
        conditions(&statuses[1]["status"]).contains(&refused),
        "{}",
        statuses[1]
    );
    let claim = requests.body("POST", CLAIMS);
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "1024Mi");
    assert_eq!(claim["spec"]["volumeMode"], "Block");
    assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], "uid");
}

#[tokio::test]
async fn a_status_of_someone_else_is_never_overwritten() {
    let mut image = image();
    image["status"] = fake::probed();
    let mut script = Script::default();
    look(&mut script, &image);
    script.on("POST", CLAIMS, 409, fake::failure(409, "AlreadyExists"));
    script.on("PATCH", &status_path(), 409, fake::failure(409, "Conflict"));
    let (context, requests) = context(script, Agent::default());
    let error = reconcile(&context, "team", "disk").await.unwrap_err();
    assert!(error.is_conflict() && error.is_retryable(), "{error:?}");
    assert_eq!((error.reason(), requests.left()), ("Conflict", 0));
}

#[tokio::test]
async fn a_pod_that_takes_the_holders_name_is_told_of_and_left_alone() {
    let mut image = image();
    image["status"] = fake::probed();
    let claim = json!({"metadata": {"name": "vmim-disk", "uid": "claim", "ownerReferences": [
        {"apiVersion": "v1", "kind": "X", "name": "disk", "uid": "uid", "controller": true}]},
        "spec": {"resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Pending"}});
    // It has the labels and the name, and another owner.
    let pod = json!({"metadata": {"name": "vmim-disk-holder-0", "uid": "pod"}});
    let mut script = Script::default();
    script.on("GET", IMAGE, 200, image.clone());
    script.on("GET", CLAIM, 200, claim);
    script.on("GET", PODS, 200, json!({"metadata": {}, "items": [pod]}));
    script.on("POST", PODS, 409, fake::failure(409, "AlreadyExists"));
    script.on("PATCH", &status_path(), 200, image.clone());
    for _ in 0..2 {
        script.on(
            "POST",
            EVENTS,
            201,
            json!({"metadata": {}, "eventTime": null}),
        );
    }
    let (context, requests) = context(script, Agent::default());
    reconcile(&context, "team", "disk").await.unwrap();
    assert_eq!(requests.left(), 0);
    let status = requests.body("PATCH", &status_path());
    let told = ("Ready".into(), "False".into(), "HolderConflict".into());
    assert!(conditions(&status["status"]).contains(&told), "{status}");
}

#[tokio::test]
async fn a_finalizer_names_the_version_it_goes_by() {
    let mut image = image();
    image["metadata"]["finalizers"] = json!(["other"]);
    let mut script = Script::default();
    look(&mut script, &image);
    script.on("PATCH", IMAGE, 409, fake::failure(409, "Conflict"));
    let (context, requests) = context(script, Agent::default());
    let error = reconcile(&context, "team", "disk").await.unwrap_err();
    assert!(error.is_conflict());
    let patch = requests.body("PATCH", IMAGE);
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    let both = json!(["other", "hypercloud.tmaxanc.com/cleanup"]);
    assert_eq!(patch["metadata"]["finalizers"], both);
}

#[tokio::test]
async fn a_deletion_names_the_object_it_means() {
    let mut image = image();
    image["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let claim = json!({"metadata": {"name": "vmim-disk", "uid": "claim", "ownerReferences": [
        {"apiVersion": "v1", "kind": "X", "name": "disk", "uid": "uid", "controller": true}]}});
    let mut script = Script::default();
    script.on("GET", IMAGE, 200, image.clone());
    script.on("GET", CLAIM, 200, claim);
    script.on("GET", PODS, 200, json!({"metadata": {}, "items": []}));
    script.on("GET", CLAIMS, 200, json!({"metadata": {}, "items": []}));
    // It became another claim meanwhile: as good as gone.
    script.on("DELETE", CLAIM, 409, fake::failure(409, "Conflict"));
    script.on("PATCH", &status_path(), 404, fake::failure(404, "NotFound"));
    script.on("GET", IMAGE, 404, fake::failure(404, "NotFound"));
    let (context, requests) = context(script, Agent::default());
    reconcile(&context, "team", "disk").await.unwrap();
    assert_eq!(requests.left(), 0);
    assert_eq!(
        requests.body("DELETE", CLAIM)["preconditions"]["uid"],
        "claim"
    );
}

#[tokio::test]
async fn a_deletion_waits_for_the_claims_that_are_cloned() {
    let mut image = image();
    image["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    image["status"] = json!({"phase": "Ready"});
    let owner = json!([{"apiVersion": "v1", "kind": "X", "name": "disk", "uid": "uid", "controller": true}]);
    let claim =
        json!({"metadata": {"name": "vmim-disk", "uid": "claim", "ownerReferences": owner}});
    let clone =
        |name: &str, phase: &str| json!({"metadata": {"name": name}, "status": {"phase": phase}});
    let clones = json!({"metadata": {}, "items":
        [clone("late", "Pending"), clone("done", "Bound"), clone("early", "Pending")]});
    let mut script = Script::default();
    script.on("GET", IMAGE, 200, image.clone());
    script.on("GET", CLAIM, 200, claim);
    script.on("GET", PODS, 200, json!({"metadata": {}, "items": []}));
    script.on("GET", CLAIMS, 200, clones);
    script.on("PATCH", &status_path(), 200, image);
    let told = json!({"metadata": {}, "eventTime": null});
    script.on("POST", EVENTS, 201, told.clone());
    script.on("POST", EVENTS, 201, told);
    let (context, requests) = context(script, Agent::default());
    reconcile(&context, "team", "disk").await.unwrap();
    assert_eq!(requests.left(), 0);
    let status = &requests.body("PATCH", &status_path())["status"];
    let waits = ("Ready".into(), "False".into(), "CloningUnderWay".into());
    assert!(conditions(status).contains(&waits), "{status}");
    let message = status["conditions"][0]["message"].as_str().unwrap();
    assert!(message.contains(": early, late;"), "{message}");
}

#[tokio::test]
async fn a_server_that_fails_is_a_retryable_error() {
    let mut script = Script::default();
    script.on("GET", IMAGE, 500, fake::failure(500, "InternalError"));
    let (context, _) = context(script, Agent::default());
    let error = reconcile(&context, "team", "disk").await.unwrap_err();
    assert_eq!(
        (error.reason(), error.is_retryable()),
        ("ObserveFailed", true)
    );
}

#[tokio::test]
async fn an_unchanged_job_writes_nothing() {
    let mut image = image();
    image["status"] = fake::transferring();
    let holder = json!({"metadata": {"name": "vmim-disk-holder-0", "uid": "pod", "ownerReferences": [
        {"apiVersion": "v1", "kind": "X", "name": "disk", "uid": "uid", "controller": true}]},
        "spec": {"nodeName": "n1", "containers": []},
        "status": {"phase": "Running", "containerStatuses": [
            {"name": "hold", "ready": true, "image": "", "imageID": "", "restartCount": 0}]}});
    let claim = json!({"metadata": {"name": "vmim-disk", "uid": "claim", "ownerReferences": [
        {"apiVersion": "v1", "kind": "X", "name": "disk", "uid": "uid", "controller": true}]},
        "spec": {"volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound"}});
    let round = |script: &mut Script, image: &Value| {
        script.on("GET", IMAGE, 200, image.clone());
        script.on("GET", CLAIM, 200, claim.clone());
        script.on("GET", PODS, 200, json!({"metadata": {}, "items": [holder]}));
    };
    let mut script = Script::default();
    round(&mut script, &image);
    script.on("PATCH", &status_path(), 200, image.clone());
    let agent = Agent::with_job("uid-0", JobState::Transferring, 42);
    let (context, requests) = context(script, agent);
    reconcile(&context, "team", "disk").await.unwrap();
    let status = requests.body("PATCH", &status_path());
    assert_eq!(status["status"]["progress"], "42%");

    image["status"] = status["status"].clone();
    let mut script = Script::default();
    round(&mut script, &image);
    let agent = Agent::with_job("uid-0", JobState::Transferring, 42);
    let (context, requests) = fake::context(script, agent);
    reconcile(&context, "team", "disk").await.unwrap();
    assert_eq!(requests.left(), 0);
}

#[tokio::test]
async fn a_probe_that_may_work_later_is_a_failed_try() {
    let mut image = image();
    image["status"] = json!({"phase": "Pending"});
    let mut script = Script::default();
    look(&mut script, &image);
    script.on("PATCH", &status_path(), 200, image.clone());
    script.on(
        "POST",
        EVENTS,
        201,
        json!({"metadata": {}, "eventTime": null}),
    );
    image["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    image["metadata"]["finalizers"] = json!([]);
    look(&mut script, &image);
    let failure = Failure {
        reason: "Unavailable".into(),
        message: "503".into(),
        retryable: true,
    };
    let agent = Agent {
        probe: Err(failure),
        ..Agent::default()
    };
    let (context, requests) = context(script, agent);
    reconcile(&context, "team", "disk").await.unwrap();
    let status = requests.body("PATCH", &status_path());
    assert_eq!(status["status"]["retry"]["failures"], 1);
    assert_eq!(status["status"]["attempt"], 1);
    let event = requests.body("POST", EVENTS);
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&json!("Warning"), &json!("Retrying"))
    );
}

#[tokio::test]
async fn an_agent_that_cannot_probe_is_a_failed_try() {
    let mut image = image();
    image["status"] = json!({"phase": "Pending"});
    let mut script = Script::default();
    look(&mut script, &image);
    script.on("PATCH", &status_path(), 200, image.clone());
    script.on(
        "POST",
        EVENTS,
        201,
        json!({"metadata": {}, "eventTime": null}),
    );
    script.on("GET", IMAGE, 404, fake::failure(404, "NotFound"));
    let refused = AgentError::Refused {
        node: "n1".into(),
        call: "ProbeSource",
        message: "no such call".into(),
    };
    let agent = Agent {
        trouble: Some(refused),
        ..Agent::default()
    };
    let (context, requests) = context(script, agent);
    reconcile(&context, "team", "disk").await.unwrap();
    let status = requests.body("PATCH", &status_path());
    assert_eq!(status["status"]["retry"]["failures"], 1);
    assert_eq!(status["status"]["retry"]["lastReason"], "AgentRefused");
    assert_eq!(requests.left(), 0);
}

#[tokio::test]
async fn a_job_that_cannot_be_cancelled_keeps_no_claim() {
    let mut image = image();
    image["status"] = json!({"phase": "Failed"});
    let claim = json!({"metadata": {"name": "vmim-disk", "uid": "claim", "ownerReferences": [
        {"apiVersion": "v1", "kind": "X", "name": "disk", "uid": "uid", "controller": true}]}});
    let mut script = Script::default();
    script.on("GET", IMAGE, 200, image.clone());
    script.on("GET", CLAIM, 200, claim.clone());
    script.on("GET", PODS, 200, json!({"metadata": {}, "items": []}));
    script.on("DELETE", CLAIM, 200, claim);
    let agent = Agent {
        trouble: Some(AgentError::Late {
            node: "n1".into(),
            call: "CancelJob",
        }),
        ..Agent::with_job("uid-0", JobState::Transferring, 42)
    };
    let (context, requests) = context(script, agent);
    let error = reconcile(&context, "team", "disk").await.unwrap_err();
    assert_eq!((error.reason(), requests.left()), ("AgentLate", 0));
}
