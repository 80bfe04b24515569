//! Golden texts: the objects made for an export, and the story that its status
//! tells. `UPDATE_GOLDEN=1` writes them anew, for a person to look at.

use std::path::Path;

use hypercloud_api::ExportReadFrom;
use hypercloud_coordinator::agents::source::SignedAddress;
use hypercloud_coordinator::agents::{ExportedObject, Job, JobState, Progress, VolumeKind};
use hypercloud_coordinator::export::notices::notices;
use hypercloud_coordinator::export::verdict::{Verdict, waiting};
use hypercloud_coordinator::export::{build, status};
use hypercloud_coordinator::holder::{HolderTemplate, build::pod};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use crate::world::{export, failure, target};

fn golden(name: &str, value: &impl Serialize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/export/files")
        .join(name);
    let text = serde_yaml::to_string(value).unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{name} is not as it was:\n{text}");
}

#[test]
fn objects_are_as_they_were() {
    let template = HolderTemplate {
        image: "agent:1".into(),
        agent_namespace: "hypercloud-storage".into(),
    };
    let export = export();
    golden("snapshot.yaml", &build::snapshot(&export, "snaps"));
    golden(
        "restored.yaml",
        &build::restored(&export, &target(), 3 << 30),
    );
    let holder = |read_from, kind| {
        let holder = build::holder(&export, Some(read_from), kind, 2);
        pod(&holder, &template)
    };
    let direct = holder(ExportReadFrom::Volume, VolumeKind::Filesystem);
    golden("holder-volume-filesystem.yaml", &direct);
    let restored = holder(ExportReadFrom::Snapshot, VolumeKind::Block);
    golden("holder-snapshot-block.yaml", &restored);
    let expires = Timestamp::from_second(1_800_000_000).unwrap();
    let address = SignedAddress::new("http://s3/vms/disk?X-Amz-Signature=1".into());
    golden("secret.yaml", &build::secret(&export, &address, expires));
}

#[derive(Serialize)]
struct Chapter {
    verdict: &'static str,
    status: hypercloud_api::VirtualMachineVolumeExportStatus,
    events: Vec<String>,
}

fn job(state: JobState, done: u64) -> Job {
    Job {
        id: "uid-3".into(),
        upload_id: (done > 0).then(|| "upload".into()),
        state,
        progress: Progress {
            total: 1000,
            done,
            received: done / 2,
            written: done / 10,
        },
        ..Job::default()
    }
}

fn verdicts() -> Vec<(&'static str, Verdict)> {
    let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).unwrap();
    let chosen = |n: u32| Verdict::Chosen {
        job_id: format!("uid-{n}"),
        node: "n1".into(),
        holder_uid: "77".into(),
    };
    let accepted = |read_from, taken_at| Verdict::Accepted {
        pvc_uid: "claim".into(),
        read_from,
        taken_at,
    };
    let exporting = |done, secrets| Verdict::Exporting {
        node: "n1".into(),
        job: job(JobState::Transferring, done),
        secrets,
    };
    let left = Some("upload".to_owned());
    let mut made = job(JobState::Succeeded, 1000);
    made.digest = Some("sha256:00".into());
    made.object = Some(ExportedObject {
        size: 784 << 20,
        virtual_size: 10 << 30,
        etag: Some("\"1-3\"".into()),
        checksum: Some("crc32c:AAAA-3".into()),
        address: "http://s3.example:9000/vms/backup/disk".into(),
    });
    let in_use = waiting(
        hypercloud_api::ExportPhase::Pending,
        "VolumeInUse",
        "for people",
    );
    vec![
        ("in use", in_use),
        ("accepted", accepted(ExportReadFrom::Volume, Some(at(1)))),
        ("chosen", chosen(0)),
        ("started", exporting(0, Some(vec!["keys@5".into()]))),
        ("exporting", exporting(427, None)),
        (
            "a pod came",
            Verdict::StartOver {
                reason: "VolumeInUse".into(),
                message: "for people".into(),
                upload_id: left.clone(),
            },
        ),
        ("discarded", Verdict::Discarded),
        ("accepted again", accepted(ExportReadFrom::Snapshot, None)),
        ("taken", Verdict::Taken { at: at(7) }),
        ("chosen again", chosen(1)),
        (
            "try failed",
            Verdict::TryFailed {
                failure: failure("Stalled", true),
                upload_id: None,
            },
        ),
        (
            "accepted once more",
            accepted(ExportReadFrom::Snapshot, Some(at(7))),
        ),
        ("chosen once more", chosen(2)),
        (
            "rejected",
            Verdict::Rejected {
                message: "for people".into(),
                secrets: vec!["keys@5".into()],
                upload_id: None,
            },
        ),
        ("let in", accepted(ExportReadFrom::Snapshot, None)),
        ("chosen at last", chosen(3)),
        ("completed", Verdict::Completed(made)),
        (
            "signed",
            Verdict::Signed {
                secret: "out-download".into(),
                expires: at(3600),
            },
        ),
        ("succeeded", Verdict::Succeeded { unsigned: None }),
        (
            "unsigned",
            Verdict::Succeeded {
                unsigned: Some("for people".into()),
            },
        ),
        (
            "failed",
            Verdict::Failed {
                reason: "Bucket gone!".into(),
                message: "for people".into(),
                upload_id: left,
            },
        ),
        (
            "left",
            Verdict::UploadLeft {
                message: "for people".into(),
            },
        ),
    ]
}

#[test]
fn a_status_tells_the_story() {
    let mut export = export();
    let mut story = Vec::new();
    for (second, (name, verdict)) in verdicts().into_iter().enumerate() {
        let now = Timestamp::from_second(1_800_000_000 + second as i64).unwrap();
        let next = status::next(&export, &verdict, now);
        let events = notices(export.status.as_ref(), &next)
            .into_iter()
            .map(|n| {
                let kind = if n.warning { "Warning" } else { "Normal" };
                format!("{kind} {}: {}", n.reason, n.message)
            })
            .collect();
        export.status = Some(next.clone());
        // The same verdict again changes nothing, whenever it is reached.
        let anew = matches!(
            verdict,
            Verdict::TryFailed { .. }
                | Verdict::StartOver { .. }
                | Verdict::Chosen { .. }
                | Verdict::Exporting { .. }
        );
        if !anew {
            let later = Timestamp::from_second(1_800_009_999).unwrap();
            let again = status::next(&export, &verdict, later);
            assert_eq!(again, next, "{name}");
            assert_eq!(notices(Some(&next), &again), [], "{name}");
        }
        story.push(Chapter {
            verdict: name,
            status: next,
            events,
        });
    }
    golden("status.yaml", &story);
}
