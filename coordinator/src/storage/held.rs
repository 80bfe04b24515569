//! Which devices are the storage's (client required): whoever erases devices
//! leaves these alone, also while nothing has them open.

use std::collections::BTreeSet;

use hypercloud_api::{HYPERCLOUD_STORAGE_NAME, HyperCloudStorage};
use hypercloud_storage::device::in_cluster;
use hypercloud_storage::health::cluster_key;
use hypercloud_storage::object::Key;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Client, Error as KubeError};
use serde_json::Value;

use crate::shell::error::ObserveError;

/// Links of the devices of a node that Ceph has, is to have, or is giving up.
/// The node is called by its label `kubernetes.io/hostname`.
pub async fn links(client: &Client, hostname: &str) -> Result<BTreeSet<String>, ObserveError> {
    let key = cluster_key();
    let storages: Api<HyperCloudStorage> = Api::all(client.clone());
    let (cluster, storage) = tokio::join!(
        object(client, &key, "cephclusters", "the CephCluster"),
        storages.get(HYPERCLOUD_STORAGE_NAME),
    );
    let status = match storage {
        Ok(storage) => storage.status.unwrap_or_default(),
        Err(KubeError::Api(status)) if status.code == 404 => Default::default(),
        Err(source) => {
            let what = "the HyperCloudStorage";
            return Err(ObserveError::Read { what, source });
        }
    };
    let written = status.devices.into_iter().chain(status.removing);
    let written = written.map(|device| (device.hostname, device.by_id));
    let in_cluster = cluster?.as_ref().map(in_cluster).unwrap_or_default();
    let all = in_cluster.into_iter().chain(written);
    let own = all.filter(|(node, _)| node == hostname);
    Ok(own.map(|(_, link)| link).collect())
}

/// One object; none where it, or its kind, is not there.
pub async fn object(
    client: &Client,
    key: &Key,
    plural: &str,
    what: &'static str,
) -> Result<Option<Value>, ObserveError> {
    let reading = |source: KubeError| ObserveError::Read { what, source };
    let version = key.api_version.rsplit('/').next().unwrap_or_default();
    let kind = GroupVersionKind::gvk(key.group(), version, &key.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, plural);
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let found = match api.get(&key.name).await {
        Ok(object) => Some(object),
        // Of a kind that is not there the API server says so in plain text.
        Err(KubeError::Api(status)) if status.code == 404 => None,
        Err(error) => return Err(reading(error)),
    };
    let value = found.map(|object| serde_json::to_value(&object));
    value
        .transpose()
        .map_err(|error| reading(KubeError::SerdeError(error)))
}
