//! What a coordinator sees of the world.

use hypercloud_api::ImagePhase;
use hypercloud_coordinator::agents::{AgentsSeen, JobSeen};
use hypercloud_coordinator::disk::observation::{
    ClaimSeen, Class, ClassSeen, ImageSeen, OriginSeen, PrimeSeen, Provisioning, SourceSeen,
    VolumeSeen,
};

use super::*;

impl World {
    pub fn observe(&self) -> Option<Observation> {
        let disk = self.disk.clone()?;
        let done = matches!(self.phase(), Some(DiskPhase::Ready | DiskPhase::Failed))
            || disk.metadata.deletion_timestamp.is_some();
        let source = SourceSeen::Image {
            image: self.image.as_ref().map(|uid| ImageSeen {
                uid: uid.clone(),
                shared: self.way != Way::HandOver || self.shared,
                deleting: false,
                phase: Some(ImagePhase::Ready),
                ready: None,
            }),
            claim: self.image.as_ref().and_then(|_| self.origin()),
        };
        let class = Class {
            name: "fast".into(),
            provisioner: "csi".into(),
            waits: self.waits,
            copies: false,
        };
        Some(Observation {
            disk,
            source: if done { SourceSeen::Unseen } else { source },
            class: if done {
                ClassSeen::Unseen
            } else {
                ClassSeen::Found(class)
            },
            claim: self.claims.get(DISK).map(|claim| self.claim_seen(claim)),
            prime: self
                .claims
                .get(&names::prime_claim(UID))
                .map(|claim| self.prime_seen(claim)),
            holders: self.pods.clone(),
            agents: self.agents_seen(),
        })
    }

    fn origin(&self) -> Option<OriginSeen> {
        let claim = self.claims.get(ORIGIN)?;
        Some(OriginSeen {
            name: ORIGIN.into(),
            uid: claim.uid.clone(),
            deleting: claim.deleting.is_some(),
            phase: "Bound".into(),
            volume_name: claim.volume.clone(),
            class: Some("fast".into()),
            mode: VolumeMode::Block,
            access_modes: vec!["ReadWriteOnce".into()],
            capacity: GIB,
            carried: BTreeMap::new(),
            users: vec![],
            rolled_back_by: None,
            csi: self.csi,
            nodes: None,
        })
    }

    fn claim_seen(&self, claim: &Claim) -> ClaimSeen {
        let volume = claim
            .volume
            .as_ref()
            .and_then(|name| self.volumes.get(name));
        let handed = claim.filled == Filled::ByUs;
        ClaimSeen {
            uid: claim.uid.clone(),
            resource_version: claim.version.to_string(),
            ours: claim.ours,
            since: None,
            deleting: claim.deleting.is_some(),
            lost: claim.lost,
            volume_name: claim.volume.clone().filter(|_| !claim.lost),
            capacity: Some(claim.size),
            requested: claim.size,
            selected_node: claim.node.clone(),
            handed,
            filled_by_others: handed && volume.is_some_and(|volume| !volume.handed_over),
            provisioning: provisioning(claim),
        }
    }

    fn prime_seen(&self, claim: &Claim) -> PrimeSeen {
        let name = claim.volume.as_ref();
        let volume = name.and_then(|name| Some((name, self.volumes.get(name)?)));
        PrimeSeen {
            uid: claim.uid.clone(),
            ours: claim.ours,
            since: None,
            deleting_since: claim.deleting,
            lost: claim.lost,
            cloned: matches!(claim.filled, Filled::Cloned(_)),
            bound: claim.volume.is_some() && !claim.lost,
            node: claim.node.clone(),
            volume: volume.map(|(name, volume)| VolumeSeen {
                name: name.clone(),
                resource_version: volume.version.to_string(),
                claim_uid: Some(volume.claim.clone()),
                bound: true,
            }),
            provisioning: provisioning(claim),
        }
    }

    fn agents_seen(&self) -> AgentsSeen {
        let jobs = self.agents.iter().flat_map(|(node, agent)| {
            agent.jobs.values().map(|(job, _)| JobSeen {
                node: (*node).to_owned(),
                job: job.clone(),
            })
        });
        let away = self.agents.iter().filter(|(_, agent)| !agent.up);
        let synced = NODES.into_iter().filter(|node| self.agents[node].up);
        AgentsSeen {
            synced: synced.map(str::to_owned).collect(),
            away: away
                .map(|(node, agent)| ((*node).to_owned(), agent.since))
                .collect(),
            jobs: jobs.collect(),
        }
    }
}

fn provisioning(claim: &Claim) -> Provisioning {
    Provisioning {
        problem: None,
        refusal: claim
            .refused
            .then(|| "this class does not clone".to_owned()),
    }
}
