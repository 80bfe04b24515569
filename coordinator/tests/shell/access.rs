//! Sources that ask to be let in: what is read, what the agent is asked with,
//! and what people read of when something is missing.

use super::*;
use fake::{probed, transferring};
use hypercloud_coordinator::access::SystemClaim;
use hypercloud_coordinator::agents::source::{Place, Signing, Source};
use secrecy::ExposeSecret;

const SECRET: &str = "/api/v1/namespaces/team/secrets/login";

fn guarded() -> Value {
    let mut image = image();
    image["spec"]["source"]["secretRef"] = json!({"name": "login"});
    image["status"] = json!({"phase": "Pending"});
    image
}

fn login(version: &str, password: &str) -> Value {
    // In base64: reader.
    json!({"metadata": {"name": "login", "resourceVersion": version},
        "data": {"username": "cmVhZGVy", "password": password}})
}

fn event(script: &mut Script) {
    let answer = json!({"metadata": {}, "eventTime": null});
    script.on("POST", EVENTS, 201, answer);
}

#[tokio::test]
async fn the_secret_is_read_for_the_call_and_stands_nowhere() {
    let mut image = guarded();
    let mut script = Script::default();
    look(&mut script, &image);
    // In base64: s3cret.
    script.on("GET", SECRET, 200, login("5", "czNjcmV0"));
    script.on("PATCH", &status_path(), 200, image.clone());
    event(&mut script);
    image["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    image["metadata"]["finalizers"] = json!([]);
    look(&mut script, &image);
    let agent = Agent::default();
    let asked = agent.asked.clone();
    let (context, requests) = context(script, agent);
    reconcile(&context, "team", "disk").await.unwrap();
    assert_eq!(requests.left(), 0);
    let Place::Http {
        basic: Some(basic), ..
    } = &asked.lock().unwrap()[0].place
    else {
        panic!("no credentials");
    };
    assert_eq!(basic.username.expose_secret(), "reader");
    assert_eq!(basic.password.expose_secret(), "s3cret");
    let written = requests.body("PATCH", &status_path()).to_string();
    assert!(!written.contains("s3cret") && !written.contains("czNjcmV0"));
}

#[tokio::test]
async fn a_secret_that_is_missing_is_waited_for_and_told_once() {
    let mut image = guarded();
    let mut script = Script::default();
    look(&mut script, &image);
    script.on("GET", SECRET, 404, fake::failure(404, "NotFound"));
    script.on("PATCH", &status_path(), 200, image.clone());
    event(&mut script);
    let agent = Agent::default();
    let asked = agent.asked.clone();
    let (context, requests) = context(script, agent);
    let again = reconcile(&context, "team", "disk").await.unwrap();
    assert_eq!(requests.left(), 0);
    assert!(asked.lock().unwrap().is_empty(), "nothing is tried without");
    assert_ne!(again, kube::runtime::controller::Action::await_change());
    let status = requests.body("PATCH", &status_path());
    let waits = ("Ready".into(), "False".into(), "SecretNotFound".into());
    assert!(conditions(&status["status"]).contains(&waits), "{status}");
    assert_eq!(requests.body("POST", EVENTS)["reason"], "SecretNotFound");

    // The next look finds nothing new and says nothing.
    image["status"] = status["status"].clone();
    let mut script = Script::default();
    look(&mut script, &image);
    script.on("GET", SECRET, 404, fake::failure(404, "NotFound"));
    let (context, requests) = fake::context(script, Agent::default());
    reconcile(&context, "team", "disk").await.unwrap();
    assert_eq!(requests.left(), 0);
}

#[tokio::test]
async fn what_was_rejected_is_not_tried_again_before_it_changes() {
    let rejecting = || Agent {
        probe: Err(Failure {
            reason: "Unauthorized".into(),
            message: "401".into(),
            retryable: false,
        }),
        ..Agent::default()
    };
    let mut image = guarded();
    let mut script = Script::default();
    look(&mut script, &image);
    script.on("GET", SECRET, 200, login("5", "czNjcmV0"));
    script.on("PATCH", &status_path(), 200, image.clone());
    event(&mut script);
    let (context, requests) = context(script, rejecting());
    reconcile(&context, "team", "disk").await.unwrap();
    let status = requests.body("PATCH", &status_path())["status"].clone();
    assert_eq!(status["rejectedCredentials"], json!(["login@5"]));
    assert_eq!(status["phase"], "Pending");
    let waits = ("Ready".into(), "False".into(), "CredentialsRejected".into());
    assert!(conditions(&status).contains(&waits), "{status}");

    image["status"] = status;
    for (version, tries) in [("5", 0), ("6", 1)] {
        let mut script = Script::default();
        look(&mut script, &image);
        script.on("GET", SECRET, 200, login(version, "czNjcmV0"));
        if tries == 1 {
            script.on("PATCH", &status_path(), 200, image.clone());
        }
        let agent = rejecting();
        let asked = agent.asked.clone();
        let (context, requests) = fake::context(script, agent);
        reconcile(&context, "team", "disk").await.unwrap();
        assert_eq!(asked.lock().unwrap().len(), tries, "version {version}");
        assert_eq!(requests.left(), 0);
    }
}

#[tokio::test]
async fn what_came_in_between_does_not_hide_a_rejection() {
    let condition = |type_: &str, reason: &str, message: &str| {
        json!({"type": type_, "status": "False", "reason": reason, "message": message,
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let mut image = guarded();
    image["status"] = json!({"phase": "Pending", "attempt": 0, "observedGeneration": 1,
        "rejectedCredentials": ["login@5"], "conditions": [
            condition("SourceVerified", "CredentialsRejected", "401; change the Secret login"),
            condition("Ready", "NoAgentReady", "waiting for a node agent that is ready")]});
    let mut script = Script::default();
    look(&mut script, &image);
    script.on("GET", SECRET, 200, login("5", "czNjcmV0"));
    script.on("PATCH", &status_path(), 200, image.clone());
    event(&mut script);
    let agent = Agent::default();
    let asked = agent.asked.clone();
    let (context, requests) = context(script, agent);
    reconcile(&context, "team", "disk").await.unwrap();
    assert_eq!(requests.left(), 0);
    assert!(asked.lock().unwrap().is_empty(), "not asked again");
    let status = requests.body("PATCH", &status_path())["status"].clone();
    let ready = &status["conditions"][1];
    assert_eq!(ready["reason"], "CredentialsRejected");
    assert_eq!(ready["message"], "401; change the Secret login");
}

#[tokio::test]
async fn a_job_that_waits_for_its_access_is_given_it() {
    let mut image = guarded();
    image["status"] = transferring();
    assert_eq!(image["status"]["source"], probed()["source"]);
    let owner = json!([{"apiVersion": "v1", "kind": "X", "name": "disk", "uid": "uid",
        "controller": true}]);
    let holder = json!({
        "metadata": {"name": "vmim-disk-holder-0", "uid": "pod", "ownerReferences": owner},
        "spec": {"nodeName": "n1", "containers": []},
        "status": {"phase": "Running", "containerStatuses": [
            {"name": "hold", "ready": true, "image": "", "imageID": "", "restartCount": 0}]}});
    let claim = json!({"metadata": {"name": "vmim-disk", "uid": "claim", "ownerReferences": owner},
        "spec": {"volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound"}});
    let mut script = Script::default();
    script.on("GET", IMAGE, 200, image.clone());
    script.on("GET", CLAIM, 200, claim);
    script.on("GET", PODS, 200, json!({"metadata": {}, "items": [holder]}));
    script.on("GET", SECRET, 200, login("5", "czNjcmV0"));
    let mut agent = Agent::with_job("uid-0", JobState::Pending, 42);
    agent.jobs[0].job.awaiting_access = true;
    let asked = agent.asked.clone();
    let (context, requests) = context(script, agent);
    // The agent goes away in the call, which is tried again.
    let error = reconcile(&context, "team", "disk").await.unwrap_err();
    assert!(error.is_retryable());
    assert_eq!((asked.lock().unwrap().len(), requests.left()), (1, 0));
}

/// A look at an image in the default object store, which is the bucket that
/// was claimed for the system where `met` says so; what the agent was asked
/// with, and what was written.
async fn from_default_store(met: bool) -> (Source, String) {
    let mut image = image();
    image["spec"]["source"] =
        json!({"objectStore": {"bucketName": "hypercloud-objects", "objectName": "disk"}});
    image["status"] = json!({"phase": "Pending"});
    let mut script = Script::default();
    look(&mut script, &image);
    let path = |kind: &str| format!("/api/v1/namespaces/system/{kind}/bucket");
    match met {
        true => {
            let map = json!({"metadata": {"name": "bucket"}, "data": {
                "BUCKET_HOST": "rgw.svc", "BUCKET_PORT": "80", "BUCKET_NAME": "hypercloud-objects"}});
            script.on("GET", &path("configmaps"), 200, map);
            // In base64: id, and s3cret.
            let keys = json!({"metadata": {"name": "bucket", "resourceVersion": "5"}, "data": {
                "AWS_ACCESS_KEY_ID": "aWQ=", "AWS_SECRET_ACCESS_KEY": "czNjcmV0"}});
            script.on("GET", &path("secrets"), 200, keys);
        }
        false => {
            let none = || fake::failure(404, "NotFound");
            script.on("GET", &path("configmaps"), 404, none());
            script.on("GET", &path("secrets"), 404, none());
        }
    }
    script.on("PATCH", &status_path(), 200, image.clone());
    event(&mut script);
    image["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    image["metadata"]["finalizers"] = json!([]);
    look(&mut script, &image);
    let agent = Agent::default();
    let asked = agent.asked.clone();
    let (mut context, requests) = context(script, agent);
    context.policy.store.claim = Some(SystemClaim {
        namespace: "system".into(),
        name: "bucket".into(),
    });
    reconcile(&context, "team", "disk").await.unwrap();
    assert_eq!(requests.left(), 0);
    let asked = asked.lock().unwrap()[0].clone();
    (asked, requests.body("PATCH", &status_path()).to_string())
}

#[tokio::test]
async fn the_systems_bucket_is_the_default_store_once_there_is_one() {
    for (met, expected) in [(true, Some("http://rgw.svc:80")), (false, None)] {
        let (asked, written) = from_default_store(met).await;
        let Place::Object { object, signing } = asked.place else {
            panic!("no object");
        };
        assert_eq!(object.endpoint.as_deref(), expected);
        match (met, signing) {
            (true, Signing::Keys { id, key, .. }) => {
                assert_eq!(id.expose_secret(), "id");
                assert_eq!(key.expose_secret(), "s3cret");
            }
            (false, Signing::DefaultChain) => {}
            other => panic!("{other:?}"),
        }
        assert!(!written.contains("s3cret") && !written.contains("czNjcmV0"));
    }
}
