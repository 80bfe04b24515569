//! One look at the world around a rollback (client required).
//!
//! Everything is read from the API server itself, never from a watch's
//! cache: a plan made on a stale status could take a step twice, and one made
//! on stale pods could write under their feet.

use hypercloud_api::{RollbackPhase, VirtualMachineVolumeRollback, names};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams};
use kube::{Client, Error as KubeError, ResourceExt};

use super::observation::{Observation, RestoredSeen, TargetSeen};
use crate::agents::{Agents, AgentsSeen};
use crate::holder::HolderSeen;
use crate::holder::observe::{self as holder, Owner};
use crate::holder::read::{is_old, warning};
use crate::shell::error::ObserveError;
use crate::volume::{claim, snapshot, topology, users};

/// What there is around the rollback `namespace/name`; `None` where the
/// rollback itself is gone.
pub async fn observe(
    client: &Client,
    agents: &dyn Agents,
    namespace: &str,
    name: &str,
) -> Result<Option<Observation>, ObserveError> {
    let rollbacks: Api<VirtualMachineVolumeRollback> = Api::namespaced(client.clone(), namespace);
    let found = rollbacks.get_opt(name).await;
    let Some(rollback) = found.map_err(reading("the rollback"))? else {
        return Ok(None);
    };
    let uid = rollback.metadata.uid.clone().unwrap_or_default();
    let claim = &rollback.spec.pvc_name;
    let is_ours = |pod: &Pod| is_holder(pod, &uid);
    let before = before(&rollbacks, &rollback).await?;
    let target = target(client, namespace, claim).await?;
    let snapshot = snapshot::get(client, namespace, &rollback.spec.volume_snapshot_name)
        .await
        .map_err(reading("the snapshot"))?;
    let owner = Owner {
        namespace,
        label: names::LABEL_ROLLBACK_UID,
        uid: &uid,
    };
    let is_name = |name: &str, attempt| names::rollback_holder(&uid, attempt) == name;
    let mut holders = holder::list(client, owner, is_name, is_ours)
        .await
        .map_err(reading("the rollback's holder pods"))?;
    let mut restored = restored(client, namespace, &uid).await?;
    explain(client, namespace, restored.as_mut(), &mut holders).await;
    // Last, so that nothing else of this look is newer.
    let users = users::users(client, namespace, claim, is_ours)
        .await
        .map_err(reading("the pods that use the volume"))?;
    let agents = agents_seen(agents, &rollback, &holders);
    Ok(Some(Observation {
        rollback,
        target,
        snapshot,
        restored,
        holders,
        users,
        before,
        agents,
    }))
}

/// Whether `pod` is a holder of the rollback with this UID. Anybody can set a
/// label and choose a name: it is the restored claim that tells, which the API
/// server lets only the coordinator's pods mount.
fn is_holder(pod: &Pod, uid: &str) -> bool {
    let label = |key: &str| pod.labels().get(key).map(String::as_str);
    let name = pod.name_any();
    let attempt = name.rsplit_once('-').and_then(|(_, n)| n.parse().ok());
    label(names::LABEL_ROLLBACK_UID) == Some(uid)
        && label(names::LABEL_ROLE) == Some(names::ROLE_HOLDER)
        && attempt.is_some_and(|attempt| names::rollback_holder(uid, attempt) == name)
        && users::mounts(pod, &names::restored_claim(uid))
}

/// A rollback of the same claim that goes first: the older of two that wait,
/// and any that began.
async fn before(
    rollbacks: &Api<VirtualMachineVolumeRollback>,
    rollback: &VirtualMachineVolumeRollback,
) -> Result<Option<String>, ObserveError> {
    let list = rollbacks.list(&ListParams::default()).await;
    let list = list.map_err(reading("the other rollbacks"))?;
    let age = |rollback: &VirtualMachineVolumeRollback| {
        let meta = &rollback.metadata;
        let created = meta.creation_timestamp.as_ref().map(|time| time.0);
        (created, meta.uid.clone())
    };
    let goes_first = |other: &&VirtualMachineVolumeRollback| {
        let status = other.status.as_ref();
        let phase = status.and_then(|status| status.phase);
        let over = matches!(
            phase,
            Some(RollbackPhase::Succeeded | RollbackPhase::Failed | RollbackPhase::Deleting)
        );
        let begun = phase == Some(RollbackPhase::RollingBack)
            || status.is_some_and(|status| status.copy.is_some());
        let waits = other.metadata.deletion_timestamp.is_none();
        other.spec.pvc_name == rollback.spec.pvc_name
            && other.metadata.uid != rollback.metadata.uid
            && !over
            && (begun || (waits && age(other) < age(rollback)))
    };
    let mut first: Vec<_> = list.iter().filter(goes_first).collect();
    first.sort_by_key(|rollback| age(rollback));
    Ok(first.first().map(|rollback| rollback.name_any()))
}

/// The claim whose volume is put back.
async fn target(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<TargetSeen>, ObserveError> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let claim = claims.get_opt(name).await.map_err(reading("the claim"))?;
    let Some(mut target) = claim.as_ref().map(claim::target) else {
        return Ok(None);
    };
    if let Some(volume) = &target.volume_name {
        let volumes: Api<PersistentVolume> = Api::all(client.clone());
        let volume = volumes.get_opt(volume).await;
        let volume = volume.map_err(reading("the claim's volume"))?;
        if let Some(volume) = &volume {
            target.nodes = nodes(client, &target, volume).await?;
        }
        let csi = volume.and_then(|volume| volume.spec?.csi);
        target.driver = csi.as_ref().map(|csi| csi.driver.clone());
        target.volume_handle = csi.map(|csi| csi.volume_handle);
    }
    Ok(Some(target))
}

/// The only nodes that `volume` can be attached to. Of no interest where the
/// class waits for its consumer: then the scheduler brings both volumes
/// together.
async fn nodes(
    client: &Client,
    target: &TargetSeen,
    volume: &PersistentVolume,
) -> Result<Option<Vec<String>>, ObserveError> {
    let (Some(selector), Some(class)) = (topology::required(volume), &target.storage_class) else {
        return Ok(None);
    };
    let classes: Api<StorageClass> = Api::all(client.clone());
    let class = classes.get_opt(class).await;
    let class = class.map_err(reading("the storage class"))?;
    let mode = class.and_then(|class| class.volume_binding_mode);
    if mode.as_deref() == Some("WaitForFirstConsumer") {
        return Ok(None);
    }
    let nodes: Api<Node> = Api::all(client.clone());
    let list = nodes.list(&ListParams::default()).await;
    let list = list.map_err(reading("the nodes"))?;
    Ok(Some(topology::matching(selector, &list.items)))
}

/// The claim that the snapshot is restored to.
async fn restored(
    client: &Client,
    namespace: &str,
    uid: &str,
) -> Result<Option<RestoredSeen>, ObserveError> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let claim = claims.get_opt(&names::restored_claim(uid)).await;
    let claim = claim.map_err(reading("the restored claim"))?;
    Ok(claim.as_ref().map(claim::restored))
}

/// Why nothing moves, where only Events tell.
async fn explain(
    client: &Client,
    namespace: &str,
    restored: Option<&mut RestoredSeen>,
    holders: &mut [HolderSeen],
) {
    let now = Timestamp::now();
    holder::explain(client, namespace, holders, now).await;
    if let Some(restored) = restored
        && restored.volume_name.is_none()
        && restored.deleting_since.is_none()
        && is_old(restored.since, now)
    {
        let events = holder::events(client, namespace, &restored.uid).await;
        restored.problem = warning(&events, "ProvisioningFailed");
    }
}

/// What the agents' streams told of the rollback and of the nodes it is on.
fn agents_seen(
    agents: &dyn Agents,
    rollback: &VirtualMachineVolumeRollback,
    holders: &[HolderSeen],
) -> AgentsSeen {
    let uid = rollback.metadata.uid.as_deref().unwrap_or_default();
    let copy = rollback
        .status
        .as_ref()
        .and_then(|status| status.copy.as_ref());
    let nodes = holders
        .iter()
        .filter_map(|holder| holder.node.as_deref())
        .chain(copy.map(|copy| copy.node_name.as_str()));
    AgentsSeen::of(agents, uid, nodes)
}

fn reading(what: &'static str) -> impl FnOnce(KubeError) -> ObserveError {
    move |source| ObserveError::Read { what, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(claim: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": names::rollback_holder("u1", 2), "labels": {
                (names::LABEL_ROLLBACK_UID): "u1", (names::LABEL_ROLE): names::ROLE_HOLDER
            }},
            "spec": {"containers": [], "volumes": [
                {"name": "source", "persistentVolumeClaim": {"claimName": claim}},
                {"name": "target", "persistentVolumeClaim": {"claimName": "root"}}
            ]}
        }))
        .unwrap()
    }

    #[test]
    fn a_holder_mounts_the_restored_claim() {
        let restored = names::restored_claim("u1");
        assert!(is_holder(&pod(&restored), "u1"));
        assert!(!is_holder(&pod(&restored), "u2"));
        for other in ["data".to_owned(), names::restored_claim("u2")] {
            assert!(!is_holder(&pod(&other), "u1"), "{other}");
        }
    }
}
