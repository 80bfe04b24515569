//! What goes wrong, and whose doing it is said to be.

use std::os::unix::fs::symlink;

use hypercloud_transfer::{CopyMode, Side};

use super::*;
use crate::device::LoopDevice;
use crate::image::{Random, assert_same, disk};

const MODES: [CopyMode; 2] = [CopyMode::Whole, CopyMode::Differences];

#[tokio::test]
async fn a_target_that_is_too_small_is_told_before_the_first_byte() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("disk.img"), vec![1; 4 * MIB + 1]).unwrap();
    for mode in MODES {
        let Some(target) = LoopDevice::new(place.path(), 4 * MIB, 512) else {
            return;
        };
        let noise = target.read(4 * MIB);
        let device = TargetSpec::BlockDevice(target.path().into());
        let asked = request(source_file(place.path()), device, mode);
        let error = copied(asked).await.unwrap_err();
        assert_eq!(error.reason(), "TargetTooSmall", "{}", error.message());
        assert!(!error.is_retryable());
        assert_same(&target.read(4 * MIB), &noise, "untouched");
    }
}

#[tokio::test]
async fn a_file_system_that_is_too_small_is_told_before_the_first_byte() {
    let from = tempfile::tempdir().unwrap();
    let file = File::create(from.path().join("disk.img")).unwrap();
    // A disk that no file system here has room for; but it holds nothing.
    file.set_len(8 << 40).unwrap();
    let to = tempfile::tempdir().unwrap();
    let asked = request(
        source_file(from.path()),
        target_file(to.path()),
        CopyMode::Whole,
    );
    let error = copied(asked).await.unwrap_err();
    assert_eq!(error.reason(), "TargetTooSmall", "{}", error.message());
    assert!(!to.path().join("disk.img").exists());
}

#[tokio::test]
async fn what_is_no_plain_disk_is_not_read() {
    let place = tempfile::tempdir().unwrap();
    let secret = place.path().join("secret");
    std::fs::write(&secret, "of the node").unwrap();
    let to = tempfile::tempdir().unwrap();
    let pipe = |path: &Path| {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
    };
    type Make<'a> = &'a dyn Fn(&Path);
    let table: [(&str, Make<'_>); 4] = [
        ("NotFound", &|_| {}),
        ("UnsafeSource", &|path| symlink(&secret, path).unwrap()),
        ("NotAFile", &|path| std::fs::create_dir(path).unwrap()),
        ("NotAFile", &pipe),
    ];
    for (reason, make) in table {
        let from = tempfile::tempdir().unwrap();
        make(&from.path().join("disk.img"));
        for mode in MODES {
            let asked = request(source_file(from.path()), target_file(to.path()), mode);
            let error = copied(asked).await.unwrap_err();
            assert_eq!(error.reason(), reason, "{}", error.message());
            assert_eq!(error.side(), Side::Source);
            assert!(!error.is_retryable());
        }
    }
    let outside = RawDisk::DiskFile {
        directory: to.path().into(),
        name: "../secret".into(),
    };
    let asked = request(outside, target_file(to.path()), CopyMode::Whole);
    let error = copied(asked).await.unwrap_err();
    assert_eq!(error.reason(), "InvalidSourceName");
    let asked = request(
        RawDisk::BlockDevice("/dev/null".into()),
        target_file(to.path()),
        CopyMode::Whole,
    );
    assert_eq!(copied(asked).await.unwrap_err().reason(), "NotAFile");
    assert_eq!(std::fs::read_dir(to.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_target_that_leads_elsewhere_is_not_written() {
    let (from, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(from.path().join("disk.img"), vec![1; 9000]).unwrap();
    let secret = place.path().join("secret");
    std::fs::write(&secret, "of the node").unwrap();
    let to = tempfile::tempdir().unwrap();
    let path = to.path().join("disk.img");
    symlink(&secret, &path).unwrap();
    let asked = || {
        request(
            source_file(from.path()),
            target_file(to.path()),
            CopyMode::Differences,
        )
    };
    let error = copied(asked()).await.unwrap_err();
    assert_eq!(error.reason(), "UnsafeTarget", "{}", error.message());
    assert_eq!(std::fs::read(&secret).unwrap(), b"of the node");

    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let error = copied(asked()).await.unwrap_err();
    assert_eq!(error.reason(), "WrongTargetKind");

    std::fs::remove_dir(&path).unwrap();
    std::fs::write(&path, "x").unwrap();
    let held = File::open(&path).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let error = copied(asked()).await.unwrap_err();
    assert_eq!(error.reason(), "TargetBusy");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn nothing_is_copied_onto_itself() {
    let place = tempfile::tempdir().unwrap();
    let bytes = disk(5, MIB);
    std::fs::write(place.path().join("disk.img"), &bytes).unwrap();
    for mode in MODES {
        let asked = request(source_file(place.path()), target_file(place.path()), mode);
        let error = copied(asked).await.unwrap_err();
        assert_eq!(error.reason(), "TargetIsSource");
        let Some(device) = LoopDevice::new(place.path(), MIB, 512) else {
            continue;
        };
        let asked = request(
            RawDisk::BlockDevice(device.path().into()),
            TargetSpec::BlockDevice(device.path().into()),
            mode,
        );
        let error = copied(asked).await.unwrap_err();
        assert_eq!(error.reason(), "TargetIsSource");
    }
    let found = std::fs::read(place.path().join("disk.img")).unwrap();
    assert_same(&found, &bytes, "untouched");
}

/// A loop device whose file lost its second half cannot be read there.
fn broken(directory: &Path, size: usize) -> Option<LoopDevice> {
    let path = directory.join(format!("broken-{}", Random::new(7).next()));
    std::fs::write(&path, vec![5; size]).unwrap();
    let device = LoopDevice::attach(&path, 512)?;
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(size as u64 / 2).unwrap();
    Some(device)
}

#[tokio::test]
async fn a_failed_read_names_the_side() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(from.path().join("disk.img"), vec![5; 8 * MIB]).unwrap();
    let Some(device) = broken(place.path(), 8 * MIB) else {
        return;
    };
    for mode in MODES {
        let source = RawDisk::BlockDevice(device.path().into());
        let asked = request(source, target_file(to.path()), mode);
        let error = copied(asked).await.unwrap_err();
        assert_eq!(error.reason(), "ReadFailed", "{}", error.message());
        assert_eq!(error.side(), Side::Source);
        assert!(error.is_retryable());
        let message = error.message();
        assert!(
            message.starts_with("reading the source failed"),
            "{message}"
        );
        assert!(message.contains("at offset"), "{message}");
    }
    let target = TargetSpec::BlockDevice(device.path().into());
    let asked = request(source_file(from.path()), target, CopyMode::Differences);
    let error = copied(asked).await.unwrap_err();
    assert_eq!(error.reason(), "TargetReadFailed", "{}", error.message());
    assert_eq!(error.side(), Side::Target);
    assert!(error.is_retryable());
}

/// What was done before a read failed is kept, to go on from there.
#[tokio::test]
async fn a_failed_read_leaves_a_checkpoint() {
    let (place, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(device) = broken(place.path(), 16 * MIB) else {
        return;
    };
    let source = RawDisk::BlockDevice(device.path().into());
    let asked = request(source, target_file(to.path()), CopyMode::Whole);
    let watch = Arc::new(Watch::default());
    // One worker, which is not ahead of the piece that fails.
    let rare = Options {
        checkpoint_interval: 1 << 30,
        memory_budget: 1 << 20,
        workers: Some(1),
        ..options()
    };
    let error = copy(asked, &rare, watch.clone(), CancellationToken::new())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "ReadFailed");
    let kept = watch.checkpoints.lock().unwrap();
    let offsets: Vec<_> = kept.iter().map(CopyCheckpoint::offset).collect();
    assert!(
        matches!(offsets[..], [at] if at > 0 && at <= 8 << 20),
        "{offsets:?}"
    );
}

#[tokio::test]
async fn a_source_that_is_written_to_meanwhile_is_told() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("disk.img");
    std::fs::write(&path, disk(8, 8 * MIB)).unwrap();
    struct Writer(std::path::PathBuf);
    impl CopyObserver for Writer {
        fn verifying(&self) {
            let file = File::options().write(true).open(&self.0).unwrap();
            file.write_all_at(b"x", 0).unwrap();
            file.set_len(5).unwrap();
        }
    }
    let asked = request(
        source_file(from.path()),
        target_file(to.path()),
        CopyMode::Whole,
    );
    let cancel = CancellationToken::new();
    let error = copy(asked, &options(), Arc::new(Writer(path)), cancel)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "SourceChanged", "{}", error.message());
    assert!(!to.path().join("disk.img").exists());
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_kept_ends_the_copy() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(from.path().join("disk.img"), disk(6, 16 * MIB)).unwrap();
    struct Full;
    impl CopyObserver for Full {
        fn checkpoint(&self, _: &CopyCheckpoint) -> std::io::Result<()> {
            Err(std::io::Error::other("no room"))
        }
    }
    let asked = request(
        source_file(from.path()),
        target_file(to.path()),
        CopyMode::Whole,
    );
    let cancel = CancellationToken::new();
    let error = copy(asked, &options(), Arc::new(Full), cancel)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "JournalFailed");
}
