//! Golden texts: the objects made for an image, and the story that a status
//! tells. `UPDATE_GOLDEN=1` writes them anew, for a person to look at.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::path::Path;

use hypercloud_api::{
    ImageClaim, ImagePhase, ImageSource, VirtualMachineImage, VirtualMachineImageSpec, VolumeMode,
};
use hypercloud_coordinator::agents::{Facts, ImageFormat, Job, JobState, Progress};
use hypercloud_coordinator::holder::HolderTemplate;
use hypercloud_coordinator::image::build;
use hypercloud_coordinator::image::notices::notices;
use hypercloud_coordinator::image::verdict::{TryFailure, Verdict, waiting};
use hypercloud_coordinator::image::{status, verdict};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

fn golden(name: &str, value: &impl Serialize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/files")
        .join(name);
    let text = serde_yaml::to_string(value).unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{name} is not as it was:\n{text}");
}

fn image(pvc: Option<ImageClaim>) -> VirtualMachineImage {
    let source = ImageSource {
        http: Some("http://example.com/disk.qcow2".into()),
        ..ImageSource::default()
    };
    let spec = VirtualMachineImageSpec {
        storage_class_name: Some("fast".into()),
        source,
        pvc,
        preallocation: None,
        shared_with: None,
    };
    let mut image = VirtualMachineImage::new("ubuntu", spec);
    image.metadata.namespace = Some("team".into());
    image.metadata.uid = Some("8e2c".into());
    image.metadata.generation = Some(1);
    let label = "instancetype.kubevirt.io/default-preference".to_owned();
    image.metadata.labels = Some([(label, "ubuntu".to_owned()), ("a".into(), "b".into())].into());
    image
}

fn filesystem() -> VirtualMachineImage {
    image(Some(ImageClaim {
        volume_mode: Some(VolumeMode::Filesystem),
        ..ImageClaim::default()
    }))
}

#[test]
fn objects_are_as_they_were() {
    let template = HolderTemplate {
        image: "agent:1".into(),
        agent_namespace: "hypercloud-storage".into(),
    };
    golden("claim-block.yaml", &build::claim(&image(None), 10 << 30));
    golden(
        "claim-filesystem.yaml",
        &build::claim(&filesystem(), 10 << 30),
    );
    golden(
        "holder-block.yaml",
        &build::holder(&image(None), 0, &template),
    );
    golden(
        "holder-filesystem.yaml",
        &build::holder(&filesystem(), 2, &template),
    );
}

#[test]
fn a_claim_without_a_class_leaves_it_to_the_cluster() {
    let mut image = image(None);
    image.spec.storage_class_name = None;
    let claim = serde_json::to_value(build::claim(&image, 1 << 20)).unwrap();
    assert!(claim["spec"].get("storageClassName").is_none());
}

#[derive(Serialize)]
struct Chapter {
    verdict: &'static str,
    status: hypercloud_api::VirtualMachineImageStatus,
    events: Vec<String>,
}

#[test]
fn a_status_tells_the_story() {
    let mut image = image(None);
    let job = |state, done| Job {
        id: "8e2c-1".into(),
        state,
        progress: Progress {
            total: 1000,
            done,
            received: done * 300_000,
            written: done / 3,
        },
        digest: (done == 1000).then(|| format!("sha256:{}", "0a".repeat(32))),
        rate: Some(30_000_000),
        ..Job::default()
    };
    let facts = Facts {
        format: ImageFormat::Qcow2,
        packing: None,
        virtual_size: Some(2_361_393_152),
        source_size: Some(600_000_000),
        validator: Some("\"v1\"".into()),
        ranges: true,
    };
    let failure = TryFailure {
        reason: "Unavailable".into(),
        message: "the server answers 503".into(),
        source: true,
    };
    let node = || "n1".to_owned();
    let missing = waiting(ImagePhase::Preparing, "StorageClassNotFound", "no class");
    let rejected = Verdict::Rejected {
        reason: "CredentialsRejected".into(),
        message: "the server asks for credentials".into(),
        secrets: vec!["login@7".into()],
    };
    let verdicts: Vec<(&str, verdict::Verdict, bool)> = vec![
        ("rejected", rejected, false),
        ("try failed", Verdict::TryFailed(failure), false),
        ("probed", Verdict::Probed(facts), false),
        ("class missing", missing, false),
        (
            "chosen",
            Verdict::TransferChosen {
                job_id: "8e2c-1".into(),
                node: node(),
                holder_uid: "77".into(),
            },
            true,
        ),
        (
            "importing",
            Verdict::Importing {
                node: node(),
                job: job(JobState::Transferring, 427),
            },
            true,
        ),
        (
            "completed",
            Verdict::Completed(job(JobState::Succeeded, 1000)),
            true,
        ),
        ("ready", Verdict::Ready, true),
        (
            "lost",
            Verdict::ClaimLost {
                message: "the claim vmim-ubuntu is gone".into(),
            },
            false,
        ),
        (
            "failed",
            Verdict::Failed {
                reason: "Corrupt 7!".into(),
                message: "the image is broken".into(),
            },
            false,
        ),
    ];
    let mut story = Vec::new();
    for (second, (name, verdict, has_claim)) in verdicts.into_iter().enumerate() {
        let now = Timestamp::from_second(1_800_000_000 + second as i64).unwrap();
        let next = status::next(&image, &verdict, has_claim, now);
        let events = notices(image.status.as_ref(), &next)
            .into_iter()
            .map(|n| {
                let kind = if n.warning { "Warning" } else { "Normal" };
                format!("{kind} {}: {}", n.reason, n.message)
            })
            .collect();
        image.status = Some(next.clone());
        // The same verdict again changes nothing, whenever it is reached.
        if !matches!(verdict, Verdict::TryFailed(_) | Verdict::ClaimLost { .. }) {
            let later = Timestamp::from_second(1_800_009_999).unwrap();
            let again = status::next(&image, &verdict, has_claim, later);
            if !matches!(verdict, Verdict::TransferChosen { .. }) {
                assert_eq!(again, next, "{name}");
            }
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
