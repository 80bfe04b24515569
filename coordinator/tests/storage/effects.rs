//! What is done of a decision.

use hypercloud_api::HyperCloudStorage;
use hypercloud_coordinator::storage::execute::execute;
use hypercloud_coordinator::storage::observe::observe;
use hypercloud_coordinator::storage::reconcile::Context;
use hypercloud_storage::decide::Decision;
use hypercloud_storage::object::{Desired, Keep, is_found};
use hypercloud_storage::refusal::Asked;
use serde_json::{Value, json};

use super::world::{Cluster, STORAGE, storage};

const MAP: &str = "/api/v1/namespaces/rook-ceph/configmaps/rook-ceph-operator-config";
const CLASS: &str = "/apis/storage.k8s.io/v1/storageclasses/c";
const POOL: &str = "/apis/ceph.rook.io/v1/namespaces/rook-ceph/cephblockpools/p";

fn class(pool: &str) -> Desired {
    let object = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "c"}, "parameters": {"pool": pool}});
    Desired::new(object, Keep::Current, "block-storage").unwrap()
}

fn pool() -> Desired {
    let object = json!({"apiVersion": "ceph.rook.io/v1", "kind": "CephBlockPool",
        "metadata": {"name": "p", "namespace": "rook-ceph"}, "spec": {"failureDomain": "host"}});
    Desired::new(object, Keep::Current, "block-storage").unwrap()
}

fn map(data: &str) -> Desired {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "rook-ceph-operator-config", "namespace": "rook-ceph"},
        "data": {"k": data}});
    Desired::new(object, Keep::Seeded, "rook-operator").unwrap()
}

fn cluster() -> Cluster {
    let cluster = Cluster::default();
    cluster.world().put(STORAGE, storage(&json!({})));
    cluster
}

/// One look, and what of it is applied; what was written.
async fn apply(cluster: &Cluster, context: &Context, objects: &[Desired]) -> Vec<String> {
    let resource = cluster.world().objects[STORAGE].clone();
    let resource: HyperCloudStorage = serde_json::from_value(resource).unwrap();
    let looked = observe(context, &resource).await.unwrap();
    let decision = Decision {
        apply: objects.to_vec(),
        ..Decision::default()
    };
    execute(context, &resource, &looked, &decision)
        .await
        .unwrap();
    cluster.world().writes()
}

fn spec(cluster: &Cluster, path: &str, field: &str) -> Value {
    cluster.world().objects[path]
        .pointer(field)
        .cloned()
        .unwrap()
}

#[tokio::test]
async fn a_namespace_that_was_there_is_marked_and_one_that_is_made_is_not() {
    let space = |name: &str| {
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"ours": "x"}}});
        Desired::new(object, Keep::Current, "rook-common").unwrap()
    };
    let (cluster, objects) = (cluster(), [space("theirs"), space("made")]);
    let context = cluster.context();
    let path = |name: &str| format!("/api/v1/namespaces/{name}");
    let theirs = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "theirs"}});
    cluster.world().put(&path("theirs"), theirs);
    let found = |name: &str| {
        let world = cluster.world();
        let object = &world.objects[&path(name)];
        assert_eq!(object["metadata"]["labels"]["ours"], "x");
        is_found(object)
    };
    assert_eq!(apply(&cluster, &context, &objects).await.len(), 2);
    assert_eq!((found("theirs"), found("made")), (true, false));
    // A coordinator that was restarted applies both once more.
    let context = cluster.context();
    assert_eq!(apply(&cluster, &context, &objects).await.len(), 2);
    assert_eq!((found("theirs"), found("made")), (true, false));
    assert!(apply(&cluster, &context, &objects).await.is_empty());
}

#[tokio::test]
async fn what_is_as_meant_is_left_alone_and_what_is_taken_is_put_right() {
    let (cluster, objects) = (cluster(), [class("a")]);
    let context = cluster.context();
    let applied = [format!("PATCH {CLASS}")];
    assert_eq!(apply(&cluster, &context, &objects).await, applied);
    assert!(apply(&cluster, &context, &objects).await.is_empty());

    // Somebody adds something of his own: that is his.
    let mut live = cluster.world().objects[CLASS].clone();
    live["mountOptions"] = json!(["x"]);
    cluster.world().put(CLASS, live);
    assert!(apply(&cluster, &context, &objects).await.is_empty());

    // A label without which it is not found, and a coordinator that was
    // restarted and knows nothing: both are put right at once.
    cluster
        .world()
        .change(CLASS, "/parameters/pool", json!("theirs"));
    let restarted = cluster.context();
    assert_eq!(apply(&cluster, &restarted, &objects).await, applied);
    assert_eq!(spec(&cluster, CLASS, "/parameters/pool"), "a");
    assert_eq!(spec(&cluster, CLASS, "/mountOptions"), json!(["x"]));
    assert!(apply(&cluster, &restarted, &objects).await.is_empty());
}

#[tokio::test]
async fn a_change_is_applied_at_once() {
    let cluster = cluster();
    let context = cluster.context();
    apply(&cluster, &context, &[class("a")]).await;
    let applied = apply(&cluster, &context, &[class("b")]).await;
    assert_eq!(applied, [format!("PATCH {CLASS}")]);
}

#[tokio::test]
async fn settings_are_made_and_then_their_administrators() {
    let cluster = cluster();
    let context = cluster.context();
    let maps = "/api/v1/namespaces/rook-ceph/configmaps";
    let made = apply(&cluster, &context, &[map("ours")]).await;
    assert_eq!(made, [format!("POST {maps}")]);
    let mut theirs = cluster.world().objects[MAP].clone();
    theirs["data"]["k"] = json!("theirs");
    theirs["metadata"]["annotations"] = json!({});
    cluster.world().put(MAP, theirs);
    for context in [context, cluster.context()] {
        assert!(apply(&cluster, &context, &[map("newer")]).await.is_empty());
    }
    assert_eq!(spec(&cluster, MAP, "/data/k"), "theirs");
}

#[tokio::test]
async fn a_kind_that_is_not_there_yet_is_waited_for() {
    let cluster = cluster();
    cluster.world().unknown = vec!["/apis/ceph.rook.io", "/apis/csi.ceph.io"];
    let context = cluster.context();
    let tried = apply(&cluster, &context, &[pool(), class("a")]).await;
    // What comes after it is not kept up.
    assert_eq!(tried, [format!("PATCH {POOL}"), format!("PATCH {CLASS}")]);
    assert!(context.memory().refusals().is_empty());
    cluster.world().unknown.clear();
    let tried = apply(&cluster, &context, &[pool(), class("a")]).await;
    assert_eq!(tried, [format!("PATCH {POOL}")]);
}

#[tokio::test]
async fn what_is_refused_is_remembered_and_not_asked_for_in_a_row() {
    let cluster = cluster();
    let context = cluster.context();
    let change = format!("PATCH {CLASS}");
    let refused = (422, "parameters: Forbidden");
    cluster.world().refused.insert(change.clone(), refused);
    assert_eq!(apply(&cluster, &context, &[class("b")]).await, [change]);
    let refusals = context.memory().refusals();
    let known = &refusals[&class("b").key];
    assert_eq!(
        (known.code, known.what.clone()),
        (422, Asked::of(&class("b")))
    );
    assert!(apply(&cluster, &context, &[class("b")]).await.is_empty());
    // Something else is asked for.
    cluster.world().refused.clear();
    assert_eq!(apply(&cluster, &context, &[class("a")]).await.len(), 1);
    assert!(context.memory().refusals().is_empty());
}

#[tokio::test]
async fn what_goes_is_not_touched() {
    let cluster = cluster();
    let context = cluster.context();
    apply(&cluster, &context, &[class("a")]).await;
    let mut going = cluster.world().objects[CLASS].clone();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    cluster.world().put(CLASS, going);
    assert!(apply(&cluster, &context, &[class("b")]).await.is_empty());
}
