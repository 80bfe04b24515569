//! Targets that are not what they should be.

use std::sync::Arc;

use hypercloud_transfer::{
    CancellationToken, DiskFile, ImportRequest, Options, Side, SpacePolicy, TargetSpec, import,
};

use crate::device::LoopDevice;
use crate::image::{assert_same, disk, qcow2, raw};
use crate::watch::{file, local, options, request, run};

#[tokio::test]
async fn a_target_that_is_too_small_is_refused_before_the_first_byte() {
    let directory = tempfile::tempdir().unwrap();
    let source = raw(directory.path(), "source.raw", &disk(41, 8 << 20));
    let image = qcow2(&source, "image.qcow2", &["-c"]);
    if let Some(device) = LoopDevice::new(directory.path(), 4 << 20, 512) {
        let before = device.read(4 << 20);
        let target = TargetSpec::BlockDevice(device.path().into());
        let error = run(local(&image), target, &options()).await.unwrap_err();
        assert_eq!(
            (error.reason(), error.side()),
            ("TargetTooSmall", Side::Target)
        );
        assert!(!error.is_retryable());
        let message = error.message();
        assert!(
            message.contains("8388608") && message.contains("4194304"),
            "{message}"
        );
        assert!(device.read(4 << 20) == before, "nothing was written");
    }
    // A disk of 15 TiB on the file system of the tests.
    let huge = directory.path().join("huge.qcow2");
    crate::image::qemu(
        "qemu-img",
        &["create", "-f", "qcow2", huge.to_str().unwrap(), "15T"],
    );
    let error = run(local(&huge), file(directory.path()), &options())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "TargetTooSmall");
    let sparse = Options {
        space_policy: SpacePolicy::Sparse,
        ..options()
    };
    run(local(&huge), file(directory.path()), &sparse)
        .await
        .unwrap();
    // More than a file on ext4 can have; other file systems take it.
    crate::image::qemu(
        "qemu-img",
        &["create", "-f", "qcow2", huge.to_str().unwrap(), "60T"],
    );
    if let Err(error) = run(local(&huge), file(directory.path()), &sparse).await {
        assert_eq!(error.reason(), "TargetTooSmall", "{}", error.message());
    }
}

#[tokio::test]
async fn a_tenants_tree_leads_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let source = raw(directory.path(), "source.raw", &disk(42, 1 << 20));
    let secret = raw(directory.path(), "secret", b"precious");
    let tree = tempfile::tempdir().unwrap();
    let partial = tree.path().join(".disk.img.partial");
    let last = tree.path().join("disk.img");

    // Links in the place of the partial file and of the disk are replaced.
    std::os::unix::fs::symlink(&secret, &partial).unwrap();
    std::os::unix::fs::symlink(&secret, &last).unwrap();
    run(local(&source), file(tree.path()), &options())
        .await
        .unwrap();
    assert_eq!(std::fs::read(&secret).unwrap(), b"precious");
    assert!(std::fs::symlink_metadata(&last).unwrap().is_file());

    // Directories are not.
    std::fs::create_dir(&partial).unwrap();
    let error = run(local(&source), file(tree.path()), &options())
        .await
        .unwrap_err();
    assert_eq!(error.side(), Side::Target);
    std::fs::remove_dir(&partial).unwrap();
    std::fs::remove_file(&last).unwrap();
    std::fs::create_dir(&last).unwrap();
    let error = run(local(&source), file(tree.path()), &options())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "WrongTargetKind");
}

#[tokio::test]
async fn names_that_are_paths_and_targets_of_another_kind_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let source = raw(directory.path(), "source.raw", &disk(43, 1 << 20));
    for name in ["", ".", "..", "a/b", "../x", "/etc/x", "a\0b"] {
        let target = TargetSpec::DiskFile(DiskFile {
            directory: directory.path().into(),
            name: name.into(),
            owner: None,
            mode: 0o660,
        });
        let error = run(local(&source), target, &options()).await.unwrap_err();
        assert_eq!(error.reason(), "InvalidTargetName", "{name:?}");
    }
    for path in [source.clone(), "/dev/null".into()] {
        let target = TargetSpec::BlockDevice(path);
        let error = run(local(&source), target, &options()).await.unwrap_err();
        assert_eq!(error.reason(), "WrongTargetKind");
    }
    let target = TargetSpec::BlockDevice("/no/such/device".into());
    let error = run(local(&source), target, &options()).await.unwrap_err();
    assert_eq!(error.reason(), "TargetOpenFailed");
}

#[tokio::test]
async fn sources_of_another_kind_are_named() {
    let directory = tempfile::tempdir().unwrap();
    for (path, reason) in [
        ("/no/such/file", "NotFound"),
        ("/dev/zero", "NotAFile"),
        ("/tmp", "NotAFile"),
    ] {
        let error = run(local(path.as_ref()), file(directory.path()), &options()).await;
        assert_eq!(error.unwrap_err().reason(), reason, "{path}");
    }
}

#[tokio::test]
async fn a_disk_that_would_be_misread_is_not_produced() {
    let directory = tempfile::tempdir().unwrap();
    let mut bytes = disk(44, 2 << 20);
    bytes[..4].copy_from_slice(b"QFI\xfb");
    let source = raw(directory.path(), "source.raw", &bytes);
    let image = qcow2(&source, "image.qcow2", &["-c"]);
    let error = run(local(&image), file(directory.path()), &options())
        .await
        .unwrap_err();
    assert_eq!(
        (error.reason(), error.side()),
        ("MasqueradingDisk", Side::Refused)
    );
    assert!(!directory.path().join("disk.img").exists());
    assert!(!directory.path().join(".disk.img.partial").exists());
    if let Some(device) = LoopDevice::new(directory.path(), 2 << 20, 512) {
        let target = TargetSpec::BlockDevice(device.path().into());
        let error = run(local(&image), target, &options()).await.unwrap_err();
        assert_eq!(error.reason(), "MasqueradingDisk");
        assert_eq!(device.read(4096), [0; 4096]);
    }
}

/// Bytes that a file takes on its file system.
fn allocated(path: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).unwrap().blocks() * 512
}

#[tokio::test]
async fn a_preallocated_disk_has_all_its_room_and_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let mut bytes = disk(43, 2 << 20);
    bytes.resize(24 << 20, 0);
    let source = raw(directory.path(), "source.raw", &bytes);
    let image = qcow2(&source, "image.qcow2", &["-c"]);
    for preallocation in [false, true] {
        let target = tempfile::tempdir().unwrap();
        let asked = ImportRequest {
            preallocation,
            ..request(local(&image), file(target.path()))
        };
        import(asked, &options(), Arc::new(()), CancellationToken::new())
            .await
            .unwrap();
        let path = target.path().join("disk.img");
        assert_same(&std::fs::read(&path).unwrap(), &bytes, "preallocated");
        let taken = allocated(&path);
        assert_eq!(taken >= 24 << 20, preallocation, "{taken} bytes");
    }
}

#[tokio::test]
async fn a_preallocated_device_keeps_its_room() {
    let directory = tempfile::tempdir().unwrap();
    let mut bytes = disk(44, 2 << 20);
    bytes.resize(24 << 20, 0);
    let source = raw(directory.path(), "source.raw", &bytes);
    let image = qcow2(&source, "image.qcow2", &["-c"]);
    for preallocation in [true, false] {
        let Some(device) = LoopDevice::new(directory.path(), 32 << 20, 512) else {
            return;
        };
        let target = TargetSpec::BlockDevice(device.path().into());
        let asked = ImportRequest {
            preallocation,
            ..request(local(&image), target)
        };
        import(asked, &options(), Arc::new(()), CancellationToken::new())
            .await
            .unwrap();
        let mut expected = bytes.clone();
        expected.resize(32 << 20, 0);
        assert_same(&device.read(32 << 20), &expected, "device");
        let backing = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.to_string_lossy().contains("device-"))
            .unwrap();
        // Where the backing file cannot give room back, both keep it.
        let taken = allocated(&backing);
        assert!(!preallocation || taken >= 32 << 20, "{taken} bytes");
        std::fs::remove_file(backing).unwrap();
    }
}

#[tokio::test]
async fn a_cached_target_is_flushed_however_large_the_source() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk(45, (40 << 20) + 512);
    let source = raw(directory.path(), "source.raw", &bytes);
    // Blocks of 4 KiB and an end that is none of them: no direct writes.
    let Some(device) = LoopDevice::new(directory.path(), 48 << 20, 4096) else {
        return;
    };
    let target = TargetSpec::BlockDevice(device.path().into());
    // A part of the source is more than may stay unflushed.
    let options = Options {
        checkpoint_interval: 64 << 10,
        ..options()
    };
    run(local(&source), target, &options).await.unwrap();
    let mut expected = bytes;
    expected.resize(48 << 20, 0);
    assert_same(&device.read(48 << 20), &expected, "cached");
}
