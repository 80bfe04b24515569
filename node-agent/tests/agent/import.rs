//! Whole imports: from a web server, through the jobs, onto real volumes.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use hypercloud_transfer::{AddressPolicy, Options};
use node_agent::engine::Engine;
use node_agent::engine::streaming::StreamingEngine;
use node_agent::job::board::Status;
use node_agent::job::runner::Jobs;
use node_agent::job::spec::{ImportSpec, JobId};
use node_agent::job::state::Phase;
use node_agent::source::{Access, Format, HttpUrl, Source};
use node_agent::volume::{KubeletVolumes, VolumeMode};
use rustix::mount::{UnmountFlags, unmount};

use crate::kubelet::{CSI, Kubelet, LoopDevice, volume};
use crate::web::Web;
use crate::{DEADLINE, eventually, is_root};

/// A disk and the qcow2 image of it, both made by others than this project.
pub struct Image {
    pub raw: Vec<u8>,
    pub qcow2: Vec<u8>,
    /// Of the qcow2 image, as coreutils say it.
    pub checksum: String,
}

impl Image {
    /// A disk of so many MiB: data with a hole of zeros in every fourth MiB.
    pub fn of_mebibytes(size: usize) -> Self {
        let place = tempfile::tempdir().unwrap();
        let (raw, qcow2) = (place.path().join("raw"), place.path().join("qcow2"));
        let mut disk = vec![0; size << 20];
        let mut random = fs::File::open("/dev/urandom").unwrap();
        for (index, part) in disk.chunks_mut(1 << 20).enumerate() {
            if index % 4 != 3 {
                random.read_exact(part).unwrap();
            }
        }
        fs::write(&raw, &disk).unwrap();
        let made = Command::new("qemu-img")
            .args(["convert", "-f", "raw", "-O", "qcow2"])
            .args([&raw, &qcow2])
            .status();
        assert!(made.unwrap().success());
        let said = Command::new("sha256sum").arg(&qcow2).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        Self {
            raw: disk,
            qcow2: fs::read(&qcow2).unwrap(),
            checksum: format!("sha256:{}", &said[..64]),
        }
    }
}

fn jobs(journal: &Path, kubelet: &Kubelet) -> Jobs {
    let engine: Arc<dyn Engine> = Arc::new(StreamingEngine::new(Options {
        address_policy: AddressPolicy::Any,
        memory_budget: 16 << 20,
        checkpoint_interval: 4 << 20,
        progress_interval: Duration::from_millis(20),
        ..Options::default()
    }));
    let volumes = Arc::new(KubeletVolumes::new(kubelet.root(), Duration::from_secs(5)));
    let (jobs, set_aside) = Jobs::open(journal, engine, volumes, 2).unwrap();
    assert!(set_aside.is_empty());
    jobs
}

fn id() -> JobId {
    JobId::parse("job-1").unwrap()
}

fn spec(web: &Web, mode: VolumeMode) -> ImportSpec {
    ImportSpec {
        source: Source::Http(HttpUrl::parse(&web.url()).unwrap()),
        volume: volume("pvc-1", mode),
        expected: None,
        checksum: None,
        format: None,
        preallocation: false,
        needs_access: false,
    }
}

async fn end(jobs: &Jobs) -> Status {
    eventually("the job ends", async || {
        jobs.board().get(&id()).filter(|j| j.phase.is_end())
    })
    .await
}

/// Waits until the journal holds a checkpoint of the job.
pub async fn checkpointed(journal: &Path, name: &str) {
    let path = journal.join(format!("{name}.json"));
    eventually("a checkpoint is in the journal", async || {
        let record: serde_json::Value = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        record["state"]["checkpoint"].is_object().then_some(())
    })
    .await;
}

/// Compares without printing megabytes.
pub fn assert_same(found: &[u8], wanted: &[u8]) {
    assert_eq!(found.len(), wanted.len());
    let differs = found.iter().zip(wanted).position(|(a, b)| a != b);
    assert_eq!(differs, None, "first byte that differs");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_becomes_a_disk_file() {
    if !is_root("an_image_becomes_a_disk_file") {
        return;
    }
    let (kubelet, place) = (Kubelet::new(), tempfile::tempdir().unwrap());
    let mounted = kubelet.mount("pvc-1");
    let image = Image::of_mebibytes(24);
    let web = Web::serve(image.qcow2).await;
    web.allow(1 << 30);
    let jobs = jobs(place.path(), &kubelet);
    let spec = ImportSpec {
        checksum: Some(image.checksum.parse().unwrap()),
        format: Some(Format::Qcow2),
        ..spec(&web, VolumeMode::Filesystem)
    };
    jobs.start(id(), spec, Access::default()).await.unwrap();
    let job = end(&jobs).await;
    assert_eq!(job.phase, Phase::Succeeded);
    assert_eq!(job.digest.unwrap().to_string(), image.checksum);
    assert_eq!(
        (job.progress.total, job.progress.done),
        (24 << 20, 24 << 20)
    );
    assert_eq!(job.facts.unwrap().virtual_size, Some(24 << 20));

    let names: Vec<_> = fs::read_dir(&mounted.0)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names, ["disk.img"]);
    let disk = mounted.0.join("disk.img");
    let meta = fs::metadata(&disk).unwrap();
    assert_eq!(
        (meta.uid(), meta.gid(), meta.permissions().mode() & 0o7777),
        (107, 107, 0o660)
    );
    assert!(meta.blocks() * 512 <= 19 << 20, "zeros take no room");
    assert_same(&fs::read(&disk).unwrap(), &image.raw);
    unmount(&mounted.0, UnmountFlags::empty()).expect("nothing holds the volume");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_becomes_a_block_device_whatever_was_on_it() {
    if !is_root("an_image_becomes_a_block_device_whatever_was_on_it") {
        return;
    }
    let (kubelet, place) = (Kubelet::new(), tempfile::tempdir().unwrap());
    let file = place.path().join("device");
    fs::write(&file, vec![0xaa; 32 << 20]).unwrap();
    let device = LoopDevice::new(&file);
    symlink(&device.0, kubelet.devices(CSI).join("pvc-1")).unwrap();
    let image = Image::of_mebibytes(24);
    let web = Web::serve(image.qcow2).await;
    web.allow(1 << 30);
    let jobs = jobs(&place.path().join("jobs"), &kubelet);
    jobs.start(id(), spec(&web, VolumeMode::Block), Access::default())
        .await
        .unwrap();
    assert_eq!(end(&jobs).await.phase, Phase::Succeeded);
    let mut wanted = image.raw;
    wanted.resize(32 << 20, 0);
    assert_same(&fs::read(&device.0).unwrap(), &wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_import_goes_on_where_it_was() {
    if !is_root("a_stopped_import_goes_on_where_it_was") {
        return;
    }
    let (kubelet, place) = (Kubelet::new(), tempfile::tempdir().unwrap());
    let mounted = kubelet.mount("pvc-1");
    let image = Image::of_mebibytes(64);
    let size = image.qcow2.len();
    let web = Web::serve(image.qcow2).await;

    let first = jobs(place.path(), &kubelet);
    web.allow(size / 2);
    first
        .start(id(), spec(&web, VolumeMode::Filesystem), Access::default())
        .await
        .unwrap();
    checkpointed(place.path(), "job-1").await;
    tokio::time::timeout(DEADLINE, first.stop()).await.unwrap();
    drop(first);

    let second = jobs(place.path(), &kubelet);
    web.allow(1 << 30);
    assert_eq!(end(&second).await.phase, Phase::Succeeded);
    assert_same(&fs::read(mounted.0.join("disk.img")).unwrap(), &image.raw);
    let sent = web.sent() as usize;
    assert!(
        sent < size + size / 2,
        "{sent} bytes sent for an image of {size}: not resumed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_vanished_fails_the_resumed_job_for_a_retry() {
    if !is_root("a_volume_that_vanished_fails_the_resumed_job_for_a_retry") {
        return;
    }
    let (kubelet, place) = (Kubelet::new(), tempfile::tempdir().unwrap());
    let mounted = kubelet.mount("pvc-1");
    let image = Image::of_mebibytes(24);
    let web = Web::serve(image.qcow2).await;
    let first = jobs(place.path(), &kubelet);
    web.allow(16 << 20);
    first
        .start(id(), spec(&web, VolumeMode::Filesystem), Access::default())
        .await
        .unwrap();
    checkpointed(place.path(), "job-1").await;
    tokio::time::timeout(DEADLINE, first.stop()).await.unwrap();
    let point = mounted.0.clone();
    drop((first, mounted));

    let second = jobs(place.path(), &kubelet);
    let Phase::Failed(failure) = end(&second).await.phase else {
        panic!()
    };
    assert_eq!(
        (failure.reason.as_str(), failure.retryable),
        ("VolumeNotFound", true)
    );
    assert_eq!(
        fs::read_dir(point).unwrap().count(),
        0,
        "nothing on the node's own disk"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_import_lets_go_of_the_volume() {
    if !is_root("a_cancelled_import_lets_go_of_the_volume") {
        return;
    }
    let (kubelet, place) = (Kubelet::new(), tempfile::tempdir().unwrap());
    let mounted = kubelet.mount("pvc-1");
    let image = Image::of_mebibytes(24);
    let web = Web::serve(image.qcow2).await;
    let jobs = jobs(place.path(), &kubelet);
    web.allow(16 << 20);
    jobs.start(id(), spec(&web, VolumeMode::Filesystem), Access::default())
        .await
        .unwrap();
    checkpointed(place.path(), "job-1").await;
    tokio::time::timeout(DEADLINE, jobs.cancel(id()))
        .await
        .unwrap()
        .unwrap();
    unmount(&mounted.0, UnmountFlags::empty()).expect("nothing holds the volume");
    assert!(!place.path().join("job-1.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_image_than_was_said_fails_for_good_and_leaves_no_disk() {
    if !is_root("another_image_than_was_said_fails_for_good_and_leaves_no_disk") {
        return;
    }
    let (kubelet, place) = (Kubelet::new(), tempfile::tempdir().unwrap());
    let mounted = kubelet.mount("pvc-1");
    let image = Image::of_mebibytes(8);
    let web = Web::serve(image.qcow2).await;
    web.allow(1 << 30);
    let jobs = jobs(place.path(), &kubelet);
    let checksum = ImportSpec {
        checksum: Some(format!("sha256:{}", "0a".repeat(32)).parse().unwrap()),
        ..spec(&web, VolumeMode::Filesystem)
    };
    let format = ImportSpec {
        format: Some(Format::Raw),
        ..spec(&web, VolumeMode::Filesystem)
    };
    for (spec, reason) in [(checksum, "ChecksumMismatch"), (format, "FormatMismatch")] {
        jobs.start(id(), spec, Access::default()).await.unwrap();
        let Phase::Failed(failure) = end(&jobs).await.phase else {
            panic!()
        };
        assert_eq!(
            (failure.reason.as_str(), failure.retryable),
            (reason, false)
        );
        assert!(!mounted.0.join("disk.img").exists(), "{reason}");
        jobs.cancel(id()).await.unwrap();
    }
}

/// As when the end of a job was lost: the volume has room for one disk only.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_job_on_a_volume_replaces_the_first_ones_disk() {
    if !is_root("a_second_job_on_a_volume_replaces_the_first_ones_disk") {
        return;
    }
    let (kubelet, place) = (Kubelet::new(), tempfile::tempdir().unwrap());
    let mounted = kubelet.mount_of_mebibytes("pvc-1", 28);
    let image = Image::of_mebibytes(24);
    let web = Web::serve(image.qcow2).await;
    web.allow(1 << 30);
    let jobs = jobs(place.path(), &kubelet);
    for _ in 0..2 {
        jobs.start(id(), spec(&web, VolumeMode::Filesystem), Access::default())
            .await
            .unwrap();
        assert_eq!(end(&jobs).await.phase, Phase::Succeeded);
        jobs.cancel(id()).await.unwrap();
    }
    assert_same(&fs::read(mounted.0.join("disk.img")).unwrap(), &image.raw);
}

/// Not even a failure that names the source, in the log or in the answer,
/// shows the signature of its URL.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_does_not_show_the_signature() {
    if !is_root("a_failure_does_not_show_the_signature") {
        return;
    }
    let (kubelet, place) = (Kubelet::new(), tempfile::tempdir().unwrap());
    let _mounted = kubelet.mount("pvc-1");
    let web = Web::serve(b"<!doctype html><title>no disk</title>".to_vec()).await;
    web.allow(1 << 30);
    let jobs = jobs(place.path(), &kubelet);
    jobs.start(id(), spec(&web, VolumeMode::Filesystem), Access::default())
        .await
        .unwrap();
    let Phase::Failed(failure) = end(&jobs).await.phase else {
        panic!()
    };
    assert!(!failure.retryable, "{failure:?}");
    assert!(!failure.message.contains("s3cret"), "{failure:?}");
    assert!(!failure.message.contains("/proc/self"), "{failure:?}");
}
