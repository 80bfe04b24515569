//! The disk's claim: made, waited for, done, lost, somebody else's.

use super::*;

#[test]
fn a_clone_is_made_by_the_storage() {
    let mut seen = choose(of_image());
    source_claim(&mut seen).carried = [("a".to_owned(), "b".to_owned())].into();
    let claim = NewClaim {
        method: DiskMethod::Clone,
        from: "vmim-ubuntu".into(),
        class: "fast".into(),
        mode: VolumeMode::Block,
        access_modes: vec!["ReadWriteOnce".into()],
        size: 10 * GIB,
        carried: [("a".to_owned(), "b".to_owned())].into(),
        image_uid: Some("image".into()),
    };
    let plan = decide(&seen);
    assert_eq!(plan.actions, [Action::CreateClaim(claim)]);
    assert_eq!(plan.again, Again::Now);
    seen.claim = Some(unbound(false));
    let (phase, reason, _) = waits(&seen);
    assert_eq!((phase, reason.as_str()), (DiskPhase::Cloning, "Cloning"));
}

#[test]
fn a_snapshot_is_restored_by_the_storage() {
    let mut seen = choose(of_snapshot());
    seen.disk.spec.pvc = asked("12Gi", None, None);
    let plan = decide(&seen);
    let [Action::CreateClaim(claim)] = &plan.actions[..] else {
        panic!("{plan:?}");
    };
    assert_eq!(
        (claim.method, claim.from.as_str()),
        (DiskMethod::Restore, "monday")
    );
    assert_eq!((claim.size, &claim.image_uid), (12 * GIB, &None));
}

#[test]
fn a_class_that_waits_for_its_consumer_is_waited_with() {
    let mut waiting = class();
    waiting.waits = true;
    for mut seen in [choose(of_image()), choose(of_shared_image())] {
        let handed = seen.method() == Some(DiskMethod::CloneAndHandOver);
        seen.class = ClassSeen::Found(waiting.clone());
        seen.claim = Some(unbound(handed));
        let (phase, reason, message) = waits(&seen);
        assert_eq!(
            (phase, reason.as_str()),
            (DiskPhase::Pending, "WaitForFirstConsumer")
        );
        assert!(message.contains("fast"), "{message}");
        assert_eq!(decide(&seen).again, Again::OnChange);
        seen.claim.as_mut().unwrap().selected_node = Some("n2".into());
        let plan = decide(&seen);
        if !handed {
            assert_eq!(waits(&seen).1, "Cloning");
            continue;
        }
        let [Action::CreatePrime(prime)] = &plan.actions[..] else {
            panic!("{plan:?}");
        };
        assert_eq!(prime.node.as_deref(), Some("n2"));
    }
}

#[test]
fn what_the_storage_complains_of_is_told() {
    let mut seen = choose(of_image());
    let mut claim = unbound(false);
    claim.since = Some(at(-60));
    claim.provisioning.problem = Some(Problem {
        reason: "ProvisioningFailed".into(),
        message: "the pool is full".into(),
    });
    seen.claim = Some(claim);
    let (phase, reason, message) = waits(&seen);
    assert_eq!(
        (phase, reason.as_str()),
        (DiskPhase::Cloning, "ProvisioningFailed")
    );
    assert_eq!(message, "the pool is full");
    assert_eq!(decide(&seen).again, Again::After(RECHECK));
}

#[test]
fn a_storage_that_does_not_clone_is_copied_from() {
    let mut seen = choose(of_image());
    let mut claim = unbound(false);
    claim.provisioning.refusal = Some("this class does not clone volumes".into());
    seen.claim = Some(claim);
    let message =
        "the storage does not clone, so the data is copied: this class does not clone volumes";
    let verdict = Verdict::CopyInstead {
        message: message.into(),
    };
    assert_eq!(decide(&seen), Plan::say(verdict, Again::Now));
    // Once that is written down, the claim makes room for one of its own.
    status(&mut seen).method = Some(DiskMethod::Copy);
    let plan = decide(&seen);
    let delete = Action::DeleteClaim {
        uid: "claim".into(),
        resource_version: "7".into(),
    };
    assert_eq!(plan.actions, [delete]);
    seen.claim = None;
    let plan = decide(&seen);
    let [Action::CreateClaim(claim)] = &plan.actions[..] else {
        panic!("{plan:?}");
    };
    assert_eq!(claim.method, DiskMethod::Copy);
}

#[test]
fn a_source_that_grew_takes_a_larger_claim() {
    let mut seen = choose(of_claim());
    seen.claim = Some(unbound(false));
    source_claim(&mut seen).capacity = 11 * GIB;
    let plan = decide(&seen);
    assert!(
        matches!(plan.actions[..], [Action::DeleteClaim { .. }]),
        "{plan:?}"
    );
}

#[test]
fn a_claim_that_is_bound_is_the_disk() {
    let mut seen = choose(of_image());
    seen.claim = Some(bound(false));
    let verdict = Verdict::Ready {
        capacity: Some(10 * GIB),
    };
    assert_eq!(decide(&seen), Plan::say(verdict.clone(), Again::Now));
    status(&mut seen).phase = Some(DiskPhase::Ready);
    seen.source = SourceSeen::Unseen;
    seen.class = ClassSeen::Unseen;
    assert_eq!(decide(&seen), Plan::say(verdict, Again::OnChange));
}

#[test]
fn a_disk_that_is_gone_is_not_made_anew() {
    let mut seen = choose(of_image());
    status(&mut seen).phase = Some(DiskPhase::Ready);
    assert_eq!(fails(&seen), "ClaimLost");
    let mut other = bound(false);
    other.ours = false;
    seen.claim = Some(other);
    assert_eq!(fails(&seen), "ClaimLost");
    let mut lost = bound(false);
    lost.volume_name = None;
    lost.lost = true;
    seen.claim = Some(lost.clone());
    assert_eq!(fails(&seen), "ClaimLost");
    // What was lost is left for a person to look at.
    status(&mut seen).phase = Some(DiskPhase::Failed);
    assert_eq!(decide(&seen), Plan::say(Verdict::Keep, Again::OnChange));
}

#[test]
fn a_volume_of_somebody_else_is_no_disk() {
    let mut seen = choose(of_shared_image());
    let mut claim = bound(true);
    claim.filled_by_others = true;
    seen.claim = Some(claim);
    assert_eq!(fails(&seen), "VolumeNotOurs");
}

#[test]
fn somebody_elses_claim_is_left_alone() {
    for mut seen in [of_image(), choose(of_image()), choose(of_shared_image())] {
        let mut claim = bound(false);
        claim.ours = false;
        seen.claim = Some(claim);
        let (_, reason, message) = waits(&seen);
        assert_eq!(reason, "ClaimConflict");
        assert!(message.contains("delete it, or"), "{message}");
        seen.claim.as_mut().unwrap().deleting = true;
        assert!(waits(&seen).2.starts_with("waiting for the deletion"));
    }
    let mut seen = choose(of_shared_image());
    seen.claim = Some(unbound(true));
    let mut other = prime(true);
    other.ours = false;
    seen.prime = Some(other);
    let (_, reason, message) = waits(&seen);
    assert_eq!(reason, "ClaimConflict");
    assert!(
        message.contains("vmprime-uid of the namespace images"),
        "{message}"
    );
}

#[test]
fn a_claim_that_is_being_deleted_is_waited_for() {
    let mut seen = choose(of_image());
    let mut claim = unbound(false);
    claim.deleting = true;
    seen.claim = Some(claim);
    assert_eq!(waits(&seen).1, "ClaimTerminating");
}
