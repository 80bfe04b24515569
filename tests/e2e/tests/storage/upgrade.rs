//! From one release of Rook and Ceph to the next, as a cluster without
//! internet does it: manifests in ConfigMaps, images from a mirror.

use anyhow::Context;
use e2e::storage::ground::{FORMER, FORMER_CEPH, Ground, NEWEST, NEWEST_CEPH};
use e2e::storage::history::History;
use e2e::storage::objects::all;
use e2e::storage::{self, INSTALLATION, LIMIT, NOTICED, component, orders};
use hypercloud_api::StorageState;
use hypercloud_storage::ROOK_NAMESPACE;
use serde_json::{Value, json};

/// What takes the place of every registry.
fn registries() -> Value {
    let of = |from: &str| json!({"from": from, "to": format!("{}/{from}", test_rook::MIRROR)});
    let all = ["docker.io", "quay.io", "registry.k8s.io", "gcr.io"];
    json!(all.map(of))
}

pub async fn goes_in_order_while_ceph_is_healthy(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    ground.none().await?;
    let mut spec = ground.spec();
    spec["registries"] = registries();
    spec["versions"] = json!({"rook": FORMER});
    let target = ground.target(&spec).await?;
    let maps = ground.mirror.into_config_maps(cluster, &target).await?;
    spec["manifests"] = json!({"configMaps": maps});
    let asked = ground.mirror.asked()?;
    storage::set(cluster, &spec).await?;
    let status = storage::is_ok(cluster, INSTALLATION).await?;
    let running = status.versions.unwrap_or_default();
    assert_eq!(running.rook.as_deref(), Some(FORMER));
    assert_eq!(running.ceph.as_deref(), Some(FORMER_CEPH));
    assert_eq!(ground.mirror.asked()?, asked, "the web server was asked");
    from_the_mirror(ground).await?;

    // Ceph is not well, so nothing begins.
    orders::give(cluster, &[("health", "HEALTH_WARN"), ("pace", "150")]).await?;
    storage::fails(cluster, "CephWarns", NOTICED).await?;
    spec["versions"] = json!({"rook": NEWEST, "ceph": NEWEST_CEPH});
    spec["manifests"] = ground.mirror.spec();
    storage::set(cluster, &spec).await?;
    storage::becomes(cluster, "waits with the upgrade", NOTICED, |status| {
        let found = component(status, "rook-definitions");
        found.is_some_and(|found| {
            let message = found.message.as_deref().unwrap_or_default();
            message.contains("waits until Ceph is healthy")
                && found.version.as_deref() == Some(FORMER)
        })
    })
    .await?;

    let history = History::begin(cluster);
    orders::give(cluster, &[("pace", "150")]).await?;
    let what = "runs the new release";
    let status = storage::becomes(cluster, what, LIMIT, |status| {
        let running = status.versions.clone().unwrap_or_default();
        status.state == Some(StorageState::Ok)
            && running.rook.as_deref() == Some(NEWEST)
            && running.ceph.as_deref() == Some(NEWEST_CEPH)
    })
    .await?;
    orders::clear(cluster).await?;
    let states = history.states()?;
    assert!(states.contains(&StorageState::Upgrading), "{states:?}");
    let ends = states
        .iter()
        .filter(|state| **state == StorageState::Ok)
        .count();
    assert_eq!(ends, 1, "it was OK before it was done: {states:?}");
    in_order(&history)?;
    from_the_mirror(ground).await?;

    for component in &status.components {
        let version = component.version.as_deref().unwrap_or_default();
        assert_ne!(version, FORMER, "{component:?}");
        assert_ne!(version, FORMER_CEPH, "{component:?}");
    }
    daemons(ground).await
}

/// Rook's part before Ceph's, and the toolbox last.
fn in_order(history: &History) -> anyhow::Result<()> {
    let said = history.so_far()?;
    let reached = |name: &str, version: &str| {
        let at = said.iter().position(|said| {
            let found = component(&said.status, name);
            found.and_then(|found| found.version.as_deref()) == Some(version)
        });
        at.with_context(|| format!("{name} never was {version}"))
    };
    let order = [
        ("rook-definitions", NEWEST),
        ("rook-common", NEWEST),
        ("csi-operator", NEWEST),
        ("rook-operator", NEWEST),
        ("ceph-cluster", NEWEST_CEPH),
        ("toolbox", NEWEST_CEPH),
    ];
    for pair in order.windows(2) {
        let [(above, old), (below, new)] = pair else {
            continue;
        };
        let (above_at, below_at) = (reached(above, old)?, reached(below, new)?);
        assert!(above_at <= below_at, "{below} was upgraded before {above}");
    }
    // Until Rook has every daemon, Ceph's version is not touched.
    let rook = reached("rook-operator", NEWEST)?;
    let ceph = reached("ceph-cluster", NEWEST_CEPH)?;
    assert!(rook < ceph, "Ceph was upgraded with Rook");
    Ok(())
}

/// Every daemon has both labels of the new release.
async fn daemons(ground: &Ground) -> anyhow::Result<()> {
    let label = format!("rook_cluster={ROOK_NAMESPACE}");
    let all = all(&ground.cluster, Some(&label), Some(ROOK_NAMESPACE)).await?;
    let deployments = all.iter().filter(|object| object.kind == "Deployment");
    let mut seen = 0;
    for daemon in deployments {
        if let Some(rook) = daemon.label("rook-version") {
            assert_eq!(rook, format!("v{NEWEST}"), "{}", daemon.name);
            seen += 1;
        }
        if let Some(ceph) = daemon.label("ceph-version") {
            assert!(ceph.starts_with(NEWEST_CEPH), "{} is {ceph}", daemon.name);
        }
    }
    anyhow::ensure!(seen >= 3, "{seen} daemons");
    Ok(())
}

/// Every image of every pod comes from the mirror.
async fn from_the_mirror(ground: &Ground) -> anyhow::Result<()> {
    let all = all(&ground.cluster, None, Some(ROOK_NAMESPACE)).await?;
    let mut images = Vec::new();
    for pod in all.iter().filter(|object| object.kind == "Pod") {
        if !pod.object["metadata"]["deletionTimestamp"].is_null() {
            continue;
        }
        for container in pod.object["spec"]["containers"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let image = container["image"].as_str().unwrap_or_default();
            images.push(format!("{}: {image}", pod.name));
        }
    }
    let mirror = format!(": {}/", test_rook::MIRROR);
    let foreign: Vec<&String> = images
        .iter()
        .filter(|image| !image.contains(&mirror))
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    anyhow::ensure!(images.len() >= 5, "{images:?}");
    Ok(())
}

pub async fn there_is_no_way_back(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    let before = ground.installed().await?;
    let mut spec = before.clone();
    spec["versions"] = json!({"rook": FORMER});
    let refusal = storage::refused(cluster, &spec).await?;
    assert!(refusal.contains("DowngradeRefused"), "{refusal}");
    spec["versions"] = json!({"rook": "1.17.0"});
    let refusal = storage::refused(cluster, &spec).await?;
    assert!(refusal.contains("VersionUnsupported"), "{refusal}");
    storage::is_ok(cluster, LIMIT).await.map(drop)
}
