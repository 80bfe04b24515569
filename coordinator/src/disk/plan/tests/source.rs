//! What is waited for at the source, and which method follows from it.

use super::*;

fn reason(seen: &Observation) -> String {
    waits(seen).1
}

#[test]
fn an_image_is_waited_for() {
    let mut seen = of_image();
    seen.source = SourceSeen::Image {
        image: None,
        claim: None,
    };
    let (phase, reason, message) = waits(&seen);
    assert_eq!(
        (phase, reason.as_str()),
        (DiskPhase::Pending, "ImageNotFound")
    );
    assert!(message.contains("ubuntu"), "{message}");
}

#[test]
fn an_image_that_is_not_ready_is_told_with_its_phase() {
    let mut seen = of_image();
    image(&mut seen).phase = Some(ImagePhase::Importing);
    let (_, reason, message) = waits(&seen);
    assert_eq!(reason, "ImageNotReady");
    assert_eq!(message, "the image ubuntu is Importing");
    image(&mut seen).phase = Some(ImagePhase::Failed);
    image(&mut seen).ready = Some(("NotFound".into(), "the server answers 404".into()));
    let (_, _, message) = waits(&seen);
    assert!(
        message.ends_with("Failed: NotFound: the server answers 404"),
        "{message}"
    );
    let mut seen = of_image();
    source_claim(&mut seen).volume_name = None;
    assert_eq!(waits(&seen).1, "ImageNotReady");
}

#[test]
fn nothing_new_is_begun_with_an_image_that_is_being_deleted() {
    let mut seen = of_image();
    image(&mut seen).phase = Some(ImagePhase::Deleting);
    assert_eq!(reason(&seen), "ImageDeleting");
    // It was chosen before, but nothing was made yet.
    let mut seen = choose(of_image());
    image(&mut seen).deleting = true;
    assert_eq!(reason(&seen), "ImageDeleting");
    // What is under way goes on.
    seen.claim = Some(unbound(false));
    image(&mut seen).phase = Some(ImagePhase::Deleting);
    assert_eq!(reason(&seen), "Cloning");
}

#[test]
fn an_image_that_is_not_shared_is_as_good_as_none() {
    let mut seen = of_shared_image();
    image(&mut seen).shared = false;
    image(&mut seen).phase = Some(ImagePhase::Failed);
    let denied = waits(&seen);
    assert_eq!(denied.1, "ImageNotShared");
    seen.source = SourceSeen::Image {
        image: None,
        claim: None,
    };
    assert_eq!(waits(&seen), denied);
}

#[test]
fn what_is_shared_may_be_taken_back_until_it_is_copied() {
    let mut seen = choose(of_shared_image());
    seen.claim = Some(unbound(true));
    image(&mut seen).shared = false;
    assert_eq!(reason(&seen), "ImageNotShared");
    seen.prime = Some(prime(true));
    assert_eq!(reason(&seen), "Cloning");
}

#[test]
fn a_claim_is_waited_for() {
    let mut seen = of_claim();
    seen.source = SourceSeen::Claim(None);
    assert_eq!(reason(&seen), "PvcNotFound");
    let mut seen = of_claim();
    let claim = source_claim(&mut seen);
    claim.volume_name = None;
    claim.phase = "Pending".into();
    let (_, reason_, message) = waits(&seen);
    assert_eq!(reason_, "PvcNotBound");
    assert!(message.ends_with("Pending"), "{message}");
    let mut seen = choose(of_claim());
    source_claim(&mut seen).deleting = true;
    assert_eq!(reason(&seen), "PvcDeleting");
    source_claim(&mut seen).deleting = false;
    source_claim(&mut seen).rolled_back_by = Some("undo".into());
    assert_eq!(reason(&seen), "SourceRollingBack");
}

#[test]
fn a_snapshot_is_waited_for() {
    let mut seen = of_snapshot();
    let SourceSeen::Snapshot(Some(origin)) = &mut seen.source else {
        panic!("no snapshot");
    };
    origin.snapshot.ready = false;
    origin.snapshot.problem = Some("quota".into());
    let (_, reason_, message) = waits(&seen);
    assert_eq!(reason_, "SnapshotNotReady");
    assert!(message.ends_with("quota"), "{message}");
    seen.source = SourceSeen::Snapshot(None);
    assert_eq!(reason(&seen), "SnapshotNotFound");
}

#[test]
fn a_class_is_waited_for() {
    let mut seen = of_image();
    seen.class = ClassSeen::Missing("slow".into());
    let (_, reason_, message) = waits(&seen);
    assert_eq!(reason_, "StorageClassNotFound");
    assert!(message.contains("slow"), "{message}");
    seen.class = ClassSeen::NoDefault;
    assert_eq!(reason(&seen), "StorageClassNotFound");
}

fn method(seen: &Observation) -> DiskMethod {
    match decide(seen).verdict {
        Verdict::Chosen { method, .. } => method,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_alike_is_cloned() {
    assert_eq!(method(&of_image()), DiskMethod::Clone);
    assert_eq!(method(&of_claim()), DiskMethod::Clone);
    assert_eq!(method(&of_snapshot()), DiskMethod::Restore);
    assert_eq!(method(&of_shared_image()), DiskMethod::CloneAndHandOver);
}

#[test]
fn what_is_not_alike_is_copied() {
    for mut seen in [of_image(), of_shared_image(), of_claim()] {
        let mut other = class();
        other.name = "slow".into();
        seen.class = ClassSeen::Found(other);
        assert_eq!(method(&seen), DiskMethod::Copy);
        let mut copies = class();
        copies.copies = true;
        seen.class = ClassSeen::Found(copies);
        assert_eq!(method(&seen), DiskMethod::Copy);
        seen.class = ClassSeen::Found(class());
        seen.disk.spec.pvc = asked("1Gi", Some(VolumeMode::Filesystem), None);
        assert_eq!(method(&seen), DiskMethod::Copy);
    }
}

#[test]
fn what_is_not_of_csi_is_copied() {
    for mut seen in [of_image(), of_shared_image(), of_claim()] {
        source_claim(&mut seen).csi = false;
        assert_eq!(method(&seen), DiskMethod::Copy);
    }
}

#[test]
fn the_source_is_written_down_before_anything_is_made() {
    let mut seen = of_shared_image();
    seen.disk.spec.pvc = asked("2Gi", None, None);
    let plan = decide(&seen);
    let source = DiskSourceStatus {
        kind: "VirtualMachineImage".into(),
        namespace: "images".into(),
        name: "ubuntu".into(),
        uid: "image".into(),
        claim_uid: Some("origin".into()),
    };
    let raised =
        "2048Mi was asked for, which the source does not fit in: the claim asks for 10240Mi";
    let verdict = Verdict::Chosen {
        method: DiskMethod::CloneAndHandOver,
        source,
        raised: Some(raised.into()),
    };
    assert_eq!(plan, Plan::say(verdict, Again::Now));
}

#[test]
fn a_snapshot_is_restored_as_it_is_or_not_at_all() {
    let mut seen = of_snapshot();
    let mut other = class();
    other.provisioner = "another".into();
    seen.class = ClassSeen::Found(other);
    assert_eq!(fails(&seen), "SnapshotClassMismatch");
    let mut seen = of_snapshot();
    seen.disk.spec.pvc = asked("1Gi", Some(VolumeMode::Filesystem), None);
    assert_eq!(fails(&seen), "SnapshotModeMismatch");
    let mut seen = of_snapshot();
    let SourceSeen::Snapshot(Some(origin)) = &mut seen.source else {
        panic!("no snapshot");
    };
    origin.snapshot.restore_size = None;
    assert_eq!(fails(&seen), "SizeUnknown");
}

#[test]
fn a_source_that_went_is_another_one() {
    let replaced = |seen: &mut Observation| image(seen).uid = "another".into();
    let gone = |seen: &mut Observation| {
        seen.source = SourceSeen::Image {
            image: None,
            claim: None,
        };
    };
    let anew = |seen: &mut Observation| source_claim(seen).uid = "another".into();
    let ways: [fn(&mut Observation); 3] = [replaced, gone, anew];
    for way in ways {
        let mut seen = choose(of_image());
        way(&mut seen);
        assert!(matches!(decide(&seen).verdict, Verdict::SourceLost { .. }));
        // First what was made of it, but for what was bound meanwhile.
        seen.claim = Some(unbound(false));
        let delete = Action::DeleteClaim {
            uid: "claim".into(),
            resource_version: "7".into(),
        };
        let expected = Plan::one(delete, Verdict::Keep, Again::Now);
        assert_eq!(decide(&seen), expected);
        seen.claim = Some(bound(false));
        assert!(matches!(decide(&seen).verdict, Verdict::Ready { .. }));
    }
}

#[test]
fn a_volume_that_is_whole_needs_no_source() {
    let mut seen = choose(of_shared_image());
    seen.claim = Some(unbound(true));
    seen.prime = Some(filled(true, "prime"));
    seen.source = SourceSeen::Image {
        image: None,
        claim: None,
    };
    let plan = decide(&seen);
    assert!(
        matches!(plan.actions[..], [Action::HandOver { .. }]),
        "{plan:?}"
    );
    // One that is on its way does.
    seen.prime = Some(prime(true));
    let plan = decide(&seen);
    assert!(
        matches!(plan.actions[0], Action::DeletePrime { .. }),
        "{plan:?}"
    );
}
