//! From one release to the next.

use hypercloud_api::StorageState;
use hypercloud_storage::object::Key;

use crate::world::{Trouble, World, image, spec};
use crate::{ALL, NEW, OLD, installed, until};

#[test]
fn an_upgrade_goes_in_order() {
    let mut world = installed(OLD);
    world.log.clear();
    world.change(|s| s.versions = spec(NEW, &[]).versions);
    until(&mut world, StorageState::Upgrading);
    until(&mut world, StorageState::Ok);
    let images: Vec<&str> = world
        .log
        .iter()
        .filter(|line| line.contains(':'))
        .map(|line| line.split_once(' ').unwrap().1)
        .collect();
    assert_eq!(
        images,
        [
            "quay.io/cephcsi/ceph-csi-operator:v1.20.6",
            "docker.io/rook/ceph:v1.20.6",
            "quay.io/ceph/ceph:v20.2.4",
            "quay.io/ceph/ceph:v20.2.4"
        ]
    );
    let versions = world.resource.status.clone().unwrap().versions.unwrap();
    assert_eq!(versions.ceph.as_deref(), Some("20.2.4"));
}

#[test]
fn an_upgrade_of_rook_alone_leaves_ceph() {
    let mut world = installed(OLD);
    world.log.clear();
    let rook = hypercloud_api::StorageVersions {
        rook: Some(NEW.to_owned()),
        ceph: None,
    };
    world.change(|s| s.versions = Some(rook));
    until(&mut world, StorageState::Upgrading);
    until(&mut world, StorageState::Ok);
    let versions = world.resource.status.clone().unwrap().versions.unwrap();
    assert_eq!(versions.rook.as_deref(), Some(NEW));
    assert_eq!(versions.ceph.as_deref(), Some("19.2.6"));
    let another = world.log.iter().any(|line| line.contains("ceph/ceph:v20"));
    assert!(!another, "{:?}", world.log);
}

#[test]
fn no_upgrade_of_a_sick_ceph_begins_and_none_goes_back() {
    let mut world = installed(OLD);
    world.trouble = Trouble::HealthErr;
    world.live();
    world.log.clear();
    world.change(|s| s.versions = spec(NEW, &[]).versions);
    for _ in 0..20 {
        world.coordinate(ALL);
        world.live();
        world.pass(5);
    }
    assert_eq!(world.state(), StorageState::Error);
    assert!(world.log.is_empty(), "{:?}", world.log);
    world.trouble = Trouble::None;
    until(&mut world, StorageState::Ok);
    world.log.clear();
    world.change(|s| s.versions = spec(OLD, &[]).versions);
    until(&mut world, StorageState::Error);
    assert!(
        world.message().contains("going back destroys data"),
        "{}",
        world.message()
    );
    assert!(world.log.is_empty(), "{:?}", world.log);
    world.change(|s| s.versions = None);
    until(&mut world, StorageState::Ok);
}

#[test]
fn an_upgrade_that_waits_hides_nothing() {
    let mut world = installed(OLD);
    world.trouble = Trouble::OsdDown;
    world.change(|s| s.versions = spec(NEW, &[]).versions);
    world.live();
    world.coordinate(ALL);
    assert_eq!(world.state(), StorageState::Error, "{}", world.message());
    assert!(world.message().contains("2 of 3 devices serve"));
}

#[test]
fn an_upgrade_of_a_ceph_that_fails_then_is_not_turned_round() {
    let mut world = installed(OLD);
    world.change(|s| s.versions = spec(NEW, &[]).versions);
    let ceph = |world: &World| {
        let cluster = world.seen.get(&hypercloud_storage::health::cluster_key());
        cluster.and_then(image).map(str::to_owned)
    };
    let new = Some("quay.io/ceph/ceph:v20.2.4".to_owned());
    for _ in 0..200 {
        if ceph(&world) != new {
            world.coordinate(ALL);
            world.live();
            world.pass(5);
        }
    }
    world.trouble = Trouble::HealthErr;
    for _ in 0..20 {
        assert_eq!(ceph(&world), new);
        world.live();
        world.coordinate(ALL);
        world.pass(5);
    }
    world.trouble = Trouble::None;
    until(&mut world, StorageState::Ok);
}

#[test]
fn what_cures_ceph_does_not_wait_for_its_cure() {
    let mut world = installed(OLD);
    world.trouble = Trouble::HealthErr;
    world.live();
    world.change(|s| *s = spec(NEW, &["a", "b", "c", "d"]));
    for _ in 0..20 {
        world.coordinate(ALL);
        world.live();
        world.pass(5);
    }
    // The node is Ceph's, and nothing is upgraded.
    assert_eq!(world.devices().len(), 4);
    let upgraded = world.log.iter().any(|line| line.contains("v1.20.6"));
    assert!(!upgraded, "{:?}", world.log);
    world.trouble = Trouble::None;
    until(&mut world, StorageState::Ok);
}

#[test]
fn a_daemon_that_restarts_in_an_upgrade_is_no_failure() {
    let mut world = installed(OLD);
    world.change(|s| s.versions = spec(NEW, &[]).versions);
    // The definitions are new; the operator is not.
    let begun = |world: &World| {
        let mut log = world.log.iter();
        log.any(|line| line.contains("ceph-csi-operator:v1.20.6"))
    };
    for _ in 0..50 {
        if !begun(&world) {
            world.coordinate(ALL);
            world.live();
            world.pass(5);
        }
    }
    assert!(begun(&world));
    world.trouble = Trouble::OsdDown;
    world.live();
    world.coordinate(ALL);
    assert_eq!(
        world.state(),
        StorageState::Upgrading,
        "{}",
        world.message()
    );
    // What is no restart is a failure all the same.
    world.trouble = Trouble::HealthErr;
    world.live();
    world.coordinate(ALL);
    assert_eq!(world.state(), StorageState::Error, "{}", world.message());
    world.trouble = Trouble::None;
    until(&mut world, StorageState::Ok);
}

#[test]
fn what_is_taken_up_is_upgraded_and_not_installed_over() {
    let old = installed(OLD);
    let mut fresh = World::new(NEW);
    fresh.seen = old.seen;
    fresh.now = old.now;
    fresh.osds = old.osds;
    fresh.trouble = Trouble::HealthErr;
    fresh.live();
    for _ in 0..20 {
        fresh.coordinate(ALL);
        fresh.live();
        fresh.pass(5);
    }
    let changed = |world: &World| world.log.iter().any(|line| line.contains(':'));
    assert!(!changed(&fresh), "{:?}", fresh.log);
    fresh.trouble = Trouble::None;
    until(&mut fresh, StorageState::Ok);
    assert!(changed(&fresh));
}

#[test]
fn what_is_seen_to_run_is_not_turned_back() {
    let mut world = installed(OLD);
    world.change(|s| s.versions = None);
    let operator = Key::namespaced("apps/v1", "Deployment", "rook-ceph", "rook-ceph-operator");
    let mut newer = world.seen.get(&operator).unwrap().clone();
    newer["spec"]["template"]["spec"]["containers"][0]["image"] =
        "docker.io/rook/ceph:v1.20.6".into();
    world.seen.insert(newer);
    let look = world.look();
    let turned = look.apply.iter().filter(|desired| desired.key == operator);
    let images: Vec<_> = turned
        .filter_map(|desired| image(&desired.object))
        .collect();
    assert!(
        !images.contains(&"docker.io/rook/ceph:v1.19.10"),
        "{images:?}"
    );
}

#[test]
fn a_node_may_join_with_an_upgrade() {
    let mut world = installed(OLD);
    world.change(|s| *s = spec(NEW, &["a", "b", "c", "d"]));
    until(&mut world, StorageState::Upgrading);
    until(&mut world, StorageState::Ok);
    assert_eq!(world.devices().len(), 4);
}
