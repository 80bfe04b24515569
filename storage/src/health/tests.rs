//! Every trap of Rook's statuses, and what is seen of the other components.

mod warnings;

use serde_json::json;

use super::cluster::{View, judge};
use super::*;

const NOW: i64 = 1_800_000_000;

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

fn ago(seconds: i64) -> String {
    Timestamp::from_second(NOW - seconds).unwrap().to_string()
}

/// OSDs that serve, by node.
fn on(hosts: &[(&str, usize)]) -> BTreeMap<String, usize> {
    let hosts = hosts.iter();
    hosts
        .map(|(host, osds)| ((*host).to_owned(), *osds))
        .collect()
}

/// A CephCluster that is well.
fn cluster() -> Value {
    json!({
        "apiVersion": "ceph.rook.io/v1", "kind": "CephCluster",
        "metadata": {"name": "rook-ceph", "namespace": "rook-ceph", "generation": 4},
        "spec": {"cleanupPolicy": {}},
        "status": {
            "phase": "Ready", "state": "Created", "message": "Cluster created successfully",
            "observedGeneration": 4,
            "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterCreated"},
                           {"type": "Progressing", "status": "False"}],
            "ceph": {"health": "HEALTH_OK", "lastChecked": ago(20), "details": {}},
        },
    })
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = cluster();
    change(&mut object);
    object
}

fn look_at(object: Option<&Value>, policy: &HealthPolicy) -> Judgement {
    judge(&View {
        object,
        others: Vec::new(),
        serving: on(&[("a", 3)]),
        devices: 3,
        policy,
        now: now(),
    })
}

fn reason(object: &Value) -> (Verdict, &'static str) {
    let judgement = look_at(Some(object), &HealthPolicy::default());
    (judgement.verdict, judgement.reason)
}

#[test]
fn a_cluster_that_is_well_is_healthy() {
    assert_eq!(reason(&cluster()), (Verdict::Healthy, "Healthy"));
}

#[test]
fn trap_the_condition_ready_survives_failures() {
    let object = with(|o| o["status"]["ceph"]["health"] = json!("HEALTH_ERR"));
    assert_eq!(reason(&object), (Verdict::Unhealthy, "CephFails"));
    let object = with(|o| o["status"]["phase"] = json!("Failure"));
    assert_eq!(reason(&object), (Verdict::Unhealthy, "CephClusterFailed"));
}

#[test]
fn trap_a_failed_reconcile_is_not_progressing() {
    let object = with(|o| {
        o["status"]["state"] = json!("Error");
        o["status"]["message"] = json!("failed to start mons");
    });
    let judgement = look_at(Some(&object), &HealthPolicy::default());
    assert_eq!(judgement.reason, "CephClusterFailed");
    assert!(judgement.message.contains("failed to start mons"));
}

#[test]
fn trap_a_look_at_ceph_hides_a_failed_reconcile() {
    let object = with(|o| {
        o["status"]["conditions"] = json!([
            {"type": "Ready", "status": "True", "reason": "ClusterCreated"},
            {"type": "Progressing", "status": "False", "reason": "ClusterProgressing",
             "message": "failed to start mons"},
        ]);
    });
    let judgement = look_at(Some(&object), &HealthPolicy::default());
    assert_eq!(judgement.reason, "CephClusterFailed");
    assert!(judgement.message.contains("failed to start mons"));
}

#[test]
fn trap_no_device_at_all_ends_ready() {
    let object = cluster();
    let policy = HealthPolicy::default();
    let mut view = View {
        object: Some(&object),
        others: Vec::new(),
        serving: on(&[]),
        devices: 3,
        policy: &policy,
        now: now(),
    };
    let judgement = judge(&view);
    assert_eq!(judgement.reason, "OsdsMissing");
    assert!(judgement.message.starts_with("0 of 3 devices serve"));
    view.devices = 0;
    assert_eq!(judge(&view).verdict, Verdict::Hopeless);
    view.devices = 4;
    view.serving = on(&[("a", 3)]);
    assert_eq!(judge(&view).reason, "OsdsMissing");
}

#[test]
fn trap_an_osd_too_many_hides_none_that_is_missing() {
    let object = with(|o| {
        let devices = |names: &[&str]| names.iter().map(|n| json!({"name": n})).collect::<Value>();
        o["spec"]["storage"]["nodes"] = json!([
            {"name": "a", "devices": devices(&["x", "y"])},
            {"name": "b", "devices": devices(&["z"])}]);
    });
    let of = |serving: &[(&str, usize)]| {
        judge(&View {
            object: Some(&object),
            others: Vec::new(),
            serving: on(serving),
            devices: 3,
            policy: &HealthPolicy::default(),
            now: now(),
        })
    };
    assert_eq!(of(&[("a", 2), ("b", 1)]).verdict, Verdict::Healthy);
    assert_eq!(
        of(&[("a", 2), ("b", 1), ("c", 1)]).verdict,
        Verdict::Healthy
    );
    let judgement = of(&[("a", 1), ("b", 2)]);
    assert_eq!(judgement.reason, "OsdsMissing");
    let start = "3 of 3 devices serve (1 of 2 on a): ";
    assert!(
        judgement.message.starts_with(start),
        "{}",
        judgement.message
    );
    // One that is nowhere is nobody's.
    let judgement = of(&[("a", 2), ("", 1)]);
    assert!(judgement.message.contains("(0 of 1 on b)"));
}

#[test]
fn osds_are_counted_where_they_are() {
    let osd = |name: &str, host: &str, available: i64| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "rook-ceph",
                "labels": {"rook_cluster": "rook-ceph", "app": "rook-ceph-osd"}},
            "spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": host}}}},
            "status": {"availableReplicas": available}})
    };
    let seen = Seen::from_iter([osd("0", "a", 1), osd("1", "a", 1), osd("2", "b", 0)]);
    assert_eq!(serving_osds(&seen), on(&[("a", 2)]));
}

#[test]
fn trap_a_second_cluster_leaves_the_status_empty() {
    let mut seen = Seen::from_iter([with(|o| o["status"] = json!({}))]);
    seen.insert(with(|o| o["metadata"]["name"] = json!("theirs")));
    let object = seen.get(&cluster_key()).unwrap();
    let judgement = judge(&View {
        object: Some(object),
        others: cluster::others(&seen),
        serving: on(&[]),
        devices: 3,
        policy: &HealthPolicy::default(),
        now: now(),
    });
    assert_eq!(judgement.reason, "SecondCephCluster");
    assert!(judgement.message.contains("theirs"));
    assert_eq!(judgement.verdict, Verdict::Hopeless);
}

#[test]
fn trap_an_empty_status_is_not_healthy() {
    for status in [json!(null), json!({}), json!({"conditions": []})] {
        let object = with(|o| o["status"] = status);
        assert_eq!(
            reason(&object),
            (Verdict::Unhealthy, "CephClusterUntouched")
        );
    }
    assert_eq!(
        look_at(None, &HealthPolicy::default()).reason,
        "CephClusterMissing"
    );
}

#[test]
fn trap_a_confirmed_cleanup_stops_rook_while_it_says_ready() {
    let object = with(|o| {
        o["spec"]["cleanupPolicy"]["confirmation"] = json!("yes-really-destroy-data");
    });
    assert_eq!(reason(&object), (Verdict::Hopeless, "CleanupConfirmed"));
}

#[test]
fn trap_a_ceph_that_does_not_answer_is_said_to_fail() {
    let object = with(|o| {
        o["status"]["state"] = json!("Error");
        o["status"]["message"] = json!("Failed to configure ceph cluster");
        o["status"]["ceph"]["health"] = json!("HEALTH_ERR");
        o["status"]["ceph"]["details"] =
            json!({"error": {"severity": "Urgent", "message": "exit status 1"}});
    });
    let judgement = look_at(Some(&object), &HealthPolicy::default());
    assert_eq!(judgement.reason, "CephUnreachable");
    assert_eq!(judgement.message, "Ceph does not answer: exit status 1");
}

#[test]
fn trap_an_old_look_says_nothing() {
    let object = with(|o| o["status"]["ceph"]["lastChecked"] = json!(ago(61)));
    assert_eq!(reason(&object), (Verdict::Unhealthy, "CephStatusStale"));
    for text in ["", "yesterday"] {
        let object = with(|o| o["status"]["ceph"]["lastChecked"] = json!(text));
        assert_eq!(reason(&object).1, "CephStatusStale");
    }
    let object = with(|o| o["status"]["ceph"] = json!({}));
    assert_eq!(reason(&object).1, "CephUnseen");
}

#[test]
fn trap_a_look_to_come_stays_fresh() {
    // Clocks differ a little.
    for ahead in [5, 60] {
        let object = with(|o| o["status"]["ceph"]["lastChecked"] = json!(ago(-ahead)));
        assert_eq!(reason(&object).0, Verdict::Healthy);
    }
    for ahead in [61, 3600] {
        let object = with(|o| o["status"]["ceph"]["lastChecked"] = json!(ago(-ahead)));
        assert_eq!(reason(&object), (Verdict::Unhealthy, "ClockSkewed"));
        let judgement = look_at(Some(&object), &HealthPolicy::default());
        let start = format!("Rook looked at Ceph {ahead} seconds from now");
        assert!(judgement.message.starts_with(&start));
    }
}

#[test]
fn trap_a_status_of_an_older_generation_says_nothing() {
    let object = with(|o| o["metadata"]["generation"] = json!(5));
    assert_eq!(reason(&object), (Verdict::Changing, "CephClusterChanging"));
    let object = with(|o| o["status"]["observedGeneration"] = json!(null));
    assert_eq!(reason(&object).0, Verdict::Changing);
}

#[test]
fn a_deleted_cluster_is_not_healthy() {
    let object = with(|o| o["metadata"]["deletionTimestamp"] = json!(ago(1)));
    assert_eq!(reason(&object), (Verdict::Hopeless, "CephClusterDeleted"));
}

#[test]
fn phases_and_states_that_mean_nothing_are_not_healthy() {
    let object = with(|o| o["status"]["phase"] = json!("Wonderful"));
    assert_eq!(reason(&object).1, "CephClusterNotReady");
    let object = with(|o| o["status"]["state"] = json!("Dreaming"));
    assert_eq!(reason(&object).1, "CephClusterNotReady");
    let object = with(|o| o["status"]["ceph"]["health"] = json!("HEALTH_FINE"));
    assert_eq!(reason(&object).1, "CephHealthUnknown");
    let object = with(|o| o["status"]["phase"] = json!("Progressing"));
    assert_eq!(reason(&object).0, Verdict::Changing);
}

fn deployment(status: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
           "metadata": {"name": "d", "namespace": "n", "generation": 2},
           "spec": {"replicas": 1}, "status": status})
}

fn of_deployment(status: Value) -> (Verdict, &'static str) {
    let key = Key::namespaced("apps/v1", "Deployment", "n", "d");
    let object = deployment(status);
    let judgement = workload::deployment(&key, Some(&object), workload::Least::Available);
    (judgement.verdict, judgement.reason)
}

#[test]
fn deployments_are_judged_by_what_runs() {
    let available = json!([{"type": "Available", "status": "True"}]);
    let well = json!({"observedGeneration": 2, "updatedReplicas": 1, "readyReplicas": 1, "conditions": available});
    assert_eq!(of_deployment(well.clone()).0, Verdict::Healthy);
    let mut old = well.clone();
    old["observedGeneration"] = json!(1);
    assert_eq!(of_deployment(old).0, Verdict::Changing);
    let mut behind = well;
    behind["updatedReplicas"] = json!(0);
    assert_eq!(of_deployment(behind).0, Verdict::Changing);
    // What was up and is not any more.
    let down = json!({"observedGeneration": 2, "updatedReplicas": 1, "conditions": [
        {"type": "Available", "status": "False"},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]});
    assert_eq!(
        of_deployment(down),
        (Verdict::Lacking, "WorkloadUnavailable")
    );
    let coming = json!({"observedGeneration": 2, "updatedReplicas": 1, "conditions": [
        {"type": "Available", "status": "False"},
        {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}]});
    assert_eq!(of_deployment(coming).0, Verdict::Changing);
    let stuck = json!({"observedGeneration": 2, "updatedReplicas": 1, "conditions": [
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]});
    assert_eq!(of_deployment(stuck).0, Verdict::Unhealthy);
    // Without conditions nothing is healthy.
    assert!(
        of_deployment(json!({"observedGeneration": 2, "updatedReplicas": 1})).0 > Verdict::Warned
    );
    let key = Key::namespaced("apps/v1", "Deployment", "n", "d");
    let mut none = deployment(json!({"observedGeneration": 2}));
    none["spec"]["replicas"] = json!(0);
    let judgement = workload::deployment(&key, Some(&none), workload::Least::Serving);
    assert_eq!(judgement.reason, "WorkloadScaledDown");
    let missing = workload::deployment(&key, None, workload::Least::Serving);
    assert_eq!(missing.reason, "WorkloadMissing");
}

#[test]
fn daemon_sets_are_judged_by_their_nodes() {
    let key = Key::namespaced("apps/v1", "DaemonSet", "n", "d");
    let of = |wanted: i64, updated: i64, available: i64| {
        let object = json!({"metadata": {"generation": 1}, "status": {"observedGeneration": 1,
            "desiredNumberScheduled": wanted, "updatedNumberScheduled": updated,
            "numberAvailable": available}});
        workload::daemon_set(&key, Some(&object)).verdict
    };
    assert_eq!(of(3, 3, 3), Verdict::Healthy);
    assert_eq!(of(3, 2, 3), Verdict::Changing);
    assert_eq!(of(3, 3, 2), Verdict::Lacking);
    assert_eq!(of(0, 0, 0), Verdict::Unhealthy);
    assert_eq!(workload::daemon_set(&key, None).verdict, Verdict::Unhealthy);
}

#[test]
fn definitions_have_to_be_established() {
    let key = Key::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", "x");
    let of = |conditions: Value| {
        let object = json!({"status": {"conditions": conditions}});
        definition::judge(&key, Some(&object)).verdict
    };
    let established = json!({"type": "Established", "status": "True"});
    let accepted = json!({"type": "NamesAccepted", "status": "True"});
    let conflict = json!({"type": "NamesAccepted", "status": "False", "message": "taken"});
    assert_eq!(of(json!([accepted, established])), Verdict::Healthy);
    assert_eq!(of(json!([])), Verdict::Changing);
    assert_eq!(of(json!([conflict, established])), Verdict::Hopeless);
    assert_eq!(definition::judge(&key, None).verdict, Verdict::Unhealthy);
}

#[test]
fn resources_of_rook_are_judged_by_their_phase() {
    let key = Key::namespaced("ceph.rook.io/v1", "CephBlockPool", "rook-ceph", "p");
    let of = |generation: i64, status: Value| {
        let object = json!({"metadata": {"generation": generation}, "status": status});
        resource::phase(&key, Some(&object)).verdict
    };
    assert_eq!(
        of(1, json!({"phase": "Ready", "observedGeneration": 1})),
        Verdict::Healthy
    );
    assert_eq!(
        of(2, json!({"phase": "Ready", "observedGeneration": 1})),
        Verdict::Changing
    );
    assert_eq!(of(1, json!({"phase": "Progressing"})), Verdict::Changing);
    assert_eq!(of(1, json!({"phase": "Failure"})), Verdict::Unhealthy);
    assert_eq!(
        of(1, json!({"phase": "ReconcileFailed"})),
        Verdict::Unhealthy
    );
    assert_eq!(of(1, json!(null)), Verdict::Unhealthy);
    let cdi = |status: Value| resource::cdi(&key, Some(&json!({"status": status}))).verdict;
    let available = json!({"type": "Available", "status": "True"});
    let degraded = json!({"type": "Degraded", "status": "True"});
    assert_eq!(
        cdi(json!({"phase": "Deployed", "conditions": [available]})),
        Verdict::Healthy
    );
    assert_eq!(
        cdi(json!({"phase": "Deployed", "conditions": [available, degraded]})),
        Verdict::Unhealthy
    );
    assert_eq!(cdi(json!({"phase": "Deployed"})), Verdict::Unhealthy);
}

#[test]
fn one_version_in_all_daemons_ends_an_upgrade() {
    let daemon = |name: &str, rook: &str, ceph: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
            "name": name, "namespace": "rook-ceph",
            "labels": {"rook_cluster": "rook-ceph", "rook-version": rook, "ceph-version": ceph}}})
    };
    let target = crate::version::target(&Default::default(), Default::default(), None).unwrap();
    let policy = HealthPolicy::default();
    let of = |daemons: &[Value], ready| {
        let seen = Seen::from_iter(daemons.iter().cloned());
        one(
            ready,
            Look {
                seen: &seen,
                desired: &[],
                target: &target,
                policy: &policy,
                devices: 1,
                now: now(),
            },
        )
    };
    let mixed = [
        daemon("a", "v1.20.6", "20.2.4-0"),
        daemon("b", "v1.19.10", "19.2.6-0"),
    ];
    let judgement = of(&mixed, Ready::RookEverywhere);
    assert_eq!(judgement.verdict, Verdict::Changing);
    assert!(
        judgement.message.contains("v1.19.10"),
        "{}",
        judgement.message
    );
    assert_eq!(of(&mixed, Ready::CephEverywhere).verdict, Verdict::Changing);
    assert_eq!(
        of(&mixed[..1], Ready::RookEverywhere).verdict,
        Verdict::Healthy
    );
    assert_eq!(
        of(&mixed[..1], Ready::CephEverywhere).verdict,
        Verdict::Healthy
    );
}
