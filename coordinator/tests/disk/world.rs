//! A world in memory: one disk, its source, the claims, volumes and pods made
//! for it, agents on three nodes, and of the cluster what matters.
//!
//! The world never does what real ones refuse: a claim that a pod uses does
//! not go away, a pod whose volumes a job has open does not end, and a write
//! that names another version of an object is not done.

mod act;
mod cluster;
mod look;

use std::collections::BTreeMap;

use hypercloud_api::{
    DiskClaim, DiskPhase, VirtualMachinePvc, VirtualMachinePvcSpec, VolumeMode, names,
};
use hypercloud_coordinator::again::Again;
use hypercloud_coordinator::agents::{CopyJob, Failure, Job, JobState, Progress};
use hypercloud_coordinator::copy;
use hypercloud_coordinator::disk::observation::Observation;
use hypercloud_coordinator::disk::plan::{Policy, plan};
use hypercloud_coordinator::disk::status;
use hypercloud_coordinator::disk::verdict::{Action, Verdict};
use hypercloud_coordinator::holder::{HolderSeen, HolderState};
use hypercloud_coordinator::image::size::Overhead;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

pub const GIB: u64 = 1 << 30;
pub const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// Name and UID of the disk.
const DISK: &str = "disk";
pub const UID: &str = "disk-uid";

/// An agent of the world.
pub struct Agent {
    pub up: bool,
    pub since: Timestamp,
    pub jobs: BTreeMap<String, (Job, CopyJob)>,
}

/// What is in a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Empty,
    Part,
    /// All of the image with this UID.
    Whole(String),
}

#[derive(Clone, Debug)]
pub struct Volume {
    pub version: u32,
    pub claim: String,
    pub content: Content,
    pub handed_over: bool,
}

/// Who fills a claim's volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filled {
    /// Nobody: it is made empty.
    Empty,
    /// The storage, from the claim of this name.
    Cloned(String),
    /// Whoever hands a volume over.
    ByUs,
}

#[derive(Clone, Debug)]
pub struct Claim {
    pub uid: String,
    pub version: u32,
    /// Whether the disk owns it, or its labels say so.
    pub ours: bool,
    pub deleting: Option<Timestamp>,
    pub filled: Filled,
    pub size: u64,
    pub node: Option<String>,
    pub volume: Option<String>,
    pub lost: bool,
    /// Whether the storage said that it does not clone.
    pub refused: bool,
}

/// How the disk is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Clone,
    HandOver,
    Copy,
}

/// The world.
pub struct World {
    pub now: Timestamp,
    pub disk: Option<VirtualMachinePvc>,
    pub way: Way,
    /// UID of the image and of its claim, while there is one.
    pub image: Option<String>,
    pub shared: bool,
    /// Whether volumes wait for their first consumer.
    pub waits: bool,
    /// Whether there is such a consumer.
    pub consumed: bool,
    /// Whether the storage clones.
    pub clones: bool,
    /// Whether it is CSI: another pays no heed to what is to be cloned, and
    /// makes an empty volume.
    pub csi: bool,
    pub claims: BTreeMap<String, Claim>,
    pub volumes: BTreeMap<String, Volume>,
    pub pods: Vec<HolderSeen>,
    pub agents: BTreeMap<&'static str, Agent>,
    /// How the next jobs end, before they are half done.
    pub failures: Vec<Failure>,
    /// Effects that may still happen before the coordinator dies.
    pub fuse: Option<u32>,
    /// Effects that happened.
    pub effects: u32,
    /// Whether the disk's claim is to stay without the disk.
    pub orphan: bool,
    uids: u32,
}

/// The coordinator died.
pub struct Died;

impl World {
    pub fn new(way: Way) -> Self {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let spec = VirtualMachinePvcSpec {
            virtual_machine_image_name: Some("ubuntu".into()),
            virtual_machine_image_namespace: (way == Way::HandOver).then(|| "images".into()),
            pvc: (way == Way::Copy).then(|| DiskClaim {
                volume_mode: Some(VolumeMode::Filesystem),
                ..DiskClaim::default()
            }),
            ..VirtualMachinePvcSpec::default()
        };
        let mut disk = VirtualMachinePvc::new(DISK, spec);
        disk.metadata.namespace = Some("team".into());
        disk.metadata.uid = Some(UID.into());
        disk.metadata.generation = Some(1);
        let agent = || Agent {
            up: true,
            since: now,
            jobs: BTreeMap::new(),
        };
        let mut world = Self {
            now,
            disk: Some(disk),
            way,
            image: None,
            shared: true,
            waits: false,
            consumed: true,
            clones: true,
            csi: true,
            claims: BTreeMap::new(),
            volumes: BTreeMap::new(),
            pods: Vec::new(),
            agents: NODES.map(|node| (node, agent())).into(),
            failures: Vec::new(),
            fuse: None,
            effects: 0,
            orphan: false,
            uids: 0,
        };
        world.make_image();
        world
    }

    pub fn phase(&self) -> Option<DiskPhase> {
        self.disk.as_ref()?.status.as_ref()?.phase
    }

    /// An image is imported; its claim is called as its volume.
    pub fn make_image(&mut self) {
        if self.image.is_some() {
            return;
        }
        let uid = self.uid("image");
        let claim = Claim {
            volume: Some(uid.clone()),
            ..self.claim(Filled::Empty, GIB, true)
        };
        let volume = Volume {
            version: 0,
            claim: claim.uid.clone(),
            content: Content::Whole(uid.clone()),
            handed_over: false,
        };
        self.volumes.insert(uid.clone(), volume);
        self.claims.insert(ORIGIN.to_owned(), claim);
        self.image = Some(uid);
    }

    pub fn delete_image(&mut self) {
        self.image = None;
        self.delete_claim(ORIGIN);
    }

    pub fn delete_disk(&mut self) {
        let now = self.now;
        let orphan = self.orphan;
        if let Some(disk) = &mut self.disk {
            disk.metadata.deletion_timestamp.get_or_insert(Time(now));
            let finalizers = disk.metadata.finalizers.get_or_insert_default();
            if finalizers.is_empty() {
                self.disk = None;
            } else if orphan {
                finalizers.push("orphan".into());
            }
        }
    }

    pub fn delete_claim(&mut self, name: &str) {
        let now = self.now;
        if let Some(claim) = self.claims.get_mut(name) {
            claim.deleting.get_or_insert(now);
        }
    }

    pub fn delete_pods(&mut self) {
        let now = self.now;
        for pod in &mut self.pods {
            pod.deleting_since.get_or_insert(now);
        }
    }

    /// A claim of the disk's name that somebody else made.
    pub fn make_foreign_claim(&mut self) {
        let claim = self.claim(Filled::Empty, GIB, false);
        self.claims.entry(DISK.to_owned()).or_insert(claim);
    }

    /// The node's agent comes or goes; `journal` says whether its jobs stay.
    pub fn switch(&mut self, node: &'static str, up: bool, journal: bool) {
        let now = self.now;
        let agent = self.agents.get_mut(node).unwrap();
        if agent.up != up {
            agent.up = up;
            agent.since = now;
        }
        if !journal {
            agent.jobs.clear();
        }
    }

    /// Node of the job at work.
    pub fn job_node(&self) -> Option<&'static str> {
        let at_work = |agent: &Agent| agent.jobs.values().any(|(job, _)| at_work(&job.state));
        let found = self.agents.iter().find(|(_, agent)| at_work(agent));
        found.map(|(node, _)| *node)
    }

    fn claim(&mut self, filled: Filled, size: u64, ours: bool) -> Claim {
        Claim {
            uid: self.uid("claim"),
            version: 1,
            ours,
            deleting: None,
            filled,
            size,
            node: None,
            volume: None,
            lost: false,
            refused: false,
        }
    }

    fn uid(&mut self, kind: &str) -> String {
        self.uids += 1;
        format!("{kind}-{}", self.uids)
    }

    /// One effect: it happens, or the coordinator died before it.
    fn spend(&mut self) -> Result<(), Died> {
        match &mut self.fuse {
            Some(0) => Err(Died),
            Some(left) => {
                *left -= 1;
                self.effects += 1;
                Ok(())
            }
            None => {
                self.effects += 1;
                Ok(())
            }
        }
    }

    /// One reconcile. The storage and the binder go on between what was seen
    /// and what is done about it.
    pub fn reconcile(&mut self) -> Result<(), Died> {
        let policy = Policy {
            overhead: Overhead::DEFAULT,
        };
        for round in 0.. {
            assert!(
                round < 50,
                "the plans go round in circles: {:?}",
                self.observe()
            );
            let Some(seen) = self.observe() else {
                return Ok(());
            };
            let plan = plan(&seen, &policy, self.now);
            let mut verdict = plan.verdict.clone();
            let again = plan.again;
            for action in &plan.actions {
                self.spend()?;
                self.storage();
                if let Some(learnt) = self.act(&seen, action) {
                    verdict = learnt;
                }
                self.check();
            }
            self.write(&seen, &verdict)?;
            if again != Again::Now {
                return Ok(());
            }
        }
        Ok(())
    }

    fn write(&mut self, seen: &Observation, verdict: &Verdict) -> Result<(), Died> {
        let next = status::next(&seen.disk, verdict, seen.own_claim().is_some(), self.now);
        if seen.disk.status.as_ref() == Some(&next) || self.disk.is_none() {
            return Ok(());
        }
        self.spend()?;
        self.disk.as_mut().unwrap().status = Some(next);
        Ok(())
    }

    /// Whether the pod is on a node that does not answer.
    fn is_lost(&self, pod: &HolderSeen) -> bool {
        let node = pod.node.as_deref();
        node.is_some_and(|node| !self.agents[node].up)
    }

    /// What holds at every instant.
    pub fn check(&self) {
        if let Some(claim) = self.claims.get(DISK).filter(|claim| claim.ours)
            && let Some(volume) = claim.volume.as_ref().filter(|_| !claim.lost)
        {
            let content = &self.volumes[volume].content;
            assert!(
                matches!(content, Content::Whole(_)),
                "bound with {content:?}"
            );
        }
        for (name, claim) in self.claims.iter().filter(|(_, claim)| !claim.ours) {
            assert!(claim.deleting.is_none(), "somebody else's {name} deleted");
        }
        let jobs = self.agents.values().filter(|agent| agent.up);
        let at_work = jobs
            .flat_map(|agent| agent.jobs.values())
            .filter(|(job, _)| at_work(&job.state));
        assert!(at_work.count() <= 1, "two jobs fill one claim");
    }

    /// The disk's claim, where it has its volume.
    pub fn bound(&self) -> Option<&Claim> {
        self.claims.get(DISK).filter(|claim| claim.volume.is_some())
    }

    /// Whether nothing is left but what belongs to the source and, perhaps,
    /// the disk's claim with its volume.
    pub fn is_tidy(&self) -> bool {
        let up = self.agents.values().filter(|agent| agent.up);
        let of_prime = self.claims.contains_key(&names::prime_claim(UID));
        let volumes =
            usize::from(self.claims.contains_key(ORIGIN)) + usize::from(self.bound().is_some());
        self.pods.is_empty()
            && !of_prime
            && self.volumes.len() == volumes
            && up.map(|agent| agent.jobs.len()).sum::<usize>() == 0
    }
}

/// Name of the image's claim.
pub const ORIGIN: &str = "vmim-ubuntu";

pub fn at_work(state: &JobState) -> bool {
    !matches!(state, JobState::Succeeded | JobState::Failed(_))
}

pub fn failure(reason: &str, retryable: bool) -> Failure {
    Failure {
        reason: reason.into(),
        message: "for people".into(),
        retryable,
    }
}
