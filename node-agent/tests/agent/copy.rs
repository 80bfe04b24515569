//! Whole copies: asked for over the wire, from one volume to another.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use hypercloud_proto::agent::v1 as proto;
use proto::start_job_request::Spec;
use tonic::Code;

use crate::disks::{MIB, Volume, disk, noise, pod_volume};
use crate::import::assert_same;
use crate::kubelet::{CSI, Kubelet};
use crate::process::{Agent, end, forget, job};
use crate::{PROMPT, eventually, is_root};

const JOB: &str = "job-1";

fn request(source: &Volume, target: &Volume, only_differences: bool) -> proto::StartJobRequest {
    asked(proto::CopySpec {
        source: pod_volume("pvc-1", source.mode()),
        target: pod_volume("pvc-2", target.mode()),
        only_differences,
    })
}

fn asked(spec: proto::CopySpec) -> proto::StartJobRequest {
    proto::StartJobRequest {
        job_id: JOB.into(),
        spec: Some(Spec::Copy(spec)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_volume_is_copied_to_every_other() {
    if !is_root("every_kind_of_volume_is_copied_to_every_other") {
        return;
    }
    let agent = Agent::new();
    let kubelet = Kubelet::new();
    let _child = agent.spawn(kubelet.root());
    let mut client = agent.client().await;
    let bytes = disk(24);
    for (from_device, to_device, only_differences) in [
        (true, true, false),
        (true, true, true),
        (true, false, false),
        (true, false, true),
        (false, true, false),
        (false, true, true),
        (false, false, false),
        (false, false, true),
    ] {
        let what = format!("{from_device} {to_device} {only_differences}");
        let source = if from_device {
            Volume::block(&kubelet, "pvc-1", &bytes)
        } else {
            Volume::filesystem(&kubelet, "pvc-1", Some(&bytes))
        };
        // A holder mounts what it reads so.
        if let Volume::Filesystem(mounted) = &source {
            mounted.make_read_only();
        }
        // The same disk some time ago, on a larger device.
        let mut before = bytes.clone();
        before[5 * MIB..6 * MIB].copy_from_slice(&noise(MIB));
        before[15 * MIB..15 * MIB + 5000].fill(0xaa);
        let mut expected = bytes.clone();
        let target = if to_device {
            before.resize(32 * MIB, 0xbb);
            expected.resize(32 * MIB, 0);
            Volume::block(&kubelet, "pvc-2", &before)
        } else {
            Volume::filesystem(&kubelet, "pvc-2", Some(&before))
        };
        let asked = request(&source, &target, only_differences);
        let started = client.start_job(asked.clone()).await.unwrap().into_inner();
        assert!(!started.awaiting_access, "{what}");
        let again = client.start_job(asked).await.unwrap().into_inner();
        assert_eq!(again.id, "job-1");
        let job = end(&mut client, JOB).await;
        assert_eq!(job.state(), proto::JobState::Succeeded, "{what}: {job:?}");
        let progress = job.progress.unwrap();
        let size = expected.len() as u64;
        assert_eq!((progress.total, progress.done), (size, size), "{what}");
        assert_eq!((job.facts, job.digest), (None, None));
        let written = if only_differences { 1 } else { 18 } << 20;
        assert_eq!(progress.written, written, "{what}");
        assert_same(&target.read(), &expected);
        assert_same(&source.read(), &bytes);
        if !to_device && !only_differences {
            let meta = fs::metadata(target.disk()).unwrap();
            assert_eq!(
                (meta.uid(), meta.gid(), meta.permissions().mode() & 0o7777),
                (107, 107, 0o660)
            );
            assert!(meta.blocks() * 512 <= 19 << 20, "zeros take no room");
        }
        forget(&mut client, JOB).await;
        for (volume, name) in [(source, "pvc-1"), (target, "pvc-2")] {
            if let Volume::Block { .. } = &volume {
                fs::remove_file(kubelet.devices(CSI).join(name)).unwrap();
                volume.let_go();
            } else {
                volume.let_go();
                // As kubelet does: the directory would be looked for first.
                let point = kubelet.mount_point(name);
                fs::remove_dir(&point).unwrap();
                fs::remove_dir(point.parent().unwrap()).unwrap();
            }
        }
    }
}

/// As a crash of the node would: in the middle, again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_goes_on_by_itself_however_often_the_agent_is_killed() {
    if !is_root("a_copy_goes_on_by_itself_however_often_the_agent_is_killed") {
        return;
    }
    for only_differences in [false, true] {
        let (kubelet, agent) = (Kubelet::new(), Agent::new());
        let bytes = disk(384);
        let source = Volume::block(&kubelet, "pvc-1", &bytes);
        let target = Volume::block(&kubelet, "pvc-2", &noise(392 * MIB));
        let mut child = agent.spawn(kubelet.root());
        let mut client = agent.client().await;
        let asked = request(&source, &target, only_differences);
        client.start_job(asked.clone()).await.unwrap();
        let mut offset = 0;
        let mut kills = 0;
        for _ in 0..4 {
            let further = eventually("it goes on", async || {
                let (phase, at) = recorded(&agent);
                (phase == "succeeded" || at > offset).then_some((phase, at))
            })
            .await;
            if further.0 == "succeeded" {
                break;
            }
            offset = further.1;
            child.kill().await.unwrap();
            kills += 1;
            child = agent.spawn(kubelet.root());
        }
        let mut client = agent.client().await;
        let job = end(&mut client, JOB).await;
        assert_eq!(job.state(), proto::JobState::Succeeded, "{job:?}");
        assert_same(&source.read(), &bytes);
        let mut expected = bytes;
        expected.resize(392 * MIB, 0);
        assert_same(&target.read(), &expected);
        eprintln!("killed {kills} times, last at {} MiB", offset >> 20);
        assert!(kills > 0, "killed in the middle");
        assert!(agent.log().contains("\"resumed\":true"), "{}", agent.log());
        // A coordinator that asks again gets the job that is done.
        let again = client.start_job(asked).await.unwrap().into_inner();
        assert_eq!(again.state(), proto::JobState::Succeeded);
        child.kill().await.unwrap();
    }
}

/// Phase of the job in the journal, and where its checkpoint is.
fn recorded(agent: &Agent) -> (String, u64) {
    let record = agent.record(JOB);
    let phase = record["state"]["phase"].as_str().unwrap_or_default();
    let at = record["state"]["checkpoint"]["offset"].as_u64();
    (phase.to_owned(), at.unwrap_or(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_copy_lets_go_of_both_volumes() {
    if !is_root("a_cancelled_copy_lets_go_of_both_volumes") {
        return;
    }
    let (kubelet, agent) = (Kubelet::new(), Agent::new());
    let source = Volume::filesystem(&kubelet, "pvc-1", None);
    // Much to go through, and little to keep in memory.
    let file = fs::File::create(source.disk()).unwrap();
    file.set_len(400 << 20).unwrap();
    for index in 0..400 {
        file.write_all_at(&[7; 512 << 10], index << 20).unwrap();
    }
    drop(file);
    let target = Volume::filesystem(&kubelet, "pvc-2", None);
    let _child = agent.spawn(kubelet.root());
    let mut client = agent.client().await;
    let asked = request(&source, &target, false);
    client.start_job(asked).await.unwrap();
    eventually("bytes move", async || {
        let done = job(&mut client, JOB).await.progress.unwrap().done;
        (done > 0).then_some(())
    })
    .await;
    let asked_at = std::time::Instant::now();
    forget(&mut client, JOB).await;
    let took = asked_at.elapsed();
    assert!(took < PROMPT, "{took:?}");
    source.let_go();
    target.let_go();
    let journal = agent.place.path().join("state/jobs/job-1.json");
    assert!(!journal.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_copied_is_told_by_its_reason() {
    if !is_root("what_cannot_be_copied_is_told_by_its_reason") {
        return;
    }
    let (kubelet, agent) = (Kubelet::new(), Agent::new());
    let source = Volume::filesystem(&kubelet, "pvc-1", Some(&noise(4 * MIB + 512)));
    let small = noise(4 * MIB);
    let target = Volume::block(&kubelet, "pvc-2", &small);
    let _child = agent.spawn(kubelet.root());
    let mut client = agent.client().await;
    let links = |path: &Path| {
        fs::remove_file(path).unwrap();
        symlink("/etc/passwd", path).unwrap();
    };
    type Change<'a> = &'a dyn Fn(&Path);
    let table: [(&str, Change<'_>); 3] = [
        ("TargetTooSmall", &|_| {}),
        ("UnsafeSource", &links),
        ("NotFound", &|path| fs::remove_file(path).unwrap()),
    ];
    for (reason, change) in table {
        change(&source.disk());
        for only_differences in [false, true] {
            let asked = request(&source, &target, only_differences);
            client.start_job(asked).await.unwrap();
            let failure = end(&mut client, JOB).await.failure.unwrap();
            assert_eq!(failure.reason, reason, "{}", failure.message);
            assert!(!failure.retryable, "{reason}");
            assert!(!failure.message.contains("/proc/self"), "{failure:?}");
            assert_same(&target.read(), &small);
            forget(&mut client, JOB).await;
        }
    }
    let volume = |name| pod_volume(name, proto::VolumeMode::Block);
    let wrong = [
        proto::CopySpec::default(),
        proto::CopySpec {
            source: volume("pvc-2"),
            target: volume("pvc-2"),
            ..proto::CopySpec::default()
        },
        proto::CopySpec {
            source: volume(".."),
            target: volume("pvc-2"),
            ..proto::CopySpec::default()
        },
    ];
    for spec in wrong {
        let status = client.start_job(asked(spec)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    }
}
