//! The order of an installation and of an upgrade.

use proptest::prelude::*;

use super::*;
use crate::health::Verdict;
use crate::version::Running;

fn healthy() -> Judgement {
    Judgement::healthy()
}

fn sick() -> Judgement {
    Judgement {
        verdict: Verdict::Unhealthy,
        reason: "CephWarns",
        message: "Ceph warns".into(),
    }
}

fn target(rook: &str, ceph: &str) -> Target {
    let spec = HyperCloudStorageSpec {
        versions: Some(hypercloud_api::StorageVersions {
            rook: Some(rook.into()),
            ceph: Some(ceph.into()),
        }),
        ..Default::default()
    };
    crate::version::target(&spec, Running::default(), None).unwrap()
}

fn new() -> Target {
    target("1.20.6", "20.2.4")
}

fn old() -> Target {
    target("1.19.10", "19.2.6")
}

fn spec() -> HyperCloudStorageSpec {
    HyperCloudStorageSpec::default()
}

/// Components that were ready with these versions, but for those from `name`
/// on.
fn ready_before(name: &str, target: &Target) -> Vec<StorageComponent> {
    stage::wanted(&spec())
        .take_while(|stage| stage.name != name)
        .map(|stage| component(stage, target))
        .collect()
}

fn component(stage: &Stage, target: &Target) -> StorageComponent {
    StorageComponent {
        name: stage.name.into(),
        version: Some(stage.version(target).to_string()),
        ..Default::default()
    }
}

fn gate(ceph: &Judgement) -> Gate<'_> {
    Gate {
        ceph,
        devices: None,
        lost: false,
    }
}

fn applied(steps: &[Step]) -> Vec<&'static str> {
    let applied = steps.iter().filter(|step| step.what == Move::Apply);
    applied.map(|step| step.stage.name).collect()
}

#[test]
fn stages_are_installed_one_after_another() {
    let none = course(&spec(), &new(), &[], gate(&sick()));
    assert_eq!(applied(&none), ["snapshot-definitions"]);
    let some = ready_before("rook-operator", &new());
    let steps = course(&spec(), &new(), &some, gate(&sick()));
    assert_eq!(applied(&steps).last(), Some(&"rook-operator"));
    assert_eq!(applied(&steps).len(), 6);
    let after = steps
        .iter()
        .find(|s| s.stage.name == "ceph-cluster")
        .unwrap();
    assert_eq!(after.what, Move::Wait("rook-operator comes first".into()));
}

#[test]
fn what_is_installed_is_kept_whatever_becomes_of_it() {
    let every = ready_before("", &new());
    let steps = course(&spec(), &new(), &every, gate(&sick()));
    assert_eq!(applied(&steps).len(), steps.len());
}

#[test]
fn no_cluster_is_made_of_devices_that_are_not_settled() {
    let some = ready_before("ceph-cluster", &new());
    let ceph = sick();
    let gate = Gate {
        ceph: &ceph,
        devices: Some("on a, /dev/sda is not available"),
        lost: false,
    };
    let steps = course(&spec(), &new(), &some, gate);
    assert_eq!(applied(&steps).last(), Some(&"rook-operator"));
    // One that is there is kept, with the devices that are.
    let every = ready_before("", &new());
    let steps = course(&spec(), &new(), &every, gate);
    assert!(applied(&steps).contains(&"ceph-cluster"));
}

#[test]
fn an_upgrade_goes_from_top_to_bottom_and_only_of_a_healthy_ceph() {
    let mut components = ready_before("", &old());
    let ceph = healthy();
    let mut upgraded = Vec::new();
    for _ in 0..20 {
        let first = stage::wanted(&spec())
            .find(|stage| running(stage, &components) != Some(stage.version(&new())));
        let Some(first) = first else { break };
        let held = course(&spec(), &new(), &components, gate(&sick()));
        assert!(
            !applied(&held).contains(&first.name),
            "{} was begun",
            first.name
        );
        let steps = course(&spec(), &new(), &components, gate(&ceph));
        assert!(applied(&steps).contains(&first.name));
        for step in &steps {
            let is_new = running(step.stage, &components) == Some(step.stage.version(&new()));
            let begun = step.what == Move::Apply;
            assert_eq!(begun, is_new || step.stage == first, "{}", step.stage.name);
        }
        upgraded.push(first.name);
        let slot = components
            .iter_mut()
            .find(|c| c.name == first.name)
            .unwrap();
        *slot = component(first, &new());
    }
    assert_eq!(
        upgraded,
        [
            "rook-definitions",
            "rook-common",
            "csi-operator",
            "rook-operator",
            "ceph-cluster",
            "csi-drivers",
            "block-storage",
            "object-store",
            "toolbox"
        ]
    );
}

#[test]
fn the_reason_of_a_held_upgrade_is_ceph() {
    let components = ready_before("", &old());
    let steps = course(&spec(), &new(), &components, gate(&sick()));
    let held = steps
        .iter()
        .find(|s| s.stage.name == "rook-definitions")
        .unwrap();
    assert_eq!(
        held.what,
        Move::Leave("the upgrade waits until Ceph is healthy: Ceph warns".into())
    );
}

proptest! {
    /// Whatever is there: at most one stage is begun, everything above it is
    /// of the right version, and the same world gives the same course.
    #[test]
    fn one_stage_at_a_time(
        versions in prop::collection::vec(0u8..3, 13), sick_ceph in any::<bool>(),
    ) {
        let components: Vec<StorageComponent> = stage::wanted(&spec())
            .zip(&versions)
            .filter_map(|(stage, version)| match version {
                0 => None,
                1 => Some(component(stage, &old())),
                _ => Some(component(stage, &new())),
            })
            .collect();
        let ceph = if sick_ceph { sick() } else { healthy() };
        let steps = course(&spec(), &new(), &components, gate(&ceph));
        let is_new = |step: &&Step| {
            running(step.stage, &components) == Some(step.stage.version(&new()))
        };
        let begun: Vec<&Step> = steps
            .iter()
            .filter(|step| step.what == Move::Apply && !is_new(step))
            .collect();
        prop_assert!(begun.len() <= 1);
        if let Some(begun) = begun.first() {
            let above = steps.iter().take_while(|step| step.stage != begun.stage);
            prop_assert!(above.into_iter().all(|step| is_new(&step)));
            prop_assert!(running(begun.stage, &components).is_none() || !sick_ceph);
        }
        prop_assert!(steps.iter().filter(is_new).all(|step| step.what == Move::Apply));
        prop_assert_eq!(course(&spec(), &new(), &components, gate(&ceph)), steps);
    }
}
