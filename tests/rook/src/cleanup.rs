//! The cleaning of the nodes that Ceph ran on: a job for each, once all its
//! daemons are gone. Like Rook, the operator has this in its head only.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::api;
use crate::operator::Operator;

/// Whose nodes are cleaned.
const APPS: &str = "app in (rook-ceph-mon, rook-ceph-mgr, rook-ceph-osd, rook-ceph-rgw, rook-ceph-mds, rook-ceph-rbd-mirror, rook-ceph-fs-mirror)";
/// How often it is looked whether the daemons are gone.
const LOOK: Duration = Duration::from_millis(500);

/// Notes the nodes, and begins to wait for the daemons' end.
pub async fn begin(operator: &mut Operator) -> kube::Result<()> {
    if operator
        .cleaning
        .as_ref()
        .is_some_and(|task| !task.is_finished())
    {
        return Ok(());
    }
    let hosts = hosts(&operator.client, &operator.namespace).await?;
    let (client, namespace) = (operator.client.clone(), operator.namespace.clone());
    let image = operator.image.clone();
    operator.cleaning = Some(tokio::spawn(async move {
        loop {
            sleep(LOOK).await;
            let left = api::list(&client, api::POD, Some(&namespace), APPS).await;
            if left.is_ok_and(|pods| pods.is_empty()) {
                break;
            }
        }
        for host in hosts {
            println!("starting clean up job on node {host}");
            let job = job(&namespace, &host, &image);
            if let Err(error) = api::make(&client, api::JOB, &job).await {
                eprintln!("failed to run cluster clean up job on node {host}: {error}");
            }
        }
    }));
    Ok(())
}

/// The nodes that have daemons, by their label `kubernetes.io/hostname`.
async fn hosts(client: &Client, namespace: &str) -> kube::Result<BTreeSet<String>> {
    let pods = api::list(client, api::POD, Some(namespace), APPS).await?;
    let nodes = api::list(client, api::NODE, None, "").await?;
    let named: BTreeSet<&str> = pods
        .iter()
        .filter_map(|pod| pod["spec"]["nodeName"].as_str())
        .collect();
    let label = |node: &Value| {
        let label = &node["metadata"]["labels"]["kubernetes.io/hostname"];
        label.as_str().map(str::to_owned)
    };
    Ok(nodes
        .iter()
        .filter(|node| named.contains(api::text(node, "name")))
        .filter_map(label)
        .collect())
}

fn job(namespace: &str, host: &str, image: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": format!("cluster-cleanup-job-{host}"), "namespace": namespace,
            "labels": {
                "app": "rook-ceph-cleanup", "rook-ceph-cleanup": "true",
                "rook_cluster": namespace,
            },
        },
        "spec": {
            // What fails, fails at once.
            "backoffLimit": 0,
            "template": {
                "metadata": {"labels": {"app": "rook-ceph-cleanup"}},
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 1,
                    "tolerations": [{"operator": "Exists"}],
                    "nodeSelector": {"kubernetes.io/hostname": host},
                    "containers": [{
                        "name": "host-cleanup", "image": image, "args": ["ceph", "clean"],
                        "env": [{"name": "NODE_NAME", "value": host}],
                    }],
                },
            },
        },
    })
}
