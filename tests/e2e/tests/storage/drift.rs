//! What others do to what was installed.

use std::time::{Duration, Instant};

use e2e::storage::ground::Ground;
use e2e::storage::objects::{Object, deployment};
use e2e::storage::{self, object};
use hypercloud_storage::{BLOCK, ROOK_NAMESPACE};
use serde_json::{Value, json};

/// How long something may stay that nothing tells of: everything is applied
/// again every three minutes.
const APPLIED_AGAIN: Duration = Duration::from_secs(240);

const TOOLS: Object<'_> = deployment(ROOK_NAMESPACE, "rook-ceph-tools");
const ROLE: Object<'_> = Object {
    api_version: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRole",
    namespace: "",
    name: "rook-ceph-global",
};
const ACCOUNT: Object<'_> = Object {
    api_version: "v1",
    kind: "ServiceAccount",
    namespace: ROOK_NAMESPACE,
    name: "rook-ceph-purge-osd",
};
const CLASS: Object<'_> = Object {
    api_version: "storage.k8s.io/v1",
    kind: "StorageClass",
    namespace: "",
    name: BLOCK,
};
const SETTINGS: Object<'_> = Object {
    api_version: "v1",
    kind: "ConfigMap",
    namespace: ROOK_NAMESPACE,
    name: "rook-ceph-operator-config",
};
const MACHINES: &str = "storageclass.kubevirt.io/is-default-virt-class";

fn image(object: &Value) -> &str {
    let containers = &object["spec"]["template"]["spec"]["containers"];
    containers[0]["image"].as_str().unwrap_or_default()
}

pub async fn what_others_change_is_put_right_and_what_they_add_stays(
    ground: &Ground,
) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    ground.installed().await?;
    let begun = Instant::now();

    let added = json!({"metadata": {
        "labels": {"somebody": "was-here"},
        "annotations": {"somebody/says": "hello"},
    }});
    TOOLS.merge(cluster, added.clone()).await?;
    CLASS.merge(cluster, added).await?;
    // What the administrator sets there is his.
    let level = json!({"data": {"ROOK_LOG_LEVEL": "DEBUG"}});
    SETTINGS.merge(cluster, level).await?;

    let strange = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "rook-ceph-tools", "image": "docker.io/somebody/else:1"}]}}}});
    // Containers are a list: the whole of it is another's by this patch.
    TOOLS.merge(cluster, strange).await?;
    TOOLS
        .merge(cluster, json!({"spec": {"replicas": 2}}))
        .await?;
    ROLE.merge(cluster, json!({"rules": []})).await?;
    let no_default = json!({"metadata": {"annotations": {MACHINES: "false"}}});
    CLASS.merge(cluster, no_default).await?;
    ACCOUNT.delete(cluster).await?;

    object(
        cluster,
        &ACCOUNT,
        "is there again",
        APPLIED_AGAIN,
        |found| found.is_some(),
    )
    .await?;
    println!(
        "what was deleted is there after {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    object(cluster, &TOOLS, "has its image", APPLIED_AGAIN, |found| {
        found.is_some_and(|found| image(found).contains("ceph/ceph:v"))
    })
    .await?;
    object(cluster, &TOOLS, "has one pod", APPLIED_AGAIN, |found| {
        found.is_some_and(|found| found["spec"]["replicas"] == 1)
    })
    .await?;
    object(cluster, &ROLE, "has its rules", APPLIED_AGAIN, |found| {
        let rules = found.and_then(|found| found["rules"].as_array());
        rules.is_some_and(|rules| !rules.is_empty())
    })
    .await?;
    object(cluster, &CLASS, "is for machines", APPLIED_AGAIN, |found| {
        found.is_some_and(|found| found["metadata"]["annotations"][MACHINES] == "true")
    })
    .await?;
    println!("all is right after {:.1} s", begun.elapsed().as_secs_f64());

    for own in [TOOLS, CLASS] {
        let found = own.get(cluster).await?.unwrap_or_default();
        assert_eq!(
            found["metadata"]["labels"]["somebody"], "was-here",
            "{found}"
        );
        assert_eq!(
            found["metadata"]["annotations"]["somebody/says"], "hello",
            "{found}"
        );
    }
    let settings = SETTINGS.get(cluster).await?.unwrap_or_default();
    assert_eq!(settings["data"]["ROOK_LOG_LEVEL"], "DEBUG", "{settings}");
    storage::is_ok(cluster, storage::LIMIT).await.map(drop)
}
