//! A world of one rollback: a claim, a snapshot, pods, two nodes.

mod cluster;

use std::collections::BTreeMap;

use hypercloud_api::{
    RollbackPhase, VirtualMachineVolumeRollback, VirtualMachineVolumeRollbackSpec, VolumeMode,
    names,
};
use hypercloud_coordinator::again::Again;
use hypercloud_coordinator::agents::{AgentsSeen, Failure, Job, JobSeen, JobState, Progress};
use hypercloud_coordinator::copy;
use hypercloud_coordinator::holder::{HolderSeen, HolderState};
use hypercloud_coordinator::rollback::observation::{Observation, RestoredSeen, TargetSeen};
use hypercloud_coordinator::rollback::plan::{plan, refused};
use hypercloud_coordinator::rollback::status;
use hypercloud_coordinator::rollback::verdict::{Action, Verdict};
use hypercloud_coordinator::volume::snapshot::{ContentSeen, SnapshotSeen};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

pub const NODES: [&str; 2] = ["n1", "n2"];

/// The coordinator died.
#[derive(Debug)]
pub struct Died;

/// What the volume holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// What it held before.
    Former,
    /// Parts of both states.
    Both,
    /// What the snapshot holds.
    Snapshot,
}

pub struct Agent {
    pub up: bool,
    pub since: Timestamp,
    /// Jobs with the UID of the pod whose volumes they have.
    pub jobs: BTreeMap<String, (Job, String)>,
}

pub struct World {
    pub now: Timestamp,
    pub rollback: Option<VirtualMachineVolumeRollback>,
    pub target: Option<TargetSeen>,
    pub snapshot: Option<SnapshotSeen>,
    pub restored: Option<RestoredSeen>,
    pub pods: Vec<HolderSeen>,
    pub users: Vec<String>,
    pub before: Option<String>,
    pub agents: BTreeMap<&'static str, Agent>,
    /// How the next jobs end, at the share that is done.
    pub failures: Vec<(u64, Failure)>,
    pub held: Held,
    /// Whether agents refuse to start jobs that they do not know.
    pub refusals: bool,
    /// Effects that are left before the coordinator dies.
    pub fuse: Option<u32>,
    pub effects: u32,
    /// Whether the admission policy refuses pods: what the API server knows
    /// is a second old.
    refuses: bool,
    uids: u32,
}

pub fn failure(reason: &str, retryable: bool) -> Failure {
    Failure {
        reason: reason.into(),
        message: "for people".into(),
        retryable,
    }
}

pub fn at_work(state: &JobState) -> bool {
    !matches!(state, JobState::Succeeded | JobState::Failed(_))
}

pub fn target() -> TargetSeen {
    TargetSeen {
        uid: "claim".into(),
        volume_name: Some("pv".into()),
        volume_handle: Some("vol".into()),
        storage_class: Some("fast".into()),
        mode: VolumeMode::Block,
        access_modes: vec!["ReadWriteOnce".into()],
        capacity: 1 << 30,
        ..TargetSeen::default()
    }
}

pub fn snapshot() -> SnapshotSeen {
    SnapshotSeen {
        uid: "snap".into(),
        claim: Some("disk".into()),
        ready: true,
        restore_size: Some(1 << 30),
        content: Some(ContentSeen {
            driver: "csi".into(),
            volume_handle: Some("vol".into()),
            volume_mode: Some("Block".into()),
        }),
        ..SnapshotSeen::default()
    }
}

pub fn rollback() -> VirtualMachineVolumeRollback {
    let spec = VirtualMachineVolumeRollbackSpec {
        pvc_name: "disk".into(),
        volume_snapshot_name: "before".into(),
    };
    let mut rollback = VirtualMachineVolumeRollback::new("back", spec);
    rollback.metadata.namespace = Some("team".into());
    rollback.metadata.uid = Some("uid".into());
    rollback.metadata.generation = Some(1);
    rollback
}

impl World {
    pub fn new() -> Self {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let agent = || Agent {
            up: true,
            since: now,
            jobs: BTreeMap::new(),
        };
        Self {
            now,
            rollback: Some(rollback()),
            target: Some(target()),
            snapshot: Some(snapshot()),
            restored: None,
            pods: Vec::new(),
            users: Vec::new(),
            before: None,
            agents: NODES.map(|node| (node, agent())).into(),
            failures: Vec::new(),
            held: Held::Former,
            refusals: false,
            fuse: None,
            effects: 0,
            refuses: false,
            uids: 0,
        }
    }

    pub fn phase(&self) -> Option<RollbackPhase> {
        self.rollback.as_ref()?.status.as_ref()?.phase
    }

    pub fn reason(&self) -> String {
        let status = self.rollback.as_ref().and_then(|r| r.status.clone());
        let conditions = status.unwrap_or_default().conditions;
        let complete = conditions.into_iter().find(|c| c.type_ == "Complete");
        complete.map(|c| c.reason).unwrap_or_default()
    }

    /// A pod on the claim is made, unless the policy refuses it.
    pub fn use_volume(&mut self, name: &str) {
        if !self.refuses && self.target.is_some() && !self.users.iter().any(|user| user == name) {
            self.users.push(name.to_owned());
        }
    }

    pub fn leave_volume(&mut self) {
        self.users.clear();
    }

    pub fn delete_rollback(&mut self) {
        let now = self.now;
        if let Some(rollback) = &mut self.rollback {
            let meta = &mut rollback.metadata;
            meta.deletion_timestamp.get_or_insert(Time(now));
            if meta.finalizers.iter().flatten().next().is_none() {
                self.rollback = None;
            }
        }
    }

    pub fn delete_pods(&mut self) {
        let now = self.now;
        for pod in &mut self.pods {
            pod.deleting_since.get_or_insert(now);
        }
    }

    pub fn delete_target(&mut self) {
        if let Some(target) = &mut self.target {
            target.deleting = true;
        }
    }

    pub fn delete_restored(&mut self) {
        let now = self.now;
        if let Some(restored) = &mut self.restored {
            restored.deleting_since.get_or_insert(now);
        }
    }

    /// The agent of `node` comes or goes, with its journal or without.
    pub fn switch(&mut self, node: &'static str, up: bool, journal: bool) {
        let now = self.now;
        let agent = self.agents.get_mut(node).unwrap();
        if agent.up != up {
            agent.since = now;
        }
        agent.up = up;
        if !journal {
            agent.jobs.clear();
        }
    }

    pub fn job_node(&self) -> Option<&'static str> {
        let busy = |agent: &Agent| agent.jobs.values().any(|(job, _)| at_work(&job.state));
        let found = self.agents.iter().find(|(_, agent)| busy(agent));
        found.map(|(node, _)| *node)
    }

    fn observe(&self) -> Option<Observation> {
        let jobs = |(node, agent): (&&str, &Agent)| {
            let seen = |(job, _): &(Job, String)| JobSeen {
                node: (*node).to_owned(),
                job: job.clone(),
            };
            agent.jobs.values().map(seen).collect::<Vec<_>>()
        };
        let up = |node: &&str| self.agents[node].up;
        let away = self.agents.iter().filter(|(_, agent)| !agent.up);
        Some(Observation {
            rollback: self.rollback.clone()?,
            target: self.target.clone(),
            snapshot: self.snapshot.clone(),
            restored: self.restored.clone(),
            holders: self.pods.clone(),
            users: self.users.clone(),
            before: self.before.clone(),
            agents: AgentsSeen {
                synced: NODES.into_iter().filter(up).map(str::to_owned).collect(),
                away: away
                    .map(|(node, agent)| ((*node).to_owned(), agent.since))
                    .collect(),
                jobs: self.agents.iter().flat_map(jobs).collect(),
            },
        })
    }

    /// One effect: it happens, or the coordinator died before it.
    fn spend(&mut self) -> Result<(), Died> {
        match &mut self.fuse {
            Some(0) => return Err(Died),
            Some(left) => *left -= 1,
            None => {}
        }
        self.effects += 1;
        Ok(())
    }

    /// One reconcile. A coordinator that dies takes nothing with it: the next
    /// one starts from what is there.
    pub fn reconcile(&mut self) -> Result<(), Died> {
        for round in 0.. {
            let Some(seen) = self.observe() else {
                return Ok(());
            };
            assert!(round < 50, "the plans go round in circles: {seen:?}");
            let plan = plan(&seen, self.now);
            let (mut verdict, mut again) = (plan.verdict.clone(), plan.again);
            for action in &plan.actions {
                self.spend()?;
                if let Some(learnt) = self.act(&seen, action) {
                    again = match &learnt {
                        Verdict::Writing { .. } | Verdict::Waiting { .. } => Again::OnChange,
                        _ => Again::Now,
                    };
                    verdict = learnt;
                    break;
                }
            }
            self.write(&seen, &verdict)?;
            if again != Again::Now {
                return Ok(());
            }
        }
        Ok(())
    }

    fn write(&mut self, seen: &Observation, verdict: &Verdict) -> Result<(), Died> {
        let next = status::next(&seen.rollback, verdict, self.now);
        if seen.rollback.status.as_ref() == Some(&next) || self.rollback.is_none() {
            return Ok(());
        }
        self.spend()?;
        if next.phase == Some(RollbackPhase::Succeeded) {
            assert_eq!(self.held, Held::Snapshot, "succeeded too early");
        }
        let was_open = self.phase() == Some(RollbackPhase::RollingBack)
            && next.phase != Some(RollbackPhase::RollingBack);
        if was_open && self.target.as_ref().is_some_and(|target| !target.deleting) {
            assert_ne!(self.held, Held::Both, "half a volume is opened: {next:?}");
            assert!(
                self.job_node().is_none_or(|node| !self.agents[node].up),
                "the volume is opened under a job"
            );
        }
        self.rollback.as_mut().unwrap().status = Some(next);
        Ok(())
    }

    fn act(&mut self, seen: &Observation, action: &Action) -> Option<Verdict> {
        let now = self.now;
        match action {
            Action::AddFinalizer => {
                let meta = &mut self.rollback.as_mut()?.metadata;
                let finalizers = meta.finalizers.get_or_insert_default();
                finalizers.push(names::FINALIZER.into());
            }
            Action::RemoveFinalizer => {
                assert!(
                    self.rollback
                        .as_ref()?
                        .metadata
                        .deletion_timestamp
                        .is_some()
                );
                self.rollback = None;
            }
            Action::CreateRestored { size, .. } => {
                assert_eq!(*size, 1 << 30);
                let uid = self.uid("restored");
                self.restored.get_or_insert(RestoredSeen {
                    uid,
                    since: Some(now),
                    ..RestoredSeen::default()
                });
            }
            Action::DeleteRestored { uid } => {
                if let Some(claim) = self.restored.as_mut().filter(|claim| claim.uid == *uid) {
                    claim.deleting_since.get_or_insert(now);
                }
            }
            Action::Copy(action) => return self.act_copy(seen, action),
        }
        None
    }

    fn act_copy(&mut self, seen: &Observation, action: &copy::Action) -> Option<Verdict> {
        let now = self.now;
        match action {
            copy::Action::CreateHolder => {
                assert!(self.users.is_empty() || self.held != Held::Former);
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
            copy::Action::DeleteHolder { name, uid } => {
                let mut pods = self.pods.iter_mut();
                if let Some(pod) = pods.find(|pod| pod.name == *name && pod.uid == *uid) {
                    pod.deleting_since.get_or_insert(now);
                }
                None
            }
            copy::Action::StartJob { node, job } => {
                assert!(self.users.is_empty(), "a job started under a pod");
                assert!(self.refuses, "a job started while pods are let in");
                assert!(job.only_differences);
                let pod = self.pods.iter().find(|pod| pod.uid == job.pod_uid);
                let holding = pod.is_some_and(|pod| pod.state == HolderState::Holding);
                assert!(holding, "a job started without its volumes");
                let new = Job {
                    id: job.id.clone(),
                    ..Job::default()
                };
                let agent = self.agents.get_mut(node.as_str())?;
                if self.refusals && !agent.jobs.contains_key(&job.id) {
                    return Some(refused(seen, failure("AgentRefused", true)));
                }
                let entry = agent.jobs.entry(job.id.clone());
                let (job, _) = entry.or_insert((new, job.pod_uid.clone()));
                Some(Verdict::Writing {
                    node: node.clone(),
                    job: job.clone(),
                })
            }
            copy::Action::CancelJob { node, job_id } => {
                let agent = self.agents.get_mut(node.as_str())?;
                assert!(agent.up, "an agent asked that is away");
                agent.jobs.remove(job_id);
                None
            }
        }
    }

    fn uid(&mut self, kind: &str) -> String {
        self.uids += 1;
        format!("{kind}-{}", self.uids)
    }
}
