//! What the cluster is like, as a specification is judged by it (client
//! required).

use std::collections::BTreeSet;

use hypercloud_storage::admission::Ground;
use hypercloud_storage::decide::{operator_key, running};
use hypercloud_storage::device::{Known, in_cluster};
use hypercloud_storage::health::cluster_key;
use hypercloud_storage::object::Seen;
use hypercloud_storage::version::{KubernetesVersion, Running};
use kube::Client;

use super::review::Change;
use crate::shell::error::ObserveError;
use crate::storage::held::object;
use crate::storage::nodes;

/// What one look saw.
#[derive(Clone, Debug)]
pub struct Look {
    known: Known,
    running: Running,
    kubernetes: Option<KubernetesVersion>,
}

impl Look {
    /// What the decision needs of it.
    pub fn ground(&self) -> Ground<'_> {
        Ground {
            known: &self.known,
            running: self.running,
            kubernetes: self.kubernetes,
        }
    }
}

/// Looks at what `change` has to do with.
pub async fn look(client: &Client, change: &Change) -> Result<Look, ObserveError> {
    let (cluster_key, operator_key) = (cluster_key(), operator_key());
    let (cluster, operator, kubernetes) = tokio::try_join!(
        object(client, &cluster_key, "cephclusters", "the CephCluster"),
        object(client, &operator_key, "deployments", "Rook's operator"),
        nodes::kubernetes(client),
    )?;
    let in_cluster = cluster.as_ref().map(in_cluster).unwrap_or_default();
    let old = change.old.iter().flat_map(|old| &old.storage.nodes);
    let named = old.chain(&change.new.storage.nodes);
    let wanted: BTreeSet<&str> = named
        .map(|node| node.hostname.as_str())
        .chain(in_cluster.iter().map(|(hostname, _)| hostname.as_str()))
        .collect();
    let nodes = nodes::read(client, &wanted).await?;
    let seen: Seen = cluster.into_iter().chain(operator).collect();
    Ok(Look {
        running: running(&change.status.components, &seen),
        kubernetes,
        known: Known {
            hostnames: nodes.hostnames,
            inventories: nodes.inventories,
            settled: change.status.devices.clone(),
            in_cluster,
            removing: change.status.removing.clone(),
        },
    })
}
