//! What a deletion looks at.

use std::collections::BTreeSet;

use hypercloud_coordinator::shell::error::ObserveError;
use hypercloud_coordinator::storage::users::{self, Leftovers};
use hypercloud_storage::object::Seen;
use serde_json::{Value, json};

use crate::server::{Answer, Request, failure, missing, serve};

const RBD: &str = "rook-ceph.rbd.csi.ceph.com";

fn volume(name: &str, driver: &str, claim: Option<(&str, &str)>) -> Value {
    let mut spec = json!({"csi": {"driver": driver, "volumeHandle": name}});
    if let Some((namespace, name)) = claim {
        spec["claimRef"] = json!({"namespace": namespace, "name": name});
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

fn claim(namespace: &str, name: &str, volume: &str, class: &str) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name},
           "spec": {"volumeName": volume, "storageClassName": class}})
}

fn class(name: &str, provisioner: &str) -> Value {
    json!({"metadata": {"name": name}, "provisioner": provisioner})
}

/// A cluster by the paths of its lists, two objects a page.
struct Cluster(Vec<(&'static str, Vec<Value>)>);

impl Cluster {
    fn add(&mut self, path: &'static str, items: Vec<Value>) {
        self.0.push((path, items));
    }

    fn answer(&self, request: &Request) -> Answer {
        assert_eq!(request.method, "GET");
        let found = self.0.iter().find(|(path, _)| *path == request.path);
        let Some((path, items)) = found else {
            return missing();
        };
        if *path == "/apis" || path.matches('/').count() == 3 && path.starts_with("/apis/") {
            return Answer::Json(200, items[0].clone());
        }
        let begin: usize = request.query("continue").map_or(0, |n| n.parse().unwrap());
        let limit: usize = request.query("limit").map_or(2, |n| n.parse().unwrap());
        let end = items.len().min(begin + limit.min(2));
        let mut metadata = json!({});
        if end < items.len() {
            metadata["continue"] = json!(end.to_string());
        }
        Answer::Json(
            200,
            json!({"metadata": metadata, "items": items[begin..end]}),
        )
    }
}

fn kinds(group: &str, kinds: &[(&str, &str, bool)]) -> Value {
    let kinds = kinds.iter().map(|(plural, kind, namespaced)| {
        json!({"name": plural, "singularName": "", "kind": kind,
               "namespaced": namespaced, "verbs": ["list", "get"]})
    });
    let kinds: Vec<Value> = kinds.collect();
    json!({"groupVersion": group, "resources": kinds})
}

fn groups(groups: &[(&str, &str)]) -> Value {
    let groups = groups.iter().map(|(group, version)| {
        let version = json!({"groupVersion": format!("{group}/{version}"), "version": version});
        json!({"name": group, "versions": [version], "preferredVersion": version})
    });
    json!({"groups": groups.collect::<Vec<_>>()})
}

fn empty() -> Cluster {
    let mut cluster = Cluster(Vec::new());
    for path in [
        "/apis/storage.k8s.io/v1/storageclasses",
        "/api/v1/persistentvolumeclaims",
        "/api/v1/persistentvolumes",
        "/api/v1/namespaces/rook-ceph/pods",
        "/api/v1/nodes",
    ] {
        cluster.add(path, Vec::new());
    }
    cluster.add("/apis", vec![groups(&[])]);
    cluster
}

fn full() -> Cluster {
    let mut cluster = Cluster(Vec::new());
    cluster.add(
        "/apis/storage.k8s.io/v1/storageclasses",
        vec![
            class("hypercloud-block", RBD),
            class("theirs-on-ours", "rook-ceph.cephfs.csi.ceph.com"),
            class("local", "local.example"),
            class("other-buckets", "noobaa.example"),
        ],
    );
    let mut owned = claim("team", "vmim-disk", "pv-1", "hypercloud-block");
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind":
        "VirtualMachineImage", "name": "disk", "uid": "u"}]);
    cluster.add(
        "/api/v1/persistentvolumeclaims",
        vec![
            owned,
            // Waits for its first consumer.
            claim("team", "pending", "", "theirs-on-ours"),
            claim("team", "local", "pv-local", "local"),
            // Its class is gone or another's, its volume is not.
            claim("z", "old", "pv-2", "gone"),
        ],
    );
    cluster.add(
        "/api/v1/persistentvolumes",
        vec![
            volume("pv-1", RBD, Some(("team", "vmim-disk"))),
            volume("pv-2", RBD, Some(("z", "old"))),
            volume("pv-local", "local.example", Some(("team", "local"))),
            volume("pv-released", RBD, Some(("team", "was"))),
            volume("pv-free", RBD, None),
        ],
    );
    let content = |name: &str, driver: &str| {
        json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
               "metadata": {"name": name}, "spec": {"driver": driver}})
    };
    cluster.add(
        "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents",
        vec![content("snap-ours", RBD), content("snap", "local.example")],
    );
    let bucket = |namespace: &str, name: &str, class: &str| {
        json!({"apiVersion": "objectbucket.io/v1alpha1", "kind": "ObjectBucketClaim",
               "metadata": {"namespace": namespace, "name": name},
               "spec": {"storageClassName": class}})
    };
    cluster.add(
        "/apis/objectbucket.io/v1alpha1/objectbucketclaims",
        vec![
            bucket(
                "hypercloud-storage",
                "hypercloud-objects",
                "hypercloud-bucket",
            ),
            bucket("team", "photos", "gone"),
            bucket("team", "films", "other-buckets"),
        ],
    );
    let group = "ceph.rook.io/v1";
    cluster.add("/apis", vec![groups(&[("ceph.rook.io", "v1")])]);
    cluster.add(
        "/apis/ceph.rook.io/v1",
        vec![kinds(
            group,
            &[
                ("cephfilesystems", "CephFilesystem", true),
                ("cephblockpools", "CephBlockPool", true),
                ("cephnfses", "CephNFS", true),
            ],
        )],
    );
    let resource = |name: &str| json!({"metadata": {"name": name, "namespace": "rook-ceph"}});
    let mut ours = resource("hypercloud-block");
    ours["metadata"]["labels"] = json!({"hypercloud.tmaxanc.com/storage-stage": "block-storage"});
    let mut made = resource("fs-csi");
    made["metadata"]["ownerReferences"] =
        json!([{"apiVersion": group, "kind": "CephFilesystem", "name": "fs", "uid": "u"}]);
    cluster.add(
        "/apis/ceph.rook.io/v1/namespaces/rook-ceph/cephfilesystems",
        vec![resource("fs"), made],
    );
    cluster.add(
        "/apis/ceph.rook.io/v1/namespaces/rook-ceph/cephblockpools",
        vec![ours, resource("theirs")],
    );
    let pod = |name: &str, node: &str| json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": []}});
    cluster.add(
        "/api/v1/namespaces/rook-ceph/pods",
        vec![
            pod("mon", "node-b"),
            pod("osd", "node-a"),
            pod("mgr", "node-a"),
            pod("rgw", "node-gone"),
            json!({"metadata": {"name": "pending"}, "spec": {"containers": []}}),
        ],
    );
    let node = |name: &str, hostname: &str| json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": hostname}}});
    cluster.add(
        "/api/v1/nodes",
        vec![node("node-a", "a"), node("node-b", "b")],
    );
    cluster
}

async fn look(cluster: Cluster, seen: &Seen) -> Result<Leftovers, ObserveError> {
    users::look(&serve(move |request| cluster.answer(request)), seen).await
}

#[tokio::test]
async fn a_cluster_without_any_of_it_has_nothing() {
    let found = look(empty(), &Seen::default()).await.unwrap();
    assert_eq!(found, Leftovers::default());
}

#[tokio::test]
async fn everything_that_uses_the_storage_is_found_on_every_page() {
    let found = look(full(), &Seen::default()).await.unwrap();
    let users = found.users;
    assert_eq!(
        users.claims,
        [
            "team/pending",
            "team/vmim-disk (of VirtualMachineImage disk)",
            "z/old"
        ]
    );
    assert_eq!(users.volumes, ["pv-free", "pv-released"]);
    assert_eq!(users.snapshots, ["snap-ours"]);
    assert_eq!(users.buckets, ["team/photos"]);
    assert_eq!(users.others, ["CephBlockPool theirs", "CephFilesystem fs"]);
    assert_eq!(found.hosts, ["a", "b"]);
    assert!(found.foreign_snapshots);
}

#[tokio::test]
async fn a_defined_kind_that_is_unknown_just_now_is_not_unused() {
    for name in [
        "volumesnapshotcontents.snapshot.storage.k8s.io",
        "objectbucketclaims.objectbucket.io",
        "cephfilesystems.ceph.rook.io",
    ] {
        let seen = Seen::from_iter([definition(name)]);
        assert!(look(empty(), &seen).await.is_err(), "{name}");
    }
    // Of others it is not said that they are unused.
    let seen = Seen::from_iter([definition("drivers.csi.ceph.io")]);
    let found = look(empty(), &seen).await.unwrap();
    assert_eq!(found.definitions_in_use.len(), 1);
}

#[tokio::test]
async fn a_claim_in_a_namespace_that_goes_counts() {
    let mut cluster = empty();
    let database = claim("rook-ceph", "database", "pv-local", "local");
    cluster.0.retain(|(path, _)| !path.ends_with("claims"));
    cluster.add("/api/v1/persistentvolumeclaims", vec![database]);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "rook-ceph", "labels":
            {"hypercloud.tmaxanc.com/storage-stage": "rook-common"}}});
    let found = look(cluster, &Seen::from_iter([namespace])).await.unwrap();
    assert_eq!(found.users.claims, ["rook-ceph/database"]);
}

#[tokio::test]
async fn another_driver_with_a_snapshot_class_needs_the_controller() {
    let mut cluster = empty();
    let class = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
        "metadata": {"name": "theirs"}, "driver": "local.example", "deletionPolicy": "Delete"});
    let path = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses";
    cluster.add(path, vec![class]);
    let found = look(cluster, &Seen::default()).await.unwrap();
    assert!(found.foreign_snapshots);
}

#[tokio::test]
async fn what_cannot_be_read_is_not_taken_for_unused() {
    let cluster = empty();
    let client = serve(move |request| match request.path.as_str() {
        "/api/v1/persistentvolumes" => failure(403, "Forbidden"),
        _ => cluster.answer(request),
    });
    assert!(users::look(&client, &Seen::default()).await.is_err());
}

fn definition(name: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
           "metadata": {"name": name, "labels":
               {"hypercloud.tmaxanc.com/storage-stage": "rook-definitions"}}})
}

#[tokio::test]
async fn definitions_of_which_there_are_objects_are_found() {
    let with_users = || {
        let mut cluster = full();
        // Of another namespace.
        cluster.add(
            "/apis/ceph.rook.io/v1/cephnfses",
            vec![json!({"metadata": {"name": "nfs", "namespace": "team"}})],
        );
        cluster.add("/apis/ceph.rook.io/v1/cephblockpools", Vec::new());
        cluster
    };
    let names = [
        "cephnfses.ceph.rook.io",
        "cephblockpools.ceph.rook.io",
        "drivers.csi.ceph.io",
    ];
    let mut seen: Seen = names.map(definition).into_iter().collect();
    let found = look(with_users(), &seen).await.unwrap();
    // Of what the API server does not know nothing is known.
    let used = ["cephnfses.ceph.rook.io", "drivers.csi.ceph.io"];
    let used: BTreeSet<String> = used.map(str::to_owned).into();
    assert_eq!(found.definitions_in_use, used);
    // As long as more is to be removed first, all of them count.
    seen.insert(json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "rook-ceph", "labels":
            {"hypercloud.tmaxanc.com/storage-stage": "rook-common"}}}));
    let found = look(with_users(), &seen).await.unwrap();
    assert_eq!(found.definitions_in_use.len(), 3);
}
