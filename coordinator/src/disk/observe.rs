//! One look at the world around a disk (client required).
//!
//! Everything is read from the API server itself, never from a watch's
//! cache: a plan made on a stale status could take a step twice. What no
//! decision can need in the disk's state is not read.

use hypercloud_api::{
    DiskMethod, DiskPhase, RollbackPhase, VirtualMachineImage, VirtualMachinePvc,
    VirtualMachineVolumeRollback, names,
};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams};
use kube::{Client, Error as KubeError, ResourceExt};

use super::observation::{
    ClaimSeen, ClassSeen, Observation, PrimeSeen, Provisioning, SnapshotOrigin, SourceSeen,
    source_namespace,
};
use super::read;
use crate::agents::{Agents, AgentsSeen};
use crate::holder::observe::Owner;
use crate::holder::read::{is_controlled_by, is_old, warning};
use crate::holder::{self, HolderSeen};
use crate::shell::error::ObserveError;
use crate::volume::{snapshot, topology, users};

/// What there is around the disk `namespace/name`; `None` where the disk
/// itself is gone.
pub async fn observe(
    client: &Client,
    agents: &dyn Agents,
    namespace: &str,
    name: &str,
) -> Result<Option<Observation>, ObserveError> {
    let disks: Api<VirtualMachinePvc> = Api::namespaced(client.clone(), namespace);
    let disk = disks.get_opt(name).await.map_err(reading("the disk"))?;
    let Some(disk) = disk else {
        return Ok(None);
    };
    let look = Look {
        client,
        namespace,
        name,
        beside: source_namespace(&disk),
        uid: disk.metadata.uid.as_deref().unwrap_or_default(),
        disk: &disk,
    };
    let source = look.source();
    let (source, claim, prime, holders) =
        futures::try_join!(source, look.claim(), look.prime(), look.holders())?;
    let mut seen = Observation {
        class: look.class(&source).await?,
        agents: look.agents(agents, &holders),
        source,
        claim,
        prime,
        holders,
        disk: disk.clone(),
    };
    look.closely(&mut seen).await?;
    Ok(Some(seen))
}

/// Where one look goes.
#[derive(Clone, Copy)]
struct Look<'a> {
    client: &'a Client,
    namespace: &'a str,
    name: &'a str,
    /// Namespace of the source, the prime claim and the holders.
    beside: &'a str,
    uid: &'a str,
    disk: &'a VirtualMachinePvc,
}

impl Look<'_> {
    fn method(&self) -> Option<DiskMethod> {
        self.disk.status.as_ref().and_then(|status| status.method)
    }

    fn phase(&self) -> Option<DiskPhase> {
        self.disk.status.as_ref().and_then(|status| status.phase)
    }

    /// Whether something may have been made beside the source.
    fn has_beside(&self) -> bool {
        !matches!(self.method(), Some(DiskMethod::Clone | DiskMethod::Restore))
    }

    /// Whether the source matters: not for a disk that is done, and not for
    /// one that is over.
    fn needs_source(&self) -> bool {
        self.disk.metadata.deletion_timestamp.is_none()
            && !matches!(self.phase(), Some(DiskPhase::Ready | DiskPhase::Failed))
    }

    async fn source(&self) -> Result<SourceSeen, ObserveError> {
        let spec = &self.disk.spec;
        if !self.needs_source() {
            return Ok(SourceSeen::Unseen);
        }
        if let Some(name) = &spec.virtual_machine_image_name {
            return self.image(name).await;
        }
        if let Some(name) = &spec.pvc_name {
            let claim = self.origin(self.namespace, name).await?;
            return Ok(SourceSeen::Claim(claim.as_ref().map(read::origin)));
        }
        match &spec.volume_snapshot_name {
            Some(name) => self.snapshot(name).await,
            None => Ok(SourceSeen::Unseen),
        }
    }

    async fn image(&self, name: &str) -> Result<SourceSeen, ObserveError> {
        let images: Api<VirtualMachineImage> = Api::namespaced(self.client.clone(), self.beside);
        let image = images.get_opt(name).await.map_err(reading("the image"))?;
        let claim = match &image {
            None => None,
            Some(_) => self.origin(self.beside, &names::image_claim(name)).await?,
        };
        let uid = image
            .as_ref()
            .and_then(|image| image.metadata.uid.as_deref());
        // A claim that merely has the name is no image's.
        let claim =
            claim.filter(|claim| is_controlled_by(&claim.metadata, uid.unwrap_or_default()));
        Ok(SourceSeen::Image {
            image: image.map(|image| read::image(&image, self.namespace)),
            claim: claim.as_ref().map(read::origin),
        })
    }

    async fn snapshot(&self, name: &str) -> Result<SourceSeen, ObserveError> {
        let snapshot = snapshot::get(self.client, self.namespace, name)
            .await
            .map_err(reading("the snapshot"))?;
        let Some(snapshot) = snapshot else {
            return Ok(SourceSeen::Snapshot(None));
        };
        let claim = match &snapshot.claim {
            Some(claim) => self.origin(self.namespace, claim).await?,
            None => None,
        };
        let claim = claim.as_ref().map(read::origin);
        Ok(SourceSeen::Snapshot(Some(SnapshotOrigin {
            snapshot,
            claim,
        })))
    }

    async fn origin(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<PersistentVolumeClaim>, ObserveError> {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        let claim = claims.get_opt(name).await;
        claim.map_err(reading("the source's claim"))
    }

    /// The class that the claim gets: the one that is named, else that of the
    /// source, else the default one.
    async fn class(&self, source: &SourceSeen) -> Result<ClassSeen, ObserveError> {
        if !self.needs_source() {
            return Ok(ClassSeen::Unseen);
        }
        let of_source = match source {
            SourceSeen::Image { claim, .. } | SourceSeen::Claim(claim) => claim.as_ref(),
            SourceSeen::Snapshot(origin) => origin.as_ref().and_then(|o| o.claim.as_ref()),
            SourceSeen::Unseen => None,
        };
        let named = self.disk.spec.pvc.as_ref();
        let named = named.and_then(|pvc| pvc.storage_class_name.as_ref());
        let class = named.or(of_source.and_then(|claim| claim.class.as_ref()));
        let classes: Api<StorageClass> = Api::all(self.client.clone());
        let Some(name) = class else {
            let list = classes.list(&ListParams::default()).await;
            let list = list.map_err(reading("the storage classes"))?;
            return Ok(read::default_class(&list.items));
        };
        let class = classes.get_opt(name).await;
        let class = class.map_err(reading("the storage class"))?;
        let missing = || ClassSeen::Missing(name.clone());
        Ok(class.as_ref().map_or_else(missing, read::class))
    }

    async fn claim(&self) -> Result<Option<ClaimSeen>, ObserveError> {
        let claims: Api<PersistentVolumeClaim> =
            Api::namespaced(self.client.clone(), self.namespace);
        let claim = claims.get_opt(self.name).await;
        let claim = claim.map_err(reading("the disk's claim"))?;
        Ok(claim.map(|claim| read::claim(&claim, self.uid)))
    }

    async fn prime(&self) -> Result<Option<PrimeSeen>, ObserveError> {
        if !self.has_beside() {
            return Ok(None);
        }
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), self.beside);
        let claim = claims.get_opt(&names::prime_claim(self.uid)).await;
        let Some(claim) = claim.map_err(reading("the prime claim"))? else {
            return Ok(None);
        };
        let volume = match claim.spec.as_ref().and_then(|s| s.volume_name.as_deref()) {
            Some(name) => self.volume(name).await?,
            None => None,
        };
        Ok(Some(read::prime(&claim, volume.as_ref(), self.uid)))
    }

    async fn volume(&self, name: &str) -> Result<Option<PersistentVolume>, ObserveError> {
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let volume = volumes.get_opt(name).await;
        volume.map_err(reading("a volume"))
    }

    async fn holders(&self) -> Result<Vec<HolderSeen>, ObserveError> {
        if !self.has_beside() {
            return Ok(Vec::new());
        }
        let owner = Owner {
            namespace: self.beside,
            label: names::LABEL_DISK_UID,
            uid: self.uid,
        };
        let is_name = |name: &str, attempt| names::prime_holder(self.uid, attempt) == name;
        let accepts = |pod: &Pod| is_holder(pod, self.uid);
        let mut holders = holder::observe::list(self.client, owner, is_name, accepts)
            .await
            .map_err(reading("the disk's holder pods"))?;
        let now = Timestamp::now();
        holder::observe::explain(self.client, self.beside, &mut holders, now).await;
        Ok(holders)
    }

    fn agents(&self, agents: &dyn Agents, holders: &[HolderSeen]) -> AgentsSeen {
        let copy = self.disk.status.as_ref().and_then(|s| s.copy.as_ref());
        let nodes = holders.iter().filter_map(|holder| holder.node.as_deref());
        let nodes = nodes.chain(copy.map(|copy| copy.node_name.as_str()));
        AgentsSeen::of(agents, self.uid, nodes)
    }

    /// What only some of the states need.
    async fn closely(&self, seen: &mut Observation) -> Result<(), ObserveError> {
        let now = Timestamp::now();
        if let Some(claim) = &mut seen.claim
            && claim.ours
            && claim.handed
            && self.phase() != Some(DiskPhase::Ready)
            && let Some(name) = &claim.volume_name
        {
            let volume = self.volume(name).await?;
            claim.filled_by_others =
                volume.is_some_and(|volume| !read::is_handed_over(&volume, self.uid));
        }
        if !self.needs_source() {
            return Ok(());
        }
        if let Some(claim) = &mut seen.claim
            && claim.ours
            && !claim.handed
            && claim.volume_name.is_none()
        {
            let old = is_old(claim.since, now);
            claim.provisioning = self.provisioning(self.namespace, &claim.uid, old).await;
        }
        if let Some(prime) = &mut seen.prime
            && prime.ours
            && !prime.bound
            && !prime.lost
        {
            let old = is_old(prime.since, now);
            prime.provisioning = self.provisioning(self.beside, &prime.uid, old).await;
        }
        let (copied, begun) = (seen.is_copied(), seen.own_prime().is_some());
        let claimed = seen.own_claim().is_some();
        let of_image = matches!(seen.source, SourceSeen::Image { .. });
        let (SourceSeen::Image { claim, .. } | SourceSeen::Claim(claim)) = &mut seen.source else {
            return Ok(());
        };
        let Some(origin) = claim else {
            return Ok(());
        };
        let copies = self.method() == Some(DiskMethod::Copy);
        if !of_image && !copied && (copies || !claimed) {
            origin.rolled_back_by = self.rollback(&origin.name).await?;
        }
        if !of_image && !copied && copies {
            origin.users = self.users(&origin.name).await?;
        }
        let (chooses, places) = (self.method().is_none(), copies && !begun);
        if (chooses || places)
            && let Some(name) = &origin.volume_name
            && let Some(volume) = self.volume(name).await?
        {
            origin.csi = read::is_csi(&volume);
            if places {
                origin.nodes = self.nodes(&volume).await?;
            }
        }
        Ok(())
    }

    /// How a claim without a volume fares. A first failure that is repeated
    /// is no news; a refusal is one at once.
    async fn provisioning(&self, namespace: &str, uid: &str, old: bool) -> Provisioning {
        let events = holder::observe::events(self.client, namespace, uid).await;
        let failed = |event: &&k8s_openapi::api::core::v1::Event| {
            event.reason.as_deref() == Some("ProvisioningFailed")
        };
        let failures: Vec<_> = events.iter().filter(failed).cloned().collect();
        Provisioning {
            problem: warning(&failures, "ProvisioningFailed").filter(|_| old),
            refusal: read::refusal(&events),
        }
    }

    /// The pods that use a claim, but for those that only copy it elsewhere or
    /// export it.
    async fn users(&self, claim: &str) -> Result<Vec<String>, ObserveError> {
        let copies = |pod: &Pod| {
            let uid = pod.labels().get(names::LABEL_DISK_UID);
            uid.is_some_and(|uid| is_holder(pod, uid)) || users::only_reads(pod, claim)
        };
        users::users(self.client, self.namespace, claim, copies)
            .await
            .map_err(reading("the pods of the source's namespace"))
    }

    /// The rollback that writes to a claim just now.
    async fn rollback(&self, claim: &str) -> Result<Option<String>, ObserveError> {
        let rollbacks: Api<VirtualMachineVolumeRollback> =
            Api::namespaced(self.client.clone(), self.namespace);
        let list = rollbacks.list(&ListParams::default()).await;
        let list = list.map_err(reading("the rollbacks"))?;
        let at_work = list.iter().find(|rollback| {
            let phase = rollback.status.as_ref().and_then(|status| status.phase);
            rollback.spec.pvc_name == claim && phase == Some(RollbackPhase::RollingBack)
        });
        Ok(at_work.map(|rollback| rollback.name_any()))
    }

    /// The only nodes that the source's volume can be attached to.
    async fn nodes(&self, volume: &PersistentVolume) -> Result<Option<Vec<String>>, ObserveError> {
        let Some(selector) = topology::required(volume) else {
            return Ok(None);
        };
        let nodes: Api<Node> = Api::all(self.client.clone());
        let list = nodes.list(&ListParams::default()).await;
        let list = list.map_err(reading("the nodes"))?;
        Ok(Some(topology::matching(selector, &list.items)))
    }
}

/// Whether `pod` is a holder of the disk with this UID. Anybody can choose a
/// name: it is the prime claim that tells, which the API server lets only the
/// coordinator's pods mount.
fn is_holder(pod: &Pod, uid: &str) -> bool {
    let name = pod.name_any();
    let attempt = name.rsplit_once('-').and_then(|(_, n)| n.parse().ok());
    attempt.is_some_and(|attempt| names::prime_holder(uid, attempt) == name)
        && users::mounts(pod, &names::prime_claim(uid))
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
            "metadata": {"name": names::prime_holder("u1", 2)},
            "spec": {"containers": [], "volumes": [
                {"name": "source", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "target", "persistentVolumeClaim": {"claimName": claim}}
            ]}
        }))
        .unwrap()
    }

    #[test]
    fn a_holder_mounts_the_prime_claim() {
        let prime = names::prime_claim("u1");
        assert!(is_holder(&pod(&prime), "u1"));
        assert!(!is_holder(&pod(&prime), "u2"));
        for other in ["root".to_owned(), names::prime_claim("u2")] {
            assert!(!is_holder(&pod(&other), "u1"), "{other}");
        }
    }
}
