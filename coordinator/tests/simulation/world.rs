//! A world in memory: one image, the claims and pods made for it, agents on
//! three nodes, kubelet, binder and scheduler as far as they matter.
//!
//! The world never does what real ones refuse: a claim that a pod uses does
//! not go away, and a pod whose volume a job has open does not end.

mod cluster;

use std::collections::{BTreeMap, BTreeSet};

use hypercloud_api::{
    ImagePhase, ImageSource, SecretReference, VirtualMachineImage, VirtualMachineImageSpec, names,
};
use hypercloud_coordinator::access::wanted::WantedSource;
use hypercloud_coordinator::access::{
    Content, DefaultStore, Kind, Objects, Reference, Resolved, Scope, Whose, references, resolve,
};
use hypercloud_coordinator::again::Again;
use hypercloud_coordinator::agents::source::Source;
use hypercloud_coordinator::agents::{
    AgentsSeen, Facts, Failure, ImageFormat, Job, JobSeen, JobState, Progress,
};
use hypercloud_coordinator::holder::{HolderSeen, HolderState};
use hypercloud_coordinator::image::observation::{ClaimSeen, Observation, StorageClassSeen};
use hypercloud_coordinator::image::plan::{Policy, plan};
use hypercloud_coordinator::image::size::Overhead;
use hypercloud_coordinator::image::verdict::{Action, Verdict, waiting};
use hypercloud_coordinator::image::{retry, status};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

pub const GIB: u64 = 1 << 30;
pub const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// An agent of the world.
pub struct Agent {
    pub up: bool,
    pub since: Timestamp,
    /// Jobs with the pod whose volume they fill.
    pub jobs: BTreeMap<String, (Job, String)>,
}

/// The world.
pub struct World {
    pub now: Timestamp,
    pub image: Option<VirtualMachineImage>,
    pub claim: Option<ClaimSeen>,
    pub pods: Vec<HolderSeen>,
    /// Claims that are being made from the image.
    pub clones: Vec<String>,
    pub agents: BTreeMap<&'static str, Agent>,
    /// UIDs of claims that hold the whole image.
    pub complete: BTreeSet<String>,
    /// How the next jobs end, before they are half done.
    pub failures: Vec<Failure>,
    /// How the next probes end.
    pub probe_failures: Vec<Failure>,
    /// The Secret that lets in at the source: its version, and whether the
    /// source accepts it.
    pub secret: Option<(u32, bool)>,
    /// How often the source was asked with what it does not accept.
    pub rejections: u32,
    /// Effects that may still happen before the coordinator dies.
    pub fuse: Option<u32>,
    /// Effects that happened.
    pub effects: u32,
    uids: u32,
}

/// The coordinator died.
pub struct Died;

impl World {
    pub fn new() -> Self {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let source = ImageSource {
            http: Some("http://example.com/disk.qcow2".into()),
            secret_ref: Some(SecretReference {
                name: "login".into(),
            }),
            ..ImageSource::default()
        };
        let spec = VirtualMachineImageSpec {
            storage_class_name: Some("fast".into()),
            source,
            pvc: None,
            preallocation: None,
            shared_with: None,
        };
        let mut image = VirtualMachineImage::new("ubuntu", spec);
        image.metadata.namespace = Some("team".into());
        image.metadata.uid = Some("image-uid".into());
        image.metadata.generation = Some(1);
        let agent = || Agent {
            up: true,
            since: now,
            jobs: BTreeMap::new(),
        };
        Self {
            now,
            image: Some(image),
            claim: None,
            pods: Vec::new(),
            clones: Vec::new(),
            agents: NODES.map(|node| (node, agent())).into(),
            complete: BTreeSet::new(),
            failures: Vec::new(),
            probe_failures: Vec::new(),
            secret: Some((1, true)),
            rejections: 0,
            fuse: None,
            effects: 0,
            uids: 0,
        }
    }

    pub fn phase(&self) -> Option<ImagePhase> {
        self.image.as_ref()?.status.as_ref()?.phase
    }

    pub fn delete_image(&mut self) {
        let now = self.now;
        if let Some(image) = &mut self.image {
            image.metadata.deletion_timestamp.get_or_insert(Time(now));
            if image.metadata.finalizers.iter().flatten().count() == 0 {
                self.image = None;
            }
        }
    }

    /// Whether the image is being deleted.
    fn is_deleted(&self) -> bool {
        let image = self.image.as_ref();
        image.is_some_and(|image| image.metadata.deletion_timestamp.is_some())
    }

    pub fn delete_claim(&mut self) {
        let now = self.now;
        if let Some(claim) = &mut self.claim {
            claim.deleting_since.get_or_insert(now);
        }
    }

    pub fn delete_pods(&mut self) {
        let now = self.now;
        for pod in &mut self.pods {
            pod.deleting_since.get_or_insert(now);
        }
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
        if !up {
            // What lets in is in no journal.
            for (job, _) in agent
                .jobs
                .values_mut()
                .filter(|(job, _)| at_work(&job.state))
            {
                job.state = JobState::Pending;
                job.awaiting_access = true;
            }
        }
    }

    /// What the source is asked with, or what has to be waited for.
    fn reach(
        &self,
        source: &WantedSource,
        phase: ImagePhase,
    ) -> Result<Resolved<Source>, Box<Verdict>> {
        let store = DefaultStore::default();
        let scope = Scope {
            namespace: "team",
            store: &store,
        };
        let login = |version: u32| Content {
            version: version.to_string(),
            values: [("username", "reader"), ("password", "s3cret")]
                .map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()))
                .into(),
        };
        let objects: Objects = references(source, scope)
            .into_iter()
            .map(|reference| (reference, self.secret.map(|(version, _)| login(version))))
            .collect();
        let one = Reference {
            whose: Whose::Resource,
            kind: Kind::Secret,
            namespace: "team".into(),
            name: "login".into(),
        };
        assert_eq!(objects.keys().collect::<Vec<_>>(), [&one]);
        resolve(source, scope, &objects)
            .map_err(|problem| Box::new(waiting(phase, &problem.reason, problem.message)))
    }

    /// Node of the job at work.
    pub fn job_node(&self) -> Option<&'static str> {
        let has_job = |agent: &Agent| agent.jobs.values().any(|(job, _)| at_work(&job.state));
        let found = self.agents.iter().find(|(_, agent)| has_job(agent));
        found.map(|(node, _)| *node)
    }

    fn observe(&self) -> Option<Observation> {
        let image = self.image.clone()?;
        let agents = AgentsSeen {
            synced: NODES
                .into_iter()
                .filter(|node| self.agents[node].up)
                .map(str::to_owned)
                .collect(),
            away: self
                .agents
                .iter()
                .filter(|(_, agent)| !agent.up)
                .map(|(node, agent)| ((*node).to_owned(), agent.since))
                .collect(),
            jobs: self
                .agents
                .iter()
                .flat_map(|(node, agent)| {
                    agent.jobs.values().map(|(job, _)| JobSeen {
                        node: (*node).to_owned(),
                        job: job.clone(),
                    })
                })
                .collect(),
        };
        Some(Observation {
            image,
            claim: self.claim.clone(),
            holders: self.pods.clone(),
            clones: match self.is_deleted() {
                true => self.clones.clone(),
                false => Vec::new(),
            },
            storage_class: StorageClassSeen::Found,
            agents,
        })
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

    /// One reconcile. A coordinator that dies takes nothing with it: the
    /// next one starts from what is there.
    pub fn reconcile(&mut self) -> Result<(), Died> {
        let policy = Policy {
            overhead: Overhead::DEFAULT,
            store: DefaultStore::default(),
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
            let mut again = plan.again;
            for action in &plan.actions {
                self.spend()?;
                if let Some(learnt) = self.act(&seen, action) {
                    verdict = learnt;
                    if matches!(
                        verdict,
                        Verdict::Waiting { .. } | Verdict::Rejected { .. } | Verdict::Keep
                    ) {
                        again = Again::OnChange;
                        break;
                    }
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
        let next = status::next(&seen.image, verdict, seen.own_claim().is_some(), self.now);
        if seen.image.status.as_ref() == Some(&next) || self.image.is_none() {
            return Ok(());
        }
        self.spend()?;
        let became_ready =
            next.phase == Some(ImagePhase::Ready) && self.phase() != Some(ImagePhase::Ready);
        if became_ready {
            let claim = self.claim.as_ref().expect("ready without a claim");
            assert!(
                self.complete.contains(&claim.uid),
                "ready with half an image"
            );
            let here = self.pods.iter().filter(|pod| match &pod.node {
                Some(node) => self.agents[node.as_str()].up,
                None => true,
            });
            assert_eq!(here.count(), 0, "ready while its claim is mounted");
        }
        self.image.as_mut().unwrap().status = Some(next);
        Ok(())
    }

    fn act(&mut self, seen: &Observation, action: &Action) -> Option<Verdict> {
        let now = self.now;
        let status = seen.image.status.as_ref();
        match action {
            Action::AddFinalizer => {
                let meta = &mut self.image.as_mut()?.metadata;
                meta.finalizers
                    .get_or_insert_default()
                    .push(names::FINALIZER.into());
                None
            }
            Action::RemoveFinalizer => {
                assert!(self.image.as_ref()?.metadata.deletion_timestamp.is_some());
                self.image = None;
                None
            }
            Action::Probe { node, source } => {
                assert!(self.agents[node.as_str()].up);
                let reached = match self.reach(source, ImagePhase::Pending) {
                    Ok(reached) => reached,
                    Err(waits) => return Some(*waits),
                };
                if let Some(rejected) = retry::still_rejected(status, &reached.secrets) {
                    return Some(rejected);
                }
                if self.secret.is_some_and(|(_, accepted)| !accepted) {
                    self.rejections += 1;
                    let no = failure("Unauthorized", false);
                    return Some(retry::judge_probe(status, &no, &reached.secrets));
                }
                if !self.probe_failures.is_empty() {
                    let failure = cluster::take(&mut self.probe_failures);
                    return Some(retry::judge(status, &failure, true));
                }
                Some(Verdict::Probed(facts()))
            }
            Action::CreateClaim { size } => {
                let uid = self.uid("claim");
                self.claim.get_or_insert(ClaimSeen {
                    uid,
                    ours: true,
                    since: None,
                    deleting_since: None,
                    lost: false,
                    volume_name: None,
                    requested: *size,
                    many_nodes: false,
                    problem: None,
                });
                None
            }
            Action::DeleteClaim { uid } => {
                let needed = self.is_deleted() && !self.clones.is_empty();
                assert!(!needed, "clones lose their source");
                if let Some(claim) = self.claim.as_mut().filter(|claim| claim.uid == *uid) {
                    assert!(claim.ours, "somebody else's claim deleted");
                    claim.deleting_since.get_or_insert(now);
                }
                None
            }
            Action::CreateHolder => {
                let name = seen.holder_name();
                if self.pods.iter().all(|pod| pod.name != name) {
                    let uid = self.uid("pod");
                    self.pods.push(HolderSeen {
                        name,
                        uid,
                        since: None,
                        deleting_since: None,
                        node: None,
                        state: HolderState::Waiting(None),
                    });
                }
                None
            }
            Action::DeleteHolder { name, uid } => {
                let mut pods = self.pods.iter_mut();
                if let Some(pod) = pods.find(|pod| pod.name == *name && pod.uid == *uid) {
                    pod.deleting_since.get_or_insert(now);
                }
                None
            }
            Action::StartJob { node, job, source } => {
                if let Err(waits) = self.reach(source, ImagePhase::Importing) {
                    return Some(*waits);
                }
                let pod = self.pods.iter().find(|pod| pod.uid == job.pod_uid);
                let holding = pod.is_some_and(|pod| pod.state == HolderState::Holding);
                assert!(holding, "a job started without its volume");
                let agent = self.agents.get_mut(node.as_str())?;
                let new = Job {
                    id: job.id.clone(),
                    state: JobState::Pending,
                    progress: Progress {
                        total: 100,
                        ..Progress::default()
                    },
                    ..Job::default()
                };
                let entry = agent.jobs.entry(job.id.clone());
                let (job, _) = entry.or_insert((new, job.pod_uid.clone()));
                job.awaiting_access = false;
                Some(Verdict::Importing {
                    node: node.clone(),
                    job: job.clone(),
                })
            }
            Action::CancelJob { node, job_id } => {
                let agent = self.agents.get_mut(node.as_str())?;
                assert!(agent.up, "an agent asked that is away");
                agent.jobs.remove(job_id);
                None
            }
        }
    }

    fn check(&self) {
        let jobs = self.agents.values().filter(|agent| agent.up);
        let at_work = jobs
            .flat_map(|agent| agent.jobs.values())
            .filter(|(job, _)| at_work(&job.state));
        assert!(at_work.count() <= 1, "two jobs fill one claim");
    }

    fn uid(&mut self, kind: &str) -> String {
        self.uids += 1;
        format!("{kind}-{}", self.uids)
    }

    /// Whether nothing of the image is left but, perhaps, its claim.
    pub fn is_tidy(&self) -> bool {
        let up = self.agents.values().filter(|agent| agent.up);
        self.pods.is_empty() && up.map(|agent| agent.jobs.len()).sum::<usize>() == 0
    }
}

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

fn facts() -> Facts {
    Facts {
        format: ImageFormat::Qcow2,
        packing: None,
        virtual_size: Some(10 * GIB),
        source_size: Some(GIB),
        validator: Some("\"v1\"".into()),
        ranges: true,
    }
}
