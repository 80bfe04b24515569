//! From the resource to what is installed.

use hypercloud_api::names;
use hypercloud_coordinator::storage::reconcile::reconcile;
use serde_json::{Value, json};

use super::mirror;
use super::world::{Cluster, STORAGE, World, storage};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A cluster with a storage whose manifests are in a folder.
fn cluster(folder: &str) -> Cluster {
    let cluster = Cluster::default();
    let resource = storage(&json!({"manifests": {"folder": folder}}));
    let mut world = cluster.world();
    world.put(STORAGE, resource);
    world.unknown = vec![
        "/apis/ceph.rook.io",
        "/apis/csi.ceph.io",
        "/apis/objectbucket.io",
        "/apis/snapshot.storage.k8s.io",
        "/apis/cdi.kubevirt.io",
    ];
    drop(world);
    cluster
}

fn component<'a>(world: &'a World, name: &str) -> &'a Value {
    let components = world.objects[STORAGE]["status"]["components"].as_array();
    let found = components.into_iter().flatten().find(|c| c["name"] == name);
    found.unwrap_or(&Value::Null)
}

/// What the API server does of definitions.
fn establish(world: &mut World) {
    let paths: Vec<String> = world.objects.keys().cloned().collect();
    for path in paths.iter().filter(|path| path.starts_with(DEFINITIONS)) {
        let mut object = world.objects[path].clone();
        object["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
        world.put(path, object);
    }
}

#[tokio::test]
async fn the_finalizer_comes_first_and_the_status_before_what_it_says() {
    let Some(mirror) = mirror::folder() else {
        return;
    };
    let cluster = cluster(mirror.to_str().unwrap());
    let context = cluster.context();
    let class = format!("{DEFINITIONS}/volumesnapshotclasses.snapshot.storage.k8s.io");
    let is_there = |world: &World| world.objects.contains_key(&class);
    cluster
        .until(&context, "the first definition", is_there)
        .await;
    let log = cluster.world().writes();
    assert_eq!(log[0], format!("PATCH {STORAGE}"));
    assert_eq!(log[1], format!("PATCH {STORAGE}/status"));
    let finalizers = cluster.world().objects[STORAGE]["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!([names::FINALIZER]));
    // Nothing of the stages below.
    assert!(!log.iter().any(|write| write.contains("ceph")), "{log:?}");

    // Established, they are ready, and the next stage is applied.
    establish(&mut cluster.world());
    let controller = "/apis/apps/v1/namespaces/kube-system/deployments/snapshot-controller";
    let is_there = |world: &World| world.objects.contains_key(controller);
    cluster
        .until(&context, "the snapshot controller", is_there)
        .await;
    let world = cluster.world();
    assert_eq!(component(&world, "snapshot-definitions")["state"], "Ready");
    let labels = &world.objects[controller]["metadata"]["labels"];
    assert_eq!(
        labels["hypercloud.tmaxanc.com/storage-stage"],
        "snapshot-controller"
    );
}

#[tokio::test]
async fn what_the_api_server_refuses_is_in_the_status() {
    let Some(mirror) = mirror::folder() else {
        return;
    };
    let cluster = cluster(mirror.to_str().unwrap());
    let context = cluster.context();
    let class = format!("{DEFINITIONS}/volumesnapshotclasses.snapshot.storage.k8s.io");
    let change = format!("PATCH {class}");
    let refused = (403, "quota exceeded");
    cluster.world().refused.insert(change, refused);
    let is_said = |world: &World| {
        let component = component(world, "snapshot-definitions");
        component["state"] == "Failed" && component["reason"] == "ApplyForbidden"
    };
    cluster.until(&context, "the refusal", is_said).await;
    let message = component(&cluster.world(), "snapshot-definitions")["message"].clone();
    assert!(
        message.as_str().unwrap().contains("quota exceeded"),
        "{message}"
    );
    assert_eq!(cluster.status()["state"], "ERROR");
}

#[tokio::test]
async fn manifests_that_are_not_there_are_said_and_nothing_is_applied() {
    let cluster = cluster("/nowhere");
    let context = cluster.context();
    let is_said =
        |world: &World| component(world, "snapshot-definitions")["reason"] == "ManifestMissing";
    cluster.until(&context, "the missing file", is_said).await;
    let log = cluster.world().writes();
    assert!(
        log.iter().all(|write| write.contains("hypercloudstorages")),
        "{log:?}"
    );
}

#[tokio::test]
async fn a_coordinator_without_the_rights_says_so() {
    let cluster = cluster("/nowhere");
    let context = cluster.context();
    let asked = "GET /apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned();
    cluster
        .world()
        .refused
        .insert(asked, (403, "clusterroles is forbidden"));
    let is_said = |world: &World| {
        let conditions = world.objects[STORAGE]["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|c| c["type"] == "Degraded" && c["reason"] == "ObserveForbidden")
    };
    cluster.until(&context, "the lack of rights", is_said).await;
    assert_eq!(cluster.status()["state"], "ERROR");
}

#[tokio::test]
async fn a_storage_that_is_gone_is_left_at_that() {
    let cluster = Cluster::default();
    let context = cluster.context();
    reconcile(&context, "hypercloud").await.unwrap();
    assert!(cluster.world().writes().is_empty());
}
