//! Plan tables: one world each, and the whole plan for it.

use hypercloud_api::conditions::{ConditionStatus, ConditionUpdate, set};
use hypercloud_api::{
    ImageSource, ObjectStoreSource, RetryStatus, SourceStatus, TransferStatus, VirtualMachineImage,
    VirtualMachineImageSpec, VirtualMachineImageStatus, VolumeMode,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::observation::*;
use super::super::verdict::TryFailure;
use super::*;
use crate::agents::{Failure, ImportJob, Job, JobSeen, JobState, Progress, VolumeKind};

const GIB: u64 = 1 << 30;
const URL: &str = "http://example.com/disk.qcow2";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn decide(seen: &Observation, second: i64) -> Plan {
    let policy = Policy {
        overhead: Overhead::DEFAULT,
    };
    plan(seen, &policy, at(second))
}

/// A new image on a cluster with two agents.
fn fresh() -> Observation {
    let source = ImageSource {
        http: Some(URL.into()),
        object_store: None,
    };
    let spec = VirtualMachineImageSpec {
        storage_class_name: Some("fast".into()),
        source,
        pvc: None,
    };
    let mut image = VirtualMachineImage::new("ubuntu", spec);
    image.metadata.uid = Some("uid".into());
    image.metadata.finalizers = Some(vec![names::FINALIZER.into()]);
    image.status = Some(VirtualMachineImageStatus {
        phase: Some(ImagePhase::Pending),
        ..VirtualMachineImageStatus::default()
    });
    Observation {
        image,
        claim: None,
        holders: vec![],
        storage_class: StorageClassSeen::Found,
        agents: AgentsSeen {
            synced: vec!["n1".into(), "n2".into()],
            ..AgentsSeen::default()
        },
    }
}

fn status(seen: &mut Observation) -> &mut VirtualMachineImageStatus {
    seen.image.status.get_or_insert_default()
}

fn facts() -> Facts {
    Facts {
        format: ImageFormat::Qcow2,
        virtual_size: 10 * GIB,
        source_size: None,
        validator: Some("\"v1\"".into()),
        ranges: true,
    }
}

/// The source was looked at.
fn probed() -> Observation {
    let mut seen = fresh();
    let update = ConditionUpdate {
        type_: super::super::SOURCE_VERIFIED,
        status: ConditionStatus::True,
        reason: "Probed".into(),
        message: String::new(),
    };
    let status = status(&mut seen);
    set(&mut status.conditions, update, 1, &Time(at(0)));
    status.source = Some(SourceStatus {
        format: "qcow2".into(),
        virtual_size: 10 * GIB as i64,
        size: None,
        validator: Some("\"v1\"".into()),
        ranges: Some(true),
    });
    seen
}

/// The claim is there and bound.
fn claimed() -> Observation {
    let mut seen = probed();
    seen.claim = Some(ClaimSeen {
        uid: "claim".into(),
        ours: true,
        deleting_since: None,
        lost: false,
        volume_name: Some("pv".into()),
        requested: 10 * GIB,
        problem: None,
    });
    seen
}

fn holder(name: &str, state: HolderState) -> HolderSeen {
    HolderSeen {
        name: name.into(),
        uid: format!("{name}-uid"),
        deleting_since: None,
        node: Some("n2".into()),
        state,
    }
}

/// The holder holds the volume on node n2.
fn held() -> Observation {
    let mut seen = claimed();
    let name = seen.holder_name();
    seen.holders = vec![holder(&name, HolderState::Holding)];
    seen
}

/// The transfer was written down.
fn chosen() -> Observation {
    let mut seen = held();
    let transfer = TransferStatus {
        job_id: seen.job_id(),
        node_name: "n2".into(),
        holder_uid: Some(seen.holders[0].uid.clone()),
        ..TransferStatus::default()
    };
    status(&mut seen).transfer = Some(transfer);
    seen
}

/// The agent reports the job in this state.
fn running(state: JobState) -> Observation {
    let mut seen = chosen();
    seen.agents.jobs = vec![job_on("n2", &seen.job_id(), state)];
    seen
}

fn job_on(node: &str, id: &str, state: JobState) -> JobSeen {
    JobSeen {
        node: node.into(),
        job: Job {
            id: id.into(),
            state,
            progress: Progress::default(),
        },
    }
}

/// The image is ready.
fn ready() -> Observation {
    let mut seen = chosen();
    seen.holders.clear();
    let status = status(&mut seen);
    status.phase = Some(ImagePhase::Ready);
    if let Some(transfer) = &mut status.transfer {
        transfer.completion_time = Some(Time(at(0)));
    }
    seen
}

fn deleted(mut seen: Observation) -> Observation {
    seen.image.metadata.deletion_timestamp = Some(Time(at(0)));
    seen
}

fn lost_agent(mut seen: Observation) -> Observation {
    seen.agents.synced = vec!["n1".into()];
    seen.agents.away = [("n2".to_owned(), at(0))].into();
    seen
}

/// What a plan waits for, by its reason.
fn reason(plan: &Plan) -> &str {
    match &plan.verdict {
        Verdict::Waiting { reason, .. } | Verdict::Failed { reason, .. } => reason,
        Verdict::TryFailed(failure) => &failure.reason,
        other => panic!("no reason in {other:?}"),
    }
}

fn cancel(node: &str, job_id: &str) -> Action {
    Action::CancelJob {
        node: node.into(),
        job_id: job_id.into(),
    }
}

fn delete_holder(name: &str) -> Action {
    Action::DeleteHolder {
        name: name.into(),
        uid: format!("{name}-uid"),
    }
}

fn delete_claim() -> Action {
    Action::DeleteClaim {
        uid: "claim".into(),
    }
}

#[test]
fn an_image_from_an_object_store_fails_and_nothing_is_made() {
    let mut seen = fresh();
    seen.image.metadata.finalizers = None;
    seen.image.spec.source = ImageSource {
        http: None,
        object_store: Some(ObjectStoreSource::default()),
    };
    let plan = decide(&seen, 0);
    assert_eq!(plan.actions, []);
    assert_eq!(reason(&plan), "ObjectStoreNotSupported");
    assert!(matches!(plan.verdict, Verdict::Failed { .. }));
}

#[test]
fn the_finalizer_comes_first() {
    let mut seen = fresh();
    seen.image.metadata.finalizers = Some(vec!["other".into()]);
    let expected = Plan::act(Action::AddFinalizer, Verdict::Keep, Again::Now);
    assert_eq!(decide(&seen, 0), expected);
}

#[test]
fn any_agent_probes_and_without_one_it_waits() {
    let plan = decide(&fresh(), 0);
    let [Action::Probe { node, url }] = plan.actions.as_slice() else {
        panic!("{plan:?}");
    };
    assert!(["n1", "n2"].contains(&node.as_str()) && url == URL);
    let mut seen = fresh();
    seen.agents.synced.clear();
    let plan = decide(&seen, 0);
    assert_eq!(
        (reason(&plan), plan.again),
        ("NoAgentReady", Again::After(RECHECK))
    );
    // Before the first probe, people are told.
    let mut seen = fresh();
    seen.image.status = None;
    assert_eq!(
        (reason(&decide(&seen, 0)), decide(&seen, 0).actions),
        ("Probing", vec![])
    );
}

#[test]
fn probes_are_spread_over_the_agents() {
    let mut seen = fresh();
    let mut nodes = std::collections::BTreeSet::new();
    for n in 0..20 {
        seen.image.metadata.uid = Some(format!("uid-{n}"));
        if let [Action::Probe { node, .. }] = decide(&seen, 0).actions.as_slice() {
            nodes.insert(node.clone());
        }
    }
    assert_eq!(nodes.len(), 2);
}

#[test]
fn the_claim_is_sized_by_the_facts() {
    let plan = decide(&probed(), 0);
    assert_eq!(plan.actions, [Action::CreateClaim { size: 10 * GIB }]);
    let mut seen = probed();
    let claim = seen.image.spec.pvc.get_or_insert_default();
    claim.volume_mode = Some(VolumeMode::Filesystem);
    let size = 10_836 << 20;
    assert_eq!(decide(&seen, 0).actions, [Action::CreateClaim { size }]);
}

#[test]
fn without_its_storage_class_it_waits() {
    for class in [
        StorageClassSeen::Missing("fast".into()),
        StorageClassSeen::NoDefault,
    ] {
        let mut seen = probed();
        seen.storage_class = class;
        let plan = decide(&seen, 0);
        assert_eq!(
            (reason(&plan), plan.actions.len()),
            ("StorageClassNotFound", 0)
        );
        assert_eq!(plan.again, Again::After(RECHECK));
    }
}

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
fn a_former_claim_is_waited_for_or_replaced() {
    let mut seen = claimed();
    seen.claim.as_mut().unwrap().deleting_since = Some(at(0));
    assert_eq!(reason(&decide(&seen, 0)), "ClaimTerminating");
    assert_eq!(decide(&seen, 0).actions, []);
    // The source grew between two tries.
    let mut seen = claimed();
    seen.claim.as_mut().unwrap().requested = GIB;
    assert_eq!(decide(&seen, 0).actions, [delete_claim()]);
    let mut seen = claimed();
    seen.claim.as_mut().unwrap().lost = true;
    assert_eq!(decide(&seen, 0).actions, [delete_claim()]);
}

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
        url: URL.into(),
        expected: facts(),
        pod_uid: seen.holders[0].uid.clone(),
        volume_name: "pv".into(),
        volume_kind: VolumeKind::Block,
    };
    let node = "n2".to_owned();
    let start = Action::StartJob { node, job };
    assert_eq!(
        decide(&seen, 0),
        Plan::act(start, Verdict::Keep, Again::OnChange)
    );
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
fn a_ready_image_forgets_its_job_and_rests() {
    let mut seen = ready();
    assert_eq!(decide(&seen, 0), Plan::say(Verdict::Ready, Again::OnChange));
    seen.agents.jobs = vec![job_on("n2", "uid-0", JobState::Succeeded)];
    assert_eq!(
        decide(&seen, 0),
        Plan::act(cancel("n2", "uid-0"), Verdict::Ready, Again::Now)
    );
}

#[test]
fn a_lost_claim_starts_over() {
    let mut seen = ready();
    seen.claim = None;
    let plan = decide(&seen, 0);
    assert!(matches!(plan.verdict, Verdict::ClaimLost { .. }) && plan.actions.is_empty());
    for mut seen in [ready(), running(JobState::Transferring)] {
        seen.claim.as_mut().unwrap().deleting_since = Some(at(0));
        let plan = decide(&seen, 0);
        assert!(
            matches!(plan.verdict, Verdict::ClaimLost { .. }),
            "{plan:?}"
        );
    }
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
    let mut last = running(failed(true));
    status(&mut last).retry = Some(RetryStatus {
        failures: 9,
        ..RetryStatus::default()
    });
    assert_eq!(reason(&decide(&last, 0)), "RetriesExhausted");
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

#[test]
fn a_job_in_the_wrong_place_is_cancelled() {
    let mut seen = running(JobState::Transferring);
    seen.agents
        .jobs
        .push(job_on("n1", "uid-0", JobState::Transferring));
    assert_eq!(decide(&seen, 0).actions, [cancel("n1", "uid-0")]);
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
    seen.agents.jobs.clear();
    seen.holders.clear();
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
    assert_eq!(decide(&seen, 121).actions, []);
    assert_eq!(decide(&seen, 301).actions, [Action::RemoveFinalizer]);
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
