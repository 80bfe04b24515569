//! A world of one export: a claim, pods, snapshots, two nodes, and a store.
//!
//! The disk is a number that changes whenever a pod writes, so what is read of
//! it at different times can be told apart.

mod act;
mod cluster;

use std::collections::{BTreeMap, BTreeSet};

use hypercloud_api::{
    DownloadUrl, ExportPhase, ExportReadFrom, SecretReference, StoredObject,
    VirtualMachineVolumeExport, VirtualMachineVolumeExportSpec, VolumeMode, names,
};
use hypercloud_coordinator::access::wanted::WantedStored;
use hypercloud_coordinator::access::{
    Content, DefaultStore, Objects, Resolved, Scope, references_of_object, resolve_object,
};
use hypercloud_coordinator::again::Again;
use hypercloud_coordinator::agents::source::Stored;
use hypercloud_coordinator::agents::{
    AgentsSeen, ExportedObject, Failure, Job, JobSeen, JobState, Progress,
};
use hypercloud_coordinator::export::observation::{Observation, OwnSnapshot};
use hypercloud_coordinator::export::plan::{plan, told, undiscarded};
use hypercloud_coordinator::export::retry::{judge, still_rejected};
use hypercloud_coordinator::export::status;
use hypercloud_coordinator::export::verdict::{Action, Upload, Verdict};
use hypercloud_coordinator::holder::{HolderSeen, HolderState};
use hypercloud_coordinator::volume::claim::{RestoredSeen, TargetSeen};
use hypercloud_coordinator::volume::snapshot::{ClassSeen, SnapshotSeen};
use hypercloud_coordinator::work;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

pub const NODES: [&str; 2] = ["n1", "n2"];
/// Seconds from a pod's making to its first write.
pub const STARTS: SignedDuration = SignedDuration::from_secs(2);

/// The coordinator died.
#[derive(Debug)]
pub struct Died;

/// A job of an agent.
pub struct Work {
    pub job: Job,
    /// UID of the pod whose volume it reads.
    pub pod: String,
    /// Whether it reads the claim itself.
    pub directly: bool,
    /// What it read.
    pub read: BTreeSet<u32>,
    pub overwrite: bool,
    /// Version of the Secret that lets it in; none after a restart.
    pub access: Option<u32>,
}

pub struct Agent {
    /// Whether the coordinator can ask it.
    pub up: bool,
    /// Whether it works.
    pub runs: bool,
    pub since: Timestamp,
    pub jobs: BTreeMap<String, Work>,
}

/// The object store.
#[derive(Default)]
pub struct Store {
    pub down: bool,
    /// Uploads that have parts.
    pub uploads: BTreeSet<String>,
    /// Whether the object that is there is of one state of the disk.
    pub object: Option<bool>,
    /// Whether that is somebody else's.
    pub foreign: bool,
    /// Version of the Secret from which on it lets in.
    pub accepts: u32,
}

pub struct World {
    pub now: Timestamp,
    pub export: Option<VirtualMachineVolumeExport>,
    pub target: Option<TargetSeen>,
    /// Pods on the claim, and since when; and those that ended.
    pub users: Vec<(String, Timestamp)>,
    pub ended: Vec<(String, Timestamp)>,
    pub rollback: Option<String>,
    pub classes: Vec<ClassSeen>,
    pub snapshot: Option<OwnSnapshot>,
    pub restored: Option<RestoredSeen>,
    /// What the disk, the snapshot and the restored claim hold.
    pub disk: u32,
    pub snapshot_holds: u32,
    pub restored_holds: u32,
    /// What the driver says instead of taking snapshots.
    pub snapshots_fail: bool,
    pub pods: Vec<HolderSeen>,
    pub agents: BTreeMap<&'static str, Agent>,
    pub store: Store,
    /// Version of the Secret.
    pub secret: Option<u32>,
    /// How the next jobs end, at the share that is done.
    pub failures: Vec<(u64, Failure)>,
    /// Whether the address was made.
    pub signed: bool,
    /// Uploads that a status named.
    pub known: BTreeSet<String>,
    /// Whether it was told that parts may be left.
    pub left: bool,
    /// Whether agents refuse to start jobs that they do not know.
    pub refusals: bool,
    /// Effects that are left before the coordinator dies.
    pub fuse: Option<u32>,
    pub effects: u32,
    pub uids: u32,
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
        driver: Some("csi".into()),
        storage_class: Some("fast".into()),
        mode: VolumeMode::Block,
        access_modes: vec!["ReadWriteOnce".into()],
        capacity: 1 << 30,
        ..TargetSeen::default()
    }
}

pub fn class(name: &str) -> ClassSeen {
    ClassSeen {
        name: name.into(),
        driver: "csi".into(),
        is_default: false,
        retains: false,
    }
}

pub fn export() -> VirtualMachineVolumeExport {
    let spec = VirtualMachineVolumeExportSpec {
        pvc_name: "disk".into(),
        object_store: StoredObject {
            bucket_name: Some("vms".into()),
            object_name: "backup/disk".into(),
            endpoint: Some("http://s3.example:9000".into()),
            ..StoredObject::default()
        },
        secret_ref: Some(SecretReference {
            name: "keys".into(),
        }),
        ..VirtualMachineVolumeExportSpec::default()
    };
    let mut export = VirtualMachineVolumeExport::new("out", spec);
    export.metadata.namespace = Some("team".into());
    export.metadata.uid = Some("uid".into());
    export.metadata.generation = Some(1);
    export
}

impl World {
    pub fn new() -> Self {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let agent = || Agent {
            up: true,
            runs: true,
            since: now,
            jobs: BTreeMap::new(),
        };
        Self {
            now,
            export: Some(export()),
            target: Some(target()),
            users: Vec::new(),
            ended: Vec::new(),
            rollback: None,
            classes: vec![class("snaps")],
            snapshot: None,
            restored: None,
            disk: 0,
            snapshot_holds: 0,
            restored_holds: 0,
            snapshots_fail: false,
            pods: Vec::new(),
            agents: NODES.map(|node| (node, agent())).into(),
            store: Store::default(),
            secret: Some(1),
            failures: Vec::new(),
            signed: false,
            known: BTreeSet::new(),
            left: false,
            refusals: false,
            fuse: None,
            effects: 0,
            uids: 0,
        }
    }

    pub fn phase(&self) -> Option<ExportPhase> {
        self.export.as_ref()?.status.as_ref()?.phase
    }

    pub fn reason(&self) -> String {
        let status = self.export.as_ref().and_then(|e| e.status.clone());
        let conditions = status.unwrap_or_default().conditions;
        let complete = conditions.into_iter().find(|c| c.type_ == "Complete");
        complete.map(|c| c.reason).unwrap_or_default()
    }

    /// Asks for an address to fetch the object by.
    pub fn want_address(&mut self) {
        let url = DownloadUrl {
            expires_after_seconds: 3600,
        };
        self.export.as_mut().unwrap().spec.download_url = Some(url);
    }

    pub fn use_volume(&mut self, name: &str) {
        let known = self.users.iter().any(|(user, _)| user == name);
        if self.target.is_some() && !known {
            self.users.push((name.to_owned(), self.now));
        }
    }

    pub fn leave_volume(&mut self) {
        self.ended.append(&mut self.users);
    }

    pub fn delete_export(&mut self) {
        let now = self.now;
        if let Some(export) = &mut self.export {
            let meta = &mut export.metadata;
            meta.deletion_timestamp.get_or_insert(Time(now));
            if meta.finalizers.iter().flatten().next().is_none() {
                self.export = None;
            }
        }
    }

    pub fn delete_pods(&mut self) {
        let now = self.now;
        for pod in &mut self.pods {
            pod.deleting_since.get_or_insert(now);
        }
    }

    pub fn delete_snapshot(&mut self) {
        let now = self.now;
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.deleting_since.get_or_insert(now);
        }
    }

    pub fn delete_restored(&mut self) {
        let now = self.now;
        if let Some(restored) = &mut self.restored {
            restored.deleting_since.get_or_insert(now);
        }
    }

    /// The agent of `node` loses power, or comes back from its journal.
    pub fn power(&mut self, node: &'static str, on: bool) {
        self.reach_agent(node, on);
        let agent = self.agents.get_mut(node).unwrap();
        agent.runs = on;
        for work in agent.jobs.values_mut() {
            if at_work(&work.job.state) {
                work.job.state = JobState::Pending;
                work.job.awaiting_access = true;
                work.access = None;
            }
        }
    }

    /// The coordinator can ask the agent of `node`, or cannot; it works on.
    pub fn reach_agent(&mut self, node: &'static str, up: bool) {
        let now = self.now;
        let agent = self.agents.get_mut(node).unwrap();
        if agent.up != up {
            agent.since = now;
        }
        agent.up = up;
    }

    /// The agents forget everything.
    pub fn lose_journals(&mut self) {
        for agent in self.agents.values_mut() {
            agent.jobs.clear();
        }
    }

    pub fn job_node(&self) -> Option<&'static str> {
        let busy = |agent: &Agent| agent.jobs.values().any(|work| at_work(&work.job.state));
        let found = self.agents.iter().find(|(_, agent)| busy(agent));
        found.map(|(node, _)| *node)
    }

    fn observe(&self) -> Option<Observation> {
        let export = self.export.clone()?;
        let jobs = |(node, agent): (&&str, &Agent)| {
            let seen = |work: &Work| JobSeen {
                node: (*node).to_owned(),
                job: work.job.clone(),
            };
            agent.jobs.values().map(seen).collect::<Vec<_>>()
        };
        let up = |node: &&str| self.agents[node].up;
        let away = self.agents.iter().filter(|(_, agent)| !agent.up);
        let ending = matches!(
            self.phase(),
            Some(ExportPhase::Succeeded | ExportPhase::Failed | ExportPhase::Deleting)
        );
        let complete = export.status.as_ref().is_some_and(|s| s.object.is_some());
        let deleted = export.metadata.deletion_timestamp.is_some();
        let read_from = export.status.as_ref().and_then(|status| status.read_from);
        let restored = self.restored.as_ref().is_some_and(RestoredSeen::is_usable);
        let kept = read_from == Some(ExportReadFrom::Snapshot) && restored;
        let around = !ending && !complete && !deleted && !kept;
        let taken = export.status.as_ref().and_then(|s| s.taken_at.clone());
        let directly = around && read_from == Some(ExportReadFrom::Volume);
        let passed = || {
            let taken = taken.as_ref().filter(|_| directly);
            let since = move |at: Timestamp| taken.is_some_and(|taken| at >= taken.0);
            self.ended.iter().filter(move |(_, at)| since(*at))
        };
        Some(Observation {
            export,
            target: self.target.clone().filter(|_| around),
            users: self
                .users
                .iter()
                .filter(|_| around)
                .map(|(name, _)| name.clone())
                .collect(),
            used_since: self
                .users
                .iter()
                .chain(passed())
                .filter(|_| around)
                .map(|user| user.1)
                .min(),
            passed: passed().map(|(name, _)| name.clone()).collect(),
            rollback: self.rollback.clone().filter(|_| around),
            classes: self.classes.clone(),
            snapshot: self.snapshot.clone(),
            restored: self.restored.clone(),
            holders: self.pods.clone(),
            agents: AgentsSeen {
                synced: NODES.into_iter().filter(up).map(str::to_owned).collect(),
                away: away
                    .map(|(node, agent)| ((*node).to_owned(), agent.since))
                    .collect(),
                jobs: self.agents.iter().flat_map(jobs).collect(),
            },
            default_keys: false,
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
                if !matches!(action, Action::Check(_)) {
                    self.spend()?;
                }
                if let Some(learnt) = self.act(&seen, action) {
                    again = match &learnt {
                        Verdict::Exporting { .. }
                        | Verdict::Waiting { .. }
                        | Verdict::Attempted { .. }
                        | Verdict::Rejected { .. }
                        | Verdict::Keep => Again::OnChange,
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
        let next = status::next(&seen.export, verdict, self.now);
        if seen.export.status.as_ref() == Some(&next) || self.export.is_none() {
            return Ok(());
        }
        self.spend()?;
        if next.phase == Some(ExportPhase::Succeeded) {
            assert_eq!(self.store.object, Some(true), "succeeded with this object");
        }
        let upload = next.upload.as_ref();
        self.known
            .extend(upload.and_then(|upload| upload.upload_id.clone()));
        self.left |= matches!(verdict, Verdict::UploadLeft { .. });
        self.export.as_mut().unwrap().status = Some(next);
        Ok(())
    }

    pub fn uid(&mut self, kind: &str) -> String {
        self.uids += 1;
        format!("{kind}-{}", self.uids)
    }

    /// Whether nothing of the export is left but the object.
    pub fn is_tidy(&self) -> bool {
        let up = self.agents.values().filter(|agent| agent.up);
        self.pods.is_empty()
            && self.restored.is_none()
            && self.snapshot.as_ref().is_none_or(|snapshot| !snapshot.ours)
            && up.map(|agent| agent.jobs.len()).sum::<usize>() == 0
            && self.store.uploads.is_disjoint(&self.known)
    }
}
