//! What is deleted, when, and in which order.

use hypercloud_api::names;
use hypercloud_storage::object::{Desired, Keep, Key};
use serde_json::{Value, json};

use super::world::{Cluster, STORAGE, World, path, storage};

const CEPH: &str = "/apis/ceph.rook.io/v1/namespaces/rook-ceph/cephclusters/rook-ceph";
const JOB: &str = "/apis/batch/v1/namespaces/rook-ceph/jobs/cluster-cleanup-job-a";
const CLAIM: &str = "/api/v1/namespaces/team/persistentvolumeclaims/disk";

fn installed() -> Vec<(&'static str, &'static str, Key)> {
    let rook = |api: &str, kind: &str, name: &str| Key::namespaced(api, kind, "rook-ceph", name);
    vec![
        (
            "rook-common",
            "namespaces",
            Key::cluster("v1", "Namespace", "rook-ceph"),
        ),
        (
            "rook-operator",
            "deployments",
            rook("apps/v1", "Deployment", "rook-ceph-operator"),
        ),
        (
            "ceph-cluster",
            "cephclusters",
            rook("ceph.rook.io/v1", "CephCluster", "rook-ceph"),
        ),
        (
            "block-storage",
            "cephblockpools",
            rook("ceph.rook.io/v1", "CephBlockPool", "hypercloud-block"),
        ),
        (
            "block-storage",
            "storageclasses",
            Key::cluster("storage.k8s.io/v1", "StorageClass", "hypercloud-block"),
        ),
    ]
}

/// A storage that is being deleted.
fn cluster(confirmed: bool) -> Cluster {
    let cleanup = match confirmed {
        true => json!({"cleanup": {"confirmation": "yes-really-destroy-data",
                                   "sanitize": "Complete"}}),
        false => json!({}),
    };
    let mut resource = storage(&cleanup);
    resource["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    resource["metadata"]["finalizers"] = json!([names::FINALIZER]);
    resource["status"] = json!({"state": "OK"});
    let cluster = Cluster::default();
    let mut world = cluster.world();
    world.put(STORAGE, resource);
    for (stage, plural, key) in installed() {
        let mut object = json!({"apiVersion": key.api_version, "kind": key.kind,
            "metadata": {"name": key.name}, "spec": {}});
        if let Some(namespace) = &key.namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        let desired = Desired::new(object, Keep::Current, stage).unwrap();
        world.put(&path(&key, plural), desired.object);
    }
    // A monitor of Ceph's, by which its nodes are known.
    let pod = json!({"metadata": {"name": "mon", "namespace": "rook-ceph",
            "labels": {"app": "rook-ceph-mon"}},
        "spec": {"nodeName": "a", "containers": [], "nodeSelector": {"kubernetes.io/hostname": "a"}}});
    world.put("/api/v1/namespaces/rook-ceph/pods/mon", pod);
    let node = json!({"metadata": {"name": "a", "labels": {"kubernetes.io/hostname": "a"}}});
    world.put("/api/v1/nodes/a", node);
    drop(world);
    cluster
}

fn is_gone(world: &World) -> bool {
    !world.objects.contains_key(STORAGE)
}

fn deletions(world: &mut World) -> Vec<String> {
    let writes = world.writes().into_iter();
    writes
        .filter_map(|write| {
            Some(
                write
                    .strip_prefix("DELETE ")?
                    .rsplit('/')
                    .next()?
                    .to_owned(),
            )
        })
        .collect()
}

#[tokio::test]
async fn without_the_confirmation_everything_is_let_go_of() {
    let cluster = cluster(false);
    let context = cluster.context();
    cluster.until(&context, "the release", is_gone).await;
    let mut world = cluster.world();
    assert!(deletions(&mut world).is_empty());
    assert!(world.objects.contains_key(CEPH));
}

#[tokio::test]
async fn with_it_everything_goes_in_order_whoever_goes_on_with_it() {
    let cluster = cluster(true);
    // Rook was told, and its hosts are written down, before the CephCluster
    // goes; then it cleans them.
    let deleted = |world: &World| !world.objects.contains_key(CEPH);
    cluster.until(&cluster.context(), "Ceph", deleted).await;
    assert_eq!(cluster.status()["cleanupHosts"], json!(["a"]));
    let log = cluster.world().log.clone();
    let at = |what: &str| log.iter().position(|write| write == what).unwrap();
    assert!(at(&format!("PATCH {CEPH}")) < at(&format!("DELETE {CEPH}")));
    let order = ["hypercloud-block", "hypercloud-block", "rook-ceph"];
    assert_eq!(deletions(&mut cluster.world()), order);

    // Another coordinator waits for the job.
    let context = cluster.context();
    let waits = |world: &World| {
        let message = world.objects[STORAGE]["status"]["message"].as_str();
        message.is_some_and(|message| message.contains("Rook cleans a"))
    };
    cluster.until(&context, "the job", waits).await;
    assert!(deletions(&mut cluster.world()).is_empty());
    let job = json!({"metadata": {"name": "cluster-cleanup-job-a", "namespace": "rook-ceph",
            "labels": {"app": "rook-ceph-cleanup"}},
        "spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "a"}}}},
        "status": {"conditions": [{"type": "Complete", "status": "True"}]}});
    cluster.world().put(JOB, job);
    cluster.until(&context, "the end", is_gone).await;
    let order = ["cluster-cleanup-job-a", "rook-ceph-operator", "rook-ceph"];
    assert_eq!(deletions(&mut cluster.world()), order);
}

#[tokio::test]
async fn rook_is_told_how_to_wipe_as_it_was_asked_last() {
    let cluster = cluster(true);
    let told = |world: &World| {
        world.objects.get(CEPH).is_none_or(|object| {
            object["spec"]["cleanupPolicy"]["confirmation"] == "yes-really-destroy-data"
        })
    };
    // The CephCluster stays, since its deletion is refused.
    let refused = (403, "not now");
    cluster
        .world()
        .refused
        .insert(format!("DELETE {CEPH}"), refused);
    let context = cluster.context();
    cluster.until(&context, "the order", told).await;
    let method = "/spec/cleanupPolicy/sanitizeDisks/method";
    let object = cluster.world().objects[CEPH].clone();
    assert_eq!(object.pointer(method), Some(&json!("complete")));

    let is_said = |world: &World| {
        let blockers = &world.objects[STORAGE]["status"]["deletionBlockers"];
        *blockers == json!(["CephCluster rook-ceph/rook-ceph"])
    };
    cluster.until(&context, "the refusal", is_said).await;
    let message = cluster.status()["message"].clone();
    assert!(message.as_str().unwrap().contains("not now"), "{message}");
}

#[tokio::test]
async fn what_is_in_use_is_named_and_waited_for() {
    let cluster = cluster(true);
    let claim = json!({"metadata": {"name": "disk", "namespace": "team"},
        "spec": {"storageClassName": "hypercloud-block"}});
    cluster.world().put(CLAIM, claim);
    let context = cluster.context();
    let is_said = |world: &World| {
        let blockers = world.objects[STORAGE]["status"]["deletionBlockers"].as_array();
        let named = |blocker: &Value| blocker.as_str().unwrap().contains("team/disk");
        blockers.is_some_and(|blockers| blockers.iter().any(named))
    };
    cluster.until(&context, "the blocker", is_said).await;
    assert_eq!(cluster.status()["state"], "Deleting");
    assert!(deletions(&mut cluster.world()).is_empty());

    cluster.world().objects.remove(CLAIM);
    let begun = |world: &World| !world.objects.contains_key(CEPH);
    cluster.until(&context, "the removal", begun).await;
}
