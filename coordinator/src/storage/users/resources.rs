//! Resources of Rook that this system did not make (client required).

use hypercloud_storage::ROOK_NAMESPACE;
use hypercloud_storage::object::{Key, LABEL_STAGE, Seen};
use kube::api::{Api, DynamicObject};
use kube::core::PartialObjectMeta;
use kube::{Client, ResourceExt};

use super::list::{Groups, kinds, lacking, metadata};
use crate::shell::error::ObserveError;

const GROUP: &str = "ceph.rook.io";

/// Those in Rook's namespace, as `CephFilesystem name`: Rook deletes no
/// CephCluster as long as they are there. What Rook made for another of them
/// goes with that.
pub async fn look(
    client: &Client,
    groups: &Groups,
    seen: &Seen,
) -> Result<Vec<String>, ObserveError> {
    let is_defined = |key: &Key| {
        let name = key.name.strip_suffix(GROUP);
        key.kind == "CustomResourceDefinition" && name.is_some() && !seen.is_going(key)
    };
    if !groups.contains_key(GROUP) && seen.keys().any(is_defined) {
        return Err(lacking(GROUP));
    }
    let mut others = Vec::new();
    for (resource, kind) in kinds(client, groups, GROUP).await? {
        if !kind.namespaced {
            continue;
        }
        let api: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), ROOK_NAMESPACE, &resource);
        let pick = |object: PartialObjectMeta<DynamicObject>| {
            let is_made = object.labels().contains_key(LABEL_STAGE);
            let mut owners = object.owner_references().iter();
            let is_owned = owners.any(|owner| owner.api_version.starts_with(GROUP));
            (!is_made && !is_owned).then(|| format!("{} {}", kind.kind, object.name_any()))
        };
        others.extend(metadata(&api, "the resources of Rook", pick).await?);
    }
    others.sort();
    Ok(others)
}
