//! The memory of an agent that does as much at once as it may.

use std::fs;
use std::io::{Read, Write};
use std::process::Command;

use hypercloud_proto::agent::v1 as proto;
use test_store::{KEYS, Setup, Store};

use crate::disks::{MIB, Volume, mixed, pod_volume};
use crate::export::{Expected, spec, stored};
use crate::import::assert_same;
use crate::kubelet::{Kubelet, POD};
use crate::process::{Agent, end};
use crate::web::Web;
use crate::{eventually, is_root};

/// Data on each disk.
const DATA: usize = 256 * MIB;
/// What two jobs and the process itself may take, whatever the images.
const LIMIT_MIB: u64 = 192;

/// A disk and its image in compressed clusters of `cluster` bytes, made by
/// qemu-img. A quarter of it is noise and the rest is text, so that every
/// cluster is compressed.
fn image(cluster: &str) -> (Vec<u8>, Vec<u8>) {
    let place = tempfile::tempdir().unwrap();
    let (raw, qcow2) = (place.path().join("raw"), place.path().join("qcow2"));
    let mut disk = vec![0; DATA];
    let mut random = fs::File::open("/dev/urandom").unwrap();
    for (index, part) in disk.chunks_mut(64 << 10).enumerate() {
        let (noise, mut text) = part.split_at_mut(16 << 10);
        random.read_exact(noise).unwrap();
        while text.len() >= 32 {
            writeln!(text, "{index:020} of a disk").unwrap();
        }
    }
    fs::write(&raw, &disk).unwrap();
    let made = Command::new("qemu-img")
        .args([
            "convert", "-f", "raw", "-O", "qcow2", "-c", "-W", "-m", "16",
        ])
        .args([
            "-o",
            &format!("cluster_size={cluster},compression_type=zlib"),
        ])
        .args([&raw, &qcow2])
        .status();
    assert!(made.unwrap().success());
    (disk, fs::read(&qcow2).unwrap())
}

fn request(web: &Web, job: &str, volume: &str) -> proto::StartJobRequest {
    let kind = proto::source::Kind::Http(proto::HttpSource {
        url: web.url(),
        ..proto::HttpSource::default()
    });
    let import = proto::ImportSpec {
        source: Some(proto::Source { kind: Some(kind) }),
        volume: Some(proto::PodVolume {
            pod_uid: POD.into(),
            volume_name: volume.into(),
            mode: proto::VolumeMode::Filesystem.into(),
        }),
        ..proto::ImportSpec::default()
    };
    proto::StartJobRequest {
        job_id: job.into(),
        spec: Some(proto::start_job_request::Spec::Import(import)),
    }
}

/// The most that the process ever had in memory, as the kernel counts it.
fn peak_mib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = peak.unwrap().split_whitespace().next().unwrap();
    kibibytes.parse::<u64>().unwrap() / 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn two_imports_at_once_take_little_memory() {
    if !is_root("two_imports_at_once_take_little_memory") {
        return;
    }
    let (kubelet, agent) = (Kubelet::new(), Agent::new());
    let mut imports = Vec::new();
    for (cluster, job, volume) in [("64k", "job-1", "pvc-1"), ("2M", "job-2", "pvc-2")] {
        let mounted = kubelet.mount(volume);
        let (raw, qcow2) = image(cluster);
        let web = Web::serve(qcow2).await;
        imports.push((request(&web, job, volume), web, mounted, raw));
    }
    let child = agent.spawn(kubelet.root());
    let mut client = agent.client().await;
    for (request, web, _, _) in &imports {
        web.allow(16 * MIB);
        client.start_job(request.clone()).await.unwrap();
    }
    // Neither has ended before the other has begun.
    eventually("both move bytes", async || {
        let moves = |web: &Web| web.sent() >= 8 << 20;
        imports.iter().all(|(_, web, ..)| moves(web)).then_some(())
    })
    .await;
    for (_, web, ..) in &imports {
        web.allow(1 << 30);
    }
    let jobs = eventually("the jobs end", async || {
        let jobs = client.list_jobs(proto::ListJobsRequest {}).await.unwrap();
        let jobs = jobs.into_inner().jobs;
        let ended = |job: &proto::Job| job.state() >= proto::JobState::Succeeded;
        jobs.iter().all(ended).then_some(jobs)
    })
    .await;
    assert_eq!(jobs.len(), imports.len());
    for job in jobs {
        assert_eq!(job.state(), proto::JobState::Succeeded, "{job:?}");
    }
    let peak = peak_mib(child.id().unwrap());
    eprintln!("peak resident memory of two imports: {peak} MiB");
    assert!(peak < LIMIT_MIB, "{peak} MiB");
    for (_, _, mounted, raw) in &imports {
        assert_same(&fs::read(mounted.0.join("disk.img")).unwrap(), raw);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_exports_at_once_take_little_memory() {
    if !is_root("two_exports_at_once_take_little_memory") {
        return;
    }
    let (kubelet, agent) = (Kubelet::new(), Agent::new());
    let store = Store::start(Setup::default()).await.unwrap();
    let bytes = mixed(DATA / MIB);
    let expected = Expected::new(&bytes);
    let child = agent.spawn(kubelet.root());
    let mut client = agent.client().await;
    let mut volumes = Vec::new();
    store.allow(2);
    for (number, compression) in [(1, proto::Compression::None), (2, proto::Compression::Zstd)] {
        let name = format!("pvc-{number}");
        let volume = Volume::filesystem(&kubelet, &name, Some(&bytes));
        let spec = proto::ExportSpec {
            volume: pod_volume(&name, volume.mode()),
            object: Some(stored(&store, &name, Some(KEYS.1))),
            compression: compression.into(),
            ..spec(&store, volume.mode())
        };
        let request = proto::StartJobRequest {
            job_id: format!("job-{number}"),
            spec: Some(proto::start_job_request::Spec::Export(spec)),
        };
        client.start_job(request).await.unwrap();
        volumes.push((name, volume));
    }
    // Neither has ended before the other has begun.
    eventually("both have begun", async || {
        (store.uploads().len() == 2).then_some(())
    })
    .await;
    store.allow(1000);
    for number in [1, 2] {
        let job = end(&mut client, &format!("job-{number}")).await;
        assert_eq!(job.state(), proto::JobState::Succeeded, "{job:?}");
    }
    let peak = peak_mib(child.id().unwrap());
    eprintln!("peak resident memory of two exports: {peak} MiB");
    assert!(peak < LIMIT_MIB, "{peak} MiB");
    for (name, _) in &volumes {
        expected.judge(&store.object(name).unwrap(), "qcow2");
    }
}
