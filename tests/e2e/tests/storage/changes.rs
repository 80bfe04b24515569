//! What a storage that runs is asked for besides.

use anyhow::Context;
use e2e::storage::ground::Ground;
use e2e::storage::objects::{CEPH_CLUSTER, deployment, rook};
use e2e::storage::{self, LIMIT, NOTICED, object, orders};
use hypercloud_api::StorageState;
use hypercloud_storage::{BLOCK, ROOK_NAMESPACE};
use serde_json::{Value, json};

/// Whether the CephCluster has a device of a node.
fn has(cluster: Option<&Value>, node: &str, device: &str) -> bool {
    let nodes = cluster.and_then(|cluster| cluster["spec"]["storage"]["nodes"].as_array());
    nodes.into_iter().flatten().any(|found| {
        let devices = found["devices"].as_array();
        found["name"] == node
            && devices
                .into_iter()
                .flatten()
                .any(|found| found["name"] == device)
    })
}

/// How many OSDs there are.
async fn osds(ground: &Ground) -> anyhow::Result<usize> {
    use e2e::storage::objects::all;
    let all = all(
        &ground.cluster,
        Some("app=rook-ceph-osd"),
        Some(ROOK_NAMESPACE),
    )
    .await?;
    Ok(all
        .iter()
        .filter(|object| object.kind == "Deployment")
        .count())
}

/// The specification with these devices on the first node, and on the second.
fn with(before: &Value, ground: &Ground, first: &[&str], second: &[&str]) -> Value {
    let links = |names: &[&str]| -> Vec<String> {
        names.iter().map(|name| ground.disks.link(name)).collect()
    };
    let mut spec = before.clone();
    let mut nodes = vec![json!({"hostname": ground.nodes[0], "devices": links(first)})];
    if !second.is_empty() {
        nodes.push(json!({"hostname": ground.nodes[1], "devices": links(second)}));
    }
    spec["storage"]["nodes"] = json!(nodes);
    spec
}

pub async fn devices_nodes_and_copies_are_added(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    let before = ground.installed().await?;
    let [first, second] = ground.nodes.each_ref().map(String::as_str);

    let mut spec = with(&before, ground, &["a1", "a2", "a3"], &[]);
    storage::set(cluster, &spec).await?;
    let added = ground.disks.link("a3");
    let told = storage::event(cluster, "DevicesAdded", &added).await?;
    assert!(told.contains("restart") && told.contains(first), "{told}");
    object(cluster, &CEPH_CLUSTER, "has the device", NOTICED, |found| {
        has(found, first, &added)
    })
    .await?;
    storage::is_ok(cluster, LIMIT).await?;
    assert_eq!(osds(ground).await?, 3);

    spec = with(&spec, ground, &["a1", "a2", "a3"], &["b1"]);
    storage::set(cluster, &spec).await?;
    let added = ground.disks.link("b1");
    let told = storage::event(cluster, "NodeAdded", &added).await?;
    assert!(
        told.contains("data moves") && told.contains(second),
        "{told}"
    );
    object(cluster, &CEPH_CLUSTER, "has the node", NOTICED, |found| {
        has(found, second, &added)
    })
    .await?;
    storage::is_ok(cluster, LIMIT).await?;
    assert_eq!(osds(ground).await?, 4);

    spec["storage"]["replicas"] = json!(3);
    storage::set(cluster, &spec).await?;
    let told = storage::event(cluster, "ReplicasRaised", "3").await?;
    assert!(told.contains("2 copies"), "{told}");
    let pool = rook("CephBlockPool", BLOCK);
    object(cluster, &pool, "has three copies", NOTICED, |found| {
        found.is_some_and(|found| found["spec"]["replicated"]["size"] == 3)
    })
    .await?;
    storage::is_ok(cluster, LIMIT).await?;
    // Fewer copies were never asked for by anybody who meant it.
    spec["storage"]["replicas"] = json!(2);
    let refusal = storage::refused(cluster, &spec).await?;
    assert!(refusal.contains("raised, not lowered"), "{refusal}");
    Ok(())
}

pub async fn a_device_goes_only_when_that_is_said(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    let before = ground.installed().await?;
    let node = ground.nodes[0].as_str();
    let replicas = before["storage"]["replicas"].clone();
    let mut spec = with(&before, ground, &["a1", "a2", "a3"], &["b1"]);
    storage::set(cluster, &spec).await?;
    storage::is_ok(cluster, LIMIT).await?;
    let whole = osds(ground).await?;

    let mut less = with(&spec, ground, &["a1", "a2"], &["b1"]);
    let refusal = storage::refused(cluster, &less).await?;
    for part in [
        "DeviceRemovalRefused",
        "PurgeOsds",
        &ground.disks.link("a3"),
    ] {
        assert!(refusal.contains(part), "{refusal}");
    }

    // Ceph does not let go of it at once.
    orders::give(cluster, &[("drain", "never")]).await?;
    less["storage"]["removal"] = json!("PurgeOsds");
    storage::set(cluster, &less).await?;
    let gone = ground.disks.link("a3");
    let status = storage::becomes(cluster, "gives the device up", LIMIT, |status| {
        let named = status.removing.iter().any(|device| device.by_id == gone);
        let message = status.message.as_deref().unwrap_or_default();
        named && message.contains("moves away")
    })
    .await?;
    assert_eq!(status.state, Some(StorageState::Installing), "{status:?}");
    object(
        cluster,
        &CEPH_CLUSTER,
        "lacks the device",
        NOTICED,
        |found| !has(found, node, &gone),
    )
    .await?;
    assert_eq!(
        osds(ground).await?,
        whole,
        "the OSD is stopped while Ceph needs it"
    );

    orders::clear(cluster).await?;
    let status = storage::becomes(cluster, "is rid of the device", LIMIT, |status| {
        status.state == Some(StorageState::Ok) && status.removing.is_empty()
    })
    .await?;
    assert!(
        status.devices.iter().all(|device| device.by_id != gone),
        "{status:?}"
    );
    assert_eq!(osds(ground).await?, whole - 1);

    // Others are not fewer than there are copies.
    let least = replicas.as_u64().context("no number of copies")?;
    spec = with(&less, ground, &["a1"], &[]);
    if least > 1 {
        storage::set(cluster, &spec).await?;
        storage::becomes(cluster, "keeps what it needs", NOTICED, |status| {
            let too_few = ["TooFewDevicesLeft", "TooFewPlaces"];
            storage::degraded(status).is_some_and(|reason| too_few.contains(&reason))
        })
        .await?;
        storage::set(cluster, &less).await?;
    }
    let tools = deployment(ROOK_NAMESPACE, "rook-ceph-tools");
    tools.get(cluster).await?.context("the toolbox is gone")?;
    storage::is_ok(cluster, LIMIT).await.map(drop)
}
