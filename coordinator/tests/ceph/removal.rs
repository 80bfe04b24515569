//! Giving a device up.

use hypercloud_api::{RemovalPolicy, StorageCluster};
use hypercloud_coordinator::storage::ceph::heard::Heard;
use hypercloud_storage::health::Judgement;
use hypercloud_storage::plan::removal::{Action, Osds, View, plan};

use crate::world::{Trouble, World, device};

/// What is decided by what is known; the device is wanted again or not.
fn decide(world: &World, osds: &Osds, again: bool) -> Option<Action> {
    let wanted: Vec<_> = (0..if again { 4 } else { 3 }).map(device).collect();
    let storage = StorageCluster {
        replicas: 3,
        removal: Some(RemovalPolicy::PurgeOsds),
        ..StorageCluster::default()
    };
    let removing = &world.resource.status.as_ref().unwrap().removing;
    let view = View {
        storage: &storage,
        wanted: &wanted,
        dropped: &[],
        removing,
        osds,
        ceph: &Judgement::healthy(),
    };
    plan(&view).action
}

/// Looks and acts until the device is forgotten; what was done on the way.
async fn until_forgotten(world: &World, again: bool) -> Vec<String> {
    for _ in 0..60 {
        let osds = world.look().await;
        match decide(world, &osds, again) {
            Some(Action::Forget(_)) => {
                return std::mem::take(&mut world.state.lock().unwrap().log);
            }
            Some(action) => world.act(&action).await,
            None => {}
        }
        world.pass();
    }
    panic!("it does not end: {:?}", world.look().await)
}

#[tokio::test]
async fn a_device_is_given_up_step_by_step() {
    let world = World::new();
    let log = until_forgotten(&world, false).await;
    assert_eq!(log, ["3 is out", "rook-ceph-osd-3 has 0", "3 is purged"]);
    let state = world.state.lock().unwrap();
    assert_eq!(state.osds.len(), 3);
    assert!(state.osds.iter().all(|osd| osd.up && osd.is_in));
}

#[tokio::test]
async fn what_a_job_printed_is_read_once() {
    let (world, heard) = (World::new(), Heard::default());
    let mut known = None;
    for _ in 0..10 {
        known = world.look_again(&heard).await.unwrap().list;
        if known.is_some() {
            break;
        }
        world.pass();
    }
    assert_eq!(known.as_ref().unwrap().len(), 4);
    world.change(|state| state.trouble = Trouble::NoLogs);
    assert_eq!(world.look_again(&heard).await.unwrap().list, known);
    // Who has not read it cannot any more, and has Ceph asked again.
    assert_eq!(world.look().await.list, None);
}

#[tokio::test]
async fn an_osd_that_is_stopped_is_fenced_from_rook() {
    let world = World::new();
    world.change(|state| {
        state.osds[3].is_in = false;
        state.osds[3].safe = true;
    });
    world.act(&Action::Stop(3)).await;
    let deployment = world.state.lock().unwrap().osds[3].deployment.clone();
    let labels = &deployment["metadata"]["labels"];
    assert_eq!(labels["ceph.rook.io/do-not-reconcile"], "true");
    assert_eq!(deployment["spec"]["replicas"], 0);
    // Once is enough.
    world.act(&Action::Stop(3)).await;
    assert_eq!(world.state.lock().unwrap().log.len(), 1);
}

#[tokio::test]
async fn a_device_that_is_wanted_again_is_started_and_marked_in() {
    let world = World::new();
    for _ in 0..40 {
        let osds = world.look().await;
        if let Some(action) = decide(&world, &osds, false) {
            world.act(&action).await;
            if matches!(action, Action::Stop(_)) {
                break;
            }
        }
        world.pass();
    }
    world.pass();
    let log = until_forgotten(&world, true).await;
    assert_eq!(log.last().unwrap(), "3 is in");
    assert_eq!(log[log.len() - 2], "rook-ceph-osd-3 has 1");
    let state = world.state.lock().unwrap();
    let metadata = &state.osds[3].deployment["metadata"];
    assert!(metadata["labels"]["ceph.rook.io/do-not-reconcile"].is_null());
    assert!(state.osds[3].up && state.osds[3].is_in);
}

#[tokio::test]
async fn somebody_elses_maintenance_is_left_alone() {
    let world = World::new();
    world.change(|state| {
        state.osds[3].is_in = false;
        state.osds[3].deployment["spec"]["replicas"] = 0.into();
    });
    world.act(&Action::MarkIn(3)).await;
    world.pass();
    assert_eq!(world.state.lock().unwrap().log, ["3 is in"]);
}

#[tokio::test]
async fn nothing_is_known_before_ceph_answered() {
    let world = World::new();
    let first = world.look().await;
    assert_eq!(first.list, None);
    assert!(first.problems[0].waiting);
    assert_eq!(first.problems[0].reason, "OsdsAsked");
    // It is asked once.
    world.look().await;
    assert_eq!(world.state.lock().unwrap().jobs.len(), 1);
}

#[tokio::test]
async fn where_nothing_is_given_up_nobody_is_asked() {
    let mut world = World::new();
    world.resource.status.as_mut().unwrap().removing.clear();
    assert_eq!(world.look().await, Osds::none());
    assert!(world.state.lock().unwrap().jobs.is_empty());
}

#[tokio::test]
async fn a_ceph_that_does_not_answer_is_told_of_and_asked_again() {
    let world = World::new();
    world.change(|state| state.trouble = Trouble::Fails);
    world.look().await;
    world.pass();
    let failed = world.look().await;
    assert_eq!(failed.list, None);
    let problem = &failed.problems[0];
    assert_eq!((problem.reason, problem.waiting), ("CephUnanswered", false));
    assert!(
        problem.message.contains("timed out after 30 s"),
        "{}",
        problem.message
    );
    world.change(|state| state.trouble = Trouble::None);
    let log = until_forgotten(&world, false).await;
    assert_eq!(log.last().unwrap(), "3 is purged");
}

#[tokio::test]
async fn an_answer_whose_pod_is_gone_is_asked_for_again() {
    for trouble in [Trouble::NoPods, Trouble::NoLogs] {
        let world = World::new();
        world.change(|state| state.trouble = trouble);
        world.look().await;
        world.pass();
        let gone = world.look().await;
        assert_eq!((gone.list, gone.problems[0].reason), (None, "OsdsAsked"));
        world.change(|state| state.trouble = Trouble::None);
        until_forgotten(&world, false).await;
    }
}

#[tokio::test]
async fn a_job_that_nobody_runs_says_what_it_waits_for() {
    let world = World::new();
    world.change(|state| state.trouble = Trouble::Unplaced);
    world.look().await;
    world.pass();
    let waits = world.look().await;
    let message = &waits.problems[0].message;
    assert!(message.contains("0/3 nodes are available"), "{message}");
    assert!(waits.problems[0].waiting);
}

#[tokio::test]
async fn a_job_that_may_not_be_made_is_told_of() {
    let world = World::new();
    world.change(|state| state.trouble = Trouble::Forbidden);
    let refused = world.look().await;
    assert_eq!(refused.problems[0].reason, "CephUnanswered");
    assert!(refused.problems[0].message.contains("Forbidden"));
}

#[tokio::test]
async fn a_purge_that_purged_nothing_is_told_of_and_repeated() {
    let world = World::new();
    world.change(|state| state.trouble = Trouble::PurgesNothing);
    let mut told = Vec::new();
    for _ in 0..30 {
        let osds = world.look().await;
        told.extend(osds.problems.iter().map(|problem| problem.reason));
        if let Some(action) = decide(&world, &osds, false) {
            assert!(!matches!(action, Action::Forget(_)), "it is there still");
            world.act(&action).await;
        }
        world.pass();
    }
    assert!(told.contains(&"OsdPurgeFailed"), "{told:?}");
    world.change(|state| state.trouble = Trouble::None);
    let log = until_forgotten(&world, false).await;
    assert_eq!(log.last().unwrap(), "3 is purged");
}

#[tokio::test]
async fn an_osd_that_cannot_be_told_is_not_touched() {
    let world = World::new();
    world.change(|state| {
        let pod = &mut state.osds[3].deployment["spec"]["template"]["spec"];
        pod["containers"][0]["env"][0]["value"] = "/dev/sda".into();
    });
    for _ in 0..10 {
        let osds = world.look().await;
        assert_eq!(
            (osds.list.as_ref(), decide(&world, &osds, false)),
            (None, None)
        );
        world.pass();
    }
    let unclear = world.look().await;
    let problem = &unclear.problems[0];
    assert_eq!((problem.reason, problem.waiting), ("OsdUnknown", false));
    assert!(
        problem.message.contains("osd-device"),
        "{}",
        problem.message
    );
    // A person says which it is.
    world.change(|state| {
        let link = state.osds[3].link.clone();
        let metadata = &mut state.osds[3].deployment["metadata"];
        metadata["annotations"]["hypercloud.tmaxanc.com/osd-device"] = link.into();
    });
    until_forgotten(&world, false).await;
}

/// Whatever fails on the way, in whatever order: the one OSD goes once Ceph
/// needs it no more (see the world), the others are not touched, and it ends.
#[tokio::test]
async fn it_ends_whatever_fails_on_the_way() {
    const TROUBLES: [Trouble; 6] = [
        Trouble::None,
        Trouble::Fails,
        Trouble::PurgesNothing,
        Trouble::Unplaced,
        Trouble::NoPods,
        Trouble::NoLogs,
    ];
    for seed in 0..30usize {
        let world = World::new();
        let mut random = seed;
        for _ in 0..24 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(seed | 1);
            let trouble = TROUBLES[(random >> 33) % TROUBLES.len()];
            world.change(|state| {
                state.trouble = trouble;
                state.fails_every = 2 + (random >> 40) % 9;
            });
            if let Ok(osds) = world.try_look().await {
                match decide(&world, &osds, false) {
                    Some(Action::Forget(_)) => {
                        let state = world.state.lock().unwrap();
                        assert_eq!(state.osds.len(), 3, "seed {seed}");
                    }
                    Some(action) => drop(world.try_act(&action).await),
                    None => {}
                }
            }
            world.pass();
            let state = world.state.lock().unwrap();
            let others = state.osds.iter().filter(|osd| osd.id < 3);
            assert_eq!(others.clone().count(), 3, "seed {seed}");
            assert!(others.clone().all(|osd| osd.up && osd.is_in), "seed {seed}");
        }
        world.change(|state| {
            state.trouble = Trouble::None;
            state.fails_every = usize::MAX;
        });
        until_forgotten(&world, false).await;
        assert_eq!(world.state.lock().unwrap().osds.len(), 3, "seed {seed}");
    }
}
