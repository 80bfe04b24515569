//! Exports against the scripted API server: what is read and made, and that
//! nothing that lets in stands anywhere but in its Secret.

use super::*;
use fake::Requests;
use hypercloud_coordinator::access::{DefaultStore, SystemClaim};
use hypercloud_coordinator::agents::source::{Place, Signing, Source};
use hypercloud_coordinator::export::reconcile::{Context, reconcile};
use secrecy::ExposeSecret;

const EXPORT: &str =
    "/apis/hypercloud.tmaxanc.com/v1alpha1/namespaces/team/virtualmachinevolumeexports/out";
const ROLLBACKS: &str =
    "/apis/hypercloud.tmaxanc.com/v1alpha1/namespaces/team/virtualmachinevolumerollbacks";
const RESTORED: &str = "/api/v1/namespaces/team/persistentvolumeclaims/vmexport-uid";
const SNAPSHOT: &str =
    "/apis/snapshot.storage.k8s.io/v1/namespaces/team/volumesnapshots/vmexport-uid";
const DISK: &str = "/api/v1/namespaces/team/persistentvolumeclaims/mydisk";
const VOLUME: &str = "/api/v1/persistentvolumes/pv";
const KEYS: &str = "/api/v1/namespaces/team/secrets/keys";
const SECRETS: &str = "/api/v1/namespaces/team/secrets";
const DOWNLOAD: &str = "/api/v1/namespaces/team/secrets/out-download";

fn export() -> Value {
    json!({
        "apiVersion": "hypercloud.tmaxanc.com/v1alpha1",
        "kind": "VirtualMachineVolumeExport",
        "metadata": {"name": "out", "namespace": "team", "uid": "uid", "resourceVersion": "7",
            "generation": 1, "finalizers": ["hypercloud.tmaxanc.com/cleanup"]},
        "spec": {"pvcName": "mydisk",
            "objectStore": {"bucketName": "vm-image", "objectName": "mydisk",
                "endpoint": "http://s3.example:9000"},
            "secretRef": {"name": "keys"}, "downloadUrl": {"expiresAfterSeconds": 60}}
    })
}

/// The object is there; its address is still to be made.
fn complete() -> Value {
    let mut export = export();
    export["status"] = json!({"phase": "Exporting", "attempt": 0, "size": "1Gi",
        "upload": {"jobId": "uid-0", "nodeName": "n1", "bytesDone": 0, "bytesRead": 0,
            "bytesStored": 0, "completionTime": now()},
        "object": {"url": "s3://vm-image/mydisk", "size": 5}});
    export
}

fn now() -> Value {
    let now = k8s_openapi::jiff::Timestamp::now().as_second();
    json!(
        k8s_openapi::jiff::Timestamp::from_second(now)
            .unwrap()
            .to_string()
    )
}

/// The answers to one look at an export of which nothing is there; `around`
/// says whether the claim is of interest.
fn look(script: &mut Script, export: &Value, around: bool) {
    let none = || fake::failure(404, "NotFound");
    let nothing = || json!({"metadata": {}, "items": []});
    script.on("GET", EXPORT, 200, export.clone());
    script.on("GET", PODS, 200, nothing());
    script.on("GET", RESTORED, 404, none());
    script.on("GET", SNAPSHOT, 404, none());
    if around {
        look_around(script);
    }
}

/// The answers to a look at the claim.
fn look_around(script: &mut Script) {
    let nothing = || json!({"metadata": {}, "items": []});
    let claim = json!({"metadata": {"name": "mydisk", "uid": "claim"},
        "spec": {"volumeName": "pv", "volumeMode": "Block"},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
    script.on("GET", DISK, 200, claim);
    let volume = json!({"metadata": {"name": "pv"},
        "spec": {"csi": {"driver": "csi", "volumeHandle": "vol"}}});
    script.on("GET", VOLUME, 200, volume);
    script.on("GET", ROLLBACKS, 200, nothing());
    script.on("GET", PODS, 200, nothing());
}

fn keys() -> Value {
    // In base64: id, and s3cret.
    json!({"metadata": {"name": "keys", "resourceVersion": "5"},
        "data": {"accessKeyId": "aWQ=", "secretKey": "czNjcmV0"}})
}

fn event(script: &mut Script) {
    let answer = json!({"metadata": {}, "eventTime": null});
    script.on("POST", EVENTS, 201, answer);
}

fn context(script: Script, agent: Agent) -> (Context, Requests) {
    let (context, requests) = fake::context(script, agent);
    let context = Context {
        shell: context.shell,
        store: DefaultStore::default(),
    };
    (context, requests)
}

fn status() -> String {
    format!("{EXPORT}/status")
}

fn complete_reason(requests: &Requests, nth: usize) -> String {
    let written = requests.bodies("PATCH", &status()).swap_remove(nth);
    conditions(&written["status"]).remove(0).2
}

#[tokio::test]
async fn a_secret_that_is_missing_keeps_everything_from_being_made() {
    let export = export();
    let mut script = Script::default();
    look(&mut script, &export, true);
    script.on("GET", KEYS, 404, fake::failure(404, "NotFound"));
    script.on("PATCH", &status(), 200, export.clone());
    event(&mut script);
    let (context, requests) = context(script, Agent::default());
    reconcile(&context, "team", "out").await.unwrap();
    assert_eq!(requests.left(), 0);
    assert_eq!(complete_reason(&requests, 0), "SecretNotFound");
    let told = requests.body("POST", EVENTS);
    assert_eq!(told["reason"], "SecretNotFound");
}

#[tokio::test]
async fn what_lets_in_is_read_for_the_call_and_stands_nowhere() {
    let mut script = Script::default();
    look(&mut script, &begun(), true);
    script.answer(PODS, json!({"metadata": {}, "items": [holder()]}));
    script.on("GET", KEYS, 200, keys());
    let agent = Agent::default();
    let asked = agent.asked.clone();
    let (context, requests) = context(script, agent);
    // The agent is away, as it says.
    reconcile(&context, "team", "out").await.unwrap_err();
    assert_eq!(requests.left(), 0);
    let Source {
        place: Place::Object { object, signing },
        ..
    } = asked.lock().unwrap().remove(0)
    else {
        panic!("no object");
    };
    assert_eq!(
        (object.bucket.as_str(), object.key.as_str()),
        ("vm-image", "mydisk")
    );
    let Signing::Keys { key, .. } = signing else {
        panic!("no keys");
    };
    assert_eq!(key.expose_secret(), "s3cret");
}

/// An export whose upload is about to be begun.
fn begun() -> Value {
    let mut export = export();
    export["status"] = json!({"phase": "Exporting", "attempt": 0, "readFrom": "Volume",
        "pvcUid": "claim",
        "upload": {"jobId": "uid-0", "nodeName": "n1", "holderUid": "pod", "bytesDone": 0,
            "bytesRead": 0, "bytesStored": 0}});
    export
}

/// The holder, which no pod of the claim is.
fn holder() -> Value {
    json!({"metadata": {"name": "vmexport-uid-holder-0", "uid": "pod", "labels": {
            "hypercloud.tmaxanc.com/export-uid": "uid", "hypercloud.tmaxanc.com/role": "holder"}},
        "spec": {"nodeName": "n1", "containers": [], "volumes": [
            {"name": "disk", "persistentVolumeClaim": {"claimName": "mydisk", "readOnly": true}}]},
        "status": {"phase": "Running", "containerStatuses": [
            {"name": "hold", "ready": true, "image": "", "imageID": "", "restartCount": 0}]}})
}

#[tokio::test]
async fn an_export_that_names_no_store_goes_to_the_systems_bucket() {
    let mut export = begun();
    export["spec"]["secretRef"] = Value::Null;
    export["spec"]["objectStore"] = json!({"bucketName": "hypercloud-objects", "objectName": "x"});
    let mut script = Script::default();
    look(&mut script, &export, false);
    let path = |kind: &str| format!("/api/v1/namespaces/system/{kind}/bucket");
    let met = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"name": "bucket"}});
    script.on("GET", &path("configmaps"), 200, met);
    look_around(&mut script);
    script.answer(PODS, json!({"metadata": {}, "items": [holder()]}));
    let map = json!({"metadata": {"name": "bucket"}, "data": {
        "BUCKET_HOST": "rgw.svc", "BUCKET_PORT": "443", "BUCKET_NAME": "hypercloud-objects"}});
    script.on("GET", &path("configmaps"), 200, map);
    script.on("GET", &path("secrets"), 200, keys());
    let agent = Agent::default();
    let asked = agent.asked.clone();
    let (mut context, requests) = context(script, agent);
    context.store.claim = Some(SystemClaim {
        namespace: "system".into(),
        name: "bucket".into(),
    });
    // The agent is away, as it says.
    reconcile(&context, "team", "out").await.unwrap_err();
    assert_eq!(requests.left(), 0);
    let Place::Object { object, signing } = asked.lock().unwrap().remove(0).place else {
        panic!("no object");
    };
    assert_eq!(object.endpoint.as_deref(), Some("https://rgw.svc:443"));
    assert!(matches!(signing, Signing::Keys { .. }), "{signing:?}");
}

#[tokio::test]
async fn an_address_is_in_its_secret_and_nowhere_else() {
    let export = complete();
    let mut script = Script::default();
    look(&mut script, &export, false);
    script.on("GET", KEYS, 200, keys());
    script.on("POST", SECRETS, 201, json!({"metadata": {}}));
    script.on("PATCH", &status(), 200, export.clone());
    event(&mut script);
    let mut signed = export.clone();
    signed["status"]["downloadUrl"] = json!({"secretName": "out-download"});
    look(&mut script, &signed, false);
    script.on("PATCH", &status(), 200, export.clone());
    event(&mut script);
    signed["status"]["phase"] = json!("Succeeded");
    look(&mut script, &signed, false);
    let (context, requests) = context(script, Agent::default());
    reconcile(&context, "team", "out").await.unwrap();
    assert_eq!(requests.left(), 0);
    let counted = context.shell.metrics.render();
    for reason in ["DownloadUrlMade", "Exported"] {
        let line = format!("hypercloud_coordinator_events_total{{reason=\"{reason}\"}} 1");
        assert!(
            counted.lines().any(|l| l == line),
            "{line} not in\n{counted}"
        );
    }
    let secret = requests.body("POST", SECRETS);
    assert_eq!(secret["metadata"]["name"], "out-download");
    assert_eq!(secret["type"], "Opaque");
    assert!(secret["data"]["url"].is_string());
    let statuses = requests.bodies("PATCH", &status());
    assert_eq!(
        statuses[0]["status"]["downloadUrl"]["secretName"],
        "out-download"
    );
    assert_eq!(complete_reason(&requests, 1), "Exported");
    let told = requests.bodies("POST", EVENTS);
    for written in statuses.iter().chain(&told) {
        assert!(!written.to_string().contains("s3cret"), "{written}");
    }
}

#[tokio::test]
async fn a_secret_of_the_name_is_used_only_if_it_is_the_exports() {
    let owned = json!({"metadata": {"name": "out-download",
        "annotations": {"hypercloud.tmaxanc.com/expires": "2026-01-01T00:00:00Z"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "out", "uid": "uid",
            "controller": true}]}});
    let foreign = json!({"metadata": {"name": "out-download"}});
    for (found, reason) in [(owned, None), (foreign, Some("SecretConflict"))] {
        let mut export = complete();
        let mut script = Script::default();
        look(&mut script, &export, false);
        script.on("GET", KEYS, 200, keys());
        script.on("POST", SECRETS, 409, fake::failure(409, "AlreadyExists"));
        script.on("GET", DOWNLOAD, 200, found);
        script.on("PATCH", &status(), 200, export.clone());
        event(&mut script);
        if reason.is_none() {
            export["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            export["metadata"]["finalizers"] = json!([]);
            look(&mut script, &export, false);
        }
        let (context, requests) = context(script, Agent::default());
        reconcile(&context, "team", "out").await.unwrap();
        assert_eq!(requests.left(), 0);
        match reason {
            Some(reason) => assert_eq!(complete_reason(&requests, 0), reason),
            None => {
                let written = requests.body("PATCH", &status());
                let until = &written["status"]["downloadUrl"]["expirationTime"];
                assert_eq!(until, "2026-01-01T00:00:00Z");
            }
        }
    }
}
