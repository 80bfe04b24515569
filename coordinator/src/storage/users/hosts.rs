//! Nodes by the label that Rook knows them by (client required).

use std::collections::{BTreeMap, BTreeSet};

use hypercloud_storage::ROOK_NAMESPACE;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use super::list::{Known, all, reading};
use crate::inventory::observe::node_seen;
use crate::shell::error::ObserveError;

/// Labels `app` of the pods by which Rook finds the nodes that it cleans.
const DAEMONS: [&str; 7] = [
    "rook-ceph-mon",
    "rook-ceph-mgr",
    "rook-ceph-osd",
    "rook-ceph-rgw",
    "rook-ceph-mds",
    "rook-ceph-rbd-mirror",
    "rook-ceph-fs-mirror",
];

/// Labels `kubernetes.io/hostname` of the nodes, by their names.
pub async fn by_name(client: &Client) -> Result<BTreeMap<String, String>, ObserveError> {
    let api: Api<Node> = Api::all(client.clone());
    let list = api.list_metadata(&ListParams::default()).await;
    let list = list.map_err(reading("the nodes"))?;
    let pair = |node| Some((ResourceExt::name_any(node), node_seen(node).hostname?));
    Ok(list.items.iter().filter_map(pair).collect())
}

/// The labels of the nodes that Ceph's daemons run on. A node that is gone is
/// cleaned by nobody.
pub async fn of_ceph(client: &Client) -> Result<Vec<String>, ObserveError> {
    let api: Api<Pod> = Api::namespaced(client.clone(), ROOK_NAMESPACE);
    let daemons = format!("app in ({})", DAEMONS.join(","));
    // One that ends is not there any more when Rook looks.
    let pick = |pod: Pod| {
        let stays = pod.metadata.deletion_timestamp.is_none();
        pod.spec?.node_name.filter(|_| stays)
    };
    let params = ListParams::default().labels(&daemons);
    let what = ("the pods of Ceph", Known::Defined);
    let nodes = all(&api, what, params, pick).await?;
    let nodes: BTreeSet<String> = nodes.into_iter().collect();
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    let hostnames = by_name(client).await?;
    let found: BTreeSet<&String> = nodes.iter().filter_map(|n| hostnames.get(n)).collect();
    Ok(found.into_iter().cloned().collect())
}
