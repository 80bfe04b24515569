//! What is not well and looks as if it were. Everything here happens to a
//! storage that was OK: it has to show within half a minute, with the component
//! by name, and to pass by itself.

use std::time::{Duration, Instant};

use e2e::storage::ground::Ground;
use e2e::storage::objects::{CEPH_CLUSTER, rook};
use e2e::storage::{self, LIMIT, NOTICED, component, orders};
use hypercloud_api::{ComponentState, StorageState};
use serde_json::json;

/// Something that goes wrong.
struct Trap {
    /// What the simulated Rook is told.
    order: (&'static str, &'static str),
    /// The component that it shows in.
    component: &'static str,
    /// The reason, by its beginning.
    reason: &'static str,
    /// How long Kubernetes itself takes to see it, or to forget it.
    beside: Duration,
}

const fn trap(
    order: (&'static str, &'static str),
    component: &'static str,
    reason: &'static str,
) -> Trap {
    Trap {
        order,
        component,
        reason,
        beside: Duration::ZERO,
    }
}

/// The same, where kubelet's probes and back-off come before.
const fn slow(
    order: (&'static str, &'static str),
    component: &'static str,
    reason: &'static str,
) -> Trap {
    Trap {
        beside: Duration::from_secs(45),
        ..trap(order, component, reason)
    }
}

const TRAPS: &[Trap] = &[
    trap(("health", "HEALTH_ERR"), "ceph-cluster", "CephFails"),
    trap(("health", "HEALTH_WARN"), "ceph-cluster", "CephWarns"),
    trap(
        ("health", "HEALTH_STRANGE"),
        "ceph-cluster",
        "CephHealthUnknown",
    ),
    // Rook calls a Ceph that does not answer HEALTH_ERR too.
    trap(("ceph", "silent"), "ceph-cluster", "Ceph"),
    // The condition Ready stays True.
    trap(("reconcile", "fail"), "ceph-cluster", "CephCluster"),
    trap(("down", "rook-ceph-osd-0"), "ceph-cluster", "OsdsMissing"),
    trap(("pool", "Failure"), "block-storage", "ResourceFailed"),
    trap(
        ("object-store", "Failure"),
        "object-store",
        "ResourceFailed",
    ),
    trap(("bucket", "Failed"), "object-store", "ResourceFailed"),
    // Resources of the CSI operator have no status.
    trap(
        ("down", "rook-ceph.rbd.csi.ceph.com-nodeplugin"),
        "csi-drivers",
        "Workload",
    ),
    trap(
        ("down", "rook-ceph.rbd.csi.ceph.com-ctrlplugin"),
        "csi-drivers",
        "Workload",
    ),
    slow(("down", "rook-ceph-operator"), "rook-operator", "Workload"),
    slow(("down", "rook-ceph-tools"), "toolbox", "Workload"),
];

pub async fn what_fails_after_ready_shows_and_passes(ground: &Ground) -> anyhow::Result<()> {
    ground.installed().await?;
    let mut failed = Vec::new();
    for trap in TRAPS {
        let (key, word) = trap.order;
        if let Err(error) = falls(ground, trap).await {
            println!("{key}: {word}: {error:#}");
            failed.push(format!("{key}: {word}"));
            orders::clear(&ground.cluster).await?;
            storage::is_ok(&ground.cluster, LIMIT).await?;
        }
    }
    anyhow::ensure!(failed.is_empty(), "not seen, or not past: {failed:?}");
    Ok(())
}

async fn falls(ground: &Ground, trap: &Trap) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    let begun = Instant::now();
    orders::give(cluster, &[trap.order]).await?;
    let what = format!("says that {} fails for {}", trap.component, trap.reason);
    let limit = NOTICED + trap.beside;
    let status = storage::becomes(cluster, &what, limit, |status| {
        let found = component(status, trap.component);
        status.state == Some(StorageState::Error)
            && found.is_some_and(|found| {
                let reason = found.reason.as_deref().unwrap_or_default();
                found.state == ComponentState::Failed && reason.starts_with(trap.reason)
            })
    })
    .await?;
    let shown = begun.elapsed();
    // The first that is wrong is told, and it is this one or what rests on it.
    let message = status.message.unwrap_or_default();
    anyhow::ensure!(!message.is_empty(), "nothing is said");
    let told = storage::event(cluster, "ComponentFailed", trap.component).await;
    let begun = Instant::now();
    orders::clear(cluster).await?;
    storage::is_ok(cluster, LIMIT + trap.beside).await?;
    let (key, word) = trap.order;
    println!(
        "{key}: {word}: seen after {:.1} s, past after {:.1} s{}: {message}",
        shown.as_secs_f64(),
        begun.elapsed().as_secs_f64(),
        if told.is_ok() { "" } else { ", no Event" },
    );
    Ok(())
}

pub async fn a_warning_is_what_the_policy_says(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    let before = ground.installed().await?;
    let warns = [("health", "HEALTH_WARN"), ("checks", "MON_DISK_LOW")];
    orders::give(cluster, &warns).await?;
    storage::fails(cluster, "CephWarns", NOTICED).await?;

    let mut spec = before.clone();
    spec["storage"]["health"] = json!({"warnings": "Tolerate"});
    storage::set(cluster, &spec).await?;
    let status = storage::becomes(cluster, "is Warning", NOTICED, |status| {
        status.state == Some(StorageState::Warning)
    })
    .await?;
    let message = status.message.unwrap_or_default();
    assert!(message.contains("MON_DISK_LOW"), "{message}");

    spec["storage"]["health"] = json!({"ignore": ["MON_DISK_LOW"]});
    storage::set(cluster, &spec).await?;
    storage::is_ok(cluster, LIMIT).await?;
    // Another check is not ignored with it.
    let warns = [
        ("health", "HEALTH_WARN"),
        ("checks", "MON_DISK_LOW,OSD_NEARFULL"),
    ];
    orders::give(cluster, &warns).await?;
    let status = storage::fails(cluster, "CephWarns", NOTICED).await?;
    let message = status.message.unwrap_or_default();
    assert!(message.contains("OSD_NEARFULL"), "{message}");
    storage::set(cluster, &before).await?;
    orders::clear(cluster).await?;
    storage::is_ok(cluster, LIMIT).await.map(drop)
}

pub async fn somebody_elses_hands_in_rook_are_seen(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    ground.installed().await?;

    // Rook leaves a second one without a status, for ever.
    let second = rook("CephCluster", "second");
    let spec = json!({
        "metadata": {"namespace": hypercloud_storage::ROOK_NAMESPACE},
        "spec": {
            "cephVersion": {"image": "quay.io/ceph/ceph:v20.2.4"},
            "dataDirHostPath": "/var/lib/second",
            "mon": {"count": 1},
        },
    });
    second.create(cluster, spec).await?;
    let status = storage::fails(cluster, "SecondCephCluster", NOTICED).await?;
    let message = status.message.unwrap_or_default();
    assert!(message.contains("second"), "{message}");
    second.delete(cluster).await?;
    second.gone(cluster, LIMIT).await?;
    storage::is_ok(cluster, LIMIT).await?;

    // Rook does nothing any more, and says Ready still.
    let confirmed = json!({"spec": {"cleanupPolicy": {"confirmation": "yes-really-destroy-data"}}});
    CEPH_CLUSTER.merge(cluster, confirmed).await?;
    storage::fails(cluster, "CleanupConfirmed", NOTICED).await?;
    let again = json!({"spec": {"cleanupPolicy": {"confirmation": null}}});
    CEPH_CLUSTER.merge(cluster, again).await?;
    storage::is_ok(cluster, LIMIT).await.map(drop)
}

pub async fn a_change_that_rook_has_not_taken_up_is_not_ok(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    let before = ground.installed().await?;
    orders::give(cluster, &[("generation", "frozen")]).await?;
    let mut spec = before.clone();
    spec["storage"]["resources"] = json!({"osd": {"limits": {"memory": "5Gi"}}});
    storage::set(cluster, &spec).await?;
    let what = "says that the change is not taken up";
    storage::becomes(cluster, what, NOTICED, |status| {
        let ceph = component(status, "ceph-cluster");
        status.state != Some(StorageState::Ok)
            && ceph.is_some_and(|ceph| ceph.reason.as_deref() == Some("CephClusterChanging"))
    })
    .await?;
    orders::clear(cluster).await?;
    storage::is_ok(cluster, LIMIT).await?;
    storage::set(cluster, &before).await?;
    storage::is_ok(cluster, LIMIT).await.map(drop)
}

/// Nothing tells of an operator that hangs but that its looks at Ceph grow
/// old, and they may be some of them late before that means anything.
pub async fn an_operator_that_hangs_is_noticed(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    ground.installed().await?;
    let begun = Instant::now();
    orders::give(cluster, &[("operator", "hangs")]).await?;
    storage::fails(cluster, "CephStatusStale", LIMIT).await?;
    println!("seen after {:.1} s", begun.elapsed().as_secs_f64());
    orders::clear(cluster).await?;
    storage::is_ok(cluster, LIMIT).await.map(drop)
}
