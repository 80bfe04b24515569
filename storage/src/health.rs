//! Whether a component is well, by what is seen of it.
//!
//! Invariant: what cannot be told is not healthy. No status, no condition and
//! no fresh look of Rook's means that it is not.

pub mod cluster;
pub mod definition;
pub mod resource;
pub mod workload;

use std::collections::BTreeMap;

use hypercloud_api::HealthPolicy;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::kind::Kind;
use crate::object::{Desired, Key, Seen};
use crate::stage::{Ready, Stage};
use crate::version::Target;
use crate::{CEPH_CLUSTER, ROOK_NAMESPACE};

/// How a component is, the worse the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It is well.
    Healthy,
    /// It is well enough by the policy.
    Warned,
    /// It takes up what it was told last.
    Changing,
    /// Parts of it are missing, as it is while a change is taken up, and is
    /// not otherwise.
    Lacking,
    /// It is not well, and may become so by itself.
    Unhealthy,
    /// It will not become well by itself.
    Hopeless,
}

/// A verdict, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// How it is.
    pub verdict: Verdict,
    /// One CamelCase word.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

impl Judgement {
    /// That all is well.
    #[must_use]
    pub fn healthy() -> Self {
        Self {
            verdict: Verdict::Healthy,
            reason: "Healthy",
            message: String::new(),
        }
    }

    /// Whether the component does its work.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.verdict <= Verdict::Warned
    }

    /// The worse of two; the first where they are alike.
    #[must_use]
    pub fn or_worse(self, other: Self) -> Self {
        if other.verdict > self.verdict {
            other
        } else {
            self
        }
    }
}

/// That it is well, by the policy.
pub(crate) fn warned(reason: &'static str, message: impl Into<String>) -> Judgement {
    judged(Verdict::Warned, reason, message)
}

/// That it takes up a change.
pub(crate) fn changing(reason: &'static str, message: impl Into<String>) -> Judgement {
    judged(Verdict::Changing, reason, message)
}

/// That parts of it are missing.
pub(crate) fn lacking(reason: &'static str, message: impl Into<String>) -> Judgement {
    judged(Verdict::Lacking, reason, message)
}

/// That it is not well.
pub(crate) fn unhealthy(reason: &'static str, message: impl Into<String>) -> Judgement {
    judged(Verdict::Unhealthy, reason, message)
}

/// That somebody has to do something.
pub(crate) fn hopeless(reason: &'static str, message: impl Into<String>) -> Judgement {
    judged(Verdict::Hopeless, reason, message)
}

fn judged(verdict: Verdict, reason: &'static str, message: impl Into<String>) -> Judgement {
    Judgement {
        verdict,
        reason,
        message: message.into(),
    }
}

/// What a stage is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// What is in the cluster.
    pub seen: &'a Seen,
    /// What the stage's objects are to be.
    pub desired: &'a [Desired],
    /// What is to run.
    pub target: &'a Target,
    /// What HEALTH_WARN means.
    pub policy: &'a HealthPolicy,
    /// Devices that Ceph was given.
    pub devices: usize,
    /// Now.
    pub now: Timestamp,
}

/// How a stage is.
#[must_use]
pub fn stage(stage: &Stage, look: Look<'_>) -> Judgement {
    let applied = applying(look).unwrap_or_else(Judgement::healthy);
    stage
        .ready
        .iter()
        .map(|ready| one(*ready, look))
        .fold(applied, Judgement::or_worse)
}

/// That an object is not there as it is meant. Of kinds that are not looked at
/// nothing can be told.
#[must_use]
pub fn applying(look: Look<'_>) -> Option<Judgement> {
    let mut known = look.desired.iter().filter(|d| Kind::of(&d.key).is_some());
    let missing = known.find(|d| !d.is_applied(look.seen))?;
    let message = format!("{} is being applied", missing.key);
    Some(changing("Applying", message))
}

fn one(ready: Ready, look: Look<'_>) -> Judgement {
    let apps = |kind, namespace, name| {
        let key = Key::namespaced("apps/v1", kind, namespace, name);
        (look.seen.get(&key), key)
    };
    match ready {
        Ready::Established => look
            .desired
            .iter()
            .filter(|desired| desired.key.kind == "CustomResourceDefinition")
            .map(|desired| definition::judge(&desired.key, look.seen.get(&desired.key)))
            .fold(Judgement::healthy(), Judgement::or_worse),
        Ready::Available(namespace, name) => {
            let (object, key) = apps("Deployment", namespace, name);
            workload::deployment(&key, object, workload::Least::Available)
        }
        Ready::Serving(namespace, name) => {
            let (object, key) = apps("Deployment", namespace, name);
            workload::deployment(&key, object, workload::Least::Serving)
        }
        Ready::Everywhere(namespace, name) => {
            let (object, key) = apps("DaemonSet", namespace, name);
            workload::daemon_set(&key, object)
        }
        Ready::RookEverywhere => {
            let version = format!("v{}", look.target.rook);
            let is = |label: &str| label == version;
            workload::labelled(daemons(look.seen), "rook-version", &version, is)
        }
        Ready::CephEverywhere => {
            let version = look.target.ceph.to_string();
            let is = |label: &str| label.split('-').next() == Some(version.as_str());
            workload::labelled(daemons(look.seen), "ceph-version", &version, is)
        }
        Ready::CephHealthy => cluster::judge(&cluster::View {
            object: look.seen.get(&cluster_key()),
            others: cluster::others(look.seen),
            serving: serving_osds(look.seen),
            devices: look.devices,
            policy: look.policy,
            now: look.now,
        }),
        Ready::Phase(kind, name) => {
            let key = Key::namespaced("ceph.rook.io/v1", kind, ROOK_NAMESPACE, name);
            resource::phase(&key, look.seen.get(&key))
        }
        Ready::BucketBound => {
            let key = resource::bucket_claim();
            resource::bound(&key, look.seen.get(&key))
        }
        Ready::CdiDeployed => {
            let key = Key::cluster("cdi.kubevirt.io/v1beta1", "CDI", "cdi");
            resource::cdi(&key, look.seen.get(&key))
        }
    }
}

/// The key of the CephCluster.
#[must_use]
pub fn cluster_key() -> Key {
    Key::namespaced(
        "ceph.rook.io/v1",
        "CephCluster",
        ROOK_NAMESPACE,
        CEPH_CLUSTER,
    )
}

/// Ceph's daemons: the Deployments that Rook made for the cluster.
fn daemons(seen: &Seen) -> impl Iterator<Item = &Value> {
    seen.of_kind("apps", "Deployment")
        .filter(|object| object["metadata"]["labels"]["rook_cluster"] == ROOK_NAMESPACE)
}

/// How many OSDs have a pod that is available, by the label
/// `kubernetes.io/hostname` of their node.
pub(crate) fn serving_osds(seen: &Seen) -> BTreeMap<String, usize> {
    let mut serving = BTreeMap::new();
    for osd in daemons(seen)
        .filter(|object| object["metadata"]["labels"]["app"] == "rook-ceph-osd")
        .filter(|object| object["status"]["availableReplicas"].as_i64() >= Some(1))
    {
        let place = &osd["spec"]["template"]["spec"]["nodeSelector"];
        let host = place["kubernetes.io/hostname"].as_str();
        *serving
            .entry(host.unwrap_or_default().to_owned())
            .or_default() += 1;
    }
    serving
}

/// Whether the status of an object speaks of its present generation.
fn is_observed(object: &Value) -> bool {
    let generation = object["metadata"]["generation"].as_i64();
    object["status"]["observedGeneration"].as_i64() >= generation
}

#[cfg(test)]
mod tests;
