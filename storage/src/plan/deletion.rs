//! How the storage is removed.
//!
//! Without the confirmation it is only let go of: everything runs on, and a
//! new HyperCloudStorage takes it up again. With it, everything goes in the
//! order below, and nothing begins while somebody's data is in use.
//!
//! Invariant: the CephCluster is deleted, and Rook told to destroy its data,
//! only with the confirmation, without blockers, and with nothing of ours
//! left above it.

mod job;
mod order;

pub use job::{ANNOTATION_CLEANED, Cleaned, CleanupJob, JobState, cleanup_jobs, job_keys};
pub use order::{Layer, ORDER};

use std::collections::BTreeSet;

use hypercloud_api::DefinitionsPolicy;
use serde_json::Value;

use crate::health::cluster_key;
use crate::object::{Key, Seen, is_found};
use crate::stage::{By, STAGES};
use crate::{CEPHFS_DRIVER, RBD_DRIVER, ROOK_CONFIRMATION, ROOK_NAMESPACE};

/// What is done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing but to look again.
    Wait {
        /// One CamelCase word.
        reason: &'static str,
        /// For people.
        message: String,
        /// What keeps it from going on.
        blockers: Vec<String>,
    },
    /// These objects are deleted.
    Delete(Vec<Key>),
    /// The nodes that Ceph runs on are written to the status; none once they
    /// are clean.
    RecordHosts(Vec<String>),
    /// Rook is told to destroy the data.
    Confirm,
    /// Rook is told to keep the data after all.
    Withdraw,
    /// The finalizer is taken away.
    Release,
}

/// What uses the storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users {
    /// Claims with volumes of ours, and claims of our class, as
    /// `namespace/name`.
    pub claims: Vec<String>,
    /// Volumes of ours that no claim has any more.
    pub volumes: Vec<String>,
    /// Snapshots' contents of ours.
    pub snapshots: Vec<String>,
    /// Claims of buckets but for our own, as `namespace/name`.
    pub buckets: Vec<String>,
    /// Resources of Rook in the namespace that are not ours, on which the
    /// CephCluster's deletion would wait, as `CephFilesystem name`.
    pub others: Vec<String>,
}

/// What is seen.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Whether the data may be destroyed.
    pub confirmed: bool,
    /// What becomes of definitions.
    pub definitions: DefinitionsPolicy,
    /// What uses the storage.
    pub users: &'a Users,
    /// What is in the cluster.
    pub seen: &'a Seen,
    /// Nodes that Ceph's daemons run on.
    pub hosts: &'a [String],
    /// Nodes that were written down.
    pub recorded: &'a [String],
    /// Rook's jobs.
    pub jobs: &'a [CleanupJob],
    /// Nodes of which a person says that they are clean.
    pub cleaned: Cleaned<'a>,
    /// Names of definitions of which objects are left.
    pub definitions_in_use: &'a BTreeSet<String>,
    /// Whether volumes of other drivers have snapshots, for which the snapshot
    /// controller is needed.
    pub foreign_snapshots: bool,
}

/// What is done next.
#[must_use]
pub fn next(view: &View<'_>) -> Step {
    if !view.confirmed {
        // Else whoever deletes the CephCluster one day destroys the data.
        return match view.seen.get(&cluster_key()) {
            Some(cluster) if is_confirmed(cluster) => Step::Withdraw,
            _ => Step::Release,
        };
    }
    for layer in ORDER {
        if let Some(step) = within(*layer, view) {
            return step;
        }
    }
    Step::Release
}

fn within(layer: Layer, view: &View<'_>) -> Option<Step> {
    match layer {
        Layer::Users => blocked(view),
        Layer::Stage(name) => {
            let keys = view.seen.of_stage(name).filter(|key| !is_definition(key));
            view.remove(keys.cloned().collect())
        }
        Layer::Kinds(name, kinds) => {
            let keys = view.seen.of_stage(name);
            let keys = keys.filter(|key| kinds.contains(&key.kind.as_str()));
            view.remove(keys.cloned().collect())
        }
        Layer::CephCluster => ceph(view),
        Layer::CleanupJobs => jobs(view),
        Layer::CsiResources => {
            let keys = view
                .seen
                .keys()
                .filter(|key| key.group() == "csi.ceph.io")
                .filter(|key| key.namespace.as_deref() == Some(ROOK_NAMESPACE));
            view.remove(keys.cloned().collect())
        }
        Layer::CsiDrivers => {
            let drivers = [RBD_DRIVER, CEPHFS_DRIVER].into_iter();
            let key = |name| Key::cluster("storage.k8s.io/v1", "CSIDriver", name);
            view.remove(drivers.map(key).collect())
        }
        Layer::SnapshotController if view.foreign_snapshots => None,
        Layer::SnapshotController => within(Layer::Stage("snapshot-controller"), view),
        Layer::Definitions => definitions(view),
    }
}

impl View<'_> {
    /// Removes what of these is there, and waits until it is gone; what was
    /// there before this system stays.
    fn remove(&self, keys: Vec<Key>) -> Option<Step> {
        let goes = |key: &Key| self.seen.get(key).is_some_and(|live| !is_found(live));
        let there: Vec<Key> = keys.into_iter().filter(goes).collect();
        let first = there.first()?.to_string();
        let held = held(&there, self.seen).or_else(|| nobody(&there, self.seen));
        let remains = remains(&there, self.seen);
        let standing: Vec<Key> = there
            .into_iter()
            .filter(|key| !self.seen.is_going(key))
            .collect();
        if standing.is_empty() {
            let message = format!("{first} is being deleted{remains}");
            let removing = || waiting("Removing", message, Vec::new());
            return Some(held.unwrap_or_else(removing));
        }
        Some(Step::Delete(standing))
    }
}

/// What Rook says of why it does not let these go: images in a pool of which
/// Kubernetes knows nothing, buckets that were made by other means.
fn held(keys: &[Key], seen: &Seen) -> Option<Step> {
    let mut blockers = Vec::new();
    let mut words = Vec::new();
    for key in keys.iter().filter(|key| seen.is_going(key)) {
        let conditions = seen.get(key)?["status"]["conditions"].as_array();
        let blocked = conditions.into_iter().flatten().find(|condition| {
            let is_it = |type_: &str| type_.ends_with("DeletionIsBlocked");
            condition["type"].as_str().is_some_and(is_it) && condition["status"] == "True"
        });
        if let Some(blocked) = blocked {
            let said = blocked["message"].as_str().unwrap_or_default();
            words.push(format!("{key}: {said}"));
            blockers.push(key.to_string());
        }
    }
    let message = format!("Rook does not let go of {}", words.join("; "));
    (!blockers.is_empty()).then(|| waiting("RemovalBlocked", message, blockers))
}

/// That whoever takes one of these away does not run.
fn nobody(keys: &[Key], seen: &Seen) -> Option<Step> {
    let operator = |key: &Key| match key.group() {
        "ceph.rook.io" | "objectbucket.io" => Some((ROOK_NAMESPACE, "rook-ceph-operator")),
        "csi.ceph.io" => Some((ROOK_NAMESPACE, "ceph-csi-controller-manager")),
        "cdi.kubevirt.io" => Some(("cdi", "cdi-operator")),
        _ => None,
    };
    keys.iter().find_map(|key| {
        let (namespace, name) = operator(key)?;
        let deployment = Key::namespaced("apps/v1", "Deployment", namespace, name);
        let live = seen.get(&deployment);
        let runs = live.is_some_and(|live| live["status"]["availableReplicas"].as_i64() > Some(0));
        if runs {
            return None;
        }
        let remedy = match live {
            Some(_) => "see to its pod, and to its replicas",
            None => "install it again, by hand",
        };
        let message = format!("{key} waits for {namespace}/{name}, which does not run: {remedy}");
        Some(waiting(
            "OperatorNotRunning",
            message,
            vec![key.to_string()],
        ))
    })
}

/// What a namespace that goes says of what is left in it.
fn remains(keys: &[Key], seen: &Seen) -> String {
    let namespaces = keys.iter().filter(|key| key.kind == "Namespace");
    let conditions = namespaces
        .filter_map(|key| seen.get(key)?["status"]["conditions"].as_array())
        .flatten();
    let left: Vec<&str> = conditions
        .filter(|condition| {
            let type_ = condition["type"].as_str().unwrap_or_default();
            type_.ends_with("Remaining") && condition["status"] == "True"
        })
        .filter_map(|condition| condition["message"].as_str())
        .collect();
    left.iter().map(|text| format!("; {text}")).collect()
}

fn waiting(reason: &'static str, message: String, blockers: Vec<String>) -> Step {
    Step::Wait {
        reason,
        message,
        blockers,
    }
}

/// Whether Rook was told to destroy the data.
fn is_confirmed(cluster: &Value) -> bool {
    cluster["spec"]["cleanupPolicy"]["confirmation"] == ROOK_CONFIRMATION
}

fn is_definition(key: &Key) -> bool {
    key.kind == "CustomResourceDefinition"
}

/// What uses the storage is named, and waited for.
fn blocked(view: &View<'_>) -> Option<Step> {
    let users = view.users;
    let named = [
        ("PersistentVolumeClaim", &users.claims),
        ("PersistentVolume", &users.volumes),
        ("VolumeSnapshotContent", &users.snapshots),
        ("ObjectBucketClaim", &users.buckets),
    ];
    let mut blockers: Vec<String> = named
        .iter()
        .flat_map(|(kind, names)| names.iter().map(move |name| format!("{kind} {name}")))
        .collect();
    blockers.extend(users.others.iter().cloned());
    if blockers.is_empty() {
        return None;
    }
    const SHOWN: usize = 10;
    let mut shown: Vec<&str> = blockers.iter().take(SHOWN).map(String::as_str).collect();
    let more = format!("{} more", blockers.len().saturating_sub(SHOWN));
    if blockers.len() > SHOWN {
        shown.push(&more);
    }
    let message = format!("delete what is in use first: {}", shown.join(", "));
    Some(waiting("StorageInUse", message, blockers))
}

/// The CephCluster: its nodes are written down, Rook is told to destroy the
/// data, and it goes.
fn ceph(view: &View<'_>) -> Option<Step> {
    let key = cluster_key();
    let cluster = view.seen.get(&key)?;
    if view.seen.is_going(&key) {
        let message = format!("{key} is being deleted");
        let key = std::slice::from_ref(&key);
        let held = held(key, view.seen).or_else(|| nobody(key, view.seen));
        return Some(held.unwrap_or_else(|| waiting("Removing", message, Vec::new())));
    }
    // Rook makes its jobs when the cluster goes: these are of one before, and
    // say nothing of this one.
    if let Some(step) = view.remove(job_keys(view.seen)) {
        return Some(step);
    }
    // Rook cleans the nodes that have daemons when the cluster goes: one that
    // has none any more is not waited for.
    let hosts: BTreeSet<&String> = view.hosts.iter().collect();
    if !view.recorded.iter().eq(hosts.iter().copied()) {
        return Some(Step::RecordHosts(hosts.into_iter().cloned().collect()));
    }
    if !is_confirmed(cluster) {
        return Some(Step::Confirm);
    }
    Some(Step::Delete(vec![key]))
}

/// Every node that was written down is cleaned, by a job that Rook makes when
/// Ceph's daemons are gone: its operator has to run until then.
fn jobs(view: &View<'_>) -> Option<Step> {
    let of = |host: &String| view.jobs.iter().find(|job| &job.hostname == host);
    let mut failed = Vec::new();
    let mut missing = Vec::new();
    for host in view.recorded {
        match of(host).map(|job| job.state) {
            _ if view.cleaned.has(host) => {}
            Some(JobState::Complete) => {}
            Some(JobState::Failed) => failed.push(host.as_str()),
            Some(JobState::Running) | None => missing.push(host.as_str()),
        }
    }
    // Rook may have found a node that had no daemon a moment before.
    let others = view.jobs.iter().filter(|job| {
        let is_known = view.recorded.contains(&job.hostname);
        !is_known && job.state == JobState::Running && !view.cleaned.has(&job.hostname)
    });
    missing.extend(others.map(|job| job.hostname.as_str()));
    if !failed.is_empty() {
        let names = failed.join(", ");
        let message = format!(
            "the job that cleans {names} failed: its log in {ROOK_NAMESPACE} says why; once the node is clean, set the annotation {ANNOTATION_CLEANED}=true on the job"
        );
        let blockers = failed.iter().map(|host| format!("Node {host}")).collect();
        return Some(waiting("CleanupFailed", message, blockers));
    }
    if missing.is_empty() {
        // Done, and remembered so.
        return match view.recorded.is_empty() {
            true => view.remove(job_keys(view.seen)),
            false => Some(Step::RecordHosts(Vec::new())),
        };
    }
    let names = missing.join(", ");
    let message = format!(
        "Rook cleans {names}; on the job of a node that does not come back, set the annotation {ANNOTATION_CLEANED}=true; where Rook makes no job for a node, clean it by hand and set {ANNOTATION_CLEANED}={} on the HyperCloudStorage",
        missing.join(",")
    );
    Some(waiting("CleaningNodes", message, Vec::new()))
}

/// Definitions go where that is the policy, but for those of which objects
/// are left, and those of snapshots where the controller stays for others.
fn definitions(view: &View<'_>) -> Option<Step> {
    if view.definitions == DefinitionsPolicy::Keep {
        return None;
    }
    let keys = STAGES
        .iter()
        .rev()
        .filter(|stage| !(view.foreign_snapshots && stage.by == By::Snapshotter))
        .flat_map(|stage| view.seen.of_stage(stage.name))
        .filter(|key| is_definition(key))
        .filter(|key| !view.definitions_in_use.contains(&key.name));
    view.remove(keys.cloned().collect())
}

#[cfg(test)]
mod tests;
