//! Whole exports: asked for over the wire, from a volume to an object store.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use hypercloud_proto::agent::v1 as proto;
use proto::start_job_request::Spec;
use proto::stored_object::Credentials;
use rustix::process::{Signal, kill_process};
use test_store::{BUCKET, KEYS, Setup, Store};

use crate::disks::{MIB, Volume, disk, mixed, pod_volume};
use crate::kubelet::{CSI, Kubelet};
use crate::process::{Agent, end, ends_well, forget, job, pid};
use crate::{DEADLINE, PROMPT, eventually, is_root};

pub const JOB: &str = "job-1";
pub const KEY: &str = "disks/my disk";

/// The object that is made, with keys for the store or without any.
pub fn stored(store: &Store, key: &str, secret: Option<&str>) -> proto::StoredObject {
    let credentials = match secret {
        Some(secret) => Credentials::Keys(proto::AccessKeys {
            access_key_id: KEYS.0.into(),
            secret_access_key: secret.into(),
            session_token: None,
        }),
        None => Credentials::Anonymous(proto::Anonymous {}),
    };
    proto::StoredObject {
        bucket: BUCKET.into(),
        key: key.into(),
        endpoint: Some(store.endpoint()),
        region: None,
        path_style: true,
        credentials: Some(credentials),
        authorities: None,
    }
}

/// An export of the volume `pvc-1` to a qcow2 whose clusters are packed.
pub fn spec(store: &Store, mode: proto::VolumeMode) -> proto::ExportSpec {
    proto::ExportSpec {
        volume: pod_volume("pvc-1", mode),
        object: Some(stored(store, KEY, Some(KEYS.1))),
        format: proto::ImageFormat::Qcow2.into(),
        compression: proto::Compression::Zlib.into(),
        overwrite: false,
        owner: String::new(),
        digest: true,
    }
}

pub fn asked(spec: proto::ExportSpec) -> proto::StartJobRequest {
    proto::StartJobRequest {
        job_id: JOB.into(),
        spec: Some(Spec::Export(spec)),
    }
}

/// What keeps a disk's bytes for others to look at.
pub struct Expected {
    place: tempfile::TempDir,
}

impl Expected {
    pub fn new(bytes: &[u8]) -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("raw"), bytes).unwrap();
        Self { place }
    }

    /// As coreutils say it.
    pub fn digest(&self) -> String {
        let said = Command::new("sha256sum")
            .arg(self.place.path().join("raw"))
            .output()
            .unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        format!("sha256:{}", &said[..64])
    }

    /// QEMU's judgement on an object.
    pub fn judge(&self, object: &[u8], format: &str) {
        let path = self.place.path().join("object");
        fs::write(&path, object).unwrap();
        let qemu_img = |words: &[&str], files: &[&Path]| {
            let output = Command::new("qemu-img").args(words).args(files).output();
            let output = output.unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{words:?}: {said}{error}");
            said
        };
        if format == "qcow2" {
            let said = qemu_img(&["check", "-f", "qcow2"], &[&path]);
            assert!(said.contains("No errors were found"), "{said}");
        }
        let raw = self.place.path().join("raw");
        let words = ["compare", "-f", "raw", "-F", format];
        qemu_img(&words, &[&raw, &path]);
    }
}

/// Nothing that lets in is in the journal or in the log.
pub fn assert_discreet(agent: &Agent) {
    let mut written = agent.log();
    if let Ok(jobs) = fs::read_dir(agent.place.path().join("state/jobs")) {
        for file in jobs {
            written += &fs::read_to_string(file.unwrap().path()).unwrap();
        }
    }
    for secret in [KEYS.0, KEYS.1, "X-Amz-Signature"] {
        assert!(!written.contains(secret), "{secret} in {written}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_volume_becomes_an_object_of_every_kind() {
    if !is_root("every_kind_of_volume_becomes_an_object_of_every_kind") {
        return;
    }
    let (kubelet, agent) = (Kubelet::new(), Agent::new());
    let store = Store::start(Setup::default()).await.unwrap();
    let _child = agent.spawn(kubelet.root());
    let mut client = agent.client().await;
    let bytes = mixed(24);
    let expected = Expected::new(&bytes);
    let (qcow2, raw) = (proto::ImageFormat::Qcow2, proto::ImageFormat::Raw);
    for is_device in [true, false] {
        let volume = if is_device {
            Volume::block(&kubelet, "pvc-1", &bytes)
        } else {
            Volume::filesystem(&kubelet, "pvc-1", Some(&bytes))
        };
        // A holder mounts what it reads so.
        if let Volume::Filesystem(mounted) = &volume {
            mounted.make_read_only();
        }
        for (format, name, compression) in [
            (qcow2, "qcow2", proto::Compression::Zlib),
            (qcow2, "qcow2", proto::Compression::Zstd),
            (qcow2, "qcow2", proto::Compression::None),
            (raw, "raw", proto::Compression::None),
        ] {
            let what = format!("{is_device} {name} {compression:?}");
            let spec = proto::ExportSpec {
                format: format.into(),
                compression: compression.into(),
                // Each but the first finds the one before.
                overwrite: true,
                ..spec(&store, volume.mode())
            };
            client.start_job(asked(spec.clone())).await.unwrap();
            let again = client.start_job(asked(spec)).await.unwrap().into_inner();
            assert_eq!(again.id, JOB);
            let job = end(&mut client, JOB).await;
            assert_eq!(job.state(), proto::JobState::Succeeded, "{what}: {job:?}");
            let (progress, object) = (job.progress.unwrap(), job.object.unwrap());
            let size = bytes.len() as u64;
            assert_eq!((progress.total, progress.done), (size, size), "{what}");
            assert_eq!(job.digest, Some(expected.digest()), "{what}");
            assert_eq!(job.upload_id, None, "{what}");
            let found = store.object(KEY).unwrap();
            assert_eq!(object.size, found.len() as u64, "{what}");
            assert_eq!(object.virtual_size, size, "{what}");
            let bare = |etag: String| etag.trim_matches('"').to_owned();
            assert_eq!(object.etag.map(bare), store.etag(KEY).map(bare), "{what}");
            let address = format!("{}/{BUCKET}/disks/my%20disk", store.endpoint());
            assert_eq!(object.address, address, "{what}");
            expected.judge(&found, name);
            assert_eq!(store.uploads(), [], "{what}");
            assert!(volume.read() == bytes, "{what}: the volume is as it was");
            forget(&mut client, JOB).await;
            assert!(store.object(KEY).is_some(), "{what}: what is whole stays");
        }
        if is_device {
            fs::remove_file(kubelet.devices(CSI).join("pvc-1")).unwrap();
        }
        volume.let_go();
    }
    assert_discreet(&agent);
}

/// An agent that has stored some parts of a disk of noise, and no more.
struct Halfway {
    kubelet: Kubelet,
    agent: Agent,
    store: Store,
    volume: Volume,
    expected: Expected,
    child: tokio::process::Child,
}

impl Halfway {
    async fn new(mebibytes: usize, parts: u64) -> Self {
        let (kubelet, agent) = (Kubelet::new(), Agent::new());
        let store = Store::start(Setup::default()).await.unwrap();
        store.allow(parts);
        let bytes = disk(mebibytes);
        let volume = Volume::filesystem(&kubelet, "pvc-1", Some(&bytes));
        let child = agent.spawn(kubelet.root());
        let mut client = agent.client().await;
        let asked = asked(spec(&store, volume.mode()));
        client.start_job(asked).await.unwrap();
        let expected = Expected::new(&bytes);
        let halfway = Self {
            kubelet,
            agent,
            store,
            volume,
            expected,
            child,
        };
        eventually("parts are stored", async || {
            let stored = halfway.store.stored_parts() >= parts;
            (stored && job(&mut client, JOB).await.upload_id.is_some()).then_some(())
        })
        .await;
        halfway
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_export_leaves_neither_object_nor_parts() {
    if !is_root("a_cancelled_export_leaves_neither_object_nor_parts") {
        return;
    }
    let halfway = Halfway::new(96, 3).await;
    let mut client = halfway.agent.client().await;
    let asked_at = Instant::now();
    forget(&mut client, JOB).await;
    let took = asked_at.elapsed();
    assert!(took < PROMPT, "{took:?}");
    assert_eq!(halfway.store.uploads(), []);
    assert_eq!(halfway.store.objects(), []);
    let journal = halfway.agent.place.path().join("state/jobs/job-1.json");
    assert!(!journal.exists());
    assert_discreet(&halfway.agent);
    halfway.volume.let_go();
}

/// Everything between the volume and the store is full, and nothing moves.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_to_a_store_that_hangs_is_cancelled_as_quickly() {
    if !is_root("an_export_to_a_store_that_hangs_is_cancelled_as_quickly") {
        return;
    }
    let halfway = Halfway::new(256, 1).await;
    let mut client = halfway.agent.client().await;
    let (mut still, mut before) = (0, 0);
    eventually("nothing moves any more", async || {
        let read = job(&mut client, JOB).await.progress.unwrap().received;
        still = if read == before { still + 1 } else { 0 };
        before = read;
        (still == 50).then_some(())
    })
    .await;
    let asked_at = Instant::now();
    let forgotten = tokio::time::timeout(DEADLINE, forget(&mut client, JOB));
    forgotten.await.expect("it ends");
    let took = asked_at.elapsed();
    assert!(took < PROMPT, "{took:?}");
    assert_eq!(halfway.store.uploads(), []);
    assert_eq!(halfway.store.objects(), []);
    halfway.volume.let_go();
}

/// The parts that are in the store as the journal has it; the first one is
/// sent last.
fn known_parts(agent: &Agent) -> std::ops::Range<u64> {
    let record = agent.record(JOB);
    let place = &record["state"]["checkpoint"]["place"];
    2..place["nextPart"].as_u64().unwrap_or(2)
}

/// The parts that the requests send.
fn parts_sent(requests: &[String]) -> Vec<u64> {
    let number = |request: &String| {
        let (_, rest) = request.strip_prefix("PUT ")?.split_once("partNumber=")?;
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().ok()
    };
    requests.iter().filter_map(number).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_export_waits_for_its_keys_and_goes_on_from_its_parts() {
    if !is_root("a_stopped_export_waits_for_its_keys_and_goes_on_from_its_parts") {
        return;
    }
    for is_killed in [false, true] {
        let mut halfway = Halfway::new(160, 10).await;
        eventually("parts are known to be stored", async || {
            (!known_parts(&halfway.agent).is_empty()).then_some(())
        })
        .await;
        if is_killed {
            halfway.child.kill().await.unwrap();
        } else {
            kill_process(pid(&halfway.child), Signal::TERM).unwrap();
            ends_well(&mut halfway.child, PROMPT).await;
        }
        let upload = halfway.store.uploads().remove(0);
        assert!(!upload.parts.is_empty(), "nothing is discarded");
        let (agent, store) = (&halfway.agent, &halfway.store);
        let (known, before) = (known_parts(agent), store.requests().len());
        let _child = agent.spawn(halfway.kubelet.root());
        let mut client = agent.client().await;
        let waiting = job(&mut client, JOB).await;
        assert_eq!(waiting.state(), proto::JobState::Pending);
        assert!(waiting.awaiting_access);
        assert_eq!(waiting.upload_id, Some(upload.id));
        assert_discreet(agent);
        store.allow(1000);
        let asked = asked(spec(store, halfway.volume.mode()));
        client.start_job(asked).await.unwrap();
        let job = end(&mut client, JOB).await;
        assert_eq!(job.state(), proto::JobState::Succeeded, "{job:?}");
        assert_eq!(job.digest, Some(halfway.expected.digest()));
        halfway.expected.judge(&store.object(KEY).unwrap(), "qcow2");
        assert_eq!(store.uploads(), []);
        // What is known to be stored is not sent again.
        let sent = parts_sent(&store.requests()[before..]);
        eprintln!("{known:?} were known, {sent:?} were sent");
        assert!(
            !sent.is_empty() && !sent.iter().any(|part| known.contains(part)),
            "{sent:?} {known:?}: not resumed"
        );
    }
}

/// What the coordinator does where an agent lost its access, or went away
/// itself.
#[tokio::test(flavor = "multi_thread")]
async fn any_agent_discards_what_another_left() {
    if !is_root("any_agent_discards_what_another_left") {
        return;
    }
    let mut halfway = Halfway::new(96, 3).await;
    halfway.child.kill().await.unwrap();
    let (agent, store) = (&halfway.agent, &halfway.store);
    let _child = agent.spawn(halfway.kubelet.root());
    let mut client = agent.client().await;
    let upload = job(&mut client, JOB).await.upload_id.unwrap();
    // Without keys it can only forget the job.
    forget(&mut client, JOB).await;
    assert_eq!(store.uploads().len(), 1);
    let discard = |secret: &str, upload: &str| proto::DiscardUploadRequest {
        object: Some(stored(store, KEY, Some(secret))),
        upload_id: upload.into(),
    };
    let refused = client.discard_upload(discard("wrong", &upload)).await;
    let refused = refused.unwrap().into_inner().failure.unwrap();
    assert_eq!(refused.reason, "SignatureDoesNotMatch", "{refused:?}");
    assert_eq!(store.uploads().len(), 1);
    for _ in 0..2 {
        let done = client.discard_upload(discard(KEYS.1, &upload)).await;
        assert_eq!(done.unwrap().into_inner().failure, None);
        assert_eq!(store.uploads(), []);
    }
    assert_eq!(store.objects(), []);
    assert_discreet(agent);
}

/// Fetches an address as anything that speaks HTTP does.
fn fetch(url: &str) -> (String, Vec<u8>) {
    let (host, path) = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    write!(
        stream,
        "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let body = answer.split_off(end + 4);
    let head = String::from_utf8(answer).unwrap();
    (head.lines().next().unwrap().to_owned(), body)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_lets_in_without_keys_and_is_not_logged() {
    let agent = Agent::new();
    let content = vec![7; 70_000];
    let store = Store::start(Setup::with(KEY, &content)).await.unwrap();
    let kubelet = Kubelet::new();
    let _child = agent.spawn(kubelet.root());
    let mut client = agent.client().await;
    let before = store.seen().len();
    let request = proto::PresignObjectRequest {
        object: Some(stored(&store, KEY, Some(KEYS.1))),
        expires_after_seconds: 60,
    };
    let answer = client.presign_object(request).await.unwrap().into_inner();
    let Some(proto::presign_object_response::Result::Url(url)) = answer.result else {
        panic!("no address")
    };
    assert_eq!(store.seen().len(), before, "the store is not asked");
    assert!(url.contains("X-Amz-Expires=60"), "{url}");
    assert!(!url.contains(KEYS.1));
    let (status, body) = tokio::task::spawn_blocking(move || fetch(&url))
        .await
        .unwrap();
    assert!(status.contains("200"), "{status}");
    assert!(body == content);
    let (status, _) = fetch(&format!("{}/{BUCKET}/disks/my%20disk", store.endpoint()));
    assert!(status.contains("403"), "{status}");
    assert_discreet(&agent);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_exported_is_told_by_its_reason_and_leaves_nothing() {
    if !is_root("what_cannot_be_exported_is_told_by_its_reason_and_leaves_nothing") {
        return;
    }
    let (kubelet, agent) = (Kubelet::new(), Agent::new());
    let store = Store::start(Setup::with("taken", b"somebody's"))
        .await
        .unwrap();
    let volume = Volume::block(&kubelet, "pvc-1", &disk(24));
    let _child = agent.spawn(kubelet.root());
    let mut client = agent.client().await;
    let object = |key: &str, secret: Option<&str>| Some(stored(&store, key, secret));
    let elsewhere = proto::StoredObject {
        bucket: "nowhere".into(),
        ..stored(&store, KEY, Some(KEYS.1))
    };
    for (reason, object) in [
        ("ObjectExists", object("taken", Some(KEYS.1))),
        ("SignatureDoesNotMatch", object(KEY, Some("wrong"))),
        ("CredentialsRequired", object(KEY, None)),
        ("NoSuchBucket", Some(elsewhere)),
    ] {
        let spec = proto::ExportSpec {
            object,
            ..spec(&store, volume.mode())
        };
        client.start_job(asked(spec)).await.unwrap();
        let job = end(&mut client, JOB).await;
        let failure = job.failure.unwrap();
        assert_eq!(failure.reason, reason, "{}", failure.message);
        assert!(!failure.retryable, "{failure:?}");
        assert!(!failure.message.contains("/proc/self"), "{failure:?}");
        assert_eq!(job.upload_id, None, "{reason}");
        assert_eq!(store.uploads(), [], "{reason}");
        forget(&mut client, JOB).await;
    }
    assert_eq!(store.objects(), [("taken".to_owned(), 10)]);
    assert_eq!(store.object("taken").unwrap(), b"somebody's");
    let senseless = proto::ExportSpec {
        compression: 0,
        ..spec(&store, volume.mode())
    };
    let status = client.start_job(asked(senseless)).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status:?}");
    assert_discreet(&agent);
}

/// A guest can write whatever it likes to its own disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_looks_like_an_image_is_exported_as_the_bytes_it_is() {
    if !is_root("a_disk_that_looks_like_an_image_is_exported_as_the_bytes_it_is") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let image = place.path().join("image");
    let made = Command::new("qemu-img")
        .args(["create", "-f", "qcow2", "-F", "raw", "-b", "/etc/hostname"])
        .arg(&image)
        .arg("64M")
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut bytes = fs::read(&image).unwrap();
    bytes.resize(8 * MIB, 0);
    let (kubelet, agent) = (Kubelet::new(), Agent::new());
    let store = Store::start(Setup::default()).await.unwrap();
    let volume = Volume::filesystem(&kubelet, "pvc-1", Some(&bytes));
    let _child = agent.spawn(kubelet.root());
    let mut client = agent.client().await;
    let asked = asked(spec(&store, volume.mode()));
    client.start_job(asked).await.unwrap();
    let job = end(&mut client, JOB).await;
    assert_eq!(job.state(), proto::JobState::Succeeded, "{job:?}");
    assert_eq!(job.object.unwrap().virtual_size, bytes.len() as u64);
    Expected::new(&bytes).judge(&store.object(KEY).unwrap(), "qcow2");
}
