//! What former states leave behind, and deletion.

use super::super::super::notices::notices;
use super::super::super::{CLONING_UNDER_WAY, READY, status};
use super::*;

#[test]
fn a_claim_of_someone_else_is_left_alone_in_every_state() {
    for mut seen in [probed(), chosen(), ready(), deleted(ready())] {
        seen.holders.clear();
        seen.claim = claimed().claim.map(|claim| ClaimSeen {
            ours: false,
            ..claim
        });
        let plan = decide(&seen, 0);
        assert!(!plan.actions.contains(&delete_claim()), "{plan:?}");
        if seen.image.metadata.deletion_timestamp.is_none() {
            assert_eq!(reason(&plan), "ClaimConflict");
            assert_eq!(plan.again, Again::After(SLOW_RECHECK));
        }
    }
}

#[test]
fn a_ready_image_forgets_its_job_and_rests() {
    let mut seen = ready();
    assert_eq!(decide(&seen, 0), Plan::say(Verdict::Ready, Again::OnChange));
    seen.agents.jobs = vec![job_on("n2", "uid-0", JobState::Succeeded)];
    assert_eq!(
        decide(&seen, 0),
        Plan::one(cancel("n2", "uid-0"), Verdict::Ready, Again::Now)
    );
}

#[test]
fn a_lost_claim_starts_over() {
    let mut seen = ready();
    seen.claim = None;
    let plan = decide(&seen, 0);
    assert!(matches!(plan.verdict, Verdict::ClaimLost { .. }) && plan.actions.is_empty());
    let mut seen = ready();
    seen.claim.as_mut().unwrap().deleting_since = Some(at(0));
    let plan = decide(&seen, 0);
    assert!(
        matches!(plan.verdict, Verdict::ClaimLost { .. }),
        "{plan:?}"
    );
}

#[test]
fn a_claim_lost_under_a_try_is_a_failed_try() {
    let mut seen = running(JobState::Transferring);
    seen.claim.as_mut().unwrap().deleting_since = Some(at(0));
    let plan = decide(&seen, 0);
    assert!(matches!(plan.verdict, Verdict::TryFailed(_)), "{plan:?}");
    assert_eq!(reason(&plan), "ClaimLost");
    status(&mut seen).retry = Some(RetryStatus {
        failures: 9,
        ..RetryStatus::default()
    });
    assert_eq!(reason(&decide(&seen, 0)), "RetriesExhausted");
}

#[test]
fn the_next_try_waits_its_time_and_sweeps_up_meanwhile() {
    let mut seen = running(JobState::Transferring);
    let former = seen.holder_name();
    let status = status(&mut seen);
    status.attempt = Some(1);
    status.transfer = None;
    status.retry = Some(RetryStatus {
        failures: 1,
        next_time: Some(Time(at(20))),
        ..RetryStatus::default()
    });
    let plan = decide(&seen, 0);
    assert_eq!(
        plan.actions,
        [cancel("n2", "uid-0"), delete_holder(&former)]
    );
    seen.agents.jobs.clear();
    seen.holders[0].deleting_since = Some(at(0));
    assert_eq!(reason(&decide(&seen, 0)), "HolderTerminating");
    seen.holders.clear();
    let wait = Again::After(Duration::from_secs(15));
    assert_eq!(decide(&seen, 5), Plan::say(Verdict::Keep, wait));
    assert_eq!(decide(&seen, 20).actions, [Action::CreateHolder]);
}

#[test]
fn a_former_holder_on_a_lost_node_is_not_waited_for_for_ever() {
    let mut seen = lost_agent(claimed());
    status(&mut seen).attempt = Some(1);
    let former = names::image_holder("ubuntu", 0);
    seen.holders = vec![holder(&former, HolderState::Holding)];
    seen.holders[0].deleting_since = Some(at(10));
    assert_eq!(reason(&decide(&seen, 300)), "HolderTerminating");
    assert_eq!(decide(&seen, 311).actions, [Action::CreateHolder]);
    // Unless it may still write to what the next try writes to.
    seen.claim.as_mut().unwrap().many_nodes = true;
    let plan = decide(&seen, 311);
    assert_eq!(
        (reason(&plan), plan.actions.len()),
        ("HolderTerminating", 0)
    );
    assert!(
        matches!(&plan.verdict, Verdict::Waiting { message, .. } if message.contains("node n2")),
        "{plan:?}"
    );
}

#[test]
fn a_job_in_the_wrong_place_is_cancelled() {
    let mut seen = running(JobState::Transferring);
    seen.agents
        .jobs
        .push(job_on("n1", "uid-0", JobState::Transferring));
    assert_eq!(decide(&seen, 0).actions, [cancel("n1", "uid-0")]);
    // And so is one of another try that came back to the node of this one.
    let mut seen = running(JobState::Transferring);
    seen.agents
        .jobs
        .push(job_on("n2", "uid-7", JobState::Transferring));
    assert_eq!(decide(&seen, 0).actions, [cancel("n2", "uid-7")]);
}

#[test]
fn after_a_failure_nothing_stays() {
    let mut seen = running(JobState::Failed(Failure {
        reason: "Corrupt".into(),
        message: String::new(),
        retryable: false,
    }));
    status(&mut seen).phase = Some(ImagePhase::Failed);
    let name = seen.holder_name();
    assert_eq!(
        decide(&seen, 0).actions,
        [cancel("n2", "uid-0"), delete_holder(&name)]
    );
    seen.holders.clear();
    assert_eq!(
        decide(&seen, 0).actions,
        [cancel("n2", "uid-0"), delete_claim()]
    );
    seen.agents.jobs.clear();
    assert_eq!(decide(&seen, 0).actions, [delete_claim()]);
    seen.claim = None;
    assert_eq!(decide(&seen, 0), Plan::say(Verdict::Keep, Again::OnChange));
}

#[test]
fn deletion_stops_the_job_then_the_holder_then_the_claim() {
    let mut seen = deleted(running(JobState::Transferring));
    let name = seen.holder_name();
    assert_eq!(
        decide(&seen, 0).actions,
        [cancel("n2", "uid-0"), delete_holder(&name)]
    );
    seen.agents.jobs.clear();
    seen.holders[0].deleting_since = Some(at(0));
    assert_eq!(
        (reason(&decide(&seen, 0)), decide(&seen, 0).actions),
        ("Deleting", vec![])
    );
    seen.holders.clear();
    assert_eq!(decide(&seen, 0).actions, [delete_claim()]);
    seen.claim.as_mut().unwrap().deleting_since = Some(at(0));
    assert_eq!(decide(&seen, 0).actions, []);
    seen.claim = None;
    assert_eq!(decide(&seen, 0).actions, [Action::RemoveFinalizer]);
    seen.image.metadata.finalizers = None;
    assert_eq!(decide(&seen, 0), Plan::say(Verdict::Keep, Again::OnChange));
}

#[test]
fn deletion_waits_for_a_lost_agent_but_not_for_ever() {
    let mut seen = lost_agent(deleted(running(JobState::Transferring)));
    let name = seen.holder_name();
    assert_eq!(decide(&seen, 29).actions, []);
    assert_eq!(decide(&seen, 31).actions, [delete_holder(&name)]);
    seen.holders[0].deleting_since = Some(at(31));
    assert_eq!(decide(&seen, 60).actions, []);
    // The holder hangs: its claim is asked to go, and the image need not wait.
    assert_eq!(decide(&seen, 95).actions, [delete_claim()]);
    seen.claim.as_mut().unwrap().deleting_since = Some(at(95));
    assert_eq!(decide(&seen, 96).actions, [Action::RemoveFinalizer]);
}

#[test]
fn deletion_ends_even_if_nothing_goes() {
    let mut seen = deleted(running(JobState::Transferring));
    // The agent never cancels, the holder never ends, someone uses the claim.
    seen.holders[0].deleting_since = Some(at(0));
    seen.claim.as_mut().unwrap().deleting_since = Some(at(0));
    let cancel = cancel("n2", "uid-0");
    assert_eq!(decide(&seen, 121).actions, std::slice::from_ref(&cancel));
    let last = [cancel, Action::RemoveFinalizer];
    assert_eq!(decide(&seen, 301).actions, last);
}

#[test]
fn a_deletion_that_nobody_saw_still_stops_the_job_first() {
    let seen = deleted(running(JobState::Transferring));
    let name = seen.holder_name();
    assert_eq!(
        decide(&seen, 900).actions,
        [cancel("n2", "uid-0"), delete_holder(&name)]
    );
}

#[test]
fn deletion_waits_for_clones_under_way_and_names_some() {
    let mut seen = deleted(ready());
    seen.clones = ["a", "b", "c", "d", "e"].map(String::from).into();
    status(&mut seen).pvc_name = Some(names::image_claim("ubuntu"));
    // However long it takes.
    let plan = decide(&seen, 86_400);
    assert_eq!((reason(&plan), &plan.actions), (CLONING_UNDER_WAY, &vec![]));
    assert!(
        matches!(&plan.verdict, Verdict::Waiting { phase: ImagePhase::Deleting, message, .. }
            if message.contains(": a, b, c and 2 more;")),
        "{plan:?}"
    );
    let before = seen.image.status.as_ref();
    let next = status::next(&seen.image, &plan.verdict, true, at(0));
    let told: Vec<_> = notices(before, &next)
        .into_iter()
        .map(|notice| (notice.warning, notice.reason))
        .collect();
    let expected = [(false, "Deleting"), (false, CLONING_UNDER_WAY)];
    assert_eq!(
        told,
        expected.map(|(warning, reason)| (warning, reason.to_owned()))
    );

    seen.clones.truncate(1);
    let plan = decide(&seen, 86_400);
    assert!(
        matches!(&plan.verdict, Verdict::Waiting { message, .. } if message.contains(": a; ")),
        "{plan:?}"
    );
    seen.clones.clear();
    assert_eq!(decide(&seen, 86_400).actions, [delete_claim()]);
}

#[test]
fn what_has_nothing_to_do_with_the_claim_does_not_wait_for_clones() {
    // A job and its holder are stopped at once.
    let mut seen = deleted(running(JobState::Transferring));
    seen.clones = vec!["a".into()];
    let name = seen.holder_name();
    let stops = [cancel("n2", "uid-0"), delete_holder(&name)];
    assert_eq!(decide(&seen, 0).actions, stops);
    // A claim that is kept, or goes already, or is gone, is not waited with.
    let mut seen = deleted(ready());
    seen.clones = vec!["a".into()];
    let mut orphaning = seen.clone();
    orphaning.image.metadata.finalizers = Some(vec![names::FINALIZER.into(), "orphan".into()]);
    assert_eq!(decide(&orphaning, 0).actions, [Action::RemoveFinalizer]);
    seen.claim.as_mut().unwrap().deleting_since = Some(at(0));
    assert_eq!(reason(&decide(&seen, 0)), "Deleting");
    seen.claim = None;
    assert_eq!(decide(&seen, 0).actions, [Action::RemoveFinalizer]);
}

#[test]
fn sharing_a_ready_image_leaves_it_ready() {
    let mut seen = ready();
    seen.image.metadata.generation = Some(1);
    let before = status::next(&seen.image, &decide(&seen, 0).verdict, true, at(0));
    seen.image.status = Some(before.clone());
    seen.image.metadata.generation = Some(2);
    seen.image.spec.shared_with = Some(ImageSharing {
        namespaces: vec!["team".into()],
    });
    let plan = decide(&seen, 9);
    assert_eq!(plan, Plan::say(Verdict::Ready, Again::OnChange));
    let after = status::next(&seen.image, &plan.verdict, true, at(9));
    let mut expected = before.clone();
    expected.observed_generation = Some(2);
    for condition in &mut expected.conditions {
        if condition.type_ == READY {
            condition.observed_generation = Some(2);
        }
    }
    assert_eq!(after, expected);
    assert_eq!(notices(Some(&before), &after), []);
}

#[test]
fn orphaning_keeps_the_claim() {
    let mut seen = deleted(ready());
    seen.image.metadata.finalizers = Some(vec![names::FINALIZER.into(), "orphan".into()]);
    assert_eq!(decide(&seen, 0).actions, [Action::RemoveFinalizer]);
    // The garbage collector was faster: the claim is nobody's by now.
    seen.image.metadata.finalizers = Some(vec![names::FINALIZER.into()]);
    seen.claim.as_mut().unwrap().ours = false;
    assert_eq!(decide(&seen, 0).actions, [Action::RemoveFinalizer]);
}
