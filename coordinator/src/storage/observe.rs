//! One look at everything that the storage is decided by (client required).

use std::collections::BTreeSet;

use hypercloud_api::HyperCloudStorage;
use hypercloud_storage::decide::View;
use hypercloud_storage::device::in_cluster;
use hypercloud_storage::health::cluster_key;
use hypercloud_storage::manifest::Files;
use hypercloud_storage::object::Seen;
use hypercloud_storage::plan::removal::Osds;
use hypercloud_storage::refusal::Refusals;
use hypercloud_storage::version::KubernetesVersion;
use k8s_openapi::jiff::Timestamp;

use super::ceph;
use super::look::{self, Objects};
use super::nodes::{self, Nodes};
use super::reconcile::Context;
use super::users::{self, Leftovers};
use crate::shell::error::ObserveError;

/// What one look found.
#[derive(Debug)]
pub struct Looked {
    /// Objects of the kinds that matter.
    pub objects: Objects,
    nodes: Nodes,
    osds: Osds,
    files: Files,
    leftovers: Leftovers,
    kubernetes: Option<KubernetesVersion>,
}

/// Looks at the cluster. What only a deletion needs, or a device that is given
/// up, is not looked at otherwise.
pub async fn observe(
    context: &Context,
    resource: &HyperCloudStorage,
) -> Result<Looked, ObserveError> {
    let client = &context.shell.client;
    let objects = look::read(client, &context.definitions);
    let (objects, kubernetes) = tokio::try_join!(objects, nodes::kubernetes(client))?;
    let mut looked = Looked {
        objects,
        nodes: Nodes::default(),
        osds: Osds::none(),
        files: Files::new(),
        leftovers: Leftovers::default(),
        kubernetes,
    };
    let seen = &looked.objects.seen;
    if resource.metadata.deletion_timestamp.is_some() {
        let cleanup = resource.spec.cleanup.as_ref();
        if cleanup.is_some_and(|cleanup| cleanup.confirmation.is_some()) {
            looked.leftovers = users::look(client, seen).await?;
        }
        return Ok(looked);
    }
    let given = given(seen);
    looked.nodes = nodes::read(client, &wanted(resource, &given)).await?;
    let status = resource.status.as_ref();
    if status.is_some_and(|status| !status.removing.is_empty()) {
        looked.osds = ceph::osds(client, &context.heard, resource, seen, &looked.nodes).await?;
    }
    looked.files = context.library.files(&resource.spec).await;
    Ok(looked)
}

/// Nodes of which Ceph has devices.
fn given(seen: &Seen) -> BTreeSet<String> {
    let devices = seen.get(&cluster_key()).map(in_cluster);
    let devices = devices.unwrap_or_default().into_iter();
    devices.map(|(hostname, _)| hostname).collect()
}

/// Nodes whose devices matter.
fn wanted<'a>(resource: &'a HyperCloudStorage, given: &'a BTreeSet<String>) -> BTreeSet<&'a str> {
    let asked = resource.spec.storage.nodes.iter();
    let asked = asked.map(|node| node.hostname.as_str());
    let status = resource.status.iter();
    let leaving = status.flat_map(|status| &status.removing);
    let leaving = leaving.map(|device| device.hostname.as_str());
    let given = given.iter().map(String::as_str);
    asked.chain(given).chain(leaving).collect()
}

impl Looked {
    /// The look as the decision takes it.
    #[must_use]
    pub fn view<'a>(
        &'a self,
        resource: &'a HyperCloudStorage,
        refused: &'a Refusals,
        now: Timestamp,
    ) -> View<'a> {
        View {
            resource,
            seen: &self.objects.seen,
            hostnames: &self.nodes.hostnames,
            inventories: &self.nodes.inventories,
            osds: &self.osds,
            files: &self.files,
            refused,
            users: &self.leftovers.users,
            hosts: &self.leftovers.hosts,
            definitions_in_use: &self.leftovers.definitions_in_use,
            foreign_snapshots: self.leftovers.foreign_snapshots,
            kubernetes: self.kubernetes,
            now,
        }
    }
}
