//! Golden texts: the objects made for a disk, and the story that a status
//! tells. `UPDATE_GOLDEN=1` writes them anew, for a person to look at.

use std::path::Path;

use hypercloud_api::{
    DiskClaim, DiskMethod, DiskPhase, DiskSourceStatus, VirtualMachinePvc, VirtualMachinePvcSpec,
    VirtualMachinePvcStatus, VolumeMode,
};
use hypercloud_coordinator::agents::{Failure, Job, JobState, Progress};
use hypercloud_coordinator::disk::notices::notices;
use hypercloud_coordinator::disk::verdict::{NewClaim, NewHolder, NewPrime, Verdict, waiting};
use hypercloud_coordinator::disk::{build, status};
use hypercloud_coordinator::holder::{self, HolderTemplate};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

fn golden(name: &str, value: &impl Serialize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/disk/files")
        .join(name);
    let text = serde_yaml::to_string(value).unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{name} is not as it was:\n{text}");
}

fn disk() -> VirtualMachinePvc {
    let spec = VirtualMachinePvcSpec {
        virtual_machine_image_name: Some("ubuntu".into()),
        virtual_machine_image_namespace: Some("images".into()),
        pvc: Some(DiskClaim {
            labels: [("tier".to_owned(), "gold".to_owned())].into(),
            annotations: [("note".to_owned(), "mine".to_owned())].into(),
            ..DiskClaim::default()
        }),
        ..VirtualMachinePvcSpec::default()
    };
    let mut disk = VirtualMachinePvc::new("root", spec);
    disk.metadata.namespace = Some("team".into());
    disk.metadata.uid = Some("8e2c".into());
    disk.metadata.generation = Some(1);
    disk
}

fn claim(method: DiskMethod, mode: VolumeMode) -> NewClaim {
    let label = "instancetype.kubevirt.io/default-preference".to_owned();
    NewClaim {
        method,
        from: "vmim-ubuntu".into(),
        class: "fast".into(),
        mode,
        access_modes: vec!["ReadWriteOnce".into()],
        size: 10 << 30,
        carried: [(label, "ubuntu".to_owned())].into(),
        image_uid: (method != DiskMethod::Restore).then(|| "17aa".into()),
    }
}

fn prime(from: Option<&str>, node: Option<&str>) -> NewPrime {
    NewPrime {
        from: from.map(Into::into),
        class: "fast".into(),
        mode: VolumeMode::Block,
        access_modes: vec!["ReadWriteOnce".into()],
        size: 10 << 30,
        node: node.map(Into::into),
    }
}

#[test]
fn objects_are_as_they_were() {
    let disk = disk();
    let of = |method, mode| build::claim(&disk, &claim(method, mode));
    golden(
        "claim-clone.yaml",
        &of(DiskMethod::Clone, VolumeMode::Block),
    );
    golden(
        "claim-restore.yaml",
        &of(DiskMethod::Restore, VolumeMode::Block),
    );
    golden(
        "claim-copy.yaml",
        &of(DiskMethod::Copy, VolumeMode::Filesystem),
    );
    golden(
        "prime-clone.yaml",
        &build::prime(&disk, &prime(Some("vmim-ubuntu"), None)),
    );
    golden(
        "prime-copy.yaml",
        &build::prime(&disk, &prime(None, Some("n1"))),
    );
    // The image's deletion waits for it, so its claim says which image.
    let mut chosen = disk.clone();
    chosen.status = Some(VirtualMachinePvcStatus {
        source: Some(DiskSourceStatus {
            kind: "VirtualMachineImage".into(),
            uid: "17aa".into(),
            ..DiskSourceStatus::default()
        }),
        ..VirtualMachinePvcStatus::default()
    });
    golden(
        "prime-of-image.yaml",
        &build::prime(&chosen, &prime(Some("vmim-ubuntu"), None)),
    );
    golden("hand-over.yaml", &build::hand_over(&disk, "70", "c1a1"));
    let template = HolderTemplate {
        image: "agent:1".into(),
        agent_namespace: "hypercloud-storage".into(),
    };
    let new = NewHolder {
        source: "vmim-ubuntu".into(),
        from: VolumeMode::Filesystem,
        to: VolumeMode::Block,
        node: Some("n1".into()),
    };
    let pod = build::holder(&disk, 2, Some(&new));
    golden("holder.yaml", &holder::build::pod(&pod, &template));
}

#[test]
fn what_the_user_writes_never_takes_the_place_of_the_systems_own() {
    let mut disk = disk();
    let pvc = disk.spec.pvc.as_mut().unwrap();
    let label = hypercloud_api::names::LABEL_DISK_UID;
    pvc.labels.insert(label.into(), "another".into());
    let made = build::claim(&disk, &claim(DiskMethod::Clone, VolumeMode::Block));
    assert_eq!(made.metadata.labels.unwrap()[label], "8e2c");
}

#[derive(Serialize)]
struct Chapter {
    verdict: &'static str,
    status: hypercloud_api::VirtualMachinePvcStatus,
    events: Vec<String>,
}

#[test]
fn a_status_tells_the_story() {
    let mut disk = disk();
    let job = |state, done| Job {
        id: "8e2c-1".into(),
        state,
        progress: Progress {
            total: 1000,
            done,
            received: 0,
            written: done / 3,
        },
        ..Job::default()
    };
    let failure = Failure {
        reason: "Io".into(),
        message: "the disk does not answer".into(),
        retryable: true,
    };
    let node = || "n1".to_owned();
    let source = DiskSourceStatus {
        kind: "VirtualMachineImage".into(),
        namespace: "images".into(),
        name: "ubuntu".into(),
        uid: "17aa".into(),
        claim_uid: Some("c0".into()),
    };
    let wait = |phase, reason, message: &str| waiting(phase, reason, message);
    let pending = DiskPhase::Pending;
    let chosen = Verdict::Chosen {
        method: DiskMethod::CloneAndHandOver,
        source,
        raised: Some("1Gi was asked for, which the source does not fit in".into()),
    };
    let verdicts: Vec<(&str, Verdict, bool)> = vec![
        ("missing", wait(pending, "ImageNotFound", "no image"), false),
        (
            "denied",
            wait(pending, "ImageNotShared", "not yours"),
            false,
        ),
        ("chosen", chosen, false),
        (
            "consumer",
            wait(pending, "WaitForFirstConsumer", "no pod"),
            true,
        ),
        (
            "cloning",
            wait(DiskPhase::Cloning, "Cloning", "on its way"),
            true,
        ),
        (
            "refused",
            Verdict::CopyInstead {
                message: "it does not clone".into(),
            },
            true,
        ),
        ("try failed", Verdict::TryFailed(failure), true),
        (
            "copy chosen",
            Verdict::CopyChosen {
                job_id: "8e2c-1".into(),
                node: node(),
                holder_uid: "77".into(),
            },
            true,
        ),
        (
            "copying",
            Verdict::Copying {
                node: node(),
                job: job(JobState::Transferring, 427),
            },
            true,
        ),
        (
            "copied",
            Verdict::Copied(job(JobState::Succeeded, 1000)),
            true,
        ),
        (
            "ready",
            Verdict::Ready {
                capacity: Some(10 << 30),
            },
            true,
        ),
        (
            "lost",
            Verdict::Failed {
                reason: "ClaimLost".into(),
                message: "the claim root is gone".into(),
            },
            false,
        ),
        (
            "deleting",
            wait(DiskPhase::Deleting, "Deleting", "going"),
            false,
        ),
    ];
    let mut story = Vec::new();
    for (second, (name, verdict, has_claim)) in verdicts.into_iter().enumerate() {
        let now = Timestamp::from_second(1_800_000_000 + second as i64).unwrap();
        let next = status::next(&disk, &verdict, has_claim, now);
        let events = notices(disk.status.as_ref(), &next)
            .into_iter()
            .map(|notice| {
                let kind = if notice.warning { "Warning" } else { "Normal" };
                format!("{kind} {}: {}", notice.reason, notice.message)
            })
            .collect();
        disk.status = Some(next.clone());
        // The same verdict again changes nothing, whenever it is reached.
        if !matches!(verdict, Verdict::TryFailed(_) | Verdict::CopyChosen { .. }) {
            let later = Timestamp::from_second(1_800_009_999).unwrap();
            let again = status::next(&disk, &verdict, has_claim, later);
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

#[test]
fn a_source_that_was_lost_is_forgotten() {
    let mut disk = disk();
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let source = DiskSourceStatus::default();
    let raised = Some("raised".to_owned());
    let method = DiskMethod::Clone;
    let chosen = Verdict::Chosen {
        method,
        source,
        raised,
    };
    disk.status = Some(status::next(&disk, &chosen, false, now));
    let message = "it is gone".to_owned();
    let next = status::next(&disk, &Verdict::SourceLost { message }, false, now);
    assert_eq!(
        (next.method, &next.source, next.attempt),
        (None, &None, Some(1))
    );
    let types: Vec<&str> = next.conditions.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(types, ["Ready"]);
}
