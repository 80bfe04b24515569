//! Plan tables: one world each, and the whole plan for it.

mod claim;
mod ending;
mod handover;
mod source;

use hypercloud_api::{
    CopyStatus, DiskClaim, DiskRequests, DiskResources, DiskSourceStatus, ImagePhase,
    VirtualMachinePvc, VirtualMachinePvcSpec, VirtualMachinePvcStatus, VolumeMode,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use std::collections::BTreeMap;

use super::super::observation::*;
use super::super::verdict::*;
use super::*;
use crate::agents::AgentsSeen;
use crate::holder::{HolderSeen, HolderState, Problem};

const GIB: u64 = 1 << 30;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn decide(seen: &Observation) -> Plan {
    let overhead = Overhead::DEFAULT;
    plan(seen, &Policy { overhead }, at(0))
}

/// Reason and message of a plan that only waits.
fn waits(seen: &Observation) -> (DiskPhase, String, String) {
    let plan = decide(seen);
    assert_eq!(plan.actions, [], "{plan:?}");
    assert_ne!(plan.again, Again::Now, "{plan:?}");
    match plan.verdict {
        Verdict::Waiting {
            phase,
            reason,
            message,
        } => (phase, reason, message),
        other => panic!("{other:?}"),
    }
}

/// Reason of a plan that ends the disk.
fn fails(seen: &Observation) -> String {
    match decide(seen).verdict {
        Verdict::Failed { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

fn origin(name: &str) -> OriginSeen {
    OriginSeen {
        name: name.into(),
        uid: "origin".into(),
        deleting: false,
        phase: "Bound".into(),
        volume_name: Some("pv-origin".into()),
        class: Some("fast".into()),
        mode: VolumeMode::Block,
        access_modes: vec!["ReadWriteOnce".into()],
        capacity: 10 * GIB,
        carried: BTreeMap::new(),
        users: vec![],
        rolled_back_by: None,
        csi: true,
        nodes: None,
    }
}

fn class() -> Class {
    Class {
        name: "fast".into(),
        provisioner: "csi".into(),
        waits: false,
        copies: false,
    }
}

/// A new disk of the image `ubuntu`, which is ready.
fn of_image() -> Observation {
    let spec = VirtualMachinePvcSpec {
        virtual_machine_image_name: Some("ubuntu".into()),
        ..VirtualMachinePvcSpec::default()
    };
    let mut disk = VirtualMachinePvc::new("disk", spec);
    disk.metadata.namespace = Some("team".into());
    disk.metadata.uid = Some("uid".into());
    disk.metadata.finalizers = Some(vec![names::FINALIZER.into()]);
    Observation {
        disk,
        source: SourceSeen::Image {
            image: Some(ImageSeen {
                uid: "image".into(),
                shared: true,
                deleting: false,
                phase: Some(ImagePhase::Ready),
                ready: Some(("Imported".into(), "it is there".into())),
            }),
            claim: Some(origin("vmim-ubuntu")),
        },
        class: ClassSeen::Found(class()),
        claim: None,
        prime: None,
        holders: vec![],
        agents: AgentsSeen {
            synced: vec!["n1".into(), "n2".into()],
            ..AgentsSeen::default()
        },
    }
}

/// A new disk of an image that another namespace shares.
fn of_shared_image() -> Observation {
    let mut seen = of_image();
    seen.disk.spec.virtual_machine_image_namespace = Some("images".into());
    seen
}

/// A new disk of the claim `root`.
fn of_claim() -> Observation {
    let mut seen = of_image();
    seen.disk.spec.virtual_machine_image_name = None;
    seen.disk.spec.pvc_name = Some("root".into());
    seen.source = SourceSeen::Claim(Some(origin("root")));
    seen
}

/// A new disk of the snapshot `monday`.
fn of_snapshot() -> Observation {
    use crate::volume::snapshot::{ContentSeen, SnapshotSeen};
    let mut seen = of_image();
    seen.disk.spec.virtual_machine_image_name = None;
    seen.disk.spec.volume_snapshot_name = Some("monday".into());
    seen.source = SourceSeen::Snapshot(Some(SnapshotOrigin {
        snapshot: SnapshotSeen {
            uid: "snapshot".into(),
            deleting: false,
            taken: None,
            claim: Some("root".into()),
            ready: true,
            problem: None,
            restore_size: Some(10 * GIB),
            content: Some(ContentSeen {
                driver: "csi".into(),
                volume_handle: None,
                volume_mode: Some("Block".into()),
            }),
        },
        claim: Some(origin("root")),
    }));
    seen
}

fn image(seen: &mut Observation) -> &mut ImageSeen {
    match &mut seen.source {
        SourceSeen::Image {
            image: Some(image), ..
        } => image,
        other => panic!("{other:?}"),
    }
}

fn source_claim(seen: &mut Observation) -> &mut OriginSeen {
    match &mut seen.source {
        SourceSeen::Image { claim, .. } | SourceSeen::Claim(claim) => claim.as_mut().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn status(seen: &mut Observation) -> &mut VirtualMachinePvcStatus {
    seen.disk.status.get_or_insert_default()
}

/// The method that is chosen, and it is written down.
fn choose(mut seen: Observation) -> Observation {
    let Plan {
        actions,
        verdict,
        again,
    } = decide(&seen);
    assert_eq!((actions, again), (vec![], Again::Now));
    let Verdict::Chosen { method, source, .. } = verdict else {
        panic!("{verdict:?}");
    };
    let status = status(&mut seen);
    status.phase = Some(DiskPhase::Pending);
    status.method = Some(method);
    status.source = Some(source);
    seen
}

/// The disk's claim, waiting for its volume.
fn unbound(handed: bool) -> ClaimSeen {
    ClaimSeen {
        uid: "claim".into(),
        resource_version: "7".into(),
        ours: true,
        since: Some(at(-1)),
        deleting: false,
        lost: false,
        volume_name: None,
        capacity: None,
        requested: 10 * GIB,
        selected_node: None,
        handed,
        filled_by_others: false,
        provisioning: Provisioning::default(),
    }
}

fn bound(handed: bool) -> ClaimSeen {
    ClaimSeen {
        volume_name: Some("pv".into()),
        capacity: Some(10 * GIB),
        ..unbound(handed)
    }
}

/// A prime claim that waits for its volume.
fn prime(cloned: bool) -> PrimeSeen {
    PrimeSeen {
        uid: "prime".into(),
        ours: true,
        since: Some(at(-1)),
        deleting_since: None,
        lost: false,
        cloned,
        bound: false,
        node: None,
        volume: None,
        provisioning: Provisioning::default(),
    }
}

/// A prime claim with its volume, which belongs to the claim of this UID.
fn filled(cloned: bool, owner: &str) -> PrimeSeen {
    PrimeSeen {
        bound: true,
        volume: Some(VolumeSeen {
            name: "pv".into(),
            resource_version: "70".into(),
            claim_uid: Some(owner.into()),
            bound: true,
        }),
        ..prime(cloned)
    }
}

fn asked(storage: &str, mode: Option<VolumeMode>, class: Option<&str>) -> Option<DiskClaim> {
    let storage = Some(Quantity(storage.into()));
    Some(DiskClaim {
        resources: Some(DiskResources {
            requests: Some(DiskRequests { storage }),
        }),
        volume_mode: mode,
        storage_class_name: class.map(Into::into),
        ..DiskClaim::default()
    })
}

#[test]
fn first_the_finalizer_and_nonsense_not_even_that() {
    let mut seen = of_image();
    seen.disk.metadata.finalizers = None;
    let expected = Plan::one(Action::AddFinalizer, Verdict::Keep, Again::Now);
    assert_eq!(decide(&seen), expected);
    seen.disk.spec.pvc_name = Some("both".into());
    assert_eq!(fails(&seen), "SourceInvalid");
}

#[test]
fn the_next_try_waits_for_its_time() {
    let mut seen = choose(of_image());
    status(&mut seen).retry = Some(hypercloud_api::RetryStatus {
        failures: 1,
        next_time: Some(Time(at(10))),
        ..hypercloud_api::RetryStatus::default()
    });
    let expected = Plan::say(Verdict::Keep, Again::After(Duration::from_secs(10)));
    assert_eq!(decide(&seen), expected);
    let retry = status(&mut seen).retry.as_mut().unwrap();
    retry.next_time = Some(Time(at(0)));
    assert_eq!(decide(&seen).actions.len(), 1);
}
