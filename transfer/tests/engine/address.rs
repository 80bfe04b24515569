//! Where an address leads: redirects, signatures that expire, the policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hypercloud_transfer::{AddressPolicy, Options, Side, probe};

use crate::image::{assert_same, disk};
use crate::misbehave::{fail, fetch};
use crate::server::{Reply, Request, Server};
use crate::watch::{file, http, options, run};

#[tokio::test]
async fn redirects_are_followed_once_and_credentials_stay() {
    let bytes = disk(19, 8 << 20);
    let content = bytes.clone();
    let mirror = Server::start(move |request| Reply::tagged(request, &content)).await;
    let to = mirror.url("/mirrored?signature=secret");
    let first = Server::start(move |request| match request.path.as_str() {
        "/image" => Reply::status(302).header("Location", "/hop"),
        _ => Reply::status(307).header("Location", &to),
    })
    .await;
    let url = first.url("/image").replace("http://", "http://user:word@");
    let target = tempfile::tempdir().unwrap();
    run(http(&url), file(target.path()), &options())
        .await
        .unwrap();
    assert_same(
        &std::fs::read(target.path().join("disk.img")).unwrap(),
        &bytes,
        "redirected",
    );
    assert_eq!(first.seen().len(), 2, "where it leads is remembered");
    assert!(
        first
            .seen()
            .iter()
            .all(|request| request.headers.contains_key("authorization"))
    );
    assert!(
        mirror
            .seen()
            .iter()
            .all(|request| !request.headers.contains_key("authorization"))
    );
}

#[tokio::test]
async fn a_signed_address_that_expires_is_asked_for_anew() {
    let bytes = disk(20, 16 << 20);
    let content = bytes.clone();
    let issued = Arc::new(AtomicUsize::new(0));
    let used = std::sync::Mutex::new(std::collections::HashMap::<String, usize>::new());
    let mirror = Server::start(move |request| {
        // Each signature is good for four requests.
        let mut used = used.lock().unwrap();
        let count = used.entry(request.path.clone()).or_default();
        *count += 1;
        if *count > 4 {
            Reply::status(403)
        } else {
            Reply::tagged(request, &content)
        }
    })
    .await;
    let to = mirror.url("/mirrored?signature=");
    let first = Server::start(move |_| {
        let number = issued.fetch_add(1, Ordering::Relaxed) + 1;
        Reply::status(302).header("Location", &format!("{to}{number}"))
    })
    .await;
    assert_same(&fetch(&first, "/image").await.unwrap(), &bytes, "expiring");
}

#[tokio::test]
async fn redirects_that_go_nowhere_fail() {
    let error = fail(|_| Reply::status(302).header("Location", "/image")).await;
    assert_eq!(error.reason(), "TooManyRedirects");
    let error = fail(|_| Reply::status(302)).await;
    assert_eq!(error.reason(), "InvalidRedirect");
    let error = fail(|_| Reply::status(302).header("Location", "ftp://example.org/x")).await;
    assert_eq!(error.reason(), "UnsupportedScheme");
    let error = fail(|_| Reply::status(302).header("Location", "file:///etc/passwd")).await;
    assert_eq!(error.reason(), "UnsupportedScheme");
}

#[tokio::test]
async fn the_policy_refuses_the_inside_by_address_and_by_name() {
    let server = Server::start(|request| Reply::of(request, &[1; 1000])).await;
    let strict = Options {
        address_policy: AddressPolicy::PublicAndPrivate,
        ..options()
    };
    let by_name = server.url("/image").replace("127.0.0.1", "localhost");
    for url in [
        server.url("/image"),
        by_name,
        "http://169.254.169.254/latest".into(),
    ] {
        let error = probe(&http(&url), &strict).await.unwrap_err();
        assert_eq!(
            error.reason(),
            "AddressRefused",
            "{url}: {}",
            error.message()
        );
        assert_eq!((error.side(), error.is_retryable()), (Side::Refused, false));
    }
    assert!(server.seen().is_empty(), "nothing was asked");
}

#[tokio::test]
async fn no_secret_of_a_url_is_shown() {
    for handler in [
        |_: &Request| Reply::status(403),
        |_: &Request| Reply::status(500),
    ] {
        let server = Server::start(handler).await;
        let url = server
            .url("/image?signature=hunter2")
            .replace("http://", "http://me:hunter2@");
        let error = probe(
            &http(&url),
            &Options {
                retries: 0,
                ..options()
            },
        )
        .await
        .unwrap_err();
        assert!(!format!("{} {error:?}", error.message()).contains("hunter2"));
        assert!(error.message().contains("/image"), "{}", error.message());
    }
    let url = "http://me:hunter2@127.0.0.1:1/image?signature=hunter2";
    let error = probe(
        &http(url),
        &Options {
            retries: 0,
            ..options()
        },
    )
    .await
    .unwrap_err();
    assert!(!format!("{} {error:?}", error.message()).contains("hunter2"));
}
