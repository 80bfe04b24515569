//! Exports of raw disks, against `qemu-img` and a store as strict as the
//! protocol.

// Clippy knows tests, not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod faults;
mod files;
mod formats;
mod hostile;
mod objects;
mod readers;
mod resume;
mod streamed;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hypercloud_transfer::{
    AddressPolicy, CancellationToken, Compression, DiskFile, ExportCheckpoint, ExportFormat,
    ExportObserver, ExportRequest, ExportTarget, Exported, ImportRequest, ObjectStore,
    ObjectStoreCredentials, Options, Progress, RawDisk, Secret, SourceSpec, SpacePolicy,
    StoredObject, TargetSpec, TransferError, export, import,
};
use test_store::{BUCKET, KEYS, Setup, Store};

const MIB: u64 = 1 << 20;
const CLUSTER: u64 = 64 << 10;
const ZLIB: ExportFormat = ExportFormat::Qcow2(Compression::Zlib);
const ZSTD: ExportFormat = ExportFormat::Qcow2(Compression::Zstd);
const PLAIN: ExportFormat = ExportFormat::Qcow2(Compression::None);
const FORMATS: [ExportFormat; 4] = [ZLIB, ZSTD, PLAIN, ExportFormat::Raw];

/// What a stretch of a disk holds.
#[derive(Debug, Clone, Copy)]
enum Fill {
    /// What compresses to about half.
    Text,
    /// What does not compress.
    Noise,
    /// Zeros that were written.
    Zeros,
}

/// A disk of some stretches; what is between them are holes.
fn disk(folder: &Path, size: u64, stretches: &[(u64, u64, Fill)]) -> PathBuf {
    let path = folder.join("disk.img");
    let file = File::create(&path).unwrap();
    file.set_len(size).unwrap();
    for (at, length, fill) in stretches {
        let mut state = at + 88_172_645_463_325_252;
        let mut bytes = vec![0; (*length).min(size - at) as usize];
        for (index, chunk) in bytes.chunks_mut(8).enumerate() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let word = match fill {
                Fill::Noise => state,
                Fill::Text if index % 8 < 4 => state,
                Fill::Text => 0x6f6c_6c65_6820_0000 + index as u64 / 64,
                Fill::Zeros => 0,
            };
            let length = chunk.len();
            chunk.copy_from_slice(&word.to_le_bytes()[..length]);
        }
        file.write_all_at(&bytes, *at).unwrap();
    }
    path
}

/// A disk of a bit of everything.
fn mixed(folder: &Path, size: u64) -> PathBuf {
    let mut stretches = vec![(0, 300_000, Fill::Text)];
    let mut at = MIB;
    while at + MIB < size {
        let fill = match at / MIB % 4 {
            0 => Fill::Noise,
            1 | 2 => Fill::Text,
            _ => Fill::Zeros,
        };
        stretches.push((at, MIB - 77_777 + at / 91 % 50_000, fill));
        at += MIB;
    }
    stretches.push((size - size.min(5000), 5000, Fill::Text));
    disk(folder, size, &stretches)
}

fn raw(path: &Path) -> RawDisk {
    RawDisk::DiskFile {
        directory: path.parent().unwrap().into(),
        name: path.file_name().unwrap().to_str().unwrap().into(),
    }
}

fn options() -> Options {
    Options {
        address_policy: AddressPolicy::Any,
        // How far ahead of what is stored it may be, whatever the machine.
        workers: Some(3),
        space_policy: SpacePolicy::Sparse,
        progress_interval: Duration::from_millis(5),
        checkpoint_interval: 1,
        backoff_initial: Duration::from_millis(5),
        backoff_limit: Duration::from_millis(50),
        ..Options::default()
    }
}

fn request(disk: &Path, target: ExportTarget, format: ExportFormat) -> ExportRequest {
    ExportRequest {
        source: raw(disk),
        target,
        format,
        overwrite: false,
        owner: None,
        digest: false,
        resume: None,
    }
}

fn object(store: &Store, key: &str) -> StoredObject {
    StoredObject {
        bucket: BUCKET.into(),
        key: key.into(),
        store: ObjectStore {
            endpoint: Some(store.endpoint().parse().unwrap()),
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

fn to(store: &Store, key: &str) -> ExportTarget {
    ExportTarget::Object(object(store, key))
}

async fn store() -> Store {
    Store::start(Setup::default()).await.unwrap()
}

/// An ETag without the quotes that the protocol writes it in.
fn unquoted(etag: Option<String>) -> Option<String> {
    etag.map(|etag| etag.trim_matches('"').to_owned())
}

async fn exported(request: ExportRequest) -> Result<Exported, TransferError> {
    export(request, &options(), Arc::new(()), CancellationToken::new()).await
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {words}{errors}");
    words + &errors
}

/// Has `qemu-img` judge an image, and compare it with the disk.
fn judge(disk: &Path, image: &Path, format: ExportFormat) {
    let name = match format {
        ExportFormat::Raw => "raw",
        ExportFormat::Qcow2(_) => "qcow2",
    };
    if format != ExportFormat::Raw {
        let words = run(Command::new("qemu-img")
            .args(["check", "-f", name])
            .arg(image));
        assert!(words.starts_with("No errors were found"), "{words}");
        assert!(!words.contains("Leaked"), "{words}");
    }
    run(Command::new("qemu-img")
        .args(["compare", "-f", "raw", "-F", name])
        .args([disk, image]));
}

/// The same for the bytes of an object.
fn judge_bytes(disk: &Path, bytes: &[u8], format: ExportFormat) {
    let place = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(place.path(), bytes).unwrap();
    judge(disk, place.path(), format);
}

/// Imports an image, and compares the bytes with those of the disk.
async fn judge_import(disk: &Path, source: SourceSpec) {
    let folder = tempfile::tempdir().unwrap();
    let target = TargetSpec::DiskFile(DiskFile {
        directory: folder.path().into(),
        name: "back".into(),
        owner: None,
        mode: 0o600,
    });
    let request = ImportRequest::new(source, target);
    import(request, &options(), Arc::new(()), CancellationToken::new())
        .await
        .unwrap();
    let size = std::fs::metadata(disk).unwrap().len();
    let back = folder.path().join("back");
    assert_eq!(
        std::fs::metadata(&back).unwrap().len(),
        size.next_multiple_of(512)
    );
    let limit = size.to_string();
    run(Command::new("cmp").arg("-n").arg(limit).args([disk, &back]));
}

/// A place to cancel at.
#[derive(Debug, Clone, Copy)]
enum Stop {
    /// So many checkpoints were heard: one before the upload, one that names
    /// it, and those of its parts.
    Heard(usize),
    /// So many parts are known to be stored.
    Known(u64),
}

impl Stop {
    fn is_at(self, heard: &[ExportCheckpoint]) -> bool {
        match self {
            Self::Heard(number) => heard.len() >= number,
            Self::Known(number) => heard.last().is_some_and(|last| {
                let known = known_parts(last);
                known.end - known.start >= number
            }),
        }
    }
}

/// Keeps what it hears, and does as it is told.
#[derive(Default)]
struct Watch {
    checkpoints: Mutex<Vec<ExportCheckpoint>>,
    progress: Mutex<Vec<Progress>>,
    /// Cancels at this checkpoint.
    stop_at: Option<(Stop, CancellationToken)>,
    /// No checkpoint can be kept from this one on.
    full_from: Option<usize>,
    /// Whether the object is not wanted after all.
    refuses: bool,
    /// Does something before the object is completed.
    before_end: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Watch {
    fn last(&self) -> Option<ExportCheckpoint> {
        self.checkpoints.lock().unwrap().last().cloned()
    }
}

impl ExportObserver for Watch {
    fn progress(&self, progress: Progress) {
        self.progress.lock().unwrap().push(progress);
    }

    fn checkpoint(&self, checkpoint: &ExportCheckpoint) -> std::io::Result<()> {
        // As a journal has it.
        let text = serde_json::to_string(checkpoint)?;
        assert!(!text.contains(KEYS.1) && !text.contains(KEYS.0));
        assert!(text.len() < 200_000, "{}", text.len());
        let mut checkpoints = self.checkpoints.lock().unwrap();
        if self.full_from.is_some_and(|from| checkpoints.len() >= from) {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        checkpoints.push(serde_json::from_str(&text)?);
        if let Some((stop, cancel)) = &self.stop_at
            && stop.is_at(&checkpoints)
        {
            cancel.cancel();
        }
        Ok(())
    }

    fn verifying(&self) -> std::io::Result<()> {
        if let Some(before_end) = &self.before_end {
            before_end();
        }
        if self.refuses {
            return Err(std::io::Error::other("the volume went away"));
        }
        Ok(())
    }
}

/// The parts that the requests send.
fn parts_sent(requests: &[String]) -> Vec<u64> {
    let number = |request: &String| {
        let (_, rest) = request.strip_prefix("PUT ")?.split_once("partNumber=")?;
        rest.split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    };
    requests.iter().filter_map(number).collect()
}

/// The parts that are in the store as the checkpoint has it. What was on its
/// way may be there as well, or come yet: a store goes on with what it was
/// sent, whoever has hung up.
fn known_parts(checkpoint: &ExportCheckpoint) -> std::ops::Range<u64> {
    let text = serde_json::to_value(checkpoint).unwrap();
    let place = &text["place"];
    let first = if place["first"].is_null() { 1 } else { 2 };
    first..place["nextPart"].as_u64().unwrap_or(first)
}
