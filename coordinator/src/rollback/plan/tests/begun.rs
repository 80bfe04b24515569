//! From the closed volume to its end.

use super::*;

#[test]
fn the_volume_is_closed_before_the_job_is_chosen() {
    assert_eq!(planned(&held()), Plan::say(Verdict::Closed, Again::Now));
    let wait = Again::After(Duration::from_secs(1));
    assert_eq!(planned(&closed(ago(1))), Plan::say(Verdict::Keep, wait));
    assert_eq!(
        planned(&closed(ago(2))),
        Plan::say(chosen_verdict(), Again::Now)
    );
}

#[test]
fn the_job_is_started_with_both_volumes() {
    let volume = |name: &str| JobVolume {
        name: name.into(),
        kind: VolumeKind::Block,
    };
    let start = copy::Action::StartJob {
        node: "n1".into(),
        job: CopyJob {
            id: "uid-0".into(),
            pod_uid: "pod-0".into(),
            source: volume("pv-restored"),
            target: volume("pv"),
            only_differences: true,
        },
    };
    let plan = planned(&chosen());
    assert_eq!(plan.actions, [Action::Copy(start)]);
    assert_eq!(plan.again, Again::OnChange);
}

#[test]
fn no_job_starts_under_a_pod() {
    let mut seen = chosen();
    seen.users = vec!["vm".into()];
    assert_eq!(
        waits(&seen),
        (RollbackPhase::RollingBack, "VolumeInUse".to_owned())
    );
}

#[test]
fn what_a_pod_wrote_behind_the_copys_back_is_compared_again() {
    for mut seen in [
        working(JobState::Transferring, 50),
        working(JobState::Succeeded, 100),
    ] {
        seen.users = vec!["vm".into()];
        let Verdict::TryFailed { failure, untouched } = planned(&seen).verdict else {
            panic!("{:?}", planned(&seen));
        };
        assert_eq!((failure.reason.as_str(), untouched), ("VolumeInUse", false));
        assert!(
            failure.message.contains("the pod vm"),
            "{}",
            failure.message
        );
    }
}

#[test]
fn a_job_is_followed_to_its_end() {
    let seen = working(JobState::Transferring, 50);
    let writing = Verdict::Writing {
        node: "n1".into(),
        job: job(JobState::Transferring, 50),
    };
    assert_eq!(planned(&seen), Plan::say(writing, Again::OnChange));
    let seen = working(JobState::Succeeded, 100);
    let completed = Verdict::Completed(job(JobState::Succeeded, 100));
    assert_eq!(planned(&seen), Plan::say(completed, Again::Now));
}

#[test]
fn after_its_end_everything_goes_in_order() {
    let mut seen = working(JobState::Succeeded, 100);
    let completed = Verdict::Completed(job(JobState::Succeeded, 100));
    told(&mut seen, &completed, ago(1));
    let plan = planned(&seen);
    assert!(
        matches!(
            plan.actions[..],
            [
                Action::Copy(copy::Action::DeleteHolder { .. }),
                Action::Copy(copy::Action::CancelJob { .. })
            ]
        ),
        "{plan:?}"
    );
    seen.agents.jobs.clear();
    seen.holders[0].deleting_since = Some(ago(1));
    assert_eq!(
        waits(&seen),
        (RollbackPhase::RollingBack, "Detaching".to_owned())
    );
    seen.holders.clear();
    let uid = "restored".to_owned();
    let end = Plan::act([Action::DeleteRestored { uid }], Verdict::Succeeded);
    assert_eq!(planned(&seen), end);
    // Whatever became of the snapshot and the claim.
    seen.snapshot = None;
    seen.target = None;
    assert_eq!(planned(&seen), end);
    told(&mut seen, &Verdict::Succeeded, now());
    seen.restored = None;
    assert_eq!(planned(&seen), Plan::say(Verdict::Keep, Again::OnChange));
}

fn stalled(retryable: bool) -> Failure {
    Failure {
        reason: "Stalled".into(),
        message: "for people".into(),
        retryable,
    }
}

#[test]
fn what_may_have_been_written_to_is_always_tried_again() {
    for retryable in [true, false] {
        let seen = working(JobState::Failed(stalled(retryable)), 50);
        let verdict = Verdict::TryFailed {
            failure: stalled(retryable),
            untouched: false,
        };
        assert_eq!(planned(&seen).verdict, verdict);
        // Nor is it forgotten by a later try that never got so far.
        let mut later = seen.clone();
        told(&mut later, &verdict, ago(1000));
        let status = later.rollback.status.as_mut().unwrap();
        status.copy = Some(CopyStatus {
            job_id: "uid-1".into(),
            ..status.copy.clone().unwrap()
        });
        later.holders = vec![holder(1, HolderState::Holding)];
        let failed = Job {
            id: "uid-1".into(),
            state: JobState::Failed(stalled(retryable)),
            ..Job::default()
        };
        later.agents.jobs[0].job = failed;
        assert_eq!(planned(&later).verdict, verdict);
    }
}

#[test]
fn what_was_never_opened_may_fail() {
    let seen = working(JobState::Failed(stalled(false)), 0);
    assert_eq!(fails(&seen).0, "Stalled");
    // What passes may have come after the first bytes.
    let seen = working(JobState::Failed(stalled(true)), 0);
    let verdict = Verdict::TryFailed {
        failure: stalled(true),
        untouched: false,
    };
    assert_eq!(planned(&seen).verdict, verdict);
}

#[test]
fn an_agent_that_refuses_has_written_nothing() {
    let tried = |untouched| Verdict::TryFailed {
        failure: stalled(true),
        untouched,
    };
    let mut seen = chosen();
    assert_eq!(refused(&seen, stalled(true)), tried(true));
    // But a former try may have.
    let status = seen.rollback.status.as_mut().unwrap();
    status.copy.as_mut().unwrap().bytes_total = Some(0);
    assert_eq!(refused(&seen, stalled(true)), tried(false));
}

#[test]
fn a_lost_holder_is_another_try() {
    let mut seen = chosen();
    seen.holders.clear();
    match planned(&seen).verdict {
        Verdict::TryFailed { failure, untouched } => {
            assert_eq!(failure.reason, "HolderLost");
            assert!(!untouched, "the job may have begun");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_next_try_keeps_its_time() {
    let mut seen = working(JobState::Failed(stalled(true)), 50);
    let verdict = planned(&seen).verdict;
    told(&mut seen, &verdict, now());
    let plan = planned(&seen);
    assert_eq!(plan.verdict, Verdict::Keep);
    assert!(matches!(plan.again, Again::After(wait) if wait >= retry::BACKOFF.base));
}

#[test]
fn a_deletion_waits_for_what_began_alone() {
    let deleted = |mut seen: Observation| {
        seen.rollback.metadata.deletion_timestamp = Some(Time(ago(1)));
        seen
    };
    // Not begun: all of it goes.
    let plan = planned(&deleted(held()));
    assert!(
        matches!(
            plan.actions[..],
            [Action::Copy(copy::Action::DeleteHolder { .. })]
        ),
        "{plan:?}"
    );
    let mut seen = deleted(held());
    seen.holders.clear();
    let uid = "restored".to_owned();
    assert_eq!(planned(&seen).actions, [Action::DeleteRestored { uid }]);
    seen.restored = None;
    assert_eq!(planned(&seen).actions, [Action::RemoveFinalizer]);
    // Begun: it goes on.
    let seen = deleted(working(JobState::Transferring, 50));
    assert!(matches!(planned(&seen).verdict, Verdict::Writing { .. }));
    let plan = planned(&deleted(chosen()));
    assert!(
        matches!(
            plan.actions[..],
            [Action::Copy(copy::Action::StartJob { .. })]
        ),
        "{plan:?}"
    );
    // Begun on a claim that goes away.
    let mut seen = deleted(working(JobState::Transferring, 50));
    seen.target.as_mut().unwrap().deleting = true;
    assert_eq!(fails(&seen).0, "PvcGone");
}

#[test]
fn after_a_failure_nothing_is_kept() {
    let mut seen = held();
    let failed = failed("SnapshotGone", "for people");
    told(&mut seen, &failed, now());
    assert_eq!(planned(&seen).actions.len(), 1);
    seen.holders.clear();
    let uid = "restored".to_owned();
    assert_eq!(planned(&seen).actions, [Action::DeleteRestored { uid }]);
    seen.restored = None;
    assert_eq!(planned(&seen), Plan::say(Verdict::Keep, Again::OnChange));
}
