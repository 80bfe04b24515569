//! How storage goes, and when it does not.

use std::time::Instant;

use anyhow::Context;
use e2e::storage::ground::Ground;
use e2e::storage::objects::{CEPH_CLUSTER, Object, all, deployment};
use e2e::storage::{self, INSTALLATION, LIMIT, NOTICED};
use e2e::system;
use hypercloud_api::StorageState;
use hypercloud_storage::object::LABEL_STAGE;
use hypercloud_storage::{BLOCK, ROOK_NAMESPACE};
use serde_json::{Value, json};

const TOOLS: Object<'_> = deployment(ROOK_NAMESPACE, "rook-ceph-tools");

const CONTROLLER: Object<'_> = deployment("kube-system", "snapshot-controller");
const SNAPSHOTS: Object<'_> = Object {
    api_version: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    namespace: "",
    name: "volumesnapshots.snapshot.storage.k8s.io",
};

async fn uid(ground: &Ground, object: &Object<'_>) -> anyhow::Result<Value> {
    let found = object.get(&ground.cluster).await?;
    Ok(found.context("it is not there")?["metadata"]["uid"].clone())
}

pub async fn without_the_confirmation_everything_stays(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    let spec = ground.installed().await?;
    let before = (
        uid(ground, &CEPH_CLUSTER).await?,
        uid(ground, &TOOLS).await?,
    );
    let devices = storage::status(cluster).await?.devices;
    storage::delete(cluster).await?;
    storage::gone(cluster, LIMIT).await?;
    let after = (
        uid(ground, &CEPH_CLUSTER).await?,
        uid(ground, &TOOLS).await?,
    );
    assert_eq!(before, after);
    let ceph = CEPH_CLUSTER.get(cluster).await?.unwrap_or_default();
    assert!(ceph["metadata"]["deletionTimestamp"].is_null(), "{ceph}");

    // A new one takes it up, with the devices that Ceph has.
    storage::set(cluster, &spec).await?;
    let status = storage::is_ok(cluster, INSTALLATION).await?;
    let links = |devices: &[hypercloud_api::SettledDevice]| -> Vec<String> {
        devices.iter().map(|device| device.by_id.clone()).collect()
    };
    assert_eq!(links(&status.devices), links(&devices));
    let after = (
        uid(ground, &CEPH_CLUSTER).await?,
        uid(ground, &TOOLS).await?,
    );
    assert_eq!(before, after);
    Ok(())
}

pub async fn with_it_everything_goes_once_nothing_is_used(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    let mut spec = ground.installed().await?;
    spec["cleanup"] = json!({
        "confirmation": "yes-really-destroy-data",
        "definitions": "Remove",
    });
    storage::set(cluster, &spec).await?;
    storage::is_ok(cluster, LIMIT).await?;
    let scope = cluster.scope("in-use").await?;
    let claim = Object {
        api_version: "v1",
        kind: "PersistentVolumeClaim",
        namespace: &scope.namespace,
        name: "disk",
    };
    let wants = json!({
        "metadata": {"namespace": scope.namespace},
        "spec": {
            "storageClassName": BLOCK,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    claim.create(cluster, wants).await?;

    storage::delete(cluster).await?;
    let name = format!("PersistentVolumeClaim {}/disk", scope.namespace);
    let in_use = |status: &hypercloud_api::HyperCloudStorageStatus| {
        status.state == Some(StorageState::Deleting) && status.deletion_blockers.contains(&name)
    };
    let what = "names who uses it";
    let status = storage::becomes(cluster, what, NOTICED, in_use).await?;
    let message = status.message.unwrap_or_default();
    assert!(message.contains(&name), "{message}");
    assert!(
        TOOLS.get(cluster).await?.is_some(),
        "something went already"
    );

    // Whoever leads next still knows.
    let leader = system::living_leader(cluster).await?;
    system::kill(cluster, &leader).await?;
    let begun = Instant::now();
    claim.delete(cluster).await?;
    TOOLS.gone(cluster, LIMIT).await?;
    // In the midst of it the next one dies too.
    let leader = system::living_leader(cluster).await?;
    system::kill(cluster, &leader).await?;
    storage::gone(cluster, LIMIT).await?;
    println!(
        "gone {:.1} s after nothing was used",
        begun.elapsed().as_secs_f64()
    );
    system::all_ready(cluster, "coordinator").await?;

    assert_eq!(
        CONTROLLER.get(cluster).await?.is_some(),
        SNAPSHOTS.get(cluster).await?.is_some(),
        "one of controller and definition stays without the other"
    );
    let left = left(ground).await?;
    assert!(left.is_empty(), "{left:#?}");
    scope.close().await?;
    ground.restore().await
}

/// Somebody has the namespace already, and a Rook in it.
pub async fn what_was_there_before_is_not_taken(ground: &Ground) -> anyhow::Result<()> {
    ground.none().await?;
    let cluster = &ground.cluster;
    let theirs = |api_version, kind, name| Object {
        api_version,
        kind,
        namespace: ROOK_NAMESPACE,
        name,
    };
    let space = Object {
        namespace: "",
        ..theirs("v1", "Namespace", ROOK_NAMESPACE)
    };
    let map = theirs("v1", "ConfigMap", "theirs");
    let rook = theirs("apps/v1", "Deployment", "rook-ceph-operator");
    space.create(cluster, json!({})).await?;
    let within = json!({"namespace": ROOK_NAMESPACE});
    map.create(cluster, json!({"metadata": within})).await?;
    let labels = json!({"app": "theirs"});
    let of_rook = json!({
        "metadata": within,
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "rook", "image": "docker.io/rook/ceph:v1.20.6"}]},
            },
        },
    });
    rook.create(cluster, of_rook).await?;
    let before = (uid(ground, &space).await?, uid(ground, &rook).await?);

    let mut spec = ground.spec();
    storage::set(cluster, &spec).await?;
    let is_told = |status: &hypercloud_api::HyperCloudStorageStatus| {
        let message = status.message.as_deref().unwrap_or_default();
        status.state == Some(StorageState::Error)
            && message.contains("Deployment rook-ceph/rook-ceph-operator")
    };
    storage::becomes(cluster, "tells of their Rook", LIMIT, is_told).await?;
    assert_eq!(uid(ground, &rook).await?, before.1);
    let labelled = |live: &Value| !live["metadata"]["labels"][LABEL_STAGE].is_null();
    let live = rook.get(cluster).await?.context("it is not there")?;
    assert!(!labelled(&live), "{live}");

    // Once it is gone there is nobody's to take.
    rook.delete(cluster).await?;
    storage::is_ok(cluster, INSTALLATION).await?;
    spec["cleanup"] = json!({"confirmation": "yes-really-destroy-data"});
    storage::set(cluster, &spec).await?;
    storage::delete(cluster).await?;
    storage::gone(cluster, LIMIT).await?;
    let live = space.get(cluster).await?.context("the namespace went")?;
    assert_eq!(live["metadata"]["uid"], before.0, "it was made anew");
    assert!(live["metadata"]["deletionTimestamp"].is_null(), "{live}");
    map.get(cluster).await?.context("what was in it went")?;
    let kept = all(cluster, None, None).await?.into_iter();
    let kept: Vec<String> = kept
        .filter(|listed| listed.namespace == ROOK_NAMESPACE && labelled(&listed.object))
        .map(|listed| format!("{} {}", listed.kind, listed.name))
        .collect();
    assert!(kept.is_empty(), "{kept:?}");
    space.delete(cluster).await?;
    space.gone(cluster, LIMIT).await?;
    ground.restore().await
}

/// What there still is of the installation, in all the cluster. The snapshot
/// controller stays, with its definitions, for drivers of others.
pub async fn left(ground: &Ground) -> anyhow::Result<Vec<String>> {
    let cluster = &ground.cluster;
    let used = |name: &str| name.ends_with("snapshot.storage.k8s.io");
    let everything = all(cluster, None, None).await?;
    let is_for_others = |stage: Option<&str>| {
        let mut classes = everything
            .iter()
            .filter(|listed| listed.kind == "VolumeSnapshotClass");
        stage == Some("snapshot-controller") && classes.next().is_some()
    };
    let of_it = everything.iter().filter(|listed| {
        let is_definition = listed.kind == "CustomResourceDefinition";
        let ours = ["ceph.rook.io", "csi.ceph.io", "objectbucket.io"];
        // The cluster has snapshots of its own, whose definitions are in use.
        let stage = listed.label(LABEL_STAGE);
        stage.is_some() && !is_for_others(stage) && !(is_definition && used(&listed.name))
            || is_definition && ours.iter().any(|group| listed.name.ends_with(group))
            || listed.kind == "Namespace" && listed.name == ROOK_NAMESPACE
            || listed.namespace == ROOK_NAMESPACE
            || listed.kind == "CSIDriver" && listed.name.starts_with(ROOK_NAMESPACE)
            || matches!(listed.kind.as_str(), "ConfigMap" | "Secret")
                && listed.name == hypercloud_storage::OBJECT_STORE
    });
    Ok(of_it
        .map(|listed| {
            let finalizers = &listed.object["metadata"]["finalizers"];
            format!(
                "{} {}/{} {finalizers}",
                listed.kind, listed.namespace, listed.name
            )
        })
        .collect())
}
