//! One look at the world around an export (client required).
//!
//! Everything is read from the API server itself, never from a watch's
//! cache: a plan made on a stale status could take a step twice, and one made
//! on stale pods could read on under their feet.

use hypercloud_api::{
    ExportPhase, ExportReadFrom, RollbackPhase, VirtualMachineVolumeExport,
    VirtualMachineVolumeRollback, names,
};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, Error as KubeError, ResourceExt};

use super::observation::{Observation, OwnSnapshot};
use crate::access::DefaultStore;
use crate::access::wanted::judge_name;
use crate::agents::{Agents, AgentsSeen};
use crate::holder::HolderSeen;
use crate::holder::observe::{self as holder, Owner};
use crate::holder::read::{is_controlled_by, is_old, warning};
use crate::shell::error::ObserveError;
use crate::volume::claim::{self, RestoredSeen, TargetSeen};
use crate::volume::{snapshot, users};

/// What there is around the export `namespace/name`; `None` where the export
/// itself is gone.
pub async fn observe(
    client: &Client,
    agents: &dyn Agents,
    store: &DefaultStore,
    namespace: &str,
    name: &str,
) -> Result<Option<Observation>, ObserveError> {
    let exports: Api<VirtualMachineVolumeExport> = Api::namespaced(client.clone(), namespace);
    let found = exports.get_opt(name).await;
    let Some(export) = found.map_err(reading("the export"))? else {
        return Ok(None);
    };
    let uid = export.metadata.uid.clone().unwrap_or_default();
    let owner = Owner {
        namespace,
        label: names::LABEL_EXPORT_UID,
        uid: &uid,
    };
    let is_name = |name: &str, attempt| names::export_holder(&uid, attempt) == name;
    let is_ours = |pod: &Pod| is_holder(pod, &uid, &export.spec.pvc_name);
    let mut holders = holder::list(client, owner, is_name, is_ours)
        .await
        .map_err(reading("the export's holder pods"))?;
    let mut restored = restored(client, namespace, &uid).await?;
    explain(client, namespace, restored.as_mut(), &mut holders).await;
    let agents = agents_seen(agents, &export, &holders);
    let mut seen = Observation {
        snapshot: own_snapshot(client, namespace, &export).await?,
        export,
        target: None,
        users: Vec::new(),
        passed: Vec::new(),
        used_since: None,
        rollback: None,
        classes: Vec::new(),
        restored,
        holders,
        agents,
        default_keys: store.secret.is_some(),
    };
    if is_of_interest(&seen) {
        seen.default_keys = lets_in(client, store, &seen.export).await?;
        around(client, namespace, &mut seen).await?;
    }
    Ok(Some(seen))
}

/// Whether the operator's Secret lets in at the store, where the export names
/// none.
async fn lets_in(
    client: &Client,
    store: &DefaultStore,
    export: &VirtualMachineVolumeExport,
) -> Result<bool, ObserveError> {
    let named = &export.spec.object_store;
    let claim = store.claim.as_ref();
    let is_elsewhere = named.endpoint.is_some() || named.object_bucket_claim.is_some();
    let Some(claim) = claim.filter(|_| !is_elsewhere) else {
        return Ok(store.secret.is_some());
    };
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &claim.namespace);
    let map = maps.get_metadata_opt(&claim.name).await;
    let map = map.map_err(reading("the default object store's claim"))?;
    Ok(map.is_some())
}

/// Whether the claim still matters to the export. What cannot be its name is
/// not asked for: it would become part of a path to the API server.
fn is_of_interest(seen: &Observation) -> bool {
    let over = matches!(
        seen.phase(),
        Some(ExportPhase::Succeeded | ExportPhase::Failed | ExportPhase::Deleting)
    );
    let deleted = seen.export.metadata.deletion_timestamp.is_some();
    let done = over || deleted || seen.is_complete() || seen.has_the_disk();
    !done && judge_name(seen.pvc()).is_ok()
}

/// The claim, and what other people do with it.
async fn around(
    client: &Client,
    namespace: &str,
    seen: &mut Observation,
) -> Result<(), ObserveError> {
    let claim = seen.pvc().to_owned();
    seen.target = target(client, namespace, &claim).await?;
    seen.rollback = rollback(client, namespace, &claim).await?;
    // Last, so that nothing else of this look is newer.
    let mounted = users::mounting(client, namespace, &claim).await;
    let mut mounted = mounted.map_err(reading("the pods that use the volume"))?;
    mounted.retain(|pod| !users::only_reads(pod, &claim));
    use_by(seen, &mounted);
    let snapshot = seen.own_snapshot().is_none() && seen.restored.is_none();
    let reads = seen.read_from();
    // A former try may say that there were users.
    let begins = reads.is_none() && seen.attempt() > 0;
    let wanted = !seen.users.is_empty() || begins || reads == Some(ExportReadFrom::Snapshot);
    if snapshot && wanted {
        let classes = snapshot::classes(client).await;
        seen.classes = classes.map_err(reading("the snapshot classes"))?;
    }
    Ok(())
}

/// What `mounted`, the pods that name the claim, are to the export: those that
/// have not ended use it; one that has, and was made since it is read, may have
/// written to it.
fn use_by(seen: &mut Observation, mounted: &[Pod]) {
    let taken = seen.status().and_then(|status| status.taken_at.as_ref());
    let directly = seen.read_from() == Some(ExportReadFrom::Volume);
    let since = taken.filter(|_| directly).map(|time| time.0);
    let (ended, users): (Vec<&Pod>, Vec<&Pod>) =
        mounted.iter().partition(|pod| users::has_ended(pod));
    let made = |pod: &&Pod| pod.creation_timestamp().map(|time| time.0);
    let passing = ended.into_iter().filter(|pod| {
        // The time of making is in whole seconds.
        since.is_some_and(|since| made(pod).is_some_and(|at| at.as_second() >= since.as_second()))
    });
    seen.users = users.iter().map(|pod| pod.name_any()).collect();
    let passing: Vec<&Pod> = passing.collect();
    seen.passed = passing.iter().map(|pod| pod.name_any()).collect();
    seen.used_since = users.iter().chain(&passing).filter_map(made).min();
}

/// Whether `pod` is a holder of the export with this UID. Anybody can set a
/// label and choose a name, and the claim `pvc` is anybody's: but what has it
/// read-only changes nothing of what is read.
fn is_holder(pod: &Pod, uid: &str, pvc: &str) -> bool {
    let label = |key: &str| pod.labels().get(key).map(String::as_str);
    let name = pod.name_any();
    let attempt = name.rsplit_once('-').and_then(|(_, n)| n.parse().ok());
    let reads = users::mounts(pod, pvc) && !users::writes(pod, pvc);
    label(names::LABEL_EXPORT_UID) == Some(uid)
        && label(names::LABEL_ROLE) == Some(names::ROLE_HOLDER)
        && attempt.is_some_and(|attempt| names::export_holder(uid, attempt) == name)
        && (reads || users::mounts(pod, &names::exported_claim(uid)))
}

/// The claim whose disk is exported.
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
        let csi = volume.and_then(|volume| volume.spec?.csi);
        target.driver = csi.as_ref().map(|csi| csi.driver.clone());
        target.volume_handle = csi.map(|csi| csi.volume_handle);
    }
    Ok(Some(target))
}

/// A rollback of the claim that is not over.
async fn rollback(
    client: &Client,
    namespace: &str,
    claim: &str,
) -> Result<Option<String>, ObserveError> {
    let rollbacks: Api<VirtualMachineVolumeRollback> = Api::namespaced(client.clone(), namespace);
    let list = rollbacks.list(&ListParams::default()).await;
    let list = list.map_err(reading("the rollbacks of the claim"))?;
    let counts = |rollback: &&VirtualMachineVolumeRollback| {
        rollback.spec.pvc_name == claim && is_under_way(rollback)
    };
    Ok(list.iter().find(counts).map(ResourceExt::name_any))
}

/// Whether a rollback may still write. One that is deleted is first brought
/// to its end, if it began.
fn is_under_way(rollback: &VirtualMachineVolumeRollback) -> bool {
    let status = rollback.status.as_ref();
    let copy = status.and_then(|status| status.copy.as_ref());
    match status.and_then(|status| status.phase) {
        Some(RollbackPhase::Succeeded | RollbackPhase::Failed) => false,
        Some(RollbackPhase::RollingBack) => true,
        _ if rollback.metadata.deletion_timestamp.is_none() => true,
        _ => copy.is_some_and(|copy| copy.completion_time.is_none()),
    }
}

/// The snapshot of the export's name.
async fn own_snapshot(
    client: &Client,
    namespace: &str,
    export: &VirtualMachineVolumeExport,
) -> Result<Option<OwnSnapshot>, ObserveError> {
    let uid = export.metadata.uid.as_deref().unwrap_or_default();
    let object = snapshot::object(client, namespace, &names::exported_claim(uid)).await;
    let object = object.map_err(reading("the export's snapshot"))?;
    Ok(object.map(|object| read_snapshot(&object, export)))
}

/// The snapshot of an export's name. In a deletion that orphans, the garbage
/// collector may have taken the owner away already.
fn read_snapshot(object: &DynamicObject, export: &VirtualMachineVolumeExport) -> OwnSnapshot {
    let meta = &object.metadata;
    let uid = export.metadata.uid.as_deref().unwrap_or_default();
    let labelled = object.labels().get(names::LABEL_EXPORT_UID);
    let owned = is_controlled_by(meta, uid) || export.metadata.deletion_timestamp.is_some();
    let mut seen = snapshot::snapshot(object);
    let created = meta.creation_timestamp.as_ref().map(|time| time.0);
    seen.taken = seen.taken.or(created).filter(|_| seen.ready);
    OwnSnapshot {
        ours: owned
            && labelled.is_some_and(|labelled| labelled == uid)
            && seen.claim.as_ref() == Some(&export.spec.pvc_name),
        deleting_since: meta.deletion_timestamp.as_ref().map(|time| time.0),
        seen,
    }
}

/// The claim that the snapshot is restored to.
async fn restored(
    client: &Client,
    namespace: &str,
    uid: &str,
) -> Result<Option<RestoredSeen>, ObserveError> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let claim = claims.get_opt(&names::exported_claim(uid)).await;
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

/// What the agents' streams told of the export and of the nodes it is on.
fn agents_seen(
    agents: &dyn Agents,
    export: &VirtualMachineVolumeExport,
    holders: &[HolderSeen],
) -> AgentsSeen {
    let uid = export.metadata.uid.as_deref().unwrap_or_default();
    let status = export.status.as_ref();
    let upload = status.and_then(|status| status.upload.as_ref());
    let nodes = holders
        .iter()
        .filter_map(|holder| holder.node.as_deref())
        .chain(upload.map(|upload| upload.node_name.as_str()));
    AgentsSeen::of(agents, uid, nodes)
}

fn reading(what: &'static str) -> impl FnOnce(KubeError) -> ObserveError {
    move |source| ObserveError::Read { what, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(claim: &str, read_only: bool) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": names::export_holder("u1", 2), "labels": {
                (names::LABEL_EXPORT_UID): "u1", (names::LABEL_ROLE): names::ROLE_HOLDER
            }},
            "spec": {"containers": [], "volumes": [
                {"name": "disk", "persistentVolumeClaim":
                    {"claimName": claim, "readOnly": read_only}}
            ]}
        }))
        .unwrap()
    }

    #[test]
    fn a_holder_reads_the_claim_or_has_what_was_restored() {
        assert!(is_holder(&pod("root", true), "u1", "root"));
        assert!(is_holder(
            &pod(&names::exported_claim("u1"), false),
            "u1",
            "root"
        ));
        assert!(!is_holder(&pod("root", false), "u1", "root"));
        assert!(!is_holder(&pod("root", true), "u2", "root"));
        assert!(!is_holder(&pod("data", true), "u1", "root"));
    }

    fn snapshot(owner: &str, label: &str, claim: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
            "metadata": {"name": "vmexport-u1", "uid": "s", "labels": {
                (names::LABEL_EXPORT_UID): label},
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x",
                    "uid": owner, "controller": true}]},
            "spec": {"source": {"persistentVolumeClaimName": claim}},
            "status": {"readyToUse": true}
        }))
        .unwrap()
    }

    #[test]
    fn a_snapshot_that_only_has_the_name_is_not_ours() {
        let mut export = VirtualMachineVolumeExport::new("out", Default::default());
        export.spec.pvc_name = "root".into();
        export.metadata.uid = Some("u1".into());
        let ours = |object| read_snapshot(&object, &export).ours;
        assert!(ours(snapshot("u1", "u1", "root")));
        assert!(!ours(snapshot("u2", "u1", "root")));
        assert!(!ours(snapshot("u1", "u2", "root")));
        assert!(!ours(snapshot("u1", "u1", "data")));
        let seen = read_snapshot(&snapshot("u1", "u1", "root"), &export).seen;
        assert!(seen.taken.is_some());
    }

    #[test]
    fn a_rollback_counts_until_it_writes_no_more() {
        let rollback = |phase: Option<RollbackPhase>, deleted: bool| {
            let value = json!({
                "apiVersion": "hypercloud.tmaxanc.com/v1alpha1",
                "kind": "VirtualMachineVolumeRollback",
                "metadata": {"name": "back"},
                "spec": {"pvcName": "root", "volumeSnapshotName": "before"}
            });
            let mut rollback: VirtualMachineVolumeRollback = serde_json::from_value(value).unwrap();
            rollback.status = Some(hypercloud_api::VirtualMachineVolumeRollbackStatus {
                phase,
                ..Default::default()
            });
            if deleted {
                let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::MIN);
                rollback.metadata.deletion_timestamp = Some(now);
            }
            is_under_way(&rollback)
        };
        assert!(rollback(None, false) && rollback(Some(RollbackPhase::Preparing), false));
        assert!(rollback(Some(RollbackPhase::RollingBack), true));
        assert!(!rollback(Some(RollbackPhase::Deleting), true));
        assert!(!rollback(Some(RollbackPhase::Succeeded), false));
        assert!(!rollback(Some(RollbackPhase::Failed), false));
    }
}
