//! Servers that misbehave: each either works all the same, or fails with its
//! own reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hypercloud_transfer::{
    CancellationToken, ImageFormat, Options, Side, TransferError, import, probe,
};

use crate::image::{assert_same, disk, qcow2, raw};
use crate::server::{Reply, Request, Server};
use crate::watch::{Watch, file, http, impatient, options, request, run};

/// Imports from a server and gives the disk.
pub async fn fetch(server: &Server, path: &str) -> Result<Vec<u8>, TransferError> {
    fetch_with(server, path, &options()).await
}

/// The same with other options.
pub async fn fetch_with(
    server: &Server,
    path: &str,
    options: &Options,
) -> Result<Vec<u8>, TransferError> {
    let target = tempfile::tempdir().unwrap();
    run(http(&server.url(path)), file(target.path()), options).await?;
    Ok(std::fs::read(target.path().join("disk.img")).unwrap())
}

/// Imports, expecting it to fail; the error's reason.
pub async fn fail(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> TransferError {
    let server = Server::start(handler).await;
    let target = tempfile::tempdir().unwrap();
    let error = run(http(&server.url("/image")), file(target.path()), &options())
        .await
        .expect_err("the import should fail");
    assert!(
        !target.path().join("disk.img").exists(),
        "{}",
        error.message()
    );
    error
}

fn compressed(seed: u64, size: usize) -> (Vec<u8>, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk(seed, size);
    let source = raw(directory.path(), "source.raw", &bytes);
    let image = qcow2(&source, "image.qcow2", &["-c"]);
    (bytes, std::fs::read(image).unwrap())
}

#[tokio::test]
async fn bursts_of_errors_and_resets_are_ridden_out() {
    let (bytes, image) = compressed(11, 20 << 20);
    let server = Server::start(move |request| match request.number % 4 {
        1 => Reply::status(503).header("Retry-After", "0"),
        2 => {
            let mut reply = Reply::tagged(request, &image);
            reply.cut = Some(reply.body.len() * 99 / 100);
            reply
        }
        3 if request.number % 3 == 0 => Reply::status(429),
        _ => Reply::tagged(request, &image),
    })
    .await;
    assert_same(&fetch(&server, "/image").await.unwrap(), &bytes, "bursts");
}

#[tokio::test]
async fn a_stalled_connection_is_given_up_and_tried_again() {
    let bytes = disk(12, 6 << 20);
    let content = bytes.clone();
    let server = Server::start(move |request| {
        let mut reply = Reply::tagged(request, &content);
        if request.number == 2 {
            reply.stall = Some(100_000);
        }
        reply
    })
    .await;
    let found = fetch_with(&server, "/image", &impatient()).await;
    assert_same(&found.unwrap(), &bytes, "stall");
}

#[tokio::test]
async fn a_server_that_always_stalls_or_fails_is_given_up() {
    for (reason, reply) in [
        (
            "Stalled",
            Reply {
                stall: Some(10),
                ..Reply::whole(&[1; 5000])
            },
        ),
        ("ServerError", Reply::status(500)),
        ("TooManyRequests", Reply::status(429)),
        (
            "Interrupted",
            Reply {
                cut: Some(10),
                ..Reply::whole(&[1; 5000])
            },
        ),
    ] {
        let patience = match reason {
            "Stalled" => impatient(),
            _ => options(),
        };
        let short = Options {
            retries: 1,
            ..patience
        };
        let server = Server::start(move |_| reply.clone()).await;
        let error = probe(&http(&server.url("/image")), &short)
            .await
            .unwrap_err();
        assert_eq!(error.reason(), reason);
        assert!(error.is_retryable(), "{reason}");
        assert_eq!(error.side(), Side::Source);
    }
}

#[tokio::test]
async fn final_answers_are_final_and_named() {
    for (status, reason) in [
        (404, "NotFound"),
        (410, "NotFound"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (418, "UnexpectedStatus"),
        (204, "UnexpectedStatus"),
        (304, "UnexpectedStatus"),
    ] {
        let seen = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&seen);
        let error = fail(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            Reply::status(status)
        })
        .await;
        assert_eq!(error.reason(), reason);
        assert!(!error.is_retryable(), "{reason}");
        assert_eq!(
            seen.load(Ordering::Relaxed),
            1,
            "{status} is not asked for again"
        );
    }
}

#[tokio::test]
async fn nobody_listening_and_no_such_name_may_mend() {
    let quick = Options {
        retries: 0,
        ..options()
    };
    let error = probe(&http("http://127.0.0.1:1/image"), &quick)
        .await
        .unwrap_err();
    assert_eq!(
        (error.reason(), error.is_retryable()),
        ("ConnectFailed", true)
    );
    let error = probe(&http("http://no-such-host.invalid/image"), &quick)
        .await
        .unwrap_err();
    assert_eq!(
        (error.reason(), error.is_retryable()),
        ("NameNotResolved", true)
    );
}

#[tokio::test]
async fn what_is_no_disk_is_refused() {
    let page = b"  <!DOCTYPE HTML><html>please log in</html>";
    let refused = [
        ("WebPage", Reply::whole(page)),
        (
            "WebPage",
            Reply::whole(b"please log in").header("Content-Type", "text/html; x"),
        ),
        ("EmptySource", Reply::whole(b"")),
        (
            "EmptySource",
            Reply::status(416).header("Content-Range", "bytes */0"),
        ),
        ("UnsupportedFormat", Reply::whole(b"KDMV and so on")),
        ("DamagedPacking", Reply::whole(b"\x1f\x8b and so on")),
        ("TruncatedImage", Reply::whole(b"QFI\xfb\0\0\0\x03")),
    ];
    for (reason, reply) in refused {
        let error = fail(move |_| reply.clone()).await;
        assert_eq!(error.reason(), reason, "{}", error.message());
        assert_eq!((error.side(), error.is_retryable()), (Side::Refused, false));
    }
    let error = fail(|_| Reply::whole(&[7; 512]).header("Content-Encoding", "gzip")).await;
    assert_eq!(
        (error.reason(), error.side()),
        ("ContentEncoded", Side::Source)
    );
}

#[tokio::test]
async fn a_source_that_changes_half_way_is_noticed() {
    let bytes = disk(13, 12 << 20);
    let content = bytes.clone();
    let error = fail(move |request| {
        let tag = if request.number < 3 {
            "\"v1\""
        } else {
            "\"v2\""
        };
        Reply::of(request, &content).header("ETag", tag)
    })
    .await;
    assert_eq!(
        (error.reason(), error.is_retryable()),
        ("SourceChanged", true)
    );

    // A server that honours If-Range gives the whole of the new file.
    let content = bytes.clone();
    let error = fail(move |request| {
        let stale = request
            .headers
            .get("if-range")
            .is_some_and(|tag| tag == "\"v1\"");
        if stale && request.number >= 3 {
            return Reply::whole(&content[..1000]).header("ETag", "\"v2\"");
        }
        Reply::tagged(request, &content)
    })
    .await;
    assert_eq!(error.reason(), "SourceChanged");

    // One without validators is told by its length.
    let error = fail(move |request| {
        let end = bytes.len() - if request.number < 3 { 0 } else { 512 };
        Reply::of(request, &bytes[..end])
    })
    .await;
    assert_eq!(error.reason(), "SourceChanged");
}

#[tokio::test]
async fn wrong_ranges_are_not_taken_for_right_ones() {
    let bytes = disk(14, 6 << 20);
    let error = fail(move |request| {
        let reply = Reply::of(request, &bytes);
        match request.range {
            Some((first, _)) if first > 0 => Reply {
                headers: vec![("Content-Range".into(), format!("bytes 0-9/{}", bytes.len()))],
                ..reply
            },
            _ => reply,
        }
    })
    .await;
    assert_eq!((error.reason(), error.is_retryable()), ("WrongRange", true));
}

#[tokio::test]
async fn a_false_length_is_noticed() {
    for claimed in [20_000, 20_000_000] {
        let error = fail(move |_| Reply {
            length: Some(claimed),
            ..Reply::whole(&[9; 10_000])
        });
        let error = error.await;
        assert_eq!(
            error.reason(),
            "Interrupted",
            "{claimed}: {}",
            error.message()
        );
    }
    // A range that is shorter than it says.
    let bytes = disk(23, 6 << 20);
    let error = fail(move |request| {
        let mut reply = Reply::tagged(request, &bytes);
        if request.range.is_some_and(|(first, _)| first > 0) {
            reply.body.truncate(1000);
        }
        reply
    })
    .await;
    assert_eq!(
        (error.reason(), error.is_retryable()),
        ("Interrupted", true)
    );
}

#[tokio::test]
async fn servers_without_ranges_are_read_in_order() {
    let (bytes, image) = compressed(15, 30 << 20);
    let content = image.clone();
    let server = Server::start(move |request| match request.path.as_str() {
        "/raw" => Reply::whole(&bytes_of(&content, true)),
        _ => Reply::whole(&content),
    })
    .await;
    let facts = probe(&http(&server.url("/image")), &options())
        .await
        .unwrap();
    assert_eq!((facts.format, facts.ranges), (ImageFormat::Qcow2, false));
    assert_same(
        &fetch(&server, "/image").await.unwrap(),
        &bytes,
        "qcow2 stream",
    );
    // As a raw disk, the image's bytes would be misread: they are another's.
    let expected = bytes_of(&image, true);
    let found = fetch(&server, "/raw").await.unwrap();
    assert_same(&found[..expected.len()], &expected, "raw stream");
}

/// Some bytes that are not an image.
fn bytes_of(content: &[u8], noise: bool) -> Vec<u8> {
    let mut bytes = content.to_vec();
    if noise {
        bytes[0] = b'x';
    }
    bytes
}

#[tokio::test]
async fn a_broken_stream_is_begun_again_where_a_validator_makes_it_safe() {
    let bytes = disk(16, 9 << 20);
    let content = bytes.clone();
    let server = Server::start(move |request| {
        let mut reply = Reply::whole(&content).header("ETag", "\"v1\"");
        if request.number < 3 {
            reply.cut = Some(content.len() * (request.number + 1) / 5);
        }
        reply
    })
    .await;
    assert_same(&fetch(&server, "/image").await.unwrap(), &bytes, "stream");

    let error = fail(move |_| Reply {
        cut: Some(5 << 20),
        ..Reply::whole(&bytes)
    })
    .await;
    assert_eq!(
        (error.reason(), error.is_retryable()),
        ("Interrupted", true)
    );
}

#[tokio::test]
async fn chunked_images_work_where_the_format_tells_the_size() {
    let (bytes, image) = compressed(17, 10 << 20);
    let server = Server::start(move |_| Reply {
        chunked: true,
        ..Reply::whole(&image)
    })
    .await;
    assert_same(
        &fetch(&server, "/image").await.unwrap(),
        &bytes,
        "chunked qcow2",
    );
    let error = fail(|_| Reply {
        chunked: true,
        ..Reply::whole(&[9; 100_000])
    })
    .await;
    assert_eq!(error.reason(), "LengthUnknown");
}

#[tokio::test]
async fn a_layout_that_needs_ranges_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let source = raw(directory.path(), "source.raw", &disk(18, 30 << 20));
    let image = qcow2(&source, "image.qcow2", &["-o", "cluster_size=4k"]);
    let mut image = std::fs::read(image).unwrap();
    // The L1 table moved behind everything, as after growing an image.
    let l1 = u64::from_be_bytes(image[40..48].try_into().unwrap()) as usize;
    let entries = u32::from_be_bytes(image[36..40].try_into().unwrap()) as usize;
    let table = image[l1..l1 + entries * 8].to_vec();
    image.resize(image.len().next_multiple_of(4096), 0);
    let moved = (image.len() as u64).to_be_bytes();
    image[40..48].copy_from_slice(&moved);
    image.extend(table);
    let error = fail(move |_| Reply::whole(&image)).await;
    assert_eq!(
        (error.reason(), error.is_retryable()),
        ("RangesRequired", false)
    );
}

#[tokio::test]
async fn cancelling_is_prompt_and_leaves_nothing_running() {
    let bytes = disk(21, 40 << 20);
    let server = Arc::new(
        Server::start(move |request| {
            let mut reply = Reply::tagged(request, &bytes);
            if request.number > 6 {
                reply.stall = Some(reply.body.len() / 2);
            }
            reply
        })
        .await,
    );
    let target = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    let patient = Options {
        stall_timeout: Duration::from_secs(60),
        ..options()
    };
    let (token, watched) = (cancel.clone(), Arc::clone(&server));
    let stopper = tokio::spawn(async move {
        while watched.seen().len() < 9 {
            tokio::task::yield_now().await;
        }
        token.cancel();
        Instant::now()
    });
    let asked = request(http(&server.url("/image")), file(target.path()));
    let watch = Arc::new(Watch::default());
    let error = import(asked, &patient, watch.clone(), cancel)
        .await
        .unwrap_err();
    // Long before a stall would be found out.
    let took = stopper.await.unwrap().elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert_eq!(
        (error.reason(), error.side()),
        ("Cancelled", Side::Cancelled)
    );
    assert_eq!(Arc::strong_count(&watch), 1, "nothing holds the observer");
    // The partial file is not locked any more: another import may have it.
    let source = raw(target.path(), "source.raw", &[5; 1024]);
    run(
        crate::watch::local(&source),
        file(target.path()),
        &options(),
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn progress_and_facts_are_told() {
    let (bytes, image) = compressed(22, 12 << 20);
    let server = Server::start(move |request| Reply::tagged(request, &image)).await;
    let target = tempfile::tempdir().unwrap();
    let watch = Arc::new(Watch::default());
    let asked = request(http(&server.url("/image")), file(target.path()));
    let imported = import(asked, &options(), watch.clone(), CancellationToken::new())
        .await
        .unwrap();
    let facts = watch.facts.lock().unwrap().clone().unwrap();
    assert_eq!(facts.validator.as_deref(), Some("\"v1\""));
    assert_eq!(facts.virtual_size, Some(bytes.len() as u64));
    let progress = watch.progress.lock().unwrap();
    assert_eq!(progress.last(), Some(&imported.progress));
    assert!(progress.is_sorted_by_key(|progress| progress.done));
}

#[tokio::test]
async fn a_source_other_than_the_one_that_was_probed_has_changed() {
    let (_, image) = compressed(24, 4 << 20);
    let server = Server::start(move |request| Reply::tagged(request, &image)).await;
    let source = http(&server.url("/image"));
    let facts = probe(&source, &options()).await.unwrap();
    let mut asked = request(source, file(tempfile::tempdir().unwrap().path()));
    for change in 0..3 {
        let mut expected = facts.clone();
        match change {
            0 => expected.validator = Some("\"v0\"".into()),
            1 => expected.virtual_size = expected.virtual_size.map(|size| size + 512),
            _ => expected.format = ImageFormat::Raw,
        }
        asked.expected = Some(expected);
        let result = import(
            asked.clone(),
            &options(),
            Arc::new(()),
            CancellationToken::new(),
        )
        .await;
        assert_eq!(result.unwrap_err().reason(), "SourceChanged", "{change}");
    }
}
