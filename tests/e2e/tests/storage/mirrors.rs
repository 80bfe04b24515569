//! Where manifests come from, and an installation that does not get on.

use std::time::Duration;

use e2e::storage::ground::Ground;
use e2e::storage::objects::{CEPH_CLUSTER, Object};
use e2e::storage::{self, INSTALLATION, LIMIT, NOTICED, component, orders};
use hypercloud_api::{ComponentState, StorageState};
use serde_json::json;

/// A file that was wrong is fetched again at intervals that grow.
const FETCHED_AGAIN: Duration = Duration::from_secs(150);

pub async fn a_byte_that_is_wrong_stops_it_until_it_is_mended(
    ground: &Ground,
) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    ground.none().await?;
    ground.mirror.spoil("rook/v1.20.6/common.yaml")?;
    storage::set(cluster, &ground.spec()).await?;
    let status = storage::fails(cluster, "ManifestChecksumWrong", INSTALLATION).await?;
    let message = status.message.clone().unwrap_or_default();
    assert!(message.contains("rook/v1.20.6/common.yaml"), "{message}");
    let above = component(&status, "rook-definitions").map(|found| found.state);
    assert_eq!(above, Some(ComponentState::Ready));
    let below = component(&status, "csi-operator").map(|found| found.state);
    assert_eq!(below, Some(ComponentState::Waiting));
    let role = Object {
        api_version: "rbac.authorization.k8s.io/v1",
        kind: "ClusterRole",
        namespace: "",
        name: "rook-ceph-global",
    };
    assert!(
        role.get(cluster).await?.is_none(),
        "something of the file was applied"
    );

    ground.mirror.mend()?;
    storage::becomes(cluster, "goes on", FETCHED_AGAIN, |status| {
        component(status, "rook-common").is_some_and(|found| found.state == ComponentState::Ready)
    })
    .await?;
    storage::is_ok(cluster, INSTALLATION).await.map(drop)
}

/// Rook says Ready without a single OSD, and nothing at all in some cases.
pub async fn what_rook_calls_ready_is_not_enough(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    ground.none().await?;
    // What was made once stays, so no driver is from the beginning.
    let none = ("drivers", "absent");
    orders::give(cluster, &[("status", "empty"), none]).await?;
    storage::set(cluster, &ground.spec()).await?;
    let of = |reason: &'static str| {
        move |status: &hypercloud_api::HyperCloudStorageStatus| {
            assert_ne!(status.state, Some(StorageState::Ok), "{status:?}");
            let ceph = component(status, "ceph-cluster");
            ceph.is_some_and(|ceph| ceph.reason.as_deref() == Some(reason))
        }
    };
    let what = "says that Rook says nothing";
    storage::becomes(cluster, what, INSTALLATION, of("CephClusterUntouched")).await?;

    orders::give(cluster, &[("osds-missing", "all"), none]).await?;
    storage::object(
        cluster,
        &CEPH_CLUSTER,
        "is Ready for Rook",
        LIMIT,
        |found| found.is_some_and(|found| found["status"]["phase"] == "Ready"),
    )
    .await?;
    let what = "misses the OSDs";
    storage::becomes(cluster, what, NOTICED, of("OsdsMissing")).await?;

    orders::give(cluster, &[none]).await?;
    storage::becomes(cluster, "misses the drivers", LIMIT, |status| {
        let drivers = component(status, "csi-drivers");
        drivers.is_some_and(|drivers| drivers.reason.as_deref() == Some("WorkloadMissing"))
    })
    .await?;
    orders::clear(cluster).await?;
    storage::is_ok(cluster, INSTALLATION).await?;

    // A cluster without internet, with the mirror beside the coordinator.
    let asked = ground.mirror.asked()?;
    let mut spec = ground.spec();
    let target = ground.target(&spec).await?;
    let maps = ground.mirror.into_config_maps(cluster, &target).await?;
    spec["manifests"] = json!({"configMaps": maps});
    storage::set(cluster, &spec).await?;
    storage::is_ok(cluster, LIMIT).await?;
    assert_eq!(ground.mirror.asked()?, asked, "the web server was asked");
    Ok(())
}
