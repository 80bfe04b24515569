//! Plans by value, one for each state that a rollback can be found in.

use hypercloud_api::{CopyStatus, VirtualMachineVolumeRollback, VirtualMachineVolumeRollbackSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

mod begun;

use super::*;
use crate::agents::{AgentsSeen, CopyJob, JobSeen, JobState, JobVolume, Progress, VolumeKind};
use crate::holder::{HolderSeen, HolderState, Problem};
use crate::rollback::status;
use crate::volume::snapshot::{ContentSeen, SnapshotSeen};

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

/// Nothing was done yet, and nothing is in the way.
fn fresh() -> Observation {
    let spec = VirtualMachineVolumeRollbackSpec {
        pvc_name: "disk".into(),
        volume_snapshot_name: "before".into(),
    };
    let mut rollback = VirtualMachineVolumeRollback::new("back", spec);
    rollback.metadata.uid = Some("uid".into());
    rollback.metadata.finalizers = Some(vec![names::FINALIZER.into()]);
    Observation {
        rollback,
        target: Some(TargetSeen {
            uid: "claim".into(),
            volume_name: Some("pv".into()),
            volume_handle: Some("vol".into()),
            storage_class: Some("fast".into()),
            mode: hypercloud_api::VolumeMode::Block,
            access_modes: vec!["ReadWriteOnce".into()],
            capacity: 2 << 30,
            ..TargetSeen::default()
        }),
        snapshot: Some(SnapshotSeen {
            uid: "snap".into(),
            claim: Some("disk".into()),
            ready: true,
            restore_size: Some(1 << 30),
            content: Some(ContentSeen {
                driver: "csi".into(),
                volume_handle: Some("vol".into()),
                volume_mode: None,
            }),
            ..SnapshotSeen::default()
        }),
        restored: None,
        holders: vec![],
        users: vec![],
        before: None,
        agents: AgentsSeen {
            synced: vec!["n1".into()],
            ..AgentsSeen::default()
        },
    }
}

/// The status becomes what `verdict` makes of it.
fn told(seen: &mut Observation, verdict: &Verdict, at: Timestamp) {
    seen.rollback.status = Some(status::next(&seen.rollback, verdict, at));
}

/// Claim and snapshot were accepted.
fn accepted() -> Observation {
    let mut seen = fresh();
    let verdict = Verdict::Accepted {
        pvc_uid: "claim".into(),
        snapshot_uid: "snap".into(),
    };
    told(&mut seen, &verdict, ago(60));
    seen
}

fn holder(attempt: u32, state: HolderState) -> HolderSeen {
    HolderSeen {
        name: names::rollback_holder("uid", attempt),
        uid: format!("pod-{attempt}"),
        since: None,
        deleting_since: None,
        node: Some("n1".into()),
        state,
    }
}

/// The snapshot is restored, and a holder has both volumes.
fn held() -> Observation {
    let mut seen = accepted();
    seen.restored = Some(RestoredSeen {
        uid: "restored".into(),
        volume_name: Some("pv-restored".into()),
        ..RestoredSeen::default()
    });
    seen.holders = vec![holder(0, HolderState::Holding)];
    seen
}

/// The volume is closed to pods.
fn closed(at: Timestamp) -> Observation {
    let mut seen = held();
    told(&mut seen, &Verdict::Closed, at);
    seen
}

fn chosen_verdict() -> Verdict {
    Verdict::Chosen {
        job_id: "uid-0".into(),
        node: "n1".into(),
        holder_uid: "pod-0".into(),
    }
}

/// The job is chosen, and not started.
fn chosen() -> Observation {
    let mut seen = closed(ago(30));
    told(&mut seen, &chosen_verdict(), ago(20));
    seen
}

fn job(state: JobState, done: u64) -> Job {
    let total = if done > 0 { 100 } else { 0 };
    Job {
        id: "uid-0".into(),
        state,
        progress: Progress {
            total,
            done,
            received: done,
            written: done / 2,
        },
        ..Job::default()
    }
}

/// The agent has the job.
fn working(state: JobState, done: u64) -> Observation {
    let mut seen = chosen();
    seen.agents.jobs = vec![JobSeen {
        node: "n1".into(),
        job: job(state, done),
    }];
    seen
}

fn planned(seen: &Observation) -> Plan {
    plan(seen, now())
}

/// Reason of a plan without actions that waits.
#[track_caller]
fn waits(seen: &Observation) -> (RollbackPhase, String) {
    let plan = planned(seen);
    assert_eq!(plan.actions, [], "{plan:?}");
    match plan.verdict {
        Verdict::Waiting { phase, reason, .. } => (phase, reason),
        other => panic!("waits not: {other:?}"),
    }
}

#[track_caller]
fn fails(seen: &Observation) -> (String, String) {
    match planned(seen).verdict {
        Verdict::Failed { reason, message } => (reason, message),
        other => panic!("fails not: {other:?}"),
    }
}

#[test]
fn the_finalizer_comes_first() {
    let mut seen = fresh();
    seen.rollback.metadata.finalizers = None;
    assert_eq!(
        planned(&seen),
        Plan::act([Action::AddFinalizer], Verdict::Keep)
    );
}

#[test]
fn what_is_not_there_is_waited_for() {
    let pending = |reason: &str| (RollbackPhase::Pending, reason.to_owned());
    let mut seen = fresh();
    seen.snapshot.as_mut().unwrap().ready = false;
    assert_eq!(waits(&seen), pending("SnapshotNotReady"));
    seen.snapshot = None;
    assert_eq!(waits(&seen), pending("SnapshotNotFound"));
    seen.target.as_mut().unwrap().volume_name = None;
    assert_eq!(waits(&seen), pending("PvcNotBound"));
    seen.target = None;
    assert_eq!(waits(&seen), pending("PvcNotFound"));
}

#[test]
fn a_snapshot_of_another_volume_is_refused() {
    let other = |change: fn(&mut SnapshotSeen)| {
        let mut seen = fresh();
        change(seen.snapshot.as_mut().unwrap());
        let (reason, message) = fails(&seen);
        assert_eq!(reason, "SnapshotOfOtherVolume");
        message
    };
    let message = other(|snapshot| snapshot.claim = Some("data".into()));
    assert!(
        message.contains("of the claim data, not of disk"),
        "{message}"
    );
    other(|snapshot| snapshot.claim = None);
    let message = other(|snapshot| {
        snapshot.content.as_mut().unwrap().volume_handle = Some("former".into());
    });
    assert!(message.contains("former claim disk"), "{message}");
    // A content that does not tell is not held against it.
    let mut seen = fresh();
    seen.snapshot.as_mut().unwrap().content = None;
    assert!(matches!(planned(&seen).verdict, Verdict::Accepted { .. }));
}

#[test]
fn an_images_claim_is_never_rolled_back() {
    let mut seen = fresh();
    seen.rollback.spec.pvc_name = "vmim-ubuntu".into();
    assert_eq!(fails(&seen).0, "ClaimReserved");
}

#[test]
fn users_are_named_waited_for_and_given_up_on() {
    let mut seen = fresh();
    seen.users = vec!["vm".into()];
    let pods = vec!["vm".to_owned()];
    let verdict = Verdict::InUse { pods };
    assert_eq!(
        planned(&seen),
        Plan::say(verdict.clone(), Again::After(SOON))
    );
    told(&mut seen, &verdict, ago(299));
    assert_eq!(planned(&seen).verdict, verdict);
    told(&mut seen, &Verdict::Keep, now());
    let status = seen.rollback.status.as_mut().unwrap();
    status.in_use_since = Some(Time(ago(301)));
    let (reason, message) = fails(&seen);
    assert_eq!(reason, "VolumeInUse");
    assert!(message.contains("by the pod vm"), "{message}");
    // They are gone just in time.
    seen.users.clear();
    assert!(matches!(planned(&seen).verdict, Verdict::Accepted { .. }));
}

#[test]
fn a_user_that_comes_before_it_began_is_given_way() {
    let mut seen = closed(ago(30));
    seen.users = vec!["vm".into()];
    let plan = planned(&seen);
    let delete = copy::Action::DeleteHolder {
        name: "vmrollback-uid-holder-0".into(),
        uid: "pod-0".into(),
    };
    assert_eq!(plan.actions, [Action::Copy(delete)]);
    assert!(matches!(plan.verdict, Verdict::InUse { .. }));
}

#[test]
fn an_older_rollback_of_the_claim_goes_first() {
    let mut seen = accepted();
    seen.before = Some("older".into());
    assert_eq!(
        waits(&seen),
        (RollbackPhase::Pending, "RollbackUnderWay".to_owned())
    );
    // But not before one that began.
    let mut seen = chosen();
    seen.before = Some("older".into());
    assert_eq!(planned(&seen).actions.len(), 1);
}

#[test]
fn claim_and_snapshot_are_accepted_and_then_restored() {
    let accept = Verdict::Accepted {
        pvc_uid: "claim".into(),
        snapshot_uid: "snap".into(),
    };
    assert_eq!(planned(&fresh()), Plan::say(accept, Again::Now));
    let restores = |seen: &Observation, size, node: Option<&str>| {
        let node = node.map(str::to_owned);
        let create = Action::CreateRestored { size, node };
        assert_eq!(planned(seen).actions, [create]);
    };
    let mut seen = accepted();
    restores(&seen, 1 << 30, None);
    // A driver that does not tell its size gets the claim's.
    seen.snapshot.as_mut().unwrap().restore_size = None;
    restores(&seen, 2 << 30, None);
    // Both volumes have to be where an agent is.
    let target = seen.target.as_mut().unwrap();
    target.nodes = Some(vec!["n0".into(), "n1".into()]);
    restores(&seen, 2 << 30, Some("n1"));
    seen.agents.synced.clear();
    restores(&seen, 2 << 30, Some("n0"));
}

#[test]
fn what_was_accepted_is_not_exchanged() {
    let mut seen = held();
    seen.snapshot.as_mut().unwrap().uid = "another".into();
    assert_eq!(fails(&seen).0, "SnapshotGone");
    let mut seen = held();
    seen.target.as_mut().unwrap().uid = "another".into();
    assert_eq!(fails(&seen).0, "PvcGone");
    // What is restored already does without its snapshot.
    let mut seen = chosen();
    seen.snapshot = None;
    assert_eq!(planned(&seen).actions.len(), 1);
    seen.restored = None;
    let (reason, message) = fails(&seen);
    assert_eq!(reason, "SnapshotGone");
    assert!(message.contains("parts of both states"), "{message}");
}

#[test]
fn the_holder_is_made_and_waited_for() {
    let mut seen = held();
    seen.holders.clear();
    let create = Action::Copy(copy::Action::CreateHolder);
    assert_eq!(planned(&seen).actions, [create]);
    seen.holders = vec![holder(0, HolderState::Waiting(None))];
    let preparing = |reason: &str| (RollbackPhase::Preparing, reason.to_owned());
    assert_eq!(waits(&seen), preparing("HolderStarting"));
    let problem = Problem {
        reason: "ProvisioningFailed".into(),
        message: "no room".into(),
    };
    seen.restored.as_mut().unwrap().problem = Some(problem);
    assert_eq!(waits(&seen), preparing("ProvisioningFailed"));
}
