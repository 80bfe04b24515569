//! Volumes whose owners do not mean well, and stores that are not let in to.

use std::os::unix::fs::symlink;

use rustix::fs::{CWD, Mode};

use super::*;

async fn reason(source: RawDisk, folder: &Path) -> (&'static str, bool) {
    let target = ExportTarget::File(folder.join("out"));
    let asked = ExportRequest {
        source,
        target,
        format: ZLIB,
        overwrite: false,
        digest: false,
        resume: None,
    };
    let error = exported(asked).await.unwrap_err();
    assert!(!folder.join("out").exists());
    (error.reason(), error.is_retryable())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_regular_file_of_the_volume_is_read() {
    let (volume, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |name: &str| RawDisk::DiskFile {
        directory: volume.path().into(),
        name: name.into(),
    };
    symlink("/etc/shadow", volume.path().join("link")).unwrap();
    symlink("/dev/null", volume.path().join("device")).unwrap();
    symlink("inside", volume.path().join("relative")).unwrap();
    std::fs::write(volume.path().join("inside"), "x").unwrap();
    std::fs::create_dir(volume.path().join("folder")).unwrap();
    rustix::fs::mkfifoat(CWD, volume.path().join("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
    for (name, expected) in [
        ("link", "UnsafeSource"),
        ("device", "UnsafeSource"),
        ("relative", "UnsafeSource"),
        ("folder", "NotAFile"),
        ("pipe", "NotAFile"),
        ("none", "NotFound"),
        ("../x", "InvalidSourceName"),
        ("/etc/shadow", "InvalidSourceName"),
        ("", "InvalidSourceName"),
    ] {
        let (reason, again) = reason(at(name), out.path()).await;
        assert_eq!(reason, expected, "{name}");
        assert!(!again, "{name}");
    }
    let null = RawDisk::BlockDevice("/dev/null".into());
    assert_eq!(reason(null, out.path()).await.0, "NotAFile");
}

/// What takes the file's name meanwhile is not read.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_changes_its_file_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = mixed(folder.path(), 40 * MIB);
    let kept = folder.path().join("kept");
    std::fs::hard_link(&path, &kept).unwrap();
    let store = store().await;
    store.allow(1);
    let exporting = tokio::spawn(exported(request(&path, to(&store, "disk"), ZSTD)));
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while store.stored_parts() < 1 {
        assert!(std::time::Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    std::fs::remove_file(&path).unwrap();
    symlink("/etc/shadow", &path).unwrap();
    store.allow(u64::MAX);
    // Its count of links is part of what tells that it changed.
    match exporting.await.unwrap() {
        Ok(_) => judge_bytes(&kept, &store.object("disk").unwrap(), ZSTD),
        Err(error) => {
            assert_eq!(error.reason(), "SourceChanged");
            assert_eq!(store.object("disk"), None);
            assert_eq!(store.uploads(), []);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_written_to_meanwhile_is_not_exported() {
    let folder = tempfile::tempdir().unwrap();
    let path = mixed(folder.path(), 40 * MIB);
    for (cut, reason) in [(false, "SourceChanged"), (true, "SourceChanged")] {
        let store = store().await;
        let file = File::options().write(true).open(&path).unwrap();
        let watch = Watch {
            before_end: Some(Box::new(|| panic!("it is to be found out before"))),
            stop_at: None,
            ..Watch::default()
        };
        store.allow(1);
        let asked = request(&path, to(&store, "disk"), ZLIB);
        let exporting = tokio::spawn(async move {
            let cancel = CancellationToken::new();
            export(asked, &options(), Arc::new(watch), cancel).await
        });
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while store.stored_parts() < 1 {
            assert!(std::time::Instant::now() < deadline);
            tokio::task::yield_now().await;
        }
        if cut {
            file.set_len(20 * MIB).unwrap();
        } else {
            file.write_all_at(b"written", 5).unwrap();
        }
        store.allow(u64::MAX);
        let error = exporting.await.unwrap().unwrap_err();
        assert_eq!(error.reason(), reason);
        assert_eq!(store.object("disk"), None);
        assert_eq!(store.uploads(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_let_in_is_told_why() {
    let folder = tempfile::tempdir().unwrap();
    let disk = mixed(folder.path(), 40 * MIB);
    let store = store().await;
    let with = |change: &dyn Fn(&mut StoredObject)| {
        let mut named = object(&store, "disk");
        change(&mut named);
        named
    };
    let keys = |id: &str, secret: &str| ObjectStoreCredentials::Keys {
        access_key_id: id.into(),
        secret_access_key: Secret::new(secret),
        session_token: None,
    };
    let wrong_secret = keys(KEYS.0, "another-secret");
    let unknown = keys("NOBODY", "another-secret");
    for (named, overwrite, expected) in [
        (
            with(&|o| o.store.credentials = wrong_secret.clone()),
            true,
            "SignatureDoesNotMatch",
        ),
        (
            with(&|o| o.store.credentials = unknown.clone()),
            true,
            "UnknownAccessKey",
        ),
        (with(&|o| o.bucket = "others".into()), false, "NoSuchBucket"),
        (
            with(&|o| o.bucket = "a/b".into()),
            false,
            "InvalidBucketName",
        ),
        (with(&|o| o.key = "a/../b".into()), false, "InvalidKey"),
        (
            with(&|o| o.store.credentials = ObjectStoreCredentials::Anonymous),
            true,
            "CredentialsRequired",
        ),
        // A HEAD has no words, so they are asked for.
        (
            with(&|o| o.store.credentials = unknown.clone()),
            false,
            "UnknownAccessKey",
        ),
        (
            with(&|o| o.store.credentials = wrong_secret.clone()),
            false,
            "SignatureDoesNotMatch",
        ),
    ] {
        let mut asked = request(&disk, ExportTarget::Object(named), ZLIB);
        asked.overwrite = overwrite;
        let error = exported(asked).await.unwrap_err();
        assert_eq!(error.reason(), expected, "{}", error.message());
        assert!(!error.is_retryable());
        assert!(!error.message().contains("another-secret"));
    }
    assert_eq!(store.objects(), []);

    // The policy on addresses holds for stores too.
    let strict = Options {
        address_policy: AddressPolicy::PublicAndPrivate,
        ..options()
    };
    let asked = request(&disk, to(&store, "disk"), ZLIB);
    let cancel = CancellationToken::new();
    let error = export(asked, &strict, Arc::new(()), cancel)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "AddressRefused", "{}", error.message());
    let closed = with(&|o| o.store.endpoint = Some("http://127.0.0.1:9".parse().unwrap()));
    let few = Options {
        retries: 1,
        ..options()
    };
    let asked = request(&disk, ExportTarget::Object(closed), ZLIB);
    let cancel = CancellationToken::new();
    let error = export(asked, &few, Arc::new(()), cancel).await.unwrap_err();
    assert_eq!(error.reason(), "ConnectFailed", "{}", error.message());
    assert!(error.is_retryable());
}
