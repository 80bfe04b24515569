//! Volumes that are filled beside their source and then change hands.

use super::*;
use crate::agents::{CopyJob, Failure, Job, JobSeen, JobState, JobVolume, VolumeKind};
use crate::copy;

/// A disk of a shared image, whose claim is there.
fn cloned() -> Observation {
    let mut seen = choose(of_shared_image());
    assert_eq!(seen.method(), Some(DiskMethod::CloneAndHandOver));
    seen.claim = Some(unbound(true));
    seen
}

/// A disk of an image with another volume mode, whose claim is there.
fn copied() -> Observation {
    let mut seen = of_image();
    seen.disk.spec.pvc = asked("1Gi", Some(VolumeMode::Filesystem), None);
    let mut seen = choose(seen);
    assert_eq!(seen.method(), Some(DiskMethod::Copy));
    seen.claim = Some(ClaimSeen {
        requested: 20 * GIB,
        ..unbound(true)
    });
    seen
}

/// The prime claim has its volume, and the holder both.
fn held() -> Observation {
    let mut seen = copied();
    seen.prime = Some(filled(false, "prime"));
    seen.holders = vec![holder(0)];
    seen
}

fn holder(attempt: u32) -> HolderSeen {
    HolderSeen {
        name: names::prime_holder("uid", attempt),
        uid: format!("pod-{attempt}"),
        since: Some(at(-5)),
        deleting_since: None,
        node: Some("n1".into()),
        state: HolderState::Holding,
    }
}

fn chosen(end: Option<i64>) -> Option<CopyStatus> {
    Some(CopyStatus {
        job_id: "uid-0".into(),
        node_name: "n1".into(),
        holder_uid: Some("pod-0".into()),
        completion_time: end.map(|second| Time(at(second))),
        ..CopyStatus::default()
    })
}

fn job(state: JobState) -> JobSeen {
    JobSeen {
        node: "n1".into(),
        job: Job {
            id: "uid-0".into(),
            state,
            ..Job::default()
        },
    }
}

fn copies(actions: &[Action]) -> Vec<&copy::Action> {
    let mut found = Vec::new();
    for action in actions {
        if let Action::Copy(action) = action {
            found.push(action);
        }
    }
    found
}

fn hand_over() -> Action {
    Action::HandOver {
        volume: "pv".into(),
        resource_version: "70".into(),
        claim_uid: "claim".into(),
    }
}

#[test]
fn a_clone_beside_the_image_changes_hands_once_it_is_bound() {
    let mut seen = cloned();
    let new = NewPrime {
        from: Some("vmim-ubuntu".into()),
        class: "fast".into(),
        mode: VolumeMode::Block,
        access_modes: vec!["ReadWriteOnce".into()],
        size: 10 * GIB,
        node: None,
    };
    assert_eq!(decide(&seen).actions, [Action::CreatePrime(new)]);
    seen.prime = Some(prime(true));
    assert_eq!(waits(&seen).1, "Cloning");
    // Bound, and its volume was read an instant before: not yet.
    seen.prime = Some(PrimeSeen {
        bound: true,
        ..prime(true)
    });
    assert_eq!(decide(&seen).actions, []);
    seen.prime = Some(filled(true, "prime"));
    assert_eq!(decide(&seen).actions, [hand_over()]);
    seen.prime = Some(filled(true, "claim"));
    let (phase, reason, _) = waits(&seen);
    assert_eq!(
        (phase, reason.as_str()),
        (DiskPhase::Cloning, "HandingOver")
    );
}

#[test]
fn a_volume_that_is_released_does_not_change_hands() {
    let mut copied = held();
    status(&mut copied).copy = chosen(Some(-1));
    copied.holders = vec![];
    let mut cloned = cloned();
    cloned.prime = Some(filled(true, "prime"));
    for mut seen in [cloned, copied] {
        assert_eq!(decide(&seen).actions, [hand_over()]);
        let prime = seen.prime.as_mut().unwrap();
        prime.volume.as_mut().unwrap().bound = false;
        let plan = decide(&seen);
        assert_eq!((plan.actions, plan.verdict), (vec![], Verdict::Keep));
        assert!(matches!(plan.again, Again::After(_)));
    }
}

#[test]
fn the_former_claim_goes_once_the_disk_has_the_volume() {
    let mut seen = cloned();
    seen.claim = Some(bound(true));
    seen.prime = Some(PrimeSeen {
        lost: true,
        bound: false,
        ..filled(true, "claim")
    });
    assert!(matches!(decide(&seen).verdict, Verdict::Ready { .. }));
    status(&mut seen).phase = Some(DiskPhase::Ready);
    let uid = "prime".to_owned();
    assert_eq!(decide(&seen).actions, [Action::DeletePrime { uid }]);
    seen.prime.as_mut().unwrap().deleting_since = Some(at(0));
    assert_eq!(decide(&seen).again, Again::OnChange);
}

#[test]
fn a_volume_that_went_to_a_former_claim_is_not_waited_for() {
    let mut seen = cloned();
    seen.prime = Some(PrimeSeen {
        lost: true,
        bound: false,
        ..filled(true, "former")
    });
    let uid = "prime".to_owned();
    assert_eq!(decide(&seen).actions, [Action::DeletePrime { uid }]);
}

#[test]
fn a_claim_that_went_is_made_anew_before_anything_changes_hands() {
    let mut seen = cloned();
    seen.claim = None;
    seen.prime = Some(filled(true, "prime"));
    let plan = decide(&seen);
    assert!(
        matches!(plan.actions[..], [Action::CreateClaim(_)]),
        "{plan:?}"
    );
    // It would be filled by the storage itself: not the one that waits.
    seen.claim = Some(unbound(false));
    let plan = decide(&seen);
    assert!(
        matches!(plan.actions[..], [Action::DeleteClaim { .. }]),
        "{plan:?}"
    );
}

#[test]
fn a_storage_that_does_not_clone_beside_the_image_is_copied_from() {
    let mut seen = cloned();
    let mut unfit = prime(true);
    unfit.provisioning.refusal = Some("clone unsupported".into());
    seen.prime = Some(unfit);
    assert!(matches!(decide(&seen).verdict, Verdict::CopyInstead { .. }));
    status(&mut seen).method = Some(DiskMethod::Copy);
    let uid = "prime".to_owned();
    assert_eq!(decide(&seen).actions, [Action::DeletePrime { uid }]);
    // The disk's claim stays: it is filled in the same way.
    seen.prime = None;
    let plan = decide(&seen);
    let [Action::CreatePrime(new)] = &plan.actions[..] else {
        panic!("{plan:?}");
    };
    assert_eq!(new.from, None);
}

#[test]
fn a_node_that_the_storage_refuses_is_given_back() {
    let mut seen = cloned();
    let mut waits_for_consumer = class();
    waits_for_consumer.waits = true;
    seen.class = ClassSeen::Found(waits_for_consumer);
    seen.claim.as_mut().unwrap().selected_node = Some("n1".into());
    seen.prime = Some(prime(true));
    let plan = decide(&seen);
    let release = Action::PlaceAgain {
        resource_version: "7".into(),
        node: None,
    };
    let uid = "prime".to_owned();
    assert_eq!(
        plan.actions,
        [release, Action::DeletePrime { uid: uid.clone() }]
    );
    // Another node was chosen since: the volume is made there.
    seen.prime.as_mut().unwrap().node = Some("n2".into());
    assert_eq!(decide(&seen).actions, [Action::DeletePrime { uid }]);
    seen.prime.as_mut().unwrap().node = Some("n1".into());
    assert_eq!(waits(&seen).1, "Cloning");
}

#[test]
fn source_and_copy_meet_on_one_node() {
    let mut seen = copied();
    source_claim(&mut seen).nodes = Some(vec!["n2".into()]);
    let plan = decide(&seen);
    let [Action::CreatePrime(new)] = &plan.actions[..] else {
        panic!("{plan:?}");
    };
    assert_eq!(new.node.as_deref(), Some("n2"));
    source_claim(&mut seen).nodes = Some(vec!["n9".into()]);
    assert_eq!(waits(&seen).1, "NoAgentReady");

    let mut waits_for_consumer = class();
    waits_for_consumer.waits = true;
    seen.class = ClassSeen::Found(waits_for_consumer);
    seen.claim.as_mut().unwrap().selected_node = Some("n1".into());
    // The scheduler chose a node that the source is not on.
    assert_eq!(waits(&seen).1, "NoAgentReady");
    source_claim(&mut seen).nodes = Some(vec!["n2".into(), "n9".into()]);
    let plan = decide(&seen);
    let place = Action::PlaceAgain {
        resource_version: "7".into(),
        node: Some("n2".into()),
    };
    assert_eq!(plan.actions, [place]);
    let Verdict::Waiting {
        reason, message, ..
    } = plan.verdict
    else {
        panic!("{plan:?}");
    };
    assert_eq!(reason, "SourceElsewhere");
    assert!(
        message.contains("n2, n9") && message.contains("n1"),
        "{message}"
    );
}

#[test]
fn a_copy_goes_from_volume_to_volume() {
    let mut seen = copied();
    let plan = decide(&seen);
    let [Action::CreatePrime(new)] = &plan.actions[..] else {
        panic!("{plan:?}");
    };
    // A file of a device needs room for its file system.
    assert!(new.size > 10 * GIB && new.from.is_none());
    seen.prime = Some(filled(false, "prime"));
    seen.prime.as_mut().unwrap().node = Some("n1".into());
    let new = NewHolder {
        source: "vmim-ubuntu".into(),
        from: VolumeMode::Block,
        to: VolumeMode::Filesystem,
        node: Some("n1".into()),
    };
    assert_eq!(decide(&seen).actions, [Action::CreateHolder(new)]);
    seen.holders = vec![holder(0)];
    let verdict = Verdict::CopyChosen {
        job_id: "uid-0".into(),
        node: "n1".into(),
        holder_uid: "pod-0".into(),
    };
    assert_eq!(decide(&seen), Plan::say(verdict, Again::Now));
    status(&mut seen).copy = chosen(None);
    let volume = |name: &str, kind| JobVolume {
        name: name.into(),
        kind,
    };
    let start = copy::Action::StartJob {
        node: "n1".into(),
        job: CopyJob {
            id: "uid-0".into(),
            pod_uid: "pod-0".into(),
            source: volume("pv-origin", VolumeKind::Block),
            target: volume("pv", VolumeKind::Filesystem),
            only_differences: false,
        },
    };
    assert_eq!(copies(&decide(&seen).actions), [&start]);
    seen.agents.jobs = vec![job(JobState::Transferring)];
    assert!(matches!(decide(&seen).verdict, Verdict::Copying { .. }));
    seen.agents.jobs = vec![job(JobState::Succeeded)];
    assert!(matches!(decide(&seen).verdict, Verdict::Copied(_)));
}

#[test]
fn a_copy_changes_hands_when_nothing_has_it_mounted() {
    let mut seen = held();
    status(&mut seen).copy = chosen(Some(0));
    seen.agents.jobs = vec![job(JobState::Succeeded)];
    let plan = decide(&seen);
    let released: Vec<_> = copies(&plan.actions);
    assert!(
        matches!(
            released[..],
            [
                copy::Action::DeleteHolder { .. },
                copy::Action::CancelJob { .. }
            ]
        ),
        "{plan:?}"
    );
    seen.agents.jobs = vec![];
    seen.holders[0].deleting_since = Some(at(0));
    assert_eq!(waits(&seen).1, "Detaching");
    seen.holders = vec![];
    assert_eq!(decide(&seen).actions, [hand_over()]);
}

#[test]
fn a_volume_that_was_not_copied_to_never_changes_hands() {
    let mut seen = held();
    for state in [None, Some(JobState::Transferring)] {
        seen.agents.jobs = state.into_iter().map(job).collect();
        status(&mut seen).copy = chosen(None);
        let plan = decide(&seen);
        assert!(!plan.actions.contains(&hand_over()), "{plan:?}");
    }
    // The copy was complete, and then the volume went: this is another one.
    seen.agents.jobs = vec![];
    seen.holders = vec![];
    seen.prime = None;
    status(&mut seen).copy = chosen(Some(0));
    assert!(matches!(decide(&seen).verdict, Verdict::TryFailed(_)));
}

#[test]
fn a_failed_copy_is_tried_again_and_in_the_end_given_up() {
    let mut seen = held();
    status(&mut seen).copy = chosen(None);
    let failure = |retryable| Failure {
        reason: "Io".into(),
        message: "the disk does not answer".into(),
        retryable,
    };
    seen.agents.jobs = vec![job(JobState::Failed(failure(true)))];
    let verdict = Verdict::TryFailed(failure(true));
    assert_eq!(decide(&seen), Plan::say(verdict, Again::Now));
    status(&mut seen).retry = Some(hypercloud_api::RetryStatus {
        failures: 9,
        ..hypercloud_api::RetryStatus::default()
    });
    assert_eq!(fails(&seen), "RetriesExhausted");
    seen.agents.jobs = vec![job(JobState::Failed(failure(false)))];
    assert_eq!(fails(&seen), "Io");
    // Then nothing is kept.
    status(&mut seen).phase = Some(DiskPhase::Failed);
    let plan = decide(&seen);
    assert_eq!(copies(&plan.actions).len(), 2, "{plan:?}");
    seen.holders = vec![];
    seen.agents.jobs = vec![];
    let plan = decide(&seen);
    assert!(
        matches!(
            plan.actions[..],
            [Action::DeletePrime { .. }, Action::DeleteClaim { .. }]
        ),
        "{plan:?}"
    );
}

#[test]
fn a_source_that_is_in_use_is_not_copied() {
    let mut seen = of_claim();
    seen.disk.spec.pvc = asked("1Gi", Some(VolumeMode::Filesystem), None);
    let mut seen = choose(seen);
    seen.claim = Some(ClaimSeen {
        requested: 20 * GIB,
        ..unbound(true)
    });
    source_claim(&mut seen).users = vec!["vm-1".into()];
    let (_, reason, message) = waits(&seen);
    assert_eq!(reason, "SourceInUse");
    assert!(
        message.contains("root") && message.contains("vm-1"),
        "{message}"
    );
    // The same when somebody came meanwhile: what was read is not of one time.
    seen.prime = Some(filled(false, "prime"));
    assert_eq!(waits(&seen).1, "SourceInUse");
    seen.holders = vec![holder(0)];
    assert!(matches!(decide(&seen).verdict, Verdict::StartOver { .. }));
    seen.agents.jobs = vec![job(JobState::Transferring)];
    status(&mut seen).copy = chosen(None);
    assert!(matches!(decide(&seen).verdict, Verdict::StartOver { .. }));
    // What was read before he came is whole.
    status(&mut seen).copy = chosen(Some(0));
    assert!(!copies(&decide(&seen).actions).is_empty());
}

#[test]
fn what_a_former_try_left_goes_first() {
    let mut seen = held();
    status(&mut seen).attempt = Some(1);
    seen.agents.jobs = vec![job(JobState::Transferring)];
    let plan = decide(&seen);
    assert_eq!(copies(&plan.actions).len(), 2, "{plan:?}");
    seen.agents.jobs = vec![];
    seen.holders[0].deleting_since = Some(at(0));
    assert_eq!(waits(&seen).1, "HolderTerminating");
}
