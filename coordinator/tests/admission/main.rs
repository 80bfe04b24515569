//! The webhook as the API server meets it: over TLS, with a cluster in memory
//! behind it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod caller;
mod certificates;
mod hostile;
#[path = "../own/memory.rs"]
mod memory;

use std::sync::Arc;
use std::time::Duration;

use caller::{Caller, NAME};
use hypercloud_coordinator::admission::answer::{DEADLINE, Judge};
use hypercloud_coordinator::admission::certificate::Certificate;
use hypercloud_coordinator::admission::{register, serve};
use hypercloud_coordinator::metrics::Metrics;
use hypercloud_coordinator::storage::held::links;
use k8s_openapi::jiff::Timestamp;
use memory::Server;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const CONFIGURATION: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hypercloud-storage";
const INVENTORIES: &str = "/apis/hypercloud.tmaxanc.com/v1alpha1/nodedeviceinventories";
const CLEANUPS: &str = "/apis/hypercloud.tmaxanc.com/v1alpha1/nodedevicecleanups";
const CLUSTER: &str = "/apis/ceph.rook.io/v1/namespaces/rook-ceph/cephclusters/rook-ceph";
const OPERATOR: &str = "/apis/apps/v1/namespaces/rook-ceph/deployments/rook-ceph-operator";

/// A webhook that answers, in a cluster of one node with four disks: sda,
/// which Ceph's label is on, sdb and sdc, which are free, and sdd, which is
/// mounted.
struct Webhook {
    server: Server,
    certificate: Arc<Certificate>,
    metrics: Arc<Metrics>,
    caller: Caller,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), rustls::Error>>,
}

fn disk(name: &str, reason: Option<&str>) -> Value {
    let reason = reason.map(|reason| json!({"reason": reason, "message": reason}));
    let reasons: Vec<Value> = reason.into_iter().collect();
    let link = format!("/dev/disk/by-id/wwn-{name}");
    json!({"name": name, "path": format!("/dev/{name}"), "kind": "disk", "size": 1_u64 << 40,
        "available": reasons.is_empty(), "reasons": reasons,
        "identity": {"byId": link, "links": [link]}})
}

/// An API server with the node, its inventory and the configuration.
fn cluster() -> Server {
    let server = Server::default();
    server.put(
        "/version",
        json!({"major": "1", "minor": "34", "gitVersion": "v1.34.4", "gitCommit": "",
            "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
    );
    server.put(
        "/api/v1/nodes/node-1",
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "n-1",
            "labels": {"kubernetes.io/hostname": "n"}}}),
    );
    let devices = [
        disk("sda", Some("BlueStore")),
        disk("sdb", None),
        disk("sdc", None),
        disk("sdd", Some("Mounted")),
    ];
    server.put(
        &format!("{INVENTORIES}/node-1"),
        json!({"apiVersion": "hypercloud.tmaxanc.com/v1alpha1", "kind": "NodeDeviceInventory",
            "metadata": {"name": "node-1", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "n-1"}]},
            "spec": {}, "status": {"state": "Current", "hostname": "n", "devices": devices}}),
    );
    let service = json!({"name": "coordinator-admission", "namespace": "system"});
    server.put(
        CONFIGURATION,
        json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "hypercloud-storage"},
            "webhooks": [{"name": "a.b.c", "admissionReviewVersions": ["v1"],
                "sideEffects": "None", "clientConfig": {"service": service}}]}),
    );
    server
}

impl Webhook {
    async fn new() -> Self {
        Self::within(DEADLINE).await
    }

    /// One whose reviews may take so long.
    async fn within(deadline: Duration) -> Self {
        let server = cluster();
        let client = server.client();
        let kept = register::ensure(&client, "system", Timestamp::now()).await;
        let certificate = Arc::new(Certificate::default());
        certificate.set(&kept.unwrap()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Arc::new(Metrics::default());
        let judge = Judge::new(client, Arc::clone(&metrics), deadline);
        let stop = CancellationToken::new();
        let shown = Arc::clone(&certificate);
        let task = tokio::spawn(serve::serve(listener, shown, judge, stop.clone()));
        let caller = Caller::new(address, &trusted(&server));
        Self {
            server,
            certificate,
            metrics,
            caller,
            stop,
            task,
        }
    }

    async fn review(&self, old: Value, new: Value) -> Value {
        let body = review(old, new).to_string();
        let (code, answer) = self.caller.post(NAME, body.as_bytes()).await.unwrap();
        assert_eq!(code, 200, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["response"]["uid"], "u-1");
        answer["response"].clone()
    }

    /// The reason for which these devices of the node `n` are refused.
    async fn refused(&self, devices: &[&str]) -> String {
        let response = self.review(Value::Null, storage("n", devices)).await;
        assert_eq!(response["allowed"], false, "{response}");
        response["status"]["message"].as_str().unwrap().to_owned()
    }

    async fn allowed(&self, old: Value, new: Value) -> Vec<Value> {
        let response = self.review(old, new).await;
        assert_eq!(response["allowed"], true, "{response}");
        let warnings = response["warnings"].as_array();
        warnings.cloned().unwrap_or_default()
    }
}

/// Whom the API server trusts: what stands in the configuration.
fn trusted(server: &Server) -> String {
    let configuration = server.object(CONFIGURATION);
    let bundle = &configuration["webhooks"][0]["clientConfig"]["caBundle"];
    let bundle: k8s_openapi::ByteString = serde_json::from_value(bundle.clone()).unwrap();
    String::from_utf8(bundle.0).unwrap()
}

fn storage(hostname: &str, devices: &[&str]) -> Value {
    json!({"apiVersion": "hypercloud.tmaxanc.com/v1alpha1", "kind": "HyperCloudStorage",
        "metadata": {"name": "hypercloud"}, "spec": {"storage": {"replicas": 3,
            "nodes": [{"hostname": hostname, "devices": devices}]}}})
}

fn review(old: Value, new: Value) -> Value {
    let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "operation": operation,
        "resource": {"group": "hypercloud.tmaxanc.com", "version": "v1alpha1",
            "resource": "hypercloudstorages"},
        "object": new, "oldObject": old}})
}

#[tokio::test]
async fn what_the_cluster_cannot_give_is_refused_with_its_reason() {
    let webhook = Webhook::new().await;
    for (devices, said) in [
        (
            vec!["/dev/sdd"],
            "DeviceNotAvailable: on n, /dev/sdd is not available: Mounted",
        ),
        (
            vec!["sda"],
            "DeviceNotAvailable: on n, sda is not available: BlueStore",
        ),
        (
            vec!["/dev/sdz"],
            "DeviceNotThere: on n, there is no device /dev/sdz",
        ),
        (
            vec!["sdb", "/dev/disk/by-id/wwn-sdb"],
            "DeviceDuplicate: on n, sdb and",
        ),
        (vec!["sdd", "sdz"], "; DeviceNotThere: "),
    ] {
        let message = webhook.refused(&devices).await;
        assert!(message.contains(said), "{devices:?}: {message}");
    }
    let elsewhere = webhook.review(Value::Null, storage("m", &["sdb"])).await;
    assert_eq!(elsewhere["status"]["reason"], "HostnameUnknown");
    let good = webhook
        .allowed(Value::Null, storage("n", &["sdb", "sdc"]))
        .await;
    assert!(good.is_empty(), "{good:?}");
    let text = webhook.metrics.render();
    assert!(
        text.contains("admission_reviews_total{reason=\"Allowed\"} 1"),
        "{text}"
    );
    assert!(
        webhook
            .server
            .writes()
            .iter()
            .all(|write| !write.contains("hypercloudstorages"))
    );
}

#[tokio::test]
async fn what_a_cleanup_is_at_is_left_alone() {
    let webhook = Webhook::new().await;
    let cleanup = |phase: &str| {
        json!({"apiVersion": "hypercloud.tmaxanc.com/v1alpha1", "kind": "NodeDeviceCleanup",
            "metadata": {"name": "wipe"}, "status": {"phase": phase}, "spec": {
                "nodeName": "node-1", "device": "/dev/sdb",
                "confirmation": "yes-really-destroy-data"}})
    };
    let path = format!("{CLEANUPS}/wipe");
    webhook.server.put(&path, cleanup("Cleaning"));
    let message = webhook.refused(&["sdb"]).await;
    assert!(
        message.contains("the NodeDeviceCleanup wipe is not over"),
        "{message}"
    );
    webhook.allowed(Value::Null, storage("n", &["sdc"])).await;
    webhook.server.put(&path, cleanup("Succeeded"));
    webhook.allowed(Value::Null, storage("n", &["sdb"])).await;
}

#[tokio::test]
async fn what_runs_is_taken_into_account() {
    let webhook = Webhook::new().await;
    let link = "/dev/disk/by-id/wwn-sda";
    webhook.server.put(
        CLUSTER,
        json!({"apiVersion": "ceph.rook.io/v1", "kind": "CephCluster",
            "metadata": {"name": "rook-ceph", "namespace": "rook-ceph"},
            "spec": {"storage": {"nodes": [{"name": "n", "devices": [{"name": link}]}]}},
            "status": {"version": {"version": "20.2.1-0"}}}),
    );
    webhook.server.put(
        OPERATOR,
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "rook-ceph-operator", "namespace": "rook-ceph"},
            "spec": {"template": {"spec": {"containers": [
                {"name": "operator", "image": "docker.io/rook/ceph:v1.20.6"}]}}}}),
    );
    let old = storage("n", &["sda"]);
    // What Ceph has is Ceph's, and more of it has its price.
    let warnings = webhook
        .allowed(old.clone(), storage("n", &["sda", "sdb"]))
        .await;
    assert!(
        warnings[0].as_str().unwrap().contains("data moves"),
        "{warnings:?}"
    );
    let gone = webhook.review(old.clone(), storage("n", &["sdb"])).await;
    assert_eq!(gone["status"]["reason"], "DeviceRemovalRefused");
    let mut older = old.clone();
    older["spec"]["versions"] = json!({"rook": "1.19.10"});
    let downgrade = webhook.review(old.clone(), older.clone()).await;
    assert_eq!(
        downgrade["status"]["reason"], "DowngradeRefused",
        "{downgrade}"
    );
    // Also where the storage that runs had no resource yet.
    let taken_up = webhook.review(Value::Null, older).await;
    assert_eq!(taken_up["status"]["reason"], "DowngradeRefused");
}

#[tokio::test]
async fn what_is_the_storages_is_told_to_who_erases() {
    let server = cluster();
    let client = server.client();
    assert!(links(&client, "n").await.unwrap().is_empty());
    let mut storage = storage("n", &["sdb"]);
    let settled =
        |hostname: &str, link: &str| json!({"hostname": hostname, "device": "sdx", "byId": link});
    storage["status"] = json!({"devices": [settled("n", "/b"), settled("m", "/other")],
        "removing": [settled("n", "/c")]});
    server.put(
        "/apis/hypercloud.tmaxanc.com/v1alpha1/hypercloudstorages/hypercloud",
        storage,
    );
    server.put(
        CLUSTER,
        json!({"apiVersion": "ceph.rook.io/v1", "kind": "CephCluster",
            "metadata": {"name": "rook-ceph", "namespace": "rook-ceph"},
            "spec": {"storage": {"nodes": [{"name": "n", "devices": [{"name": "/a"}]}]}}}),
    );
    let found = links(&client, "n").await.unwrap();
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["/a", "/b", "/c"]);
}

#[tokio::test]
async fn an_inventory_of_a_former_node_is_none() {
    let webhook = Webhook::new().await;
    let mut node = webhook.server.object("/api/v1/nodes/node-1");
    node["metadata"]["uid"] = json!("n-2");
    webhook.server.put("/api/v1/nodes/node-1", node);
    let warnings = webhook.allowed(Value::Null, storage("n", &["sdd"])).await;
    assert!(
        warnings[0].as_str().unwrap().contains("not known yet"),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn of_a_host_name_that_two_nodes_have_no_device_is_known() {
    let webhook = Webhook::new().await;
    let mut node = webhook.server.object("/api/v1/nodes/node-1");
    node["metadata"]["name"] = json!("node-2");
    node["metadata"]["uid"] = json!("n-2");
    webhook.server.put("/api/v1/nodes/node-2", node);
    let warnings = webhook.allowed(Value::Null, storage("n", &["sdd"])).await;
    let told = warnings[0].as_str().unwrap();
    assert!(told.contains("not known yet"), "{warnings:?}");
}

#[tokio::test]
async fn without_an_api_server_it_is_refused_in_time_and_says_so() {
    let webhook = Webhook::within(Duration::from_secs(3)).await;
    webhook.server.hang();
    let (old, new) = (storage("n", &["sdb"]), storage("n", &["sdb", "sdc"]));
    let response = webhook.review(old.clone(), new).await;
    assert_eq!(response["allowed"], false);
    assert_eq!(response["status"]["reason"], "AdmissionUnavailable");
    // What needs no look passes all the same.
    let mut same = old.clone();
    same["metadata"]["finalizers"] = json!(["a/b"]);
    webhook.allowed(old, same).await;
}

#[tokio::test]
async fn it_ends_when_it_is_told_to() {
    let webhook = Webhook::new().await;
    webhook.allowed(Value::Null, storage("n", &["sdb"])).await;
    webhook.stop.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(30), webhook.task).await;
    ended.unwrap().unwrap().unwrap();
}
