//! An export takes little memory whatever the disk, and no time for what is
//! not there: measured on this very process, which is why this test has a
//! binary of its own.

// Clippy knows tests, not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod measure;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hypercloud_transfer::{
    AddressPolicy, CancellationToken, Compression, DiskFile, ExportFormat, ExportObserver,
    ExportRequest, ExportTarget, Exported, ImportRequest, ObjectStore, ObjectStoreCredentials,
    Options, Progress, RawDisk, Secret, SourceSpec, StoredObject, TargetSpec, TransferError,
    export, give_memory_back, import,
};
use measure::{forget_peak, memory_mib, peak_mib, source};
use test_store::{BUCKET, KEYS, Setup, Store};

/// What an export may take beside what the process had.
const LIMIT_MIB: u64 = 160;
/// What a process may keep of disks that were moved before.
const KEPT_MIB: u64 = 64;
const ZLIB: ExportFormat = ExportFormat::Qcow2(Compression::Zlib);

fn request(folder: &Path, target: ExportTarget, format: ExportFormat) -> ExportRequest {
    ExportRequest {
        source: RawDisk::DiskFile {
            directory: folder.into(),
            name: "source.raw".into(),
        },
        target,
        format,
        overwrite: true,
        owner: None,
        digest: false,
        resume: None,
    }
}

async fn exported(request: ExportRequest) -> Exported {
    // As many workers as there may be, whatever this machine has.
    let options = Options {
        workers: Some(64),
        address_policy: AddressPolicy::Any,
        ..Options::default()
    };
    export(request, &options, Arc::new(()), CancellationToken::new())
        .await
        .unwrap()
}

/// Ends an export when so many bytes of it are stored.
struct Enough(u64, CancellationToken);

impl ExportObserver for Enough {
    fn progress(&self, progress: Progress) {
        if progress.written >= self.0 {
            self.1.cancel();
        }
    }
}

/// This test's own program, to run one of its parts in another process.
fn this(part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", part, "--ignored", "--nocapture"]);
    command
}

/// A store in a process of its own, as its memory is no export's.
struct Other {
    process: Child,
    endpoint: String,
}

impl Other {
    fn start() -> Self {
        let mut process = this("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let endpoint = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("at ").map(str::to_owned))
            .unwrap();
        Self { process, endpoint }
    }

    fn object(&self) -> StoredObject {
        StoredObject {
            bucket: BUCKET.into(),
            key: "disk".into(),
            store: ObjectStore {
                endpoint: Some(self.endpoint.parse().unwrap()),
                region: None,
                path_style: true,
                credentials: ObjectStoreCredentials::Keys {
                    access_key_id: KEYS.0.into(),
                    secret_access_key: Secret::new(KEYS.1),
                    session_token: None,
                },
                authorities: None,
            },
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
#[ignore = "the store of the other test"]
async fn serve() {
    let store = Store::start(Setup::default()).await.unwrap();
    println!("\nat {}", store.endpoint());
    // Until whoever started this is gone.
    let _ = std::io::stdin().read(&mut [0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_takes_little_memory_and_no_time_for_holes() {
    // As the agent does. Without it the allocator keeps what the largest
    // buffers took, and how much that is depends on the threads' order.
    give_memory_back();
    let folder = tempfile::tempdir().unwrap();
    let raw = source(folder.path(), 600 << 20);
    let store = Other::start();
    let object = ExportTarget::Object(store.object());
    let file = ExportTarget::File(folder.path().join("image"));
    let measured = async |what: &str, target: &ExportTarget, format| {
        forget_peak();
        let before = memory_mib("VmRSS:");
        let begun = Instant::now();
        let done = exported(request(folder.path(), target.clone(), format)).await;
        let (taken, time) = (peak_mib() - before, begun.elapsed());
        println!(
            "{what}: {taken} MiB beside {before}, {time:?}, {} bytes",
            done.size
        );
        assert!(taken < LIMIT_MIB, "{what}: {taken} MiB");
        time
    };
    for format in [ZLIB, ExportFormat::Qcow2(Compression::None)] {
        measured(&format!("600 MiB to a file, {format:?}"), &file, format).await;
    }

    // 2 TiB of which little is there, at both ends and in between.
    let disk = std::fs::File::options().write(true).open(&raw).unwrap();
    disk.set_len(2 << 40).unwrap();
    for at in 1..8u64 {
        disk.write_all_at(&[at as u8; 300_000], (at << 38) - 150_000)
            .unwrap();
    }
    for (what, target) in [("2 TiB to a file", &file), ("2 TiB to a store", &object)] {
        let time = measured(what, target, ZLIB).await;
        // Reading what is not there would take hours.
        assert!(time < Duration::from_secs(300), "{what}: {time:?}");
    }
    let image = folder.path().join("image");
    let same = Command::new("qemu-img")
        .args(["compare", "-f", "raw", "-F", "qcow2"])
        .args([&raw, &image])
        .status();
    assert!(same.unwrap().success());
    let check = Command::new("qemu-img").arg("check").arg(image).output();
    assert!(check.unwrap().status.success());
}

/// Its parts are of 315 MiB, and none of them is held.
#[tokio::test]
#[ignore = "a part of another test"]
async fn a_raw_disk_of_3_tib() {
    let folder = tempfile::tempdir().unwrap();
    let raw = source(folder.path(), 8 << 20);
    let disk = std::fs::File::options().write(true).open(&raw).unwrap();
    disk.set_len(3 << 40).unwrap();
    let store = Other::start();
    let target = ExportTarget::Object(store.object());
    let asked = request(folder.path(), target, ExportFormat::Raw);
    let options = Options {
        address_policy: AddressPolicy::Any,
        progress_interval: Duration::from_millis(20),
        ..Options::default()
    };
    let cancel = CancellationToken::new();
    let observer = Arc::new(Enough(600 << 20, cancel.clone()));
    let ended = export(asked, &options, observer, cancel).await;
    assert!(matches!(ended, Err(TransferError::Cancelled)), "{ended:?}");
    let peak = peak_mib();
    println!("two parts of 3 TiB: {peak} MiB");
    assert!(peak < 96, "{peak} MiB");
}

/// A process that brings disk after disk to a store and back.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of another test"]
async fn again_and_again() {
    hypercloud_transfer::give_memory_back();
    let folder = tempfile::tempdir().unwrap();
    source(folder.path(), 300 << 20);
    let store = Other::start();
    let mut held = Vec::new();
    for _ in 0..6 {
        let target = ExportTarget::Object(store.object());
        exported(request(folder.path(), target, ZLIB)).await;
        let exported = memory_mib("VmRSS:");
        let target = TargetSpec::DiskFile(DiskFile {
            directory: folder.path().into(),
            name: "back".into(),
            owner: None,
            mode: 0o600,
        });
        let source = SourceSpec::ObjectStore(store.object());
        let options = Options {
            address_policy: AddressPolicy::Any,
            ..Options::default()
        };
        let request = ImportRequest::new(source, target);
        let done = import(request, &options, Arc::new(()), CancellationToken::new()).await;
        done.unwrap();
        std::fs::remove_file(folder.path().join("back")).unwrap();
        held.push((exported, memory_mib("VmRSS:")));
    }
    println!("MiB after each export and import: {held:?}");
    let most = held.iter().map(|(one, other)| *one.max(other)).max();
    assert!(most < Some(KEPT_MIB), "{held:?} MiB are kept");
}

#[test]
fn what_is_measured_from_its_beginning() {
    for part in ["a_raw_disk_of_3_tib", "again_and_again"] {
        assert!(this(part).status().unwrap().success(), "{part}");
    }
}
