//! From the claim to the filled volume.

use super::*;

#[test]
fn the_holder_is_made_and_waited_for() {
    assert_eq!(decide(&claimed(), 0).actions, [Action::CreateHolder]);
    let mut seen = held();
    seen.holders[0].state = HolderState::Waiting(None);
    assert_eq!(reason(&decide(&seen, 0)), "HolderStarting");
    seen.holders[0].state = HolderState::Waiting(Some(Problem {
        reason: "HolderUnschedulable".into(),
        message: "0/3 nodes".into(),
    }));
    let plan = decide(&seen, 0);
    assert_eq!(
        (reason(&plan), plan.actions.len()),
        ("HolderUnschedulable", 0)
    );
    // Running, but the claim is not bound for sure.
    let mut seen = held();
    seen.claim.as_mut().unwrap().volume_name = None;
    assert_eq!(reason(&decide(&seen, 0)), "HolderStarting");
}

#[test]
fn the_transfer_is_written_down_before_the_job_starts() {
    let seen = held();
    let verdict = Verdict::TransferChosen {
        job_id: "uid-0".into(),
        node: "n2".into(),
        holder_uid: seen.holders[0].uid.clone(),
    };
    assert_eq!(decide(&seen, 0), Plan::say(verdict, Again::Now));
    let seen = chosen();
    let job = ImportJob {
        id: "uid-0".into(),
        expected: facts(),
        checksum: None,
        format: None,
        preallocation: false,
        pod_uid: seen.holders[0].uid.clone(),
        volume_name: "pv".into(),
        volume_kind: VolumeKind::Block,
    };
    let start = Action::StartJob {
        node: "n2".to_owned(),
        job,
        source: source(),
    };
    assert_eq!(
        decide(&seen, 0),
        Plan::one(start, Verdict::Keep, Again::OnChange)
    );
}

#[test]
fn what_the_image_asks_for_goes_with_the_job() {
    let mut seen = guarded(chosen());
    let digest = format!("sha256:{}", "0a".repeat(32));
    seen.image.spec.source.checksum = Some(digest.clone());
    seen.image.spec.source.format = Some(DeclaredFormat::Qcow2);
    seen.image.spec.preallocation = Some(true);
    let [Action::StartJob { job, source, .. }] = &decide(&seen, 0).actions[..] else {
        panic!("not started");
    };
    assert_eq!(job.checksum, Some(digest));
    assert_eq!(job.format, Some(ImageFormat::Qcow2));
    assert!(job.preallocation);
    assert_eq!(source.secret.as_deref(), Some("login"));
}

#[test]
fn a_job_that_waits_for_its_access_is_started_again() {
    let mut seen = guarded(running(JobState::Pending));
    assert_eq!(decide(&seen, 0).actions, []);
    seen.agents.jobs[0].job.awaiting_access = true;
    let plan = decide(&seen, 0);
    let [Action::StartJob { node, job, .. }] = &plan.actions[..] else {
        panic!("{plan:?}");
    };
    assert_eq!((node.as_str(), job.id.as_str()), ("n2", "uid-0"));
    // Not while its agent is away, nor without its holder.
    assert_eq!(decide(&lost_agent(seen.clone()), 0).actions, []);
    seen.holders.clear();
    assert_eq!(reason(&decide(&seen, 0)), "HolderLost");
}

#[test]
fn a_job_at_work_is_reported() {
    let seen = running(JobState::Transferring);
    let verdict = Verdict::Importing {
        node: "n2".into(),
        job: seen.agents.jobs[0].job.clone(),
    };
    assert_eq!(decide(&seen, 0), Plan::say(verdict, Again::OnChange));
    // Its container may be on its way up again: the volume is there.
    let mut restarted = seen.clone();
    restarted.holders[0].state = HolderState::Waiting(None);
    assert_eq!(decide(&restarted, 0), decide(&seen, 0));
}

#[test]
fn success_is_written_down_before_the_holder_goes() {
    let seen = running(JobState::Succeeded);
    let job = seen.agents.jobs[0].job.clone();
    assert_eq!(
        decide(&seen, 0),
        Plan::say(Verdict::Completed(job), Again::Now)
    );
    // Believed even if the agent went away since.
    assert!(matches!(
        decide(&lost_agent(seen), 900).verdict,
        Verdict::Completed(_)
    ));

    let mut seen = running(JobState::Succeeded);
    let transfer = status(&mut seen).transfer.as_mut().unwrap();
    transfer.completion_time = Some(Time(at(0)));
    let name = seen.holder_name();
    assert_eq!(decide(&seen, 0).actions, [delete_holder(&name)]);
    seen.holders[0].deleting_since = Some(at(0));
    assert_eq!(
        decide(&seen, 0),
        Plan::say(Verdict::Keep, Again::After(RECHECK))
    );
    // Its node died right after the success.
    assert_eq!(
        decide(&lost_agent(seen.clone()), 400).verdict,
        Verdict::Ready
    );
    seen.holders.clear();
    assert_eq!(decide(&seen, 0), Plan::say(Verdict::Ready, Again::Now));
}

#[test]
fn a_claim_that_holds_the_disk_is_not_too_small_for_it() {
    // What the disk's size is was told by its end alone.
    let mut seen = running(JobState::Succeeded);
    seen.holders.clear();
    let status = status(&mut seen);
    status.source.as_mut().unwrap().virtual_size = Some(11 * GIB as i64);
    status.transfer.as_mut().unwrap().completion_time = Some(Time(at(0)));
    assert_eq!(decide(&seen, 0), Plan::say(Verdict::Ready, Again::Now));
}

#[test]
fn a_success_that_does_not_show_the_checksum_is_a_failed_try() {
    let digest = format!("sha256:{}", "0a".repeat(32));
    let mut seen = running(JobState::Succeeded);
    seen.image.spec.source.checksum = Some(digest.to_uppercase().replace("SHA", "sha"));
    for told in [None, Some(digest.replace("0a", "0b"))] {
        seen.agents.jobs[0].job.digest = told;
        let plan = decide(&seen, 0);
        assert_eq!((reason(&plan), plan.actions.len()), ("DigestMissing", 0));
        assert!(matches!(&plan.verdict, Verdict::TryFailed(f) if !f.source));
    }
    seen.agents.jobs[0].job.digest = Some(digest);
    let plan = decide(&seen, 0);
    assert!(matches!(plan.verdict, Verdict::Completed(_)), "{plan:?}");
}

#[test]
fn failures_are_judged() {
    let failed = |retryable| {
        JobState::Failed(Failure {
            reason: "Stalled".into(),
            message: "no bytes".into(),
            retryable,
        })
    };
    let failure = TryFailure {
        reason: "Stalled".into(),
        message: "no bytes".into(),
        source: false,
    };
    let plan = decide(&running(failed(true)), 0);
    assert_eq!(plan, Plan::say(Verdict::TryFailed(failure), Again::Now));
    let plan = decide(&running(failed(false)), 0);
    assert!(matches!(&plan.verdict, Verdict::Failed { reason, .. } if reason == "Stalled"));
    // What was accepted once and then no more is for the next probe to tell.
    let expired = JobState::Failed(Failure {
        reason: "Unauthorized".into(),
        message: "the token has expired".into(),
        retryable: false,
    });
    let plan = decide(&running(expired.clone()), 0);
    assert!(matches!(plan.verdict, Verdict::Failed { .. }), "{plan:?}");
    let plan = decide(&guarded(running(expired)), 0);
    assert!(
        matches!(&plan.verdict, Verdict::TryFailed(f) if f.source),
        "{plan:?}"
    );
    let mut last = running(failed(true));
    status(&mut last).retry = Some(RetryStatus {
        failures: 9,
        ..RetryStatus::default()
    });
    assert_eq!(reason(&decide(&last, 0)), "RetriesExhausted");
}

#[test]
fn a_holder_that_went_is_a_failed_try() {
    let mut replaced = running(JobState::Transferring);
    replaced.holders[0].uid = "another".into();
    let mut gone = running(JobState::Transferring);
    gone.holders.clear();
    let mut going = running(JobState::Transferring);
    going.holders[0].deleting_since = Some(at(0));
    let mut evicted = held();
    evicted.holders[0].state = HolderState::Ended {
        message: "Evicted".into(),
    };
    for seen in [replaced, gone, going, evicted] {
        let plan = decide(&seen, 0);
        assert_eq!((reason(&plan), plan.actions.len()), ("HolderLost", 0));
    }
}

#[test]
fn an_agent_that_is_away_is_waited_for_and_then_given_up() {
    for seen in [held(), running(JobState::Transferring)].map(lost_agent) {
        assert_eq!(decide(&seen, 5).verdict, Verdict::Keep);
        assert_eq!(reason(&decide(&seen, 20)), "AgentUnreachable");
        assert_eq!(reason(&decide(&seen, 301)), "AgentLost");
    }
}

#[test]
fn a_job_that_the_agent_lost_is_started_again() {
    let seen = chosen();
    let [Action::StartJob { job, .. }] = &decide(&seen, 0).actions[..] else {
        panic!("not started");
    };
    assert_eq!(job.id, "uid-0");
}
