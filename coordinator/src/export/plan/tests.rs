//! Single steps: what is decided in one state of the world.

use hypercloud_api::{ExportDigest, ExportFormat};
use hypercloud_api::{
    ExportReadFrom, SecretReference, StoredObject, VirtualMachineVolumeExport,
    VirtualMachineVolumeExportSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

mod used;
mod worlds;

use super::super::observation::OwnSnapshot;
use super::super::status;
use super::super::verdict::Upload;
use super::*;
use crate::agents::{AgentsSeen, ExportedObject, Job, JobSeen};
use crate::holder::{HolderSeen, HolderState};
use crate::volume::claim::{RestoredSeen, TargetSeen};
use crate::volume::snapshot::{ClassSeen, SnapshotSeen};
use crate::work;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// Nothing was done yet, and nothing is in the way.
fn fresh() -> Observation {
    let spec = VirtualMachineVolumeExportSpec {
        pvc_name: "disk".into(),
        object_store: StoredObject {
            bucket_name: Some("vms".into()),
            object_name: "disk".into(),
            ..StoredObject::default()
        },
        secret_ref: Some(SecretReference {
            name: "keys".into(),
        }),
        ..VirtualMachineVolumeExportSpec::default()
    };
    let mut export = VirtualMachineVolumeExport::new("out", spec);
    export.metadata.uid = Some("uid".into());
    export.metadata.finalizers = Some(vec![names::FINALIZER.into()]);
    Observation {
        export,
        target: Some(TargetSeen {
            uid: "claim".into(),
            volume_name: Some("pv".into()),
            driver: Some("csi".into()),
            capacity: 1 << 30,
            ..TargetSeen::default()
        }),
        users: vec![],
        passed: vec![],
        used_since: None,
        rollback: None,
        classes: vec![],
        snapshot: None,
        restored: None,
        holders: vec![],
        agents: AgentsSeen {
            synced: vec!["n1".into()],
            ..AgentsSeen::default()
        },
        default_keys: false,
    }
}

fn told(seen: &mut Observation, verdict: Verdict) {
    seen.export.status = Some(status::next(&seen.export, &verdict, at(0)));
}

fn accept(seen: &mut Observation, read_from: ExportReadFrom) {
    told(
        seen,
        Verdict::Accepted {
            pvc_uid: "claim".into(),
            read_from,
            taken_at: None,
        },
    );
}

/// The job is at work, and has an upload.
fn exporting(read_from: ExportReadFrom) -> Observation {
    let mut seen = fresh();
    accept(&mut seen, read_from);
    told(
        &mut seen,
        Verdict::Chosen {
            job_id: "uid-0".into(),
            node: "n1".into(),
            holder_uid: "pod".into(),
        },
    );
    let job = Job {
        id: "uid-0".into(),
        state: JobState::Transferring,
        upload_id: Some("upload".into()),
        ..Job::default()
    };
    told(
        &mut seen,
        Verdict::Exporting {
            node: "n1".into(),
            job: job.clone(),
            secrets: Some(vec!["keys@5".into()]),
        },
    );
    let node = "n1".into();
    seen.agents.jobs = vec![JobSeen { node, job }];
    seen.holders = vec![HolderSeen {
        name: seen.holder_name(),
        uid: "pod".into(),
        since: None,
        deleting_since: None,
        node: Some("n1".into()),
        state: HolderState::Holding,
    }];
    seen
}

fn ends(seen: &mut Observation, state: JobState) {
    let job = &mut seen.agents.jobs[0].job;
    job.upload_id = None;
    job.object = (state == JobState::Succeeded).then(ExportedObject::default);
    job.state = state;
}

fn failure(reason: &str, retryable: bool) -> Failure {
    Failure {
        reason: reason.into(),
        message: "for people".into(),
        retryable,
    }
}

fn use_volume(seen: &mut Observation, since: i64) {
    seen.users = vec!["vm".into()];
    seen.used_since = Some(at(since));
}

fn reason(plan: &Plan) -> &str {
    match &plan.verdict {
        Verdict::Waiting { reason, .. }
        | Verdict::StartOver { reason, .. }
        | Verdict::Failed { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

fn class(name: &str) -> ClassSeen {
    ClassSeen {
        name: name.into(),
        driver: "csi".into(),
        is_default: false,
        retains: false,
    }
}

#[test]
fn the_store_is_asked_for_before_anything_is_made() {
    let seen = fresh();
    let step = plan(&seen, at(0));
    assert!(
        matches!(step.actions.as_slice(), [Action::Check(_)]),
        "{step:?}"
    );
    let Verdict::Accepted {
        read_from,
        taken_at,
        pvc_uid,
    } = step.verdict
    else {
        panic!("{step:?}");
    };
    assert_eq!((read_from, taken_at), (ExportReadFrom::Volume, Some(at(0))));
    assert_eq!(pvc_uid, "claim");
}

#[test]
fn which_class_takes_the_snapshot() {
    let default = |name| ClassSeen {
        is_default: true,
        ..class(name)
    };
    let retaining = |name| ClassSeen {
        retains: true,
        is_default: true,
        ..class(name)
    };
    let other = ClassSeen {
        driver: "other".into(),
        ..default("other")
    };
    let table: [(Vec<ClassSeen>, Result<&str, &str>); 6] = [
        (vec![], Err("there is no VolumeSnapshotClass of its driver")),
        (vec![other.clone()], Err("there is no VolumeSnapshotClass")),
        (vec![class("a"), other], Ok("a")),
        (vec![class("a"), class("b")], Err("marked as default")),
        (vec![class("a"), default("b"), default("c")], Ok("b")),
        (vec![retaining("a")], Err("deletionPolicy Delete")),
    ];
    for (classes, expected) in table {
        let mut seen = fresh();
        use_volume(&mut seen, 0);
        seen.classes = classes;
        let step = plan(&seen, at(0));
        match expected {
            Ok(name) => {
                let accepted = matches!(
                    step.verdict,
                    Verdict::Accepted {
                        read_from: ExportReadFrom::Snapshot,
                        ..
                    }
                );
                assert!(accepted, "{step:?}");
                accept(&mut seen, ExportReadFrom::Snapshot);
                let class = name.to_owned();
                let step = plan(&seen, at(0));
                assert_eq!(step.actions, [Action::CreateSnapshot { class }]);
            }
            Err(why) => {
                assert_eq!(reason(&step), "VolumeInUse");
                let Verdict::Waiting { message, .. } = &step.verdict else {
                    panic!("{step:?}");
                };
                assert!(
                    message.contains(why) && message.contains("the pod vm"),
                    "{message}"
                );
            }
        }
    }
    let mut seen = fresh();
    use_volume(&mut seen, 0);
    seen.target.as_mut().unwrap().driver = None;
    assert_eq!(reason(&plan(&seen, at(0))), "VolumeInUse");
}

#[test]
fn a_failed_export_gives_its_parts_up_after_some_time() {
    let mut seen = exporting(ExportReadFrom::Volume);
    seen.target = None;
    let step = plan(&seen, at(0));
    assert_eq!(reason(&step), "PvcGone");
    told(&mut seen, step.verdict);
    seen.agents.jobs.clear();
    seen.holders.clear();
    let mut tries = 0;
    while let [Action::Discard { .. }] = plan(&seen, at(0)).actions.as_slice() {
        tries += 1;
        assert!(tries < 100, "for ever");
        let verdict = undiscarded(&seen, failure("AccessDenied", false), &[]);
        told(&mut seen, verdict);
    }
    assert_eq!(tries, 8);
    let complete = &seen.status().unwrap().conditions[0];
    assert_eq!(complete.reason, "PvcGone");
    assert!(
        complete.message.contains("parts of the upload upload may"),
        "{complete:?}"
    );
    assert_eq!(seen.upload_id(), Some("upload"));
}

#[test]
fn the_operators_keys_are_not_known_to_have_been_shown() {
    let mut seen = exporting(ExportReadFrom::Volume);
    seen.export.spec.secret_ref = None;
    seen.export
        .status
        .as_mut()
        .unwrap()
        .upload
        .as_mut()
        .unwrap()
        .credentials
        .clear();
    ends(
        &mut seen,
        JobState::Failed(failure("SignatureDoesNotMatch", false)),
    );
    assert!(matches!(plan(&seen, at(0)).verdict, Verdict::Failed { .. }));
    seen.default_keys = true;
    assert!(matches!(
        plan(&seen, at(0)).verdict,
        Verdict::TryFailed { .. }
    ));
}

fn started(plan: &Plan) -> crate::agents::ExportJob {
    match plan.actions.as_slice() {
        [
            Action::Work(work::Action::StartJob {
                job: Upload { job, .. },
                ..
            }),
        ] => job.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_job_is_started_as_it_was_asked_for() {
    let mut seen = exporting(ExportReadFrom::Volume);
    seen.agents.jobs.clear();
    let upload = seen.export.status.as_mut().unwrap().upload.as_mut();
    upload.unwrap().upload_id = None;
    let job = started(&plan(&seen, at(0)));
    assert!(job.digest && !job.overwrite && job.format == ExportFormat::Qcow2);
    assert_eq!(
        (job.volume.name.as_str(), job.pod_uid.as_str()),
        ("pv", "pod")
    );
    seen.target.as_mut().unwrap().capacity = 300 << 30;
    assert!(!started(&plan(&seen, at(0))).digest);
    seen.export.spec.digest = Some(ExportDigest::Sha256);
    seen.export.spec.overwrite = true;
    let job = started(&plan(&seen, at(0)));
    assert!(job.digest && job.overwrite);
}

#[test]
fn what_the_store_does_not_let_in_waits_for_another_secret() {
    let judged = |reason: &str, secrets: bool| {
        let mut seen = exporting(ExportReadFrom::Volume);
        ends(&mut seen, JobState::Failed(failure(reason, false)));
        if !secrets {
            let status = seen.export.status.as_mut().unwrap();
            status.upload.as_mut().unwrap().credentials.clear();
        }
        plan(&seen, at(0)).verdict
    };
    let Verdict::Rejected {
        secrets, message, ..
    } = judged("SignatureDoesNotMatch", true)
    else {
        panic!("not rejected");
    };
    assert_eq!(secrets, ["keys@5"]);
    assert!(message.contains("change the Secret keys"), "{message}");
    // What a store may say by mistake, or is not known to have been shown, is
    // tried again.
    assert!(matches!(
        judged("AccessDenied", true),
        Verdict::TryFailed { .. }
    ));
    assert!(matches!(
        judged("SignatureDoesNotMatch", false),
        Verdict::TryFailed { .. }
    ));
    assert!(matches!(
        judged("ObjectExists", true),
        Verdict::Failed { .. }
    ));
}

#[test]
fn an_upload_that_its_agent_forgot_is_not_forgotten() {
    let mut seen = exporting(ExportReadFrom::Volume);
    seen.agents.jobs.clear();
    let Verdict::TryFailed { failure, upload_id } = plan(&seen, at(0)).verdict else {
        panic!("not another try");
    };
    assert_eq!(failure.reason, "JobLost");
    assert_eq!(upload_id.as_deref(), Some("upload"));
}

#[test]
fn a_deletion_removes_parts_or_tells_of_them() {
    let mut seen = exporting(ExportReadFrom::Volume);
    seen.export.metadata.deletion_timestamp = Some(Time(at(0)));
    let step = plan(&seen, at(1));
    assert_eq!(reason(&step), "Deleting");
    assert_eq!(step.actions.len(), 2);
    seen.agents.jobs.clear();
    seen.holders.clear();
    let step = plan(&seen, at(2));
    assert!(
        matches!(step.actions.as_slice(), [Action::Discard { .. }]),
        "{step:?}"
    );
    // The Secret is gone: not for long.
    let gone = crate::holder::Problem {
        reason: "SecretNotFound".into(),
        message: "for people".into(),
    };
    let verdict = super::told(&seen, gone);
    told(&mut seen, verdict);
    // However late it is: it is tried so often.
    for _ in 0..2 {
        let step = plan(&seen, at(3600));
        assert!(
            matches!(step.actions.as_slice(), [Action::Discard { .. }]),
            "{step:?}"
        );
        let gone = crate::holder::Problem {
            reason: "SecretNotFound".into(),
            message: "for people".into(),
        };
        let verdict = super::told(&seen, gone);
        told(&mut seen, verdict);
    }
    let Verdict::UploadLeft { message } = plan(&seen, at(60)).verdict else {
        panic!("not told of");
    };
    assert!(
        message.contains("upload") && message.contains("for people"),
        "{message}"
    );
    told(&mut seen, Verdict::UploadLeft { message });
    assert_eq!(plan(&seen, at(61)).actions, [Action::RemoveFinalizer]);
}

#[test]
fn somebody_elses_snapshot_is_neither_used_nor_deleted() {
    let mut seen = fresh();
    use_volume(&mut seen, 0);
    seen.classes = vec![class("a")];
    accept(&mut seen, ExportReadFrom::Snapshot);
    seen.snapshot = Some(OwnSnapshot {
        ours: false,
        deleting_since: None,
        seen: SnapshotSeen {
            ready: true,
            ..SnapshotSeen::default()
        },
    });
    let step = plan(&seen, at(0));
    assert_eq!(reason(&step), "SnapshotConflict");
    seen.export.metadata.deletion_timestamp = Some(Time(at(0)));
    assert_eq!(plan(&seen, at(0)).actions, [Action::RemoveFinalizer]);
}
