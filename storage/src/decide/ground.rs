//! What a decision stands on, and how it is written down.

use hypercloud_api::conditions::set;
use hypercloud_api::{
    FailureDomain, HyperCloudStorage, HyperCloudStorageStatus, RunningVersions, SettledDevice,
    StorageCluster, StorageComponent,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use crate::ROOK_NAMESPACE;
use crate::health::cluster_key;
use crate::object::{Key, Seen, stage_of};
use crate::plan::removal::{Osd, Osds};
use crate::stage::{self, By, STAGES, Stage};
use crate::state::{Problem, Whole, conditions};
use crate::version::{Running, Target, Version};

/// Annotation of a HyperCloudStorage that is to take over the Rook and the Ceph
/// of the namespace that it names.
const ANNOTATION_ADOPT: &str = "hypercloud.tmaxanc.com/adopt";

/// Stages of which a storage that runs without a status has all.
const GROUND: [&str; 5] = [
    "rook-definitions",
    "rook-common",
    "csi-operator",
    "rook-operator",
    "ceph-cluster",
];

/// The version with which a stage was ready last.
pub(super) fn version(stage: &Stage, components: &[StorageComponent]) -> Option<Version> {
    let component = components.iter().find(|c| c.name == stage.name)?;
    component.version.as_deref()?.parse().ok()
}

/// The newest that any component runs, or that is seen to run: an upgrade that
/// has begun is not turned round.
#[must_use]
pub fn running(components: &[StorageComponent], seen: &Seen) -> Running {
    let newest = |by: By| {
        let stages = STAGES.iter().filter(|stage| stage.by == by);
        stages.filter_map(|stage| version(stage, components)).max()
    };
    let live = live(seen);
    Running {
        rook: newest(By::Rook).max(live.rook),
        ceph: newest(By::Ceph).max(live.ceph),
    }
}

/// Rook's operator.
#[must_use]
pub fn operator_key() -> Key {
    Key::namespaced(
        "apps/v1",
        "Deployment",
        ROOK_NAMESPACE,
        "rook-ceph-operator",
    )
}

/// What is seen to run: the operator's image, and the version that Rook found
/// in Ceph's, or is told to bring it to.
fn live(seen: &Seen) -> Running {
    let image = seen.get(&operator_key()).and_then(|object| {
        let containers = &object["spec"]["template"]["spec"]["containers"];
        containers[0]["image"].as_str()
    });
    let of_tag = |image: &str| -> Option<Version> {
        let (_, tag) = image.rsplit_once(':')?;
        tag.split('-').next()?.parse().ok()
    };
    let cluster = seen.get(&cluster_key()).unwrap_or(&Value::Null);
    let told = cluster["spec"]["cephVersion"]["image"].as_str();
    let found = cluster["status"]["version"]["version"].as_str();
    let found = found.and_then(|version| version.split('-').next()?.parse().ok());
    Running {
        rook: image.and_then(of_tag),
        ceph: told.and_then(of_tag).max(found),
    }
}

/// That somebody else's Rook or Ceph is there, which is not taken over unless
/// that is asked for: with `adopt` it is.
pub(super) fn theirs(resource: &HyperCloudStorage, seen: &Seen) -> Option<Problem> {
    let annotations = resource.metadata.annotations.as_ref();
    let status = resource.status.as_ref();
    let had =
        stage::named("ceph-cluster").and_then(|stage| version(stage, &status.as_ref()?.components));
    let ours = |key: &Key| seen.get(key).and_then(stage_of).is_some();
    let is_asked = annotations
        .and_then(|all| all.get(ANNOTATION_ADOPT))
        .is_some_and(|value| value == ROOK_NAMESPACE);
    if had.is_some() || is_asked || ours(&cluster_key()) {
        return None;
    }
    let strange = |object: &&Value| stage_of(object).is_none();
    let mut clusters = seen.of_kind("ceph.rook.io", "CephCluster").filter(strange);
    let operator = || seen.get(&operator_key()).filter(strange);
    let key = clusters.next().or_else(operator).and_then(Key::of)?;
    let here = key.namespace.as_deref() == Some(ROOK_NAMESPACE);
    let remedy = match here {
        true => format!(
            "to have it taken over, its settings and devices included, set the annotation {ANNOTATION_ADOPT}={ROOK_NAMESPACE} on this resource; else remove it first"
        ),
        false => "one Rook to a cluster: remove it first".to_owned(),
    };
    Some(Problem {
        reason: "StorageThereAlready",
        message: format!("there is a {key} that this system did not make: {remedy}"),
        waiting: false,
    })
}

/// Components of a storage that runs and has no status, as after it was let
/// go: by these it is upgraded and not installed anew.
pub(super) fn taken_up(seen: &Seen) -> Vec<StorageComponent> {
    let live = live(seen);
    let version = |stage: &Stage| match stage.by {
        By::Rook => live.rook,
        By::Ceph => live.ceph,
        By::Snapshotter | By::Cdi => None,
    };
    if live.rook.is_none() || live.ceph.is_none() {
        return Vec::new();
    }
    GROUND
        .into_iter()
        .filter_map(stage::named)
        .map(|stage| StorageComponent {
            name: stage.name.to_owned(),
            version: version(stage).map(|version| version.to_string()),
            ..StorageComponent::default()
        })
        .collect()
}

/// Devices that are being given up and of which there still is an OSD, as far as
/// that is known.
pub(super) fn going(removing: &[SettledDevice], osds: &Osds) -> Vec<SettledDevice> {
    let has = |osds: &[Osd], device: &SettledDevice| {
        let mut osds = osds.iter();
        osds.any(|osd| osd.hostname == device.hostname && osd.device == device.by_id)
    };
    let is_there = |device: &&SettledDevice| {
        let known = osds.list.as_deref();
        known.is_none_or(|osds| has(osds, device))
    };
    removing.iter().filter(is_there).cloned().collect()
}

/// What runs, as it is reported.
pub(super) fn reported(components: &[StorageComponent]) -> Option<RunningVersions> {
    let versions = versions(components);
    (versions != RunningVersions::default()).then_some(versions)
}

/// Writes what the whole is into a status.
pub(super) fn write(
    status: &mut HyperCloudStorageStatus,
    whole: &Whole,
    generation: i64,
    now: &Time,
) {
    status.state = Some(whole.state);
    status.ready = Some(whole.ready.clone());
    status.message = Some(whole.message.clone()).filter(|message| !message.is_empty());
    status.observed_generation = Some(generation);
    for update in conditions(&status.components, whole) {
        set(&mut status.conditions, update, generation, now);
    }
}

/// That there is no room for every copy, where that is so.
pub(super) fn room(storage: &StorageCluster) -> Option<Problem> {
    let (places, what) = match storage.failure_domain.unwrap_or_default() {
        FailureDomain::Host => (storage.nodes.len(), "node"),
        FailureDomain::Osd => {
            let devices = storage.nodes.iter().map(|node| node.devices.len());
            (devices.sum(), "device")
        }
    };
    let replicas = usize::try_from(storage.replicas).unwrap_or(usize::MAX);
    (places < replicas).then(|| Problem {
        reason: "TooFewPlaces",
        message: format!(
            "{replicas} copies go to another {what} each, and {places} of them are in storage.nodes: add some, or ask for fewer copies"
        ),
        waiting: false,
    })
}

/// What is to run, but for the stage's own version.
pub(super) fn as_it_is(stage: &Stage, target: &Target, version: Version) -> Target {
    let mut target = *target;
    match stage.by {
        By::Snapshotter => target.snapshotter = version,
        By::Rook => target.rook = version,
        By::Ceph => target.ceph = version,
        By::Cdi => target.cdi = version,
    }
    target
}

/// The versions of what was ready last.
fn versions(components: &[StorageComponent]) -> RunningVersions {
    let of = |name: &str| {
        let component = components.iter().find(|component| component.name == name);
        component.and_then(|component| component.version.clone())
    };
    RunningVersions {
        rook: of("rook-operator"),
        ceph: of("ceph-cluster"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::{Desired, Keep};

    fn cluster(namespace: &str) -> Value {
        json!({"apiVersion": "ceph.rook.io/v1", "kind": "CephCluster",
               "metadata": {"name": "rook-ceph", "namespace": namespace}})
    }

    fn operator() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
               "metadata": {"name": "rook-ceph-operator", "namespace": ROOK_NAMESPACE}})
    }

    fn storage(adopt: Option<&str>, components: Vec<StorageComponent>) -> HyperCloudStorage {
        let mut storage = HyperCloudStorage::new("hypercloud", Default::default());
        let asked = adopt.map(|value| (ANNOTATION_ADOPT.to_owned(), value.to_owned()));
        storage.metadata.annotations = Some(asked.into_iter().collect());
        storage.status = Some(HyperCloudStorageStatus {
            components,
            ..Default::default()
        });
        storage
    }

    #[test]
    fn what_others_made_is_not_taken_over_unasked() {
        let told = |object: Value, adopt: Option<&str>| {
            let problem = theirs(&storage(adopt, Vec::new()), &Seen::from_iter([object]));
            problem.map(|problem| problem.message)
        };
        assert!(theirs(&storage(None, Vec::new()), &Seen::default()).is_none());
        for object in [cluster(ROOK_NAMESPACE), operator()] {
            let message = told(object.clone(), None).unwrap();
            assert!(message.contains("adopt=rook-ceph"), "{message}");
            assert_eq!(told(object.clone(), Some(ROOK_NAMESPACE)), None);
            assert!(told(object, Some("elsewhere")).is_some());
        }
        let message = told(cluster("elsewhere"), None).unwrap();
        assert!(message.contains("elsewhere/rook-ceph"), "{message}");
    }

    #[test]
    fn what_this_system_made_is_its_own_with_and_without_a_status() {
        let ours = |object| Desired::new(object, Keep::Current, "ceph-cluster").unwrap();
        let ours = ours(cluster(ROOK_NAMESPACE)).object;
        // Somebody added another one, which Rook serves too.
        let seen = Seen::from_iter([ours, cluster("elsewhere")]);
        assert!(theirs(&storage(None, Vec::new()), &seen).is_none());
        let ready = StorageComponent {
            name: "ceph-cluster".into(),
            version: Some("20.2.0".into()),
            ..StorageComponent::default()
        };
        let seen = Seen::from_iter([cluster("elsewhere")]);
        assert!(theirs(&storage(None, vec![ready]), &seen).is_none());
    }
}
