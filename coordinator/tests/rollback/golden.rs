//! Golden texts: the objects made for a rollback, and the story that its
//! status tells. `UPDATE_GOLDEN=1` writes them anew, for a person to look at.

use std::path::Path;

use hypercloud_api::VolumeMode;
use hypercloud_coordinator::agents::{Job, JobState, Progress};
use hypercloud_coordinator::holder::{HolderTemplate, build::pod};
use hypercloud_coordinator::rollback::notices::notices;
use hypercloud_coordinator::rollback::verdict::Verdict;
use hypercloud_coordinator::rollback::{build, status};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use crate::world::{failure, rollback, target};

fn golden(name: &str, value: &impl Serialize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/rollback/files")
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
    let block = target();
    let mut filesystem = target();
    filesystem.mode = VolumeMode::Filesystem;
    let rollback = rollback();
    let restored = build::restored(&rollback, &block, 3 << 30, None);
    golden("restored.yaml", &restored);
    let restored = build::restored(&rollback, &filesystem, 3 << 30, Some("n1"));
    golden("restored-on-node.yaml", &restored);
    let holder = build::holder(&rollback, Some(&block), 0);
    golden("holder-block.yaml", &pod(&holder, &template));
    let mut holder = build::holder(&rollback, Some(&filesystem), 2);
    holder.node = Some("n1".into());
    golden("holder-filesystem-on-node.yaml", &pod(&holder, &template));
}

#[derive(Serialize)]
struct Chapter {
    verdict: &'static str,
    status: hypercloud_api::VirtualMachineVolumeRollbackStatus,
    events: Vec<String>,
}

#[test]
fn a_status_tells_the_story() {
    let mut rollback = rollback();
    let job = |state, done| Job {
        id: "uid-2".into(),
        state,
        progress: Progress {
            total: 1000,
            done,
            received: done,
            written: done / 10,
        },
        ..Job::default()
    };
    let pods: Vec<String> = (1..8).map(|n| format!("vm{n}")).collect();
    let chosen = |n: u32| Verdict::Chosen {
        job_id: format!("uid-{n}"),
        node: "n1".into(),
        holder_uid: "77".into(),
    };
    let accepted = || Verdict::Accepted {
        pvc_uid: "claim".into(),
        snapshot_uid: "snap".into(),
    };
    let tried = |untouched| Verdict::TryFailed {
        failure: failure("Stalled", true),
        untouched,
    };
    let verdicts = vec![
        ("in use", Verdict::InUse { pods }),
        ("accepted", accepted()),
        ("closed", Verdict::Closed),
        ("chosen", chosen(0)),
        ("try failed before it began", tried(true)),
        ("accepted again", accepted()),
        ("closed again", Verdict::Closed),
        ("chosen again", chosen(1)),
        ("try failed in the middle", tried(false)),
        ("chosen once more", chosen(2)),
        (
            "writing",
            Verdict::Writing {
                node: "n1".into(),
                job: job(JobState::Transferring, 427),
            },
        ),
        (
            "completed",
            Verdict::Completed(job(JobState::Succeeded, 1000)),
        ),
        ("succeeded", Verdict::Succeeded),
        (
            "failed",
            Verdict::Failed {
                reason: "Snapshot gone!".into(),
                message: "for people".into(),
            },
        ),
    ];
    let mut story = Vec::new();
    for (second, (name, verdict)) in verdicts.into_iter().enumerate() {
        let now = Timestamp::from_second(1_800_000_000 + second as i64).unwrap();
        let next = status::next(&rollback, &verdict, now);
        let events = notices(rollback.status.as_ref(), &next)
            .into_iter()
            .map(|n| {
                let kind = if n.warning { "Warning" } else { "Normal" };
                format!("{kind} {}: {}", n.reason, n.message)
            })
            .collect();
        rollback.status = Some(next.clone());
        // The same verdict again changes nothing, whenever it is reached.
        if !matches!(verdict, Verdict::TryFailed { .. } | Verdict::Chosen { .. }) {
            let later = Timestamp::from_second(1_800_009_999).unwrap();
            let again = status::next(&rollback, &verdict, later);
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
