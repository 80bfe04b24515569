//! Long parts of raw disks are not held: they are read again as they are
//! sent, and are what they were, or nothing is made.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Parts of the least size are long already.
fn few() -> Options {
    Options {
        held_part: MIB,
        ..options()
    }
}

async fn streamed(request: ExportRequest) -> Result<Exported, TransferError> {
    export(request, &few(), Arc::new(()), CancellationToken::new()).await
}

fn is_part(request: &hyper::http::request::Parts, number: u32) -> bool {
    let query = request.uri.query().unwrap_or_default();
    query
        .split('&')
        .any(|word| word == format!("partNumber={number}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_is_read_again_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    // The last part ends in the middle of a block, with a piece, with a part;
    // one is of zeros alone.
    for size in [43 * MIB + 12_800, 41 * MIB, 40 * MIB] {
        let disk = mixed(folder.path(), size);
        let file = File::options().write(true).open(&disk).unwrap();
        file.write_all_at(&vec![0; 8 << 20], 16 * MIB).unwrap();
        let mut of = Vec::new();
        for held in [true, false] {
            let store = store().await;
            let mut asked = request(&disk, to(&store, "disk"), ExportFormat::Raw);
            asked.digest = true;
            let done = match held {
                true => exported(asked).await,
                false => streamed(asked).await,
            };
            let done = done.unwrap();
            judge_bytes(&disk, &store.object("disk").unwrap(), ExportFormat::Raw);
            assert_eq!(done.progress.written, size);
            assert_eq!(store.uploads(), []);
            of.push((done.size, done.digest, done.etag, done.checksum));
        }
        assert_eq!(of[0], of[1]);
        // Where it goes to a file, nothing is read again.
        let target = ExportTarget::File(folder.path().join(size.to_string()));
        streamed(request(&disk, target, ExportFormat::Raw))
            .await
            .unwrap();
        judge(
            &disk,
            &folder.path().join(size.to_string()),
            ExportFormat::Raw,
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_was_not_taken_is_read_once_more() {
    let folder = tempfile::tempdir().unwrap();
    let disk = mixed(folder.path(), 43 * MIB);
    let refused = AtomicBool::new(false);
    let setup = Setup::default().twisted(move |request, _| {
        let now = is_part(request, 2) && !refused.swap(true, Ordering::Relaxed);
        now.then(|| test_store::refusal(503, "SlowDown", ""))
    });
    let store = Store::start(setup).await.unwrap();
    streamed(request(&disk, to(&store, "disk"), ExportFormat::Raw))
        .await
        .unwrap();
    judge_bytes(&disk, &store.object("disk").unwrap(), ExportFormat::Raw);
    assert_eq!(store.uploads(), []);
}

/// A machine that writes between the one time and the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_has_changed_is_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    for checksums in [true, false] {
        let path = mixed(folder.path(), 43 * MIB);
        let file = File::options().write(true).open(&path).unwrap();
        let setup = Setup::default().twisted(move |request, _| {
            if is_part(request, 3) {
                // At its end, which no buffer on the way has yet.
                file.write_all_at(b"changed", 24 * MIB - 4096).unwrap();
            }
            // One that knows of no checksums, and finds out nothing.
            let begins = request.uri.query() == Some("uploads");
            let asked = request.headers.contains_key("x-amz-checksum-algorithm");
            (begins && asked && !checksums).then(|| test_store::refusal(501, "NotImplemented", ""))
        });
        let store = Store::start(setup).await.unwrap();
        let error = streamed(request(&path, to(&store, "disk"), ExportFormat::Raw))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "SourceChanged", "{}", error.message());
        assert_eq!((store.uploads(), store.objects()), (vec![], vec![]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_cut_goes_on_with_parts_that_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let disk = mixed(folder.path(), 75 * MIB);
    let store = store().await;
    let cancel = CancellationToken::new();
    let watch = Arc::new(Watch {
        stop_at: Some((Stop::Known(2), cancel.clone())),
        ..Watch::default()
    });
    let mut asked = request(&disk, to(&store, "disk"), ExportFormat::Raw);
    asked.digest = true;
    let cut = export(asked.clone(), &few(), watch.clone(), cancel).await;
    assert!(matches!(cut, Err(TransferError::Cancelled)), "{cut:?}");
    let before = store.requests().len();
    asked.resume = watch.last();
    let known = known_parts(asked.resume.as_ref().unwrap());
    assert!(!known.is_empty(), "{known:?}");
    streamed(asked).await.unwrap();
    judge_bytes(&disk, &store.object("disk").unwrap(), ExportFormat::Raw);
    assert_eq!(store.uploads(), []);
    let sent = parts_sent(&store.requests()[before..]);
    assert!(
        !sent.iter().any(|part| known.contains(part)),
        "{sent:?} {known:?}"
    );
}
