//! An installation, as people see it.

use std::time::Instant;

use anyhow::Context;
use e2e::devices::tool;
use e2e::storage::ground::{Ground, NEWEST, NEWEST_CEPH};
use e2e::storage::history::History;
use e2e::storage::objects::{CEPH_CLUSTER, Object, all, deployment};
use e2e::storage::{self, LIMIT};
use hypercloud_api::{ComponentState, HyperCloudStorageStatus, StorageState, conditions};
use hypercloud_storage::object::LABEL_STAGE;
use hypercloud_storage::stage::STAGES;

/// The storage as a person writes it: one device by its link, and one by the
/// kernel's name of today.
fn written(ground: &Ground) -> anyhow::Result<String> {
    let url = ground.mirror.spec()["http"]["url"].clone();
    Ok(format!(
        "apiVersion: hypercloud.tmaxanc.com/v1alpha1
kind: HyperCloudStorage
metadata: {{name: hypercloud}}
spec:
  storage:
    replicas: 2
    failureDomain: OSD
    nodes:
    - hostname: {}
      devices: [{}, {}]
  manifests: {{http: {{url: {url}}}}}
",
        ground.nodes[0],
        ground.disks.link("a1"),
        ground.disks.kernel("a2")?,
    ))
}

pub async fn every_stage_comes_in_its_order(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    ground.none().await?;
    let history = History::begin(cluster);
    let text = written(ground)?;
    let begun = Instant::now();
    storage::kubectl(&["apply", "--filename", "-"], &text)?;
    let status = storage::is_ok(cluster, LIMIT).await?;
    // `bench/storage.sh` reads this.
    println!("OK after {:.1} s", begun.elapsed().as_secs_f64());

    whole(&status)?;
    assert_eq!(
        history.states()?,
        [StorageState::Installing, StorageState::Ok],
        "it is nothing else meanwhile"
    );
    in_order(&history)?;
    made_in_order(ground).await?;
    as_people_see_it(&status)?;
    what_is_there(ground).await
}

/// Every component is ready, and the status says so in every way it has.
fn whole(status: &HyperCloudStorageStatus) -> anyhow::Result<()> {
    for component in &status.components {
        assert_eq!(component.state, ComponentState::Ready, "{component:?}");
        assert!(
            component.since.is_some() && component.version.is_some(),
            "{component:?}"
        );
    }
    for (type_, holds) in [
        ("Available", "True"),
        ("Progressing", "False"),
        ("Degraded", "False"),
        ("Upgradeable", "True"),
    ] {
        let found = conditions::find(&status.conditions, type_).context(type_)?;
        assert_eq!(found.status, holds, "{found:?}");
        assert_eq!(found.observed_generation, status.observed_generation);
    }
    let versions = status.versions.clone().unwrap_or_default();
    assert_eq!(versions.rook.as_deref(), Some(NEWEST));
    assert_eq!(versions.ceph.as_deref(), Some(NEWEST_CEPH));
    Ok(())
}

/// No component began before the one above it was ready.
fn in_order(history: &History) -> anyhow::Result<()> {
    let said = history.so_far()?;
    let last = &said.last().context("nothing was said")?.status;
    for pair in last.components.windows(2) {
        let [above, below] = pair else { continue };
        let ready = history.first(&above.name, ComponentState::is_healthy)?;
        let began = history.first(&below.name, |state| state != ComponentState::Waiting)?;
        let (ready, began) = (ready.context("never ready")?, began.context("never begun")?);
        assert!(
            began >= ready,
            "{} began before {} was ready",
            below.name,
            above.name
        );
        let ready = above.since.as_ref().context("no time")?.0;
        let then = below.since.as_ref().context("no time")?.0;
        assert!(
            then >= ready,
            "{} is ready before {}",
            below.name,
            above.name
        );
    }
    Ok(())
}

/// Nothing of a stage was made before everything of the stages above it.
async fn made_in_order(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    let resource = storage::look(cluster).await?.context("no storage")?;
    let since = serde_json::to_value(&resource.metadata.creation_timestamp)?;
    let since = since.as_str().unwrap_or_default().to_owned();
    let objects = all(cluster, Some(LABEL_STAGE), None).await?;
    // What was there before tells nothing.
    let new = objects
        .iter()
        .filter(|object| object.created() >= since.as_str());
    let mut times: Vec<(usize, &str, String)> = Vec::new();
    for object in new {
        // Pods and copies that controllers make of a manifest come later.
        if !object.object["metadata"]["ownerReferences"].is_null() {
            continue;
        }
        let stage = object.label(LABEL_STAGE).unwrap_or_default();
        let at = STAGES.iter().position(|known| known.name == stage);
        let at = at.with_context(|| format!("{} is of no stage", object.name))?;
        times.push((
            at,
            object.created(),
            format!("{} {}", object.kind, object.name),
        ));
    }
    for (stage, created, name) in &times {
        for (other, later, below) in &times {
            if other > stage {
                assert!(later >= created, "{below} was made before {name}");
            }
        }
    }
    let stages: std::collections::BTreeSet<usize> = times.iter().map(|(at, ..)| *at).collect();
    anyhow::ensure!(
        stages.len() >= 7,
        "too few stages made anything: {stages:?}"
    );
    Ok(())
}

fn as_people_see_it(status: &HyperCloudStorageStatus) -> anyhow::Result<()> {
    let table = tool("kubectl", &["get", "hypercloudstorage"])?;
    let mut lines = table.lines();
    let head: Vec<&str> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    assert_eq!(
        head,
        ["NAME", "STATE", "READY", "AGE", "MESSAGE"],
        "{table}"
    );
    let row: Vec<&str> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let count = status.components.len();
    assert_eq!(
        row[..3],
        ["hypercloud", "OK", &format!("{count}/{count}")],
        "{table}"
    );
    Ok(())
}

async fn what_is_there(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    let class = Object {
        api_version: "storage.k8s.io/v1",
        kind: "StorageClass",
        namespace: "",
        name: hypercloud_storage::BLOCK,
    };
    let class = class.get(cluster).await?.context("there is no class")?;
    let annotations = &class["metadata"]["annotations"];
    assert_eq!(
        annotations["storageclass.kubevirt.io/is-default-virt-class"],
        "true"
    );
    let snapshots = Object {
        api_version: "snapshot.storage.k8s.io/v1",
        kind: "VolumeSnapshotClass",
        namespace: "",
        name: hypercloud_storage::BLOCK,
    };
    snapshots
        .get(cluster)
        .await?
        .context("there is no class of snapshots")?;
    let tools = deployment(hypercloud_storage::ROOK_NAMESPACE, "rook-ceph-tools");
    tools.get(cluster).await?.context("there is no toolbox")?;
    let secret = Object {
        api_version: "v1",
        kind: "Secret",
        namespace: hypercloud_storage::SYSTEM_NAMESPACE,
        name: hypercloud_storage::OBJECT_STORE,
    };
    secret
        .get(cluster)
        .await?
        .context("the bucket has no keys")?;

    // Both names were taken for links.
    let ceph = CEPH_CLUSTER.get(cluster).await?.context("no CephCluster")?;
    let nodes = &ceph["spec"]["storage"]["nodes"];
    assert_eq!(nodes[0]["name"], ground.nodes[0].as_str());
    let names: Vec<&str> = nodes[0]["devices"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|device| device["name"].as_str())
        .collect();
    assert_eq!(names, [ground.disks.link("a1"), ground.disks.link("a2")]);
    let spec = &ceph["spec"]["storage"];
    assert_eq!(
        (&spec["useAllNodes"], &spec["useAllDevices"]),
        (&false.into(), &false.into())
    );
    Ok(())
}
