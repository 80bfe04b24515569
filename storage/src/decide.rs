//! From one look at the cluster to what is done and said.
//!
//! Invariant: a device is in the status before it is in the CephCluster, and
//! one that is given up is there before it is out of it: the decision that
//! writes it down does not act on it.

mod blind;
mod ground;
mod kept;
mod removal;
mod upgrade;

pub use self::blind::blind;
pub use self::ground::{operator_key, running};

use std::collections::{BTreeMap, BTreeSet};

use hypercloud_api::{
    HyperCloudStorage, HyperCloudStorageSpec, HyperCloudStorageStatus, SettledDevice,
};
use hypercloud_inventory::rook::Storage;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use crate::device::{self, Known, NodeDevices, Settlement};
use crate::health::{self, Judgement, Look, cluster_key};
use crate::manifest::source::Wanted;
use crate::manifest::{Files, ManifestError};
use crate::object::{Desired, Key, SHARED_KINDS, Seen};
use crate::plan::change::{self, Change, Notice};
use crate::plan::deletion::{self, Users};
use crate::plan::install::{self, Gate, Move};
use crate::plan::removal as purge;
use crate::refusal::{self, Refusals};
use crate::render::{self, Ingredients};
use crate::stage::{self, Stage};
use crate::state::{self, Aim, Problem, Turn};
use crate::version::{self, KubernetesVersion, Target};

/// What one look saw.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The resource.
    pub resource: &'a HyperCloudStorage,
    /// Objects of every kind that matters, in the cluster.
    pub seen: &'a Seen,
    /// Labels `kubernetes.io/hostname` of the cluster's nodes.
    pub hostnames: &'a BTreeSet<String>,
    /// Inventories by that label.
    pub inventories: &'a BTreeMap<String, NodeDevices>,
    /// What is known of the OSDs, where devices are given up.
    pub osds: &'a purge::Osds,
    /// Files that were fetched.
    pub files: &'a Files,
    /// What the API server did not do.
    pub refused: &'a Refusals,
    /// What uses the storage, where it is being deleted.
    pub users: &'a Users,
    /// Nodes that Ceph's daemons run on.
    pub hosts: &'a [String],
    /// Names of definitions of which objects are left.
    pub definitions_in_use: &'a BTreeSet<String>,
    /// Whether volumes of other drivers have snapshots.
    pub foreign_snapshots: bool,
    /// The cluster's Kubernetes.
    pub kubernetes: Option<KubernetesVersion>,
    /// Now.
    pub now: Timestamp,
}

/// What is done and said. The status is written first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// What the status is to be.
    pub status: HyperCloudStorageStatus,
    /// Files that are needed and were not fetched yet, or not successfully.
    pub fetch: Vec<Wanted>,
    /// Objects as they are meant, in the order in which they are applied.
    pub apply: Vec<Desired>,
    /// Objects that nobody asks for any more.
    pub remove: Vec<Key>,
    /// What is done about a device that is given up.
    pub purge: Option<purge::Action>,
    /// What is done of the deletion.
    pub deletion: Option<deletion::Step>,
    /// What people are told.
    pub notices: Vec<Notice>,
}

/// What is done and said after a look.
#[must_use]
pub fn decide(view: &View<'_>) -> Decision {
    if view.resource.metadata.deletion_timestamp.is_some() {
        return removal::decide(view);
    }
    Course::new(view).decide()
}

/// What Ceph is given, and how it is with what it has.
struct Given {
    storage: Storage,
    held: Option<String>,
    ceph: Judgement,
    devices: usize,
}

/// A decision in the making.
struct Course<'a> {
    view: &'a View<'a>,
    /// What is asked for, but for what would cost copies that are there.
    spec: HyperCloudStorageSpec,
    before: HyperCloudStorageStatus,
    problems: Vec<Problem>,
    decision: Decision,
}

impl<'a> Course<'a> {
    fn new(view: &'a View<'a>) -> Self {
        let mut before = view.resource.status.clone().unwrap_or_default();
        if before.components.is_empty() {
            before.components = ground::taken_up(view.seen);
        }
        let (spec, problems) = kept::spec(&view.resource.spec, view.seen);
        Self {
            view,
            spec,
            decision: Decision {
                status: before.clone(),
                ..Decision::default()
            },
            before,
            problems,
        }
    }

    fn decide(mut self) -> Decision {
        let view = self.view;
        let spec = &view.resource.spec;
        let running = ground::running(&self.before.components, view.seen);
        let target = match version::target(spec, running, view.kubernetes) {
            Ok(target) => Some(target),
            Err(unsupported) => {
                self.problem(unsupported.reason(), unsupported.to_string(), false);
                // What runs is kept as it is.
                let mut unversioned = spec.clone();
                unversioned.versions = None;
                let kept = version::target(&unversioned, running, view.kubernetes).ok();
                kept.filter(|_| running.rook.is_some())
            }
        };
        match (ground::theirs(view.resource, view.seen), target) {
            (Some(theirs), _) => self.problems.push(theirs),
            (None, Some(target)) => self.go(&target),
            (None, None) => {}
        }
        self.sum_up(target.as_ref());
        self.decision
    }

    fn problem(&mut self, reason: &'static str, message: String, waiting: bool) {
        self.problems.push(Problem {
            reason,
            message,
            waiting,
        });
    }

    /// Applies and judges every stage.
    fn go(&mut self, target: &Target) {
        let view = self.view;
        let upgrade = stage::wanted(&view.resource.spec).any(|stage| {
            let version = ground::version(stage, &self.before.components);
            version.is_some_and(|version| version != stage.version(target))
        });
        let Given {
            storage,
            held,
            ceph,
            devices,
        } = self.devices(upgrade);
        let default = hypercloud_api::HealthPolicy::default();
        let spec = &view.resource.spec;
        let look = Look {
            seen: view.seen,
            desired: &[],
            target,
            policy: spec.storage.health.as_ref().unwrap_or(&default),
            devices: storage.nodes.iter().map(|node| node.devices.len()).sum(),
            now: view.now,
        };
        let gate = Gate {
            ceph: &ceph,
            devices: held.as_deref(),
            lost: self.is_lost(),
        };
        let components = self.before.components.clone();
        let steps = install::course(spec, target, &components, gate);
        let upgrading = upgrade::is_under_way(&steps, target, &components);
        let mut next = Vec::new();
        for step in &steps {
            let stage = step.stage;
            let before = components.iter().find(|c| c.name == stage.name);
            let own = ground::version(stage, &components);
            let (turn, version) = match &step.what {
                Move::Wait(why) => {
                    // By the time of its turn its files are there.
                    let mut files = render::files(stage, target);
                    files.retain(|wanted| !matches!(view.files.get(wanted), Some(Ok(_))));
                    self.decision.fetch.extend(files);
                    (Turn::Waiting(why.clone()), stage.version(target))
                }
                Move::Apply => {
                    let is_installed = own == Some(stage.version(target));
                    let judgement = self.apply(stage, target, &storage, look, is_installed);
                    (Turn::Judged(judgement), stage.version(target))
                }
                Move::Leave(why) => {
                    let version = own.unwrap_or(stage.version(target));
                    let target = ground::as_it_is(stage, target, version);
                    let look = Look {
                        target: &target,
                        devices,
                        ..look
                    };
                    // Only the version waits: what cures Ceph may be asked for
                    // here, and what is made of the specification needs no
                    // file of the other version.
                    let mut judgement = match upgrade::as_applied(stage, &target, view.seen) {
                        Some(applied) => self.apply(stage, &applied, &storage, look, true),
                        None => health::stage(stage, look),
                    };
                    if judgement.is_healthy() && judgement.message.is_empty() {
                        judgement.message.clone_from(why);
                    }
                    (Turn::Judged(judgement), version)
                }
            };
            let aim = Aim { version, upgrading };
            next.push(state::step(stage, before, &turn, aim, view.now));
        }
        self.decision.status.components = next;
        // What is not applied now is told when it is.
        let key = cluster_key();
        if !self.decision.apply.iter().any(|desired| desired.key == key) {
            self.decision.notices.clear();
        }
        self.unwanted();
    }

    /// Applies a stage, and judges it. One that is installed is judged by what
    /// runs while its files are not at hand.
    fn apply(
        &mut self,
        stage: &'static Stage,
        target: &Target,
        storage: &Storage,
        look: Look<'_>,
        is_installed: bool,
    ) -> Judgement {
        let mut missing = Vec::new();
        let mut failed = None;
        for wanted in render::files(stage, target) {
            match self.view.files.get(&wanted) {
                Some(Ok(_)) => {}
                // It may have been put right.
                Some(Err(error)) => {
                    failed = Some(error);
                    self.decision.fetch.push(wanted);
                }
                None => missing.push(wanted),
            }
        }
        let is_false = matches!(failed, Some(ManifestError::WrongChecksum { .. }));
        if let Some(error) = failed.filter(|_| is_false || !is_installed) {
            return health::hopeless(error.reason(), error.to_string());
        }
        let names: Vec<String> = missing.iter().map(Wanted::path).collect();
        self.decision.fetch.extend(missing);
        if is_installed && (failed.is_some() || !names.is_empty()) {
            return health::stage(stage, look);
        }
        if !names.is_empty() {
            let message = format!("{} is fetched", names.join(", "));
            return health::changing("Fetching", message);
        }
        let of = Ingredients {
            spec: &self.spec,
            target,
            storage,
            cluster: self.view.seen.get(&cluster_key()),
            files: self.view.files,
        };
        match render::objects(stage, of) {
            Ok(desired) => {
                let look = Look {
                    desired: &desired,
                    ..look
                };
                // What is not there yet is not missing.
                let applying = health::applying(look).filter(|_| !is_installed);
                let judgement = applying.unwrap_or_else(|| health::stage(stage, look));
                let refused = refusal::judge(&desired, self.view.refused);
                self.decision.apply.extend(desired);
                refused.into_iter().fold(judgement, Judgement::or_worse)
            }
            Err(error) => health::hopeless(error.reason(), error.to_string()),
        }
    }

    /// Settles the devices: what Ceph is given now, and what keeps a cluster
    /// from being made.
    fn devices(&mut self, upgrade: bool) -> Given {
        let view = self.view;
        let storage = &self.spec.storage.clone();
        let cluster = view.seen.get(&cluster_key());
        let known = Known {
            hostnames: view.hostnames.clone(),
            inventories: view.inventories.clone(),
            settled: self.before.devices.clone(),
            in_cluster: cluster.map(device::in_cluster).unwrap_or_default(),
            removing: ground::going(&self.before.removing, view.osds),
        };
        if self.is_lost() {
            return self.lost(&known);
        }
        let mut settlement = device::settle(&storage.nodes, &known);
        for problem in &settlement.problems {
            let waiting = problem.is_waiting();
            self.problems.push(Problem {
                reason: problem.reason(),
                message: problem.to_string(),
                waiting,
            });
        }
        self.problems.extend(ground::room(storage));
        let ceph = self.ceph_now(&known);
        // What may be wanted after all is not taken from Ceph, nor is anything
        // in the midst of an upgrade.
        let removing = &self.before.removing;
        let paused = settlement.unclear.iter().filter(|d| removing.contains(d));
        let dropped: Vec<SettledDevice> =
            settlement.dropped.iter().chain(paused).cloned().collect();
        let busy = health::changing("Upgrading", "it is being upgraded");
        // What is to take the data may be no device that Ceph can have.
        let unsettled = health::changing(
            "DeviceRemoval",
            "not every device of storage.nodes is settled",
        );
        let plan = purge::plan(&purge::View {
            storage,
            wanted: &settlement.devices,
            dropped: &dropped,
            removing,
            osds: view.osds,
            ceph: match upgrade {
                true => &busy,
                false if ceph.is_healthy() && !settlement.problems.is_empty() => &unsettled,
                false => &ceph,
            },
        });
        self.problems.extend(plan.problems.iter().cloned());
        match &plan.action {
            Some(purge::Action::WriteDown(device)) => {
                self.decision.status.removing.push(device.clone());
            }
            Some(purge::Action::Forget(device)) => {
                self.decision
                    .status
                    .removing
                    .retain(|other| other != device);
            }
            _ => self.decision.purge.clone_from(&plan.action),
        }
        // Also what is given up is remembered as long as Ceph has it.
        self.decision.status.devices = settlement.devices.clone();
        let kept = settlement.unclear.iter().chain(&settlement.dropped);
        self.decision.status.devices.extend(kept.cloned());
        let held = self.hold(&mut settlement, &known);
        self.tell(&settlement, &known);
        Given {
            storage: settlement.storage(&plan.kept),
            held,
            ceph,
            devices: self.serving(&known),
        }
    }

    /// Whether there was a CephCluster, and is none.
    fn is_lost(&self) -> bool {
        let had = stage::named("ceph-cluster")
            .is_some_and(|stage| ground::version(stage, &self.before.components).is_some());
        had && !self.view.seen.has(&cluster_key())
    }

    /// The devices of a CephCluster that is lost are those that it had.
    fn lost(&self, known: &Known) -> Given {
        let settlement = Settlement {
            devices: self.before.devices.clone(),
            ..Settlement::default()
        };
        Given {
            storage: settlement.storage(&[]),
            held: None,
            ceph: self.ceph_now(known),
            devices: 0,
        }
    }

    /// How many devices Ceph is to serve with now: one that is being given up
    /// may have stopped already.
    fn serving(&self, known: &Known) -> usize {
        let given = known.in_cluster.len();
        given.saturating_sub(self.before.removing.len())
    }

    /// How Ceph is by the devices that it has, for what takes daemons away.
    fn ceph_now(&self, known: &Known) -> Judgement {
        let default = hypercloud_api::HealthPolicy::default();
        let policy = self.view.resource.spec.storage.health.as_ref();
        health::cluster::gate(&health::cluster::View {
            object: self.view.seen.get(&cluster_key()),
            others: health::cluster::others(self.view.seen),
            serving: health::serving_osds(self.view.seen),
            devices: self.serving(known),
            policy: policy.unwrap_or(&default),
            now: self.view.now,
        })
    }

    /// Takes what is not written down yet out of what Ceph is given, and says
    /// what keeps a cluster from being made.
    fn hold(&self, settlement: &mut Settlement, known: &Known) -> Option<String> {
        let written = |device: &SettledDevice| {
            let pair = (device.hostname.clone(), device.by_id.clone());
            self.before.devices.contains(device) || known.in_cluster.contains(&pair)
        };
        let all = settlement.devices.len();
        settlement.devices.retain(written);
        if let Some(problem) = settlement.problems.first() {
            return Some(problem.to_string());
        }
        (settlement.devices.len() < all).then(|| "the devices are being settled".to_owned())
    }

    /// Says what a change will cost, once: while it is not made.
    fn tell(&mut self, settlement: &Settlement, known: &Known) {
        let pool = self.view.seen.get(&kept::pool());
        let had = pool.and_then(|pool| pool["spec"]["replicated"]["size"].as_i64());
        self.decision.notices = change::notices(&Change {
            in_cluster: &known.in_cluster,
            devices: &settlement.devices,
            replicas: (had, self.view.resource.spec.storage.replicas),
        });
    }

    /// What was installed and is asked for no more goes where it holds no
    /// data.
    fn unwanted(&mut self) {
        let spec = &self.view.resource.spec;
        let wanted: BTreeSet<&str> = stage::wanted(spec).map(|stage| stage.name).collect();
        for name in ["toolbox", "cdi", "cdi-operator"] {
            if wanted.contains(name) {
                continue;
            }
            let seen = self.view.seen;
            let there: Vec<&Key> = seen
                .of_stage(name)
                // Others may have put something of their own there.
                .filter(|key| !SHARED_KINDS.contains(&key.kind.as_str()))
                .collect();
            let standing = there.iter().filter(|key| !seen.is_going(key));
            let standing: Vec<Key> = standing.map(|key| (*key).clone()).collect();
            if let Some((_, message)) = refusal::standing(&standing, self.view.refused) {
                self.problem("DeletionRefused", message, false);
            }
            self.decision.remove.extend(standing);
            if !there.is_empty() {
                // The operator takes its resource away first.
                break;
            }
        }
    }

    fn sum_up(&mut self, target: Option<&Target>) {
        let generation = self.view.resource.metadata.generation.unwrap_or_default();
        let status = &mut self.decision.status;
        let of = |name: &str| Some(stage::named(name)?.version(target?));
        let whole = state::whole(&status.components, &self.problems, &of, None);
        status.versions = ground::reported(&status.components);
        ground::write(status, &whole, generation, &Time(self.view.now));
        let given_up = change::given_up(&self.before.removing, &status.removing, &status.devices);
        self.decision.notices.extend(given_up);
    }
}
