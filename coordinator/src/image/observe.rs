//! One look at the world around an image (client required).
//!
//! Everything is read from the API server itself, never from a watch's
//! cache: a plan made on a stale status could take a step twice.

use std::collections::{BTreeMap, BTreeSet};

use hypercloud_api::{VirtualMachineImage, names};
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams};
use kube::{Client, Error as KubeError, ResourceExt};

use super::error::ObserveError;
use super::observation::{
    AgentsSeen, ClaimSeen, HolderSeen, HolderState, Observation, StorageClassSeen,
};
use super::read;
use crate::agents::{AgentState, Agents};

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

/// The image's holders, by label, name and controller: a pod that merely
/// looks like one is none. In a deletion that orphans, the garbage collector
/// may have taken the controller away already.
async fn holders(
    client: &Client,
    image: &VirtualMachineImage,
) -> Result<Vec<HolderSeen>, ObserveError> {
    let meta = &image.metadata;
    let uid = meta.uid.as_deref().unwrap_or_default();
    let image_name = meta.name.as_deref().unwrap_or_default();
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let labels = format!(
        "{}={uid},{}={},{}={}",
        names::LABEL_IMAGE_UID,
        names::LABEL_ROLE,
        names::ROLE_HOLDER,
        names::LABEL_MANAGED_BY,
        names::MANAGED_BY,
    );
    let list = pods
        .list(&ListParams::default().labels(&labels))
        .await
        .map_err(reading("the image's holder pods"))?;
    let is_holder = |pod: &&Pod| {
        let name = pod.name_any();
        let attempt = name
            .rsplit_once('-')
            .and_then(|(_, attempt)| attempt.parse().ok());
        attempt.is_some_and(|attempt| names::image_holder(image_name, attempt) == name)
            && (meta.deletion_timestamp.is_some() || read::is_controlled_by(&pod.metadata, uid))
    };
    Ok(list.iter().filter(is_holder).map(read::holder).collect())
}

/// Why nothing moves, where only Events tell.
async fn explain(
    client: &Client,
    namespace: &str,
    claim: Option<&mut ClaimSeen>,
    holders: &mut [HolderSeen],
) {
    let now = Timestamp::now();
    for holder in holders
        .iter_mut()
        .filter(|holder| read::is_silent(holder, now))
    {
        let events = events(client, namespace, &holder.uid).await;
        holder.state = HolderState::Waiting(read::warning(&events, "HolderMountFailed"));
    }
    if let Some(claim) = claim
        && read::is_unbound(claim, now)
        && !holders.is_empty()
    {
        let events = events(client, namespace, &claim.uid).await;
        claim.problem = read::warning(&events, "ProvisioningFailed");
    }
}

/// The Events about an object; they only explain, so none is as good as a
/// failure to read them.
async fn events(client: &Client, namespace: &str, uid: &str) -> Vec<Event> {
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let fields = format!("involvedObject.uid={uid}");
    match events.list(&ListParams::default().fields(&fields)).await {
        Ok(list) => list.items,
        Err(error) => {
            tracing::debug!(%error, "reading events");
            Vec::new()
        }
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
    let jobs = agents.jobs_of(image.metadata.uid.as_deref().unwrap_or_default());
    let transfer = image
        .status
        .as_ref()
        .and_then(|status| status.transfer.as_ref());
    let nodes: BTreeSet<&str> = holders
        .iter()
        .filter_map(|holder| holder.node.as_deref())
        .chain(transfer.map(|transfer| transfer.node_name.as_str()))
        .chain(jobs.iter().map(|job| job.node.as_str()))
        .collect();
    let away: BTreeMap<_, _> = nodes
        .into_iter()
        .filter_map(|node| match agents.state(node) {
            AgentState::Away { since } => Some((node.to_owned(), since)),
            AgentState::Synced => None,
        })
        .collect();
    AgentsSeen {
        synced: agents.synced(),
        away,
        jobs,
    }
}

fn reading(what: &'static str) -> impl FnOnce(KubeError) -> ObserveError {
    move |source| ObserveError::Read { what, source }
}
