//! Files appear when they are complete, and replace nothing unasked.

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_replaced_only_where_that_is_asked() {
    let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let disk = mixed(from.path(), 3 * MIB);
    let path = into.path().join("image");
    std::fs::write(&path, "precious").unwrap();
    let mut asked = request(&disk, ExportTarget::File(path.clone()), ZLIB);
    let error = exported(asked.clone()).await.unwrap_err();
    assert_eq!(error.reason(), "TargetExists");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    assert_eq!(names(into.path()), ["image"]);
    asked.overwrite = true;
    exported(asked).await.unwrap();
    judge(&disk, &path, ZLIB);
    assert_eq!(names(into.path()), ["image"]);

    // One that appears meanwhile is not replaced either.
    let late = into.path().join("late");
    let watch = Watch {
        before_end: Some(Box::new({
            let late = late.clone();
            move || std::fs::write(&late, "first").unwrap()
        })),
        ..Watch::default()
    };
    let asked = request(&disk, ExportTarget::File(late.clone()), ZLIB);
    let cancel = CancellationToken::new();
    let error = export(asked, &options(), Arc::new(watch), cancel)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "TargetExists");
    assert_eq!(std::fs::read(&late).unwrap(), b"first");
    assert_eq!(names(into.path()), ["image", "late"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_one_that_ends_early() {
    let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let disk = mixed(from.path(), 3 * MIB);
    let path = into.path().join("image");
    // What a process that died has left is taken away.
    std::fs::write(into.path().join(".image.partial"), "left").unwrap();
    let asked = request(&disk, ExportTarget::File(path.clone()), ZSTD);
    let watch = Watch {
        refuses: true,
        ..Watch::default()
    };
    let cancel = CancellationToken::new();
    let error = export(asked.clone(), &options(), Arc::new(watch), cancel.clone())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "JournalFailed");
    assert_eq!(names(into.path()), [""; 0]);
    cancel.cancel();
    let error = export(asked, &options(), Arc::new(()), cancel)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "Cancelled");
    assert_eq!(names(into.path()), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_written_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let disk = mixed(folder.path(), 3 * MIB);
    let target = |path: &Path| ExportTarget::File(path.into());
    for (path, reason) in [
        (disk.clone(), "TargetIsSource"),
        (folder.path().into(), "WrongTargetKind"),
        ("/dev/null".into(), "WrongTargetKind"),
        (folder.path().join("none/image"), "TargetOpenFailed"),
    ] {
        let mut asked = request(&disk, target(&path), ZLIB);
        asked.overwrite = true;
        let error = exported(asked).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{path:?}");
    }
    judge(&disk, &disk, ExportFormat::Raw);
}
