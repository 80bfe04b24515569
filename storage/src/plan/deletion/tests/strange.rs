//! What was there before, and who is not there.

use super::*;
use crate::object::ANNOTATION_FOUND;

#[test]
fn the_jobs_of_an_earlier_deletion_go_before_this_one_begins() {
    let mut world = World::new(true);
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "cluster-cleanup-job-a", "namespace": ROOK_NAMESPACE,
                     "labels": {"app": "rook-ceph-cleanup"}},
        "status": {"conditions": [{"type": "Complete", "status": "True"}]}});
    let key = Key::of(&job).unwrap();
    world.seen.insert(job);
    assert_eq!(ceph(&world.view()), Some(Step::Delete(vec![key.clone()])));
    world.seen.remove(&key);
    let hosts = world.hosts.clone();
    assert_eq!(ceph(&world.view()), Some(Step::RecordHosts(hosts)));
}

#[test]
fn who_takes_nothing_away_is_named() {
    let mut world = World::new(true);
    let pool = in_rook("ceph.rook.io/v1", "CephBlockPool", crate::BLOCK);
    let operator = in_rook("apps/v1", "Deployment", "rook-ceph-operator");
    let mut going = world.seen.get(&pool).unwrap().clone();
    going["metadata"]["deletionTimestamp"] = json!("now");
    world.seen.insert(going);
    let reason = |world: &World| match world.view().remove(vec![pool.clone()]) {
        Some(Step::Wait { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(&world), "OperatorNotRunning");
    let mut running = world.seen.get(&operator).unwrap().clone();
    running["status"]["availableReplicas"] = json!(1);
    world.seen.insert(running);
    assert_eq!(reason(&world), "Removing");
    world.seen.remove(&operator);
    assert_eq!(reason(&world), "OperatorNotRunning");
}

#[test]
fn what_was_there_before_stays() {
    let mut world = World::new(true);
    let found = [
        Key::cluster("v1", "Namespace", ROOK_NAMESPACE),
        definition("volumesnapshots"),
    ];
    for key in &found {
        let mut object = world.seen.get(key).unwrap().clone();
        object["metadata"]["annotations"][ANNOTATION_FOUND] = json!("true");
        world.seen.insert(object);
    }
    for n in 0..200 {
        world.act();
        world.pass(n);
    }
    assert!(world.released);
    let mut left: Vec<Key> = world.seen.keys().cloned().collect();
    left.sort_by_key(|key| key.kind != "Namespace");
    assert_eq!(left, found);
}
