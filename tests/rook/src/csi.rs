//! The CSI operator: a Deployment and a DaemonSet for each Driver, whose pods
//! are drivers in name only.

use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::orders::Orders;
use crate::{api, daemon, follow, pod, probe};

/// Port of the manifest's probes.
const PORT: u16 = 8081;
/// How often it looks.
const LOOK: Duration = Duration::from_secs(2);
/// What keeps a profile until the operator let it go.
const FINALIZER: &str = "csi.ceph.com/cleanup";
/// By which a CSIDriver says whose it is.
const OWNER: &str = "csi.ceph.io/ownerref";

/// Runs for as long as the program does.
pub async fn run(client: &Client) -> anyhow::Result<()> {
    let orders = follow::orders(client);
    let name = "ceph-csi-controller-manager".to_owned();
    let probes = probe::serve(PORT, name, orders.clone());
    let namespace = pod::namespace();
    let work = async {
        loop {
            let now = orders.borrow().clone();
            if let Err(error) = pass(client, &namespace, &now).await
                && !api::is_conflict(&error)
            {
                eprintln!("{error}");
            }
            sleep(LOOK).await;
        }
    };
    tokio::select! {
        ended = probes => ended,
        () = work => Ok(()),
    }
}

async fn pass(client: &Client, namespace: &str, orders: &Orders) -> kube::Result<()> {
    for profile in api::list(client, api::PROFILE, Some(namespace), "").await? {
        if api::is_going(&profile) {
            api::release(client, api::PROFILE, &profile, FINALIZER).await?;
        } else {
            api::hold(client, api::PROFILE, &profile, FINALIZER).await?;
        }
    }
    if !orders.drivers {
        return Ok(());
    }
    let drivers = api::list(client, api::DRIVER, Some(namespace), "").await?;
    if drivers.is_empty() {
        return Ok(());
    }
    let Some(image) = image(client, namespace).await? else {
        return Ok(());
    };
    for driver in drivers.iter().filter(|driver| !api::is_going(driver)) {
        let name = api::text(driver, "name");
        let registered = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
            "metadata": {"name": name, "annotations": {
                OWNER: json!({"Namespace": namespace, "Name": name}).to_string(),
            }},
            "spec": {"attachRequired": true, "podInfoOnMount": false, "fsGroupPolicy": "File"},
        });
        api::make(client, api::CSI_DRIVER, &registered).await?;
        for (kind, part) in [
            (api::DEPLOYMENT, "ctrlplugin"),
            (api::DAEMON_SET, "nodeplugin"),
        ] {
            let meant = workload(driver, namespace, kind, part, &image);
            keep(client, kind, &meant).await?;
        }
    }
    Ok(())
}

/// The drivers' image, by the set that the operator's settings name.
async fn image(client: &Client, namespace: &str) -> kube::Result<Option<String>> {
    let name = "ceph-csi-operator-config";
    let config = api::get(client, api::OPERATOR_CONFIG, Some(namespace), name).await?;
    let set = config
        .as_ref()
        .and_then(|config| config["spec"]["driverSpecDefaults"]["imageSet"]["name"].as_str());
    let Some(set) = set else {
        return Ok(None);
    };
    let images = api::get(client, api::CONFIG_MAP, Some(namespace), set).await?;
    Ok(images.and_then(|map| map["data"]["plugin"].as_str().map(str::to_owned)))
}

fn workload(driver: &Value, namespace: &str, kind: api::Kind, part: &str, image: &str) -> Value {
    let driver_name = api::text(driver, "name");
    let name = format!("{driver_name}-{part}");
    let type_ = if driver_name.contains(".rbd.") {
        "rbd"
    } else {
        "cephfs"
    };
    let environment = [json!({"name": daemon::WORKLOAD, "value": name})];
    let mut pod = daemon::pod("cephcsi", image, &environment);
    pod["serviceAccountName"] = json!(format!("ceph-csi-{type_}-{part}-sa"));
    let mut spec = json!({
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
    });
    if kind == api::DEPLOYMENT {
        spec["replicas"] = json!(1);
    }
    json!({
        "apiVersion": "apps/v1", "kind": kind.kind,
        "metadata": {
            "name": name, "namespace": namespace,
            "ownerReferences": [daemon::owner(driver)],
        },
        "spec": spec,
    })
}

/// Makes a workload, and brings it to its image.
async fn keep(client: &Client, kind: api::Kind, meant: &Value) -> kube::Result<()> {
    let namespace = meant["metadata"]["namespace"].as_str();
    let found = api::get(client, kind, namespace, api::text(meant, "name")).await?;
    let Some(mut live) = found else {
        return api::make(client, kind, meant).await;
    };
    let wanted = &meant["spec"]["template"]["spec"]["containers"][0]["image"];
    let image = &mut live["spec"]["template"]["spec"]["containers"][0]["image"];
    if image == wanted || api::is_going(meant) {
        return Ok(());
    }
    *image = wanted.clone();
    api::replace(client, kind, &live).await
}
