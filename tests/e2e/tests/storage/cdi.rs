//! CDI beside Rook: from a file whose checksum its user says.

use e2e::storage::ground::Ground;
use e2e::storage::objects::{Object, deployment};
use e2e::storage::{self, LIMIT, NOTICED, component, orders};
use hypercloud_api::ComponentState;
use serde_json::json;

const CDI: Object<'_> = Object {
    api_version: "cdi.kubevirt.io/v1beta1",
    kind: "CDI",
    namespace: "",
    name: "cdi",
};

pub async fn comes_and_goes_as_it_is_asked_for(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    let before = ground.installed().await?;
    let mut spec = before.clone();

    // Nobody knows the file's bytes but its user.
    spec["cdi"] = json!({});
    storage::set(cluster, &spec).await?;
    storage::fails(cluster, "ManifestUnknown", NOTICED).await?;
    spec["cdi"] = json!({"sha256": "0".repeat(64)});
    storage::set(cluster, &spec).await?;
    storage::fails(cluster, "ManifestChecksumWrong", NOTICED).await?;

    spec["cdi"] = json!({"sha256": ground.mirror.sha256_of_cdi()?});
    storage::set(cluster, &spec).await?;
    let status = storage::is_ok(cluster, LIMIT).await?;
    for name in ["cdi-operator", "cdi"] {
        let found = component(&status, name);
        let state = found.map(|found| found.state);
        assert_eq!(state, Some(ComponentState::Ready), "{found:?}");
    }

    orders::give(cluster, &[("cdi", "degraded")]).await?;
    storage::becomes(cluster, "says that CDI fails", NOTICED, |status| {
        component(status, "cdi").is_some_and(|cdi| cdi.state == ComponentState::Failed)
    })
    .await?;
    orders::clear(cluster).await?;
    storage::is_ok(cluster, LIMIT).await?;

    // It holds no data, so it goes when it is asked for no more; its operator
    // takes its resource away first.
    storage::set(cluster, &before).await?;
    CDI.gone(cluster, LIMIT).await?;
    deployment("cdi", "cdi-operator")
        .gone(cluster, LIMIT)
        .await?;
    let status = storage::is_ok(cluster, LIMIT).await?;
    assert!(component(&status, "cdi").is_none(), "{status:?}");
    Ok(())
}
