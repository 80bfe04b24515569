//! Up to the claim.

use hypercloud_api::quantity;

use super::*;

#[test]
fn what_makes_no_sense_fails_and_nothing_is_made() {
    let mut seen = fresh();
    seen.image.metadata.finalizers = None;
    seen.image.spec.source = ImageSource {
        object_store: Some(StoredObject::default()),
        ..ImageSource::default()
    };
    let plan = decide(&seen, 0);
    assert_eq!(plan.actions, []);
    assert_eq!(reason(&plan), "SourceInvalid");
    assert!(matches!(plan.verdict, Verdict::Failed { .. }));
}

#[test]
fn the_finalizer_comes_first() {
    let mut seen = fresh();
    seen.image.metadata.finalizers = Some(vec!["other".into()]);
    let expected = Plan::one(Action::AddFinalizer, Verdict::Keep, Again::Now);
    assert_eq!(decide(&seen, 0), expected);
}

#[test]
fn any_agent_probes_and_without_one_it_waits() {
    let plan = decide(&fresh(), 0);
    let [
        Action::Probe {
            node,
            source: asked,
        },
    ] = plan.actions.as_slice()
    else {
        panic!("{plan:?}");
    };
    assert!(["n1", "n2"].contains(&node.as_str()) && *asked == source());
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
fn a_rejection_is_not_forgotten_while_no_agent_is_there() {
    let mut seen = guarded(fresh());
    seen.agents.synced.clear();
    let update = ConditionUpdate {
        type_: super::super::super::SOURCE_VERIFIED,
        status: ConditionStatus::False,
        reason: crate::access::rejection::REJECTED.into(),
        message: "change the Secret".into(),
    };
    let told = status(&mut seen);
    set(&mut told.conditions, update, 1, &Time(at(0)));
    told.rejected_credentials = vec!["login@5".into()];
    let plan = decide(&seen, 0);
    assert_eq!(plan, Plan::say(Verdict::Keep, Again::After(RECHECK)));
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
fn another_format_than_was_declared_is_the_end() {
    let mut seen = probed();
    seen.image.spec.source.format = Some(DeclaredFormat::Qcow2);
    assert_eq!(decide(&seen, 0).actions.len(), 1);
    seen.image.spec.source.format = Some(DeclaredFormat::Raw);
    let plan = decide(&seen, 0);
    assert_eq!((reason(&plan), plan.actions.len()), ("FormatMismatch", 0));
    assert!(matches!(plan.verdict, Verdict::Failed { .. }));
}

#[test]
fn a_disk_of_unknown_size_asks_for_the_users_word() {
    let mut seen = probed();
    let found = status(&mut seen).source.as_mut().unwrap();
    found.packing = Some("zstd".into());
    found.virtual_size = None;
    assert_eq!(reason(&decide(&seen, 0)), "SizeUnknown");
    let claim = seen.image.spec.pvc.get_or_insert_default();
    claim.storage = Some(quantity::from_bytes(3 * GIB));
    assert_eq!(
        decide(&seen, 0).actions,
        [Action::CreateClaim { size: 3 * GIB }]
    );
    // The file system takes its own beside that.
    let claim = seen.image.spec.pvc.get_or_insert_default();
    claim.volume_mode = Some(VolumeMode::Filesystem);
    let size = (3 * 1024 + 192) << 20;
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
