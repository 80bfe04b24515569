//! Claims of buckets in this storage (client required).

use hypercloud_storage::health::resource::bucket_claim;
use hypercloud_storage::object::Seen;
use kube::Client;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};

use super::claims::Classes;
use super::list::{Known, all};
use crate::shell::error::ObserveError;

/// Provisioner of buckets of Rook in its namespace.
const PROVISIONER: &str = "rook-ceph.ceph.rook.io/bucket";

/// The claims but for this system's own, as `namespace/name`. One whose class
/// is gone may be of this storage too.
pub async fn look(
    client: &Client,
    classes: &Classes,
    seen: &Seen,
) -> Result<Vec<String>, ObserveError> {
    let kind = GroupVersionKind::gvk("objectbucket.io", "v1alpha1", "ObjectBucketClaim");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let own = bucket_claim();
    let pick = |claim: DynamicObject| {
        let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
        let is_own = own.namespace.as_ref() == Some(&namespace) && own.name == name;
        let class = claim.data["spec"]["storageClassName"].as_str();
        let provisioner = class.and_then(|class| classes.get(class));
        let is_other = provisioner.is_some_and(|provisioner| provisioner != PROVISIONER);
        (!is_own && !is_other).then(|| format!("{namespace}/{name}"))
    };
    let definition = "objectbucketclaims.objectbucket.io";
    let what = ("the claims of buckets", Known::by(seen, definition));
    let mut claims = all(&api, what, ListParams::default(), pick).await?;
    claims.sort();
    Ok(claims)
}
