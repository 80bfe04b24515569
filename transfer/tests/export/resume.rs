//! Exports that go on where they ended: the same object, whatever was lost.

use hypercloud_transfer::discard_upload;

use super::*;

/// A disk whose object is of six parts.
fn large(folder: &Path) -> PathBuf {
    let stretches = [
        (0, 300_000, Fill::Text),
        (MIB, 29 * MIB + 5000, Fill::Noise),
        (31 * MIB, 5 * MIB, Fill::Text),
        (37 * MIB, MIB, Fill::Zeros),
        (38 * MIB, 10 * MIB, Fill::Noise),
    ];
    disk(folder, 48 * MIB, &stretches)
}

/// Exports until there, and cancels; `None` if it ended before.
async fn cut(asked: &ExportRequest, stop: Stop) -> Option<ExportCheckpoint> {
    let cancel = CancellationToken::new();
    let watch = Arc::new(Watch {
        stop_at: Some((stop, cancel.clone())),
        ..Watch::default()
    });
    let ended = export(asked.clone(), &options(), watch.clone(), cancel).await;
    match ended {
        Ok(_) => None,
        Err(error) => {
            assert!(matches!(error, TransferError::Cancelled), "{error:?}");
            watch.last()
        }
    }
}

async fn whole(disk: &Path, format: ExportFormat) -> (Vec<u8>, Exported) {
    let store = store().await;
    let mut asked = request(disk, to(&store, "disk"), format);
    asked.digest = true;
    let done = exported(asked).await.unwrap();
    (store.object("disk").unwrap(), done)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_was_cut_gives_the_same_object() {
    let folder = tempfile::tempdir().unwrap();
    let disk = large(folder.path());
    for format in [ZLIB, ExportFormat::Raw] {
        let (expected, wanted) = whole(&disk, format).await;
        for stop in [
            Stop::Heard(1),
            Stop::Heard(2),
            Stop::Known(1),
            Stop::Known(3),
        ] {
            let store = store().await;
            let mut asked = request(&disk, to(&store, "disk"), format);
            asked.digest = true;
            let Some(checkpoint) = cut(&asked, stop).await else {
                // Parts that come together make one checkpoint.
                assert!(matches!(stop, Stop::Known(3)), "{stop:?}");
                continue;
            };
            assert_eq!(store.object("disk"), None);
            let before = store.requests().len();
            asked.resume = Some(checkpoint.clone());
            let done = exported(asked).await.unwrap();
            assert!(
                store.object("disk").unwrap() == expected,
                "{format:?} {stop:?}"
            );
            assert_eq!(done.digest, wanted.digest);
            assert_eq!(done.size, wanted.size);
            assert_eq!(done.progress.written, done.size);
            assert_eq!(store.uploads(), []);
            // What is known to be stored is not sent again.
            let known = known_parts(&checkpoint);
            let sent = parts_sent(&store.requests()[before..]);
            assert!(
                !sent.iter().any(|part| known.contains(part)),
                "{sent:?} {known:?}"
            );
            let goes_on = matches!(stop, Stop::Known(_));
            assert_eq!(!known.is_empty(), goes_on, "{known:?}");
            assert_eq!(checkpoint.progress().done > 0, goes_on);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_is_cut_again_and_again_ends() {
    let folder = tempfile::tempdir().unwrap();
    let disk = large(folder.path());
    let (expected, wanted) = whole(&disk, ZSTD).await;
    let store = store().await;
    let mut asked = request(&disk, to(&store, "disk"), ZSTD);
    asked.digest = true;
    let mut cuts = 0;
    while let Some(checkpoint) = cut(&asked, Stop::Heard(2)).await {
        asked.resume = Some(checkpoint);
        cuts += 1;
        assert!(cuts < 20, "it goes on");
    }
    // Parts that come together make one checkpoint.
    assert!(cuts >= 2, "{cuts}");
    assert!(store.object("disk").unwrap() == expected);
    assert_eq!(store.etag("disk"), {
        let again = self::store().await;
        let mut asked = request(&disk, to(&again, "disk"), ZSTD);
        asked.digest = true;
        assert_eq!(exported(asked).await.unwrap().digest, wanted.digest);
        again.etag("disk")
    });
    assert_eq!(store.uploads(), []);
}

/// A process that dies when so many parts are stored; what it has written
/// down by then.
async fn killed(asked: &ExportRequest, store: &Store, parts: u64) -> Vec<ExportCheckpoint> {
    killed_when(asked, store, parts, Stop::Heard(0)).await
}

/// The same, once so much was written down, too. All parts but the first one
/// are to be let in where some are to be known: which come first nobody says.
async fn killed_when(
    asked: &ExportRequest,
    store: &Store,
    parts: u64,
    written_down: Stop,
) -> Vec<ExportCheckpoint> {
    let stored = store.stored_parts() + parts;
    store.allow(parts);
    let watch = Arc::new(Watch::default());
    let task = tokio::spawn({
        let (asked, watch) = (asked.clone(), watch.clone());
        async move { export(asked, &options(), watch, CancellationToken::new()).await }
    });
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while store.stored_parts() < stored || !written_down.is_at(&watch.checkpoints.lock().unwrap()) {
        assert!(std::time::Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    task.abort();
    let _ = task.await;
    store.allow(u64::MAX);
    watch.checkpoints.lock().unwrap().clone()
}

/// Whichever checkpoint of the upload was kept last, and whether the store
/// has lost a part since.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_checkpoint_is_left_gives_the_same_object() {
    let folder = tempfile::tempdir().unwrap();
    let disk = large(folder.path());
    for format in [ZSTD, ExportFormat::Raw] {
        let (expected, wanted) = whole(&disk, format).await;
        judge_bytes(&disk, &expected, format);
        for (parts, back, lost) in [(1, 0, None), (3, 0, None), (4, 1, None), (4, 0, Some(3))] {
            let store = store().await;
            let mut asked = request(&disk, to(&store, "disk"), format);
            asked.digest = true;
            let checkpoints = killed(&asked, &store, parts).await;
            // The first one is of no upload.
            let named = &checkpoints[1..];
            let last = named.len().saturating_sub(1 + back);
            asked.resume = named.get(last).cloned();
            let [upload] = &store.uploads()[..] else {
                panic!("there is one upload");
            };
            if let Some(number) = lost {
                store.drop_part(&upload.id, number);
            }
            let done = exported(asked).await.unwrap();
            assert!(
                store.object("disk").unwrap() == expected,
                "{format:?} {parts}"
            );
            assert_eq!(done.size, wanted.size);
            assert_eq!(done.digest, wanted.digest);
            assert_eq!(store.uploads(), []);
        }
    }
}

/// A process that dies between the beginning of an upload and the checkpoint
/// that names it leaves an upload that has no part, and is found.
#[test]
fn an_upload_that_nobody_wrote_down_is_found() {
    /// Keeps the first checkpoint, and never comes back from the second.
    struct Dying(std::sync::mpsc::Sender<ExportCheckpoint>);

    impl ExportObserver for Dying {
        fn checkpoint(&self, checkpoint: &ExportCheckpoint) -> std::io::Result<()> {
            self.0.send(checkpoint.clone()).unwrap();
            if checkpoint.upload_id().is_some() {
                loop {
                    std::thread::park();
                }
            }
            Ok(())
        }
    }

    let folder = tempfile::tempdir().unwrap();
    let disk = large(folder.path());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(store());
    let mut asked = request(&disk, to(&store, "disk"), ZLIB);
    let (sender, heard) = std::sync::mpsc::channel();
    let dying = tokio::runtime::Runtime::new().unwrap();
    dying.spawn({
        let asked = asked.clone();
        async move {
            export(
                asked,
                &options(),
                Arc::new(Dying(sender)),
                CancellationToken::new(),
            )
            .await
        }
    });
    asked.resume = Some(heard.recv().unwrap());
    let lost = heard.recv().unwrap().upload_id().unwrap().to_owned();
    dying.shutdown_background();
    assert_eq!(store.uploads()[0].id, lost);
    runtime.block_on(exported(asked)).unwrap();
    judge_bytes(&disk, &store.object("disk").unwrap(), ZLIB);
    assert_eq!(store.uploads(), []);
}

/// An object that was completed by somebody who could not say so.
#[tokio::test(flavor = "multi_thread")]
async fn a_completion_that_was_not_heard_of_is_found() {
    for size in [3 * MIB, 40 * MIB] {
        let folder = tempfile::tempdir().unwrap();
        let disk = mixed(folder.path(), size);
        let store = store().await;
        let mut asked = request(&disk, to(&store, "disk"), ZLIB);
        asked.digest = true;
        let watch = Arc::new(Watch::default());
        let cancel = CancellationToken::new();
        let done = export(asked.clone(), &options(), watch.clone(), cancel)
            .await
            .unwrap();
        let requests = store.requests().len();
        // The process died before it could write down that it is done.
        asked.resume = watch.last();
        let again = exported(asked.clone()).await.unwrap();
        assert_eq!(again, done);
        let new = &store.requests()[requests..];
        assert!(new.iter().all(|asked| !asked.starts_with("P")), "{new:?}");

        // Another's object is not taken for it.
        store.put("disk", b"precious").unwrap();
        let error = exported(asked.clone()).await.unwrap_err();
        assert_eq!(error.reason(), "ObjectExists");
        store.remove("disk");
        exported(asked).await.unwrap();
        judge_bytes(&disk, &store.object("disk").unwrap(), ZLIB);
        assert_eq!(store.uploads(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_of_something_else_is_ignored_and_its_parts_go() {
    let folder = tempfile::tempdir().unwrap();
    let disk = large(folder.path());
    let store = store().await;
    let asked = request(&disk, to(&store, "disk"), ZLIB);
    let checkpoint = cut(&asked, Stop::Known(1)).await;
    let id = checkpoint.as_ref().unwrap().upload_id().unwrap().to_owned();

    // Another format, a changed disk: the same object, from the beginning.
    let mut other = asked.clone();
    other.format = PLAIN;
    other.resume = checkpoint.clone();
    exported(other).await.unwrap();
    judge_bytes(&disk, &store.object("disk").unwrap(), PLAIN);
    assert_eq!(store.uploads(), []);
    store.remove("disk");

    let checkpoint = cut(&asked, Stop::Known(1)).await;
    assert_ne!(checkpoint.as_ref().unwrap().upload_id(), Some(id.as_str()));
    let file = File::options().write(true).open(&disk).unwrap();
    file.write_all_at(b"changed", 45 * MIB).unwrap();
    let mut changed = asked.clone();
    changed.resume = checkpoint.clone();
    exported(changed).await.unwrap();
    judge_bytes(&disk, &store.object("disk").unwrap(), ZLIB);
    assert_eq!(store.uploads(), []);

    // An upload that the store has given up by itself.
    store.remove("disk");
    let checkpoint = cut(&asked, Stop::Known(1)).await;
    store.drop_upload(checkpoint.as_ref().unwrap().upload_id().unwrap());
    let mut again = asked.clone();
    again.resume = checkpoint;
    exported(again).await.unwrap();
    judge_bytes(&disk, &store.object("disk").unwrap(), ZLIB);

    // Of another key: that is another's to give up.
    store.remove("disk");
    let checkpoint = cut(&asked, Stop::Known(1)).await;
    let mut elsewhere = request(&disk, to(&store, "other"), ZLIB);
    elsewhere.resume = checkpoint.clone();
    exported(elsewhere).await.unwrap();
    judge_bytes(&disk, &store.object("other").unwrap(), ZLIB);
    assert_eq!(store.uploads().len(), 1);
    let id = checkpoint.as_ref().unwrap().upload_id().unwrap();
    for _ in 0..2 {
        discard_upload(&object(&store, "disk"), id, &options())
            .await
            .unwrap();
        assert_eq!(store.uploads(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_written_down_is_not_left() {
    let folder = tempfile::tempdir().unwrap();
    let disk = large(folder.path());
    // One before the upload, one that names it, one of its parts, which may
    // come together, and one of the whole.
    for full_from in 0..4 {
        let store = store().await;
        let watch = Arc::new(Watch {
            full_from: Some(full_from),
            ..Watch::default()
        });
        let asked = request(&disk, to(&store, "disk"), ZLIB);
        let cancel = CancellationToken::new();
        let error = export(asked, &options(), watch.clone(), cancel)
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "JournalFailed");
        assert!(error.is_retryable());
        assert_eq!(store.object("disk"), None);
        // What is left is known to whoever keeps the checkpoints.
        let known = watch
            .last()
            .and_then(|last| last.upload_id().map(str::to_owned));
        let left: Vec<String> = store
            .uploads()
            .into_iter()
            .map(|upload| upload.id)
            .collect();
        assert_eq!(left, Vec::from_iter(known), "{full_from}");
    }
}

/// Neither a store that takes nothing more nor a digest that is far behind
/// keeps an export from ending, and nothing is heard of it afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_export_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let noise = disk(folder.path(), 128 * MIB, &[(0, 128 * MIB, Fill::Noise)]);
    let other = tempfile::tempdir().unwrap();
    // Hours of zeros.
    let zeros = disk(other.path(), 8 << 40, &[(0, 40 * MIB, Fill::Noise)]);
    for (disk, parts, digest) in [
        (&noise, 1, false),
        (&noise, 1, true),
        (&zeros, 1, true),
        (&zeros, u64::MAX, true),
    ] {
        let store = store().await;
        store.allow(parts);
        let cancel = CancellationToken::new();
        let mut asked = request(disk, to(&store, "disk"), ZLIB);
        asked.digest = digest;
        let watch = Arc::new(Watch::default());
        let task = tokio::spawn({
            let (cancel, watch) = (cancel.clone(), watch.clone());
            async move { export(asked, &options(), watch, cancel).await }
        });
        // All that will be stored: the first part comes last.
        let stored = if parts == 1 { 1 } else { 5 };
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while store.stored_parts() < stored {
            assert!(std::time::Instant::now() < deadline);
            tokio::task::yield_now().await;
        }
        let begun = std::time::Instant::now();
        cancel.cancel();
        let error = task.await.unwrap().unwrap_err();
        assert!(matches!(error, TransferError::Cancelled));
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(20), "{took:?}");
        assert_eq!(Arc::strong_count(&watch), 1, "nobody has it any more");
        assert_eq!(store.object("disk"), None);
    }
}

/// What a digest cannot go on from is begun anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_digest_is_of_all_or_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let disk = large(folder.path());
    let (expected, wanted) = whole(&disk, ZLIB).await;
    let store = store().await;
    let mut asked = request(&disk, to(&store, "disk"), ZLIB);
    asked.digest = true;
    let mut kept = killed_when(&asked, &store, 5, Stop::Known(1)).await;
    let checkpoint = kept.pop().unwrap();
    let mut text = serde_json::to_value(&checkpoint).unwrap();
    assert!(text["place"]["digest"]["state"].is_string(), "{text}");
    text["place"]["digest"]["state"] = "00".into();
    asked.resume = Some(serde_json::from_value(text).unwrap());
    let done = exported(asked).await.unwrap();
    assert_eq!(done.digest, wanted.digest);
    assert!(store.object("disk").unwrap() == expected);
    assert_eq!(store.uploads(), []);
}

/// A device tells by what was written to it that it is not what it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_was_written_to_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let disk = large(folder.path());
    let Some(device) = Loop::of(&disk) else {
        return;
    };
    let store = store().await;
    let mut asked = request(&disk, to(&store, "disk"), ZLIB);
    asked.source = RawDisk::BlockDevice(device.0.clone());
    let mut kept = killed_when(&asked, &store, 5, Stop::Known(1)).await;
    let checkpoint = kept.pop().unwrap();
    assert!(checkpoint.progress().done > 0);
    asked.resume = Some(checkpoint);
    let before = store.requests().len();
    exported(asked.clone()).await.unwrap();
    assert!(!parts_sent(&store.requests()[before..]).contains(&2));
    judge_bytes(&disk, &store.object("disk").unwrap(), ZLIB);

    store.remove("disk");
    asked.resume = None;
    let mut kept = killed_when(&asked, &store, 5, Stop::Known(1)).await;
    let checkpoint = kept.pop().unwrap();
    asked.resume = Some(checkpoint);
    let written = File::options().write(true).open(&device.0).unwrap();
    written.write_all_at(&[9; 4096], 20 * MIB).unwrap();
    written.sync_all().unwrap();
    let before = store.requests().len();
    exported(asked.clone()).await.unwrap();
    assert!(parts_sent(&store.requests()[before..]).contains(&2));
    judge_bytes(&disk, &store.object("disk").unwrap(), ZLIB);
    assert_eq!(store.uploads(), []);

    // In one pass too.
    asked.resume = None;
    asked.overwrite = true;
    let watched = store.stored_parts() + 1;
    store.allow(1);
    let task = tokio::spawn(exported(asked));
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while store.stored_parts() < watched {
        assert!(std::time::Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    written.write_all_at(&[8; 4096], 20 * MIB).unwrap();
    written.sync_all().unwrap();
    store.allow(u64::MAX);
    let error = task.await.unwrap().unwrap_err();
    assert_eq!(error.reason(), "SourceChanged");
    assert_eq!(store.uploads(), []);
}

/// A file as a block device.
struct Loop(PathBuf);

impl Loop {
    /// `None`, with a word on why, where there can be none.
    fn of(file: &Path) -> Option<Self> {
        let mut losetup = Command::new("losetup");
        let output = losetup
            .args(["--find", "--show"])
            .arg(file)
            .output()
            .unwrap();
        if !output.status.success() {
            eprintln!("skipped: losetup: {output:?}");
            return None;
        }
        let path = String::from_utf8(output.stdout).unwrap();
        Some(Self(path.trim().into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.0)
            .status();
    }
}
