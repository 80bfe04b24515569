//! The deletion of a disk.

use super::*;
use crate::agents::{Job, JobSeen, JobState};
use crate::copy;

fn deleted(mut seen: Observation) -> Observation {
    seen.disk.metadata.deletion_timestamp = Some(Time(at(-1)));
    seen.source = SourceSeen::Unseen;
    seen.class = ClassSeen::Unseen;
    seen
}

fn off() -> Plan {
    Plan::one(Action::RemoveFinalizer, Verdict::Keep, Again::OnChange)
}

#[test]
fn what_was_never_made_is_not_waited_for() {
    assert_eq!(decide(&deleted(of_image())), off());
    let mut seen = deleted(of_image());
    seen.disk.metadata.finalizers = None;
    assert_eq!(decide(&seen), Plan::say(Verdict::Keep, Again::OnChange));
}

#[test]
fn the_claim_goes_with_its_owner() {
    for claim in [unbound(false), bound(false), unbound(true), bound(true)] {
        let mut seen = choose(of_image());
        seen.claim = Some(claim);
        assert_eq!(decide(&deleted(seen)), off());
    }
}

#[test]
fn the_prime_claim_goes_before_the_disk() {
    let mut seen = choose(of_shared_image());
    seen.claim = Some(unbound(true));
    seen.prime = Some(filled(true, "prime"));
    let mut seen = deleted(seen);
    let uid = "prime".to_owned();
    assert_eq!(decide(&seen).actions, [Action::DeletePrime { uid }]);
    seen.prime.as_mut().unwrap().deleting_since = Some(at(-10));
    let (phase, reason, _) = waits(&seen);
    assert_eq!((phase, reason.as_str()), (DiskPhase::Deleting, "Deleting"));
    // But not for ever.
    seen.prime.as_mut().unwrap().deleting_since = Some(at(-301));
    assert_eq!(decide(&seen), off());
    // And not for somebody else's.
    let mut other = prime(true);
    other.ours = false;
    seen.prime = Some(other);
    assert_eq!(decide(&seen), off());
}

#[test]
fn the_copy_is_stopped_before_its_volume_goes() {
    let mut seen = choose(of_shared_image());
    seen.claim = Some(unbound(true));
    seen.prime = Some(filled(false, "prime"));
    seen.holders = vec![HolderSeen {
        name: names::prime_holder("uid", 0),
        uid: "pod".into(),
        since: None,
        deleting_since: None,
        node: Some("n1".into()),
        state: HolderState::Holding,
    }];
    seen.agents.jobs = vec![JobSeen {
        node: "n1".into(),
        job: Job {
            id: "uid-0".into(),
            state: JobState::Transferring,
            ..Job::default()
        },
    }];
    let mut seen = deleted(seen);
    let plan = decide(&seen);
    assert!(
        matches!(
            plan.actions[..],
            [
                Action::Copy(copy::Action::CancelJob { .. }),
                Action::Copy(copy::Action::DeleteHolder { .. })
            ]
        ),
        "{plan:?}"
    );
    seen.agents.jobs = vec![];
    seen.holders[0].deleting_since = Some(at(-1));
    assert_eq!(waits(&seen).1, "Deleting");
    seen.holders = vec![];
    assert!(matches!(
        decide(&seen).actions[..],
        [Action::DeletePrime { .. }]
    ));
}

#[test]
fn an_orphan_is_a_disk_and_no_wait_without_end() {
    let orphaned = |claim: ClaimSeen| {
        let mut seen = choose(of_shared_image());
        seen.claim = Some(claim);
        let finalizers = seen.disk.metadata.finalizers.as_mut().unwrap();
        finalizers.push("orphan".into());
        deleted(seen)
    };
    for kept in [bound(true), bound(false), unbound(false)] {
        assert_eq!(decide(&orphaned(kept)), off());
    }
    let plan = decide(&orphaned(unbound(true)));
    assert!(
        matches!(
            plan.actions[..],
            [Action::DeleteClaim { .. }, Action::RemoveFinalizer]
        ),
        "{plan:?}"
    );
}
