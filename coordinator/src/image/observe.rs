//! One look at the world around an image (client required).
//!
//! Everything is read from the API server itself, never from a watch's
//! cache: a plan made on a stale status could take a step twice.

use hypercloud_api::{VirtualMachineImage, names};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams};
use kube::{Client, Error as KubeError, ResourceExt};

use super::observation::{ClaimSeen, Observation, StorageClassSeen};
use super::read;
use crate::agents::{Agents, AgentsSeen};
use crate::holder::HolderSeen;
use crate::holder::observe::{self as holder, Owner};
use crate::holder::read::{is_controlled_by, warning};
use crate::shell::error::ObserveError;

/// What there is around the image `namespace/name`; `None` where the image
/// itself is gone.
pub async fn observe(
    client: &Client,
    agents: &dyn Agents,
    namespace: &str,
    name: &str,
) -> Result<Option<Observation>, ObserveError> {
    let images: Api<VirtualMachineImage> = Api::namespaced(client.clone(), namespace);
    let image = images.get_opt(name).await.map_err(reading("the image"))?;
    let Some(image) = image else {
        return Ok(None);
    };
    let uid = image.metadata.uid.clone().unwrap_or_default();
    let mut claim = claim(client, namespace, name, &uid).await?;
    let mut holders = holders(client, &image).await?;
    let clones = clones(client, &image, claim.as_ref()).await?;
    explain(client, namespace, claim.as_mut(), &mut holders).await;
    let storage_class = match claim {
        Some(_) => StorageClassSeen::Found,
        None => storage_class(client, image.spec.storage_class_name.as_deref()).await?,
    };
    let agents = agents_seen(agents, &image, &holders);
    Ok(Some(Observation {
        image,
        claim,
        holders,
        clones,
        storage_class,
        agents,
    }))
}

async fn claim(
    client: &Client,
    namespace: &str,
    name: &str,
    uid: &str,
) -> Result<Option<ClaimSeen>, ObserveError> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let claim = claims
        .get_opt(&names::image_claim(name))
        .await
        .map_err(reading("the image's claim"))?;
    Ok(claim.map(|claim| read::claim(&claim, uid)))
}

/// The image's holders, by label, name and controller. In a deletion that
/// orphans, the garbage collector may have taken the controller away already.
async fn holders(
    client: &Client,
    image: &VirtualMachineImage,
) -> Result<Vec<HolderSeen>, ObserveError> {
    let meta = &image.metadata;
    let uid = meta.uid.as_deref().unwrap_or_default();
    let image_name = meta.name.as_deref().unwrap_or_default();
    let owner = Owner {
        namespace: meta.namespace.as_deref().unwrap_or_default(),
        label: names::LABEL_IMAGE_UID,
        uid,
    };
    let is_name = |name: &str, attempt| names::image_holder(image_name, attempt) == name;
    let accepts =
        |pod: &Pod| meta.deletion_timestamp.is_some() || is_controlled_by(&pod.metadata, uid);
    holder::list(client, owner, is_name, accepts)
        .await
        .map_err(reading("the image's holder pods"))
}

/// The claims that a deleted image's claim, which is there, is still needed
/// for.
async fn clones(
    client: &Client,
    image: &VirtualMachineImage,
    claim: Option<&ClaimSeen>,
) -> Result<Vec<String>, ObserveError> {
    let meta = &image.metadata;
    let may_go = claim.is_some_and(|claim| claim.ours && claim.deleting_since.is_none());
    if meta.deletion_timestamp.is_none() || !may_go {
        return Ok(Vec::new());
    }
    let uid = meta.uid.as_deref().unwrap_or_default();
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let label = format!("{}={uid}", names::LABEL_SOURCE_IMAGE_UID);
    let list = claims
        .list(&ListParams::default().labels(&label))
        .await
        .map_err(reading("the claims that are made from the image"))?;
    let needs = list.iter().filter(|claim| read::needs_source(claim));
    let mut names: Vec<String> = needs.map(ResourceExt::name_any).collect();
    names.sort();
    Ok(names)
}

/// Why nothing moves, where only Events tell.
async fn explain(
    client: &Client,
    namespace: &str,
    claim: Option<&mut ClaimSeen>,
    holders: &mut [HolderSeen],
) {
    let now = Timestamp::now();
    holder::explain(client, namespace, holders, now).await;
    if let Some(claim) = claim
        && read::is_unbound(claim, now)
        && !holders.is_empty()
    {
        let events = holder::events(client, namespace, &claim.uid).await;
        claim.problem = warning(&events, "ProvisioningFailed");
    }
}

async fn storage_class(
    client: &Client,
    name: Option<&str>,
) -> Result<StorageClassSeen, ObserveError> {
    let classes: Api<StorageClass> = Api::all(client.clone());
    let Some(name) = name else {
        let list = classes
            .list(&ListParams::default())
            .await
            .map_err(reading("the storage classes"))?;
        return Ok(read::default_class(&list.items));
    };
    let class = classes
        .get_opt(name)
        .await
        .map_err(reading("the storage class"))?;
    Ok(match class {
        Some(_) => StorageClassSeen::Found,
        None => StorageClassSeen::Missing(name.to_owned()),
    })
}

/// What the agents' streams told of the image and of the nodes it is on.
fn agents_seen(
    agents: &dyn Agents,
    image: &VirtualMachineImage,
    holders: &[HolderSeen],
) -> AgentsSeen {
    let uid = image.metadata.uid.as_deref().unwrap_or_default();
    let transfer = image
        .status
        .as_ref()
        .and_then(|status| status.transfer.as_ref());
    let nodes = holders
        .iter()
        .filter_map(|holder| holder.node.as_deref())
        .chain(transfer.map(|transfer| transfer.node_name.as_str()));
    AgentsSeen::of(agents, uid, nodes)
}

fn reading(what: &'static str) -> impl FnOnce(KubeError) -> ObserveError {
    move |source| ObserveError::Read { what, source }
}
