//! Stores that falter: what passes is borne with, what does not is told.

use std::sync::atomic::{AtomicUsize, Ordering};

use test_store::{Twist, refusal};

use super::*;

async fn twisted(twist: Box<Twist>) -> Store {
    let setup = Setup {
        twist: Some(twist),
        ..Setup::default()
    };
    Store::start(setup).await.unwrap()
}

/// Every third request meets a store that is busy, broken, or just mute.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_falters_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    for size in [3 * MIB, 60 * MIB] {
        let disk = mixed(folder.path(), size);
        for format in [ZLIB, ExportFormat::Raw] {
            let store = twisted(Box::new(|request, number| match number % 9 {
                // Answers without words may mean anything.
                _ if request.method == "HEAD" => None,
                2 => Some(refusal(503, "SlowDown", "")),
                5 => Some(refusal(500, "InternalError", "")),
                8 => Some(refusal(400, "RequestTimeout", "")),
                _ => None,
            }))
            .await;
            let done = exported(request(&disk, to(&store, "disk"), format))
                .await
                .unwrap();
            judge_bytes(&disk, &store.object("disk").unwrap(), format);
            assert_eq!(done.progress.written, done.size);
            assert_eq!(store.uploads(), []);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_stays_broken_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let disk = mixed(folder.path(), 40 * MIB);
    for (status, code, reason) in [
        (503, "SlowDown", "SlowDown"),
        (500, "InternalError", "ObjectStoreError"),
        (403, "QuotaExceeded", "StoreFull"),
    ] {
        let parts = Arc::new(AtomicUsize::new(0));
        let store = twisted(Box::new(move |request, _| {
            let is_part = request
                .uri
                .query()
                .is_some_and(|query| query.contains("partNumber"));
            let is_broken = is_part && parts.fetch_add(1, Ordering::Relaxed) > 0;
            is_broken.then(|| refusal(status, code, ""))
        }))
        .await;
        let few = Options {
            retries: 2,
            ..options()
        };
        let watch = Arc::new(Watch::default());
        let asked = request(&disk, to(&store, "disk"), ZLIB);
        let cancel = CancellationToken::new();
        let error = export(asked, &few, watch.clone(), cancel)
            .await
            .unwrap_err();
        // Who answers before the request was taken may cut it off by that.
        let reasons = [reason, "Interrupted"];
        assert!(reasons.contains(&error.reason()), "{}", error.message());
        assert!(error.is_retryable());
        // To be gone on with.
        let [upload] = &store.uploads()[..] else {
            panic!("there is one upload");
        };
        assert_eq!(watch.last().unwrap().upload_id(), Some(upload.id.as_str()));
    }
}

/// What will not change is final, and leaves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_after_a_failure_that_is_final() {
    let folder = tempfile::tempdir().unwrap();
    let disk = mixed(folder.path(), 40 * MIB);
    for (code, reason) in [
        ("AccessDenied", "AccessDenied"),
        ("EntityTooLarge", "ObjectTooLarge"),
    ] {
        let store = twisted(Box::new(move |request, _| {
            let query = request.uri.query().unwrap_or_default();
            query
                .contains("partNumber=3")
                .then(|| refusal(403, code, ""))
        }))
        .await;
        let error = exported(request(&disk, to(&store, "disk"), ExportFormat::Raw))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), reason, "{}", error.message());
        assert!(!error.is_retryable());
        assert_eq!(store.uploads(), []);
        assert_eq!(store.object("disk"), None);
    }
}

/// A part that vanished, or was replaced, is found out at the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_vanished_makes_no_object() {
    let folder = tempfile::tempdir().unwrap();
    let disk = mixed(folder.path(), 40 * MIB);
    let store = Arc::new(store().await);
    let watch = Watch {
        before_end: Some(Box::new({
            let store = Arc::clone(&store);
            move || store.drop_part(&store.uploads()[0].id, 2)
        })),
        ..Watch::default()
    };
    let watch = Arc::new(watch);
    let mut asked = request(&disk, to(&store, "disk"), ZLIB);
    let cancel = CancellationToken::new();
    let few = Options {
        retries: 2,
        ..options()
    };
    let error = export(asked.clone(), &few, watch.clone(), cancel)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "PartRefused", "{}", error.message());
    assert!(error.is_retryable());
    assert_eq!(store.object("disk"), None);
    assert_eq!(store.uploads(), []);
    asked.resume = watch.last();
    exported(asked).await.unwrap();
    judge_bytes(&disk, &store.object("disk").unwrap(), ZLIB);
}

/// Old stores know neither conditions nor checksums.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_knows_little_will_do() {
    let folder = tempfile::tempdir().unwrap();
    for size in [3 * MIB, 40 * MIB] {
        let disk = mixed(folder.path(), size);
        let setup = Setup {
            conditional: false,
            ..Setup::default().twisted(|request, _| {
                let headers = &request.headers;
                let is_new = headers
                    .keys()
                    .any(|name| name.as_str().starts_with("x-amz-checksum"));
                is_new.then(|| {
                    refusal(
                        400,
                        "InvalidRequest",
                        "<Message>Unsupported header</Message>",
                    )
                })
            })
        };
        let store = Store::start(setup).await.unwrap();
        let done = exported(request(&disk, to(&store, "disk"), ZLIB))
            .await
            .unwrap();
        judge_bytes(&disk, &store.object("disk").unwrap(), ZLIB);
        assert_eq!(done.checksum, None);
        assert_eq!(unquoted(done.etag), store.etag("disk"));
        assert_eq!(store.uploads(), []);
    }
}

/// A line that is slow is no line that stands still.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_takes_nothing_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let disk = mixed(folder.path(), 40 * MIB);
    let store = store().await;
    store.allow(1);
    let impatient = Options {
        retries: 1,
        connect_timeout: Duration::from_secs(10),
        stall_timeout: Duration::from_secs(2),
        ..options()
    };
    let asked = request(&disk, to(&store, "disk"), ZLIB);
    let cancel = CancellationToken::new();
    let error = export(asked, &impatient, Arc::new(()), cancel)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "UploadStalled", "{}", error.message());
    assert!(error.is_retryable());
}
