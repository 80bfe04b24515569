//! Removing everything, with a coordinator that forgets everything between
//! two looks, and a Rook that takes its time.

mod strange;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::object::{Desired, Keep};

fn object(key: &Key) -> Value {
    let mut object = json!({"apiVersion": key.api_version, "kind": key.kind,
                            "metadata": {"name": key.name}, "spec": {}});
    if let Some(namespace) = &key.namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

fn in_rook(api_version: &str, kind: &str, name: &str) -> Key {
    Key::namespaced(api_version, kind, ROOK_NAMESPACE, name)
}

fn definition(name: &str) -> Key {
    Key::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", name)
}

fn installed() -> Vec<(&'static str, Vec<Key>)> {
    let ceph = "ceph.rook.io/v1";
    vec![
        ("snapshot-definitions", vec![definition("volumesnapshots")]),
        (
            "snapshot-controller",
            vec![Key::namespaced(
                "apps/v1",
                "Deployment",
                "kube-system",
                "snapshot-controller",
            )],
        ),
        ("rook-definitions", vec![definition("cephclusters")]),
        (
            "rook-common",
            vec![
                Key::cluster("v1", "Namespace", ROOK_NAMESPACE),
                in_rook("v1", "ServiceAccount", "rook-ceph-system"),
            ],
        ),
        (
            "csi-operator",
            vec![
                definition("drivers"),
                in_rook("apps/v1", "Deployment", "ceph-csi-controller-manager"),
            ],
        ),
        (
            "rook-operator",
            vec![
                in_rook("csi.ceph.io/v1", "Driver", crate::RBD_DRIVER),
                in_rook("apps/v1", "Deployment", "rook-ceph-operator"),
            ],
        ),
        ("ceph-cluster", vec![cluster_key()]),
        (
            "block-storage",
            vec![
                in_rook(ceph, "CephBlockPool", crate::BLOCK),
                Key::cluster("storage.k8s.io/v1", "StorageClass", crate::BLOCK),
            ],
        ),
        (
            "object-store",
            vec![
                in_rook(ceph, "CephObjectStore", crate::OBJECT_STORE),
                in_rook(ceph, "CephObjectStoreUser", crate::OBJECT_STORE),
                crate::health::resource::bucket_claim(),
            ],
        ),
    ]
}

/// A cluster from which the storage is removed.
struct World {
    seen: Seen,
    users: Users,
    hosts: Vec<String>,
    recorded: Vec<String>,
    jobs: Vec<CleanupJob>,
    cleaned: Option<String>,
    confirmed: bool,
    definitions: DefinitionsPolicy,
    in_use: BTreeSet<String>,
    foreign_snapshots: bool,
    destroyed: bool,
    released: bool,
}

impl World {
    fn new(confirmed: bool) -> Self {
        let mut seen = Seen::default();
        for (stage, keys) in installed() {
            for key in keys {
                let desired = Desired::new(object(&key), Keep::Current, stage);
                seen.insert(desired.unwrap().object);
            }
        }
        // What Rook made beside.
        seen.insert(object(&in_rook("csi.ceph.io/v1", "ClientProfile", "made")));
        let driver = Key::cluster("storage.k8s.io/v1", "CSIDriver", crate::RBD_DRIVER);
        seen.insert(object(&driver));
        Self {
            seen,
            users: Users::default(),
            hosts: vec!["a".into(), "b".into()],
            recorded: Vec::new(),
            jobs: Vec::new(),
            cleaned: None,
            confirmed,
            definitions: DefinitionsPolicy::Remove,
            in_use: BTreeSet::new(),
            foreign_snapshots: false,
            destroyed: false,
            released: false,
        }
    }

    fn next(&self) -> Step {
        next(&self.view())
    }

    fn view(&self) -> View<'_> {
        View {
            confirmed: self.confirmed,
            definitions: self.definitions,
            users: &self.users,
            seen: &self.seen,
            hosts: &self.hosts,
            recorded: &self.recorded,
            jobs: &self.jobs,
            cleaned: Cleaned(self.cleaned.as_deref()),
            definitions_in_use: &self.in_use,
            foreign_snapshots: self.foreign_snapshots,
        }
    }

    fn act(&mut self) -> Step {
        let step = self.next();
        match &step {
            Step::Wait { .. } => {}
            Step::Delete(keys) => {
                for key in keys {
                    let mut going = self.seen.get(key).unwrap().clone();
                    going["metadata"]["deletionTimestamp"] = json!("now");
                    self.seen.insert(going);
                }
            }
            Step::RecordHosts(hosts) => self.recorded.clone_from(hosts),
            Step::Confirm => {
                let mut cluster = self.seen.get(&cluster_key()).unwrap().clone();
                cluster["spec"]["cleanupPolicy"]["confirmation"] = json!(ROOK_CONFIRMATION);
                self.seen.insert(cluster);
            }
            Step::Withdraw => {
                let mut cluster = self.seen.get(&cluster_key()).unwrap().clone();
                cluster["spec"]["cleanupPolicy"]["confirmation"] = Value::Null;
                self.seen.insert(cluster);
            }
            Step::Release => self.released = true,
        }
        step
    }

    fn is_there(&self, kind: &str) -> bool {
        self.seen.keys().any(|key| key.kind == kind)
    }

    /// What the cluster does by itself: one of the objects that are being
    /// deleted goes, and Rook's jobs run.
    fn pass(&mut self, which: usize) {
        let going: Vec<Key> = self
            .seen
            .keys()
            .filter(|key| {
                let object = self.seen.get(key).unwrap();
                !object["metadata"]["deletionTimestamp"].is_null()
            })
            .cloned()
            .collect();
        if let Some(key) = going.get(which % going.len().max(1)) {
            self.go(key);
        }
        for job in &mut self.jobs {
            job.state = JobState::Complete;
        }
    }

    fn go(&mut self, key: &Key) {
        let operator = in_rook("apps/v1", "Deployment", "rook-ceph-operator");
        if key.group() == "ceph.rook.io" {
            assert!(self.seen.has(&operator), "nobody takes {key} away");
        }
        if *key == cluster_key() {
            assert!(self.confirmed && self.users == Users::default());
            assert!(!self.is_there("CephBlockPool") && !self.is_there("CephObjectStore"));
            assert_eq!(self.recorded, self.hosts);
            self.destroyed = true;
            self.jobs = self
                .hosts
                .drain(..)
                .map(|hostname| CleanupJob {
                    hostname,
                    state: JobState::Running,
                })
                .collect();
        }
        if key.kind == "Namespace" {
            assert!(self.jobs.iter().all(|job| job.state == JobState::Complete));
            assert!(self.recorded.is_empty());
            self.jobs.clear();
        }
        if key.kind == "Driver" {
            let manager = in_rook("apps/v1", "Deployment", "ceph-csi-controller-manager");
            assert!(self.seen.has(&manager), "nobody takes the drivers away");
        }
        if key.kind == "CSIDriver" {
            let manager = in_rook("apps/v1", "Deployment", "ceph-csi-controller-manager");
            assert!(!self.seen.has(&manager), "the operator makes it again");
        }
        self.seen.remove(key);
    }
}

#[test]
fn a_confirmation_that_is_withdrawn_is_withdrawn_from_rook() {
    let mut world = World::new(true);
    while world.act() != Step::Confirm {
        world.pass(0);
    }
    world.confirmed = false;
    assert_eq!(world.act(), Step::Withdraw);
    let cluster = world.seen.get(&cluster_key()).unwrap();
    assert!(cluster["spec"]["cleanupPolicy"]["confirmation"].is_null());
    assert_eq!(world.act(), Step::Release);
}

#[test]
fn what_rook_does_not_let_go_is_named_with_its_reason() {
    let world = World::new(true);
    let pool = in_rook("ceph.rook.io/v1", "CephBlockPool", crate::BLOCK);
    let mut object = world.seen.get(&pool).unwrap().clone();
    object["metadata"]["deletionTimestamp"] = json!("now");
    object["status"] = json!({"conditions": [{"type": "PoolDeletionIsBlocked",
        "status": "True", "message": "images: lost"}]});
    let seen = Seen::from_iter([object]);
    let Some(Step::Wait {
        reason,
        message,
        blockers,
    }) = held(&[pool], &seen)
    else {
        panic!("nothing is said")
    };
    assert_eq!(reason, "RemovalBlocked");
    assert!(message.contains("images: lost"), "{message}");
    assert_eq!(blockers, ["CephBlockPool rook-ceph/hypercloud-block"]);
}

#[test]
fn a_namespace_that_does_not_go_says_why() {
    let key = Key::cluster("v1", "Namespace", ROOK_NAMESPACE);
    let mut object = object(&key);
    object["status"]["conditions"] = json!([
        {"type": "NamespaceFinalizersRemaining", "status": "True", "message": "a Secret"},
        {"type": "NamespaceDeletionContentFailure", "status": "False", "message": "no"}]);
    let seen = Seen::from_iter([object]);
    assert_eq!(remains(&[key], &seen), "; a Secret");
}

#[test]
fn a_node_without_a_job_is_cleaned_by_hand() {
    let mut world = World::new(true);
    world.seen.remove(&cluster_key());
    world.recorded = vec!["a".into(), "b".into()];
    world.jobs = vec![CleanupJob {
        hostname: "a".into(),
        state: JobState::Complete,
    }];
    let reason = |world: &World| match jobs(&world.view()) {
        Some(Step::Wait { reason, .. }) => reason,
        Some(Step::RecordHosts(_)) => "done",
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(&world), "CleaningNodes");
    world.cleaned = Some("c, b".into());
    assert_eq!(reason(&world), "done");
    // A job of a node that was not written down is waited for too.
    world.jobs.push(CleanupJob {
        hostname: "d".into(),
        state: JobState::Running,
    });
    assert_eq!(reason(&world), "CleaningNodes");
    world.cleaned = Some("true".into());
    assert_eq!(reason(&world), "done");
}

#[test]
fn without_the_confirmation_everything_stays() {
    let mut world = World::new(false);
    let there: Vec<Key> = world.seen.keys().cloned().collect();
    assert_eq!(world.act(), Step::Release);
    assert!(world.seen.keys().eq(there.iter()));
}

#[test]
fn what_is_in_use_is_named_and_nothing_begins() {
    let mut world = World::new(true);
    world.users.claims = (0..12).map(|n| format!("team/disk-{n}")).collect();
    world.users.others = vec!["CephFilesystem theirs".into()];
    let there = world.seen.clone();
    let Step::Wait {
        reason,
        message,
        blockers,
    } = world.act()
    else {
        panic!("it did not wait")
    };
    assert_eq!(reason, "StorageInUse");
    assert!(
        message.contains("PersistentVolumeClaim team/disk-0"),
        "{message}"
    );
    assert!(message.ends_with("3 more"), "{message}");
    assert_eq!(blockers.len(), 13);
    assert_eq!(world.seen, there);
}

#[test]
fn a_node_that_could_not_be_cleaned_is_named() {
    let mut world = World::new(true);
    for _ in 0..40 {
        if world.seen.has(&cluster_key()) {
            world.act();
            world.pass(0);
        }
    }
    world.jobs[0].state = JobState::Failed;
    let Step::Wait {
        reason, blockers, ..
    } = world.next()
    else {
        panic!("it did not wait")
    };
    assert_eq!(
        (reason, blockers),
        ("CleanupFailed", vec!["Node a".to_owned()])
    );
    assert!(
        world
            .seen
            .has(&in_rook("apps/v1", "Deployment", "rook-ceph-operator"))
    );
}

#[test]
fn definitions_stay_by_policy_and_where_they_are_used() {
    for (policy, in_use) in [
        (DefinitionsPolicy::Keep, Vec::new()),
        (
            DefinitionsPolicy::Remove,
            vec!["volumesnapshots".to_owned()],
        ),
    ] {
        let mut world = World::new(true);
        world.definitions = policy;
        world.in_use = in_use.into_iter().collect();
        for n in 0..200 {
            world.act();
            world.pass(n);
        }
        assert!(world.released);
        assert!(world.seen.has(&definition("volumesnapshots")));
        let kept = policy == DefinitionsPolicy::Keep;
        assert_eq!(world.seen.has(&definition("cephclusters")), kept);
    }
}

#[test]
fn what_takes_the_snapshots_of_others_stays_whole() {
    let mut world = World::new(true);
    world.foreign_snapshots = true;
    for n in 0..200 {
        world.act();
        world.pass(n);
    }
    assert!(world.released && !world.seen.has(&definition("cephclusters")));
    for stage in ["snapshot-definitions", "snapshot-controller"] {
        assert_eq!(world.seen.of_stage(stage).count(), 1, "{stage}");
    }
}

#[test]
fn jobs_are_read_from_what_they_say() {
    let job = |host: &str, more: Value| {
        let mut job = json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": format!("cluster-cleanup-job-{host}"), "namespace": "rook-ceph",
                         "labels": {"app": "rook-ceph-cleanup"}},
            "spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": host}}}}});
        job["status"] = more;
        job
    };
    let says = |type_: &str| json!({"conditions": [{"type": type_, "status": "True"}]});
    let mut cleaned = job("d", says("Failed"));
    cleaned["metadata"]["annotations"] = json!({ANNOTATION_CLEANED: "true"});
    let seen = Seen::from_iter([
        job("a", says("Complete")),
        job("b", says("Failed")),
        job("c", json!({})),
        cleaned,
    ]);
    let states: Vec<JobState> = cleanup_jobs(&seen).iter().map(|job| job.state).collect();
    use JobState::{Complete, Failed, Running};
    assert_eq!(states, [Complete, Failed, Running, Complete]);
}

proptest! {
    /// Whatever goes first, and whoever comes and goes meanwhile: it ends with
    /// nothing left, and never without what `go` asserts.
    #[test]
    fn it_ends_with_nothing_left(
        events in prop::collection::vec((any::<bool>(), 0usize..32, 0u8..8), 0..60),
    ) {
        let mut world = World::new(true);
        for (acts, which, user) in events {
            // Somebody comes only while there is a class to come to.
            if user == 0 && world.is_there("StorageClass") {
                world.users.claims = vec!["team/disk".into()];
            } else if user == 1 {
                world.users.claims.clear();
            }
            if acts {
                world.act();
            }
            let blocked = world.users != Users::default();
            if !blocked {
                world.pass(which);
            }
        }
        world.users = Users::default();
        for n in 0..200 {
            world.act();
            world.pass(n);
        }
        prop_assert!(world.released && world.destroyed);
        prop_assert_eq!(world.seen.keys().count(), 0);
    }
}
