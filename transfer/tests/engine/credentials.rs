//! Basic credentials and headers: shown where they belong, and nowhere else.

use hypercloud_transfer::{BasicCredentials, Header, HttpAccess, Options, Secret, probe};

use crate::image::{assert_same, disk};
use crate::server::{Reply, Request, Server};
use crate::trust::authority;
use crate::watch::{file, http, http_with, options, run};

fn header(name: &str, value: &str) -> Header {
    Header {
        name: name.into(),
        value: Secret::new(value),
    }
}

fn basic(username: &str, password: &str) -> HttpAccess {
    HttpAccess {
        basic: Some(BasicCredentials {
            username: username.into(),
            password: Secret::new(password),
        }),
        ..HttpAccess::default()
    }
}

/// `me:hunter2`.
const BASIC: &str = "Basic bWU6aHVudGVyMg==";

fn is_known(request: &Request) -> bool {
    request
        .headers
        .get("authorization")
        .is_some_and(|found| found == BASIC)
}

#[tokio::test]
async fn basic_credentials_open_the_door_and_wrong_ones_do_not() {
    let bytes = disk(42, 6 << 20);
    let content = bytes.clone();
    let server = Server::start(move |request| {
        if is_known(request) {
            Reply::tagged(request, &content)
        } else {
            Reply::status(401).header("WWW-Authenticate", "Basic realm=\"x\"")
        }
    })
    .await;
    let url = server.url("/image");
    let by_url = url.replace("http://", "http://me:hunter2@");
    for source in [http_with(&url, basic("me", "hunter2")), http(&by_url)] {
        let target = tempfile::tempdir().unwrap();
        run(source, file(target.path()), &options()).await.unwrap();
        let found = std::fs::read(target.path().join("disk.img")).unwrap();
        assert_same(&found, &bytes, "with credentials");
    }
    // What is given beside the URL counts.
    let both = http_with(&by_url.replace("hunter2", "old"), basic("me", "hunter2"));
    assert!(probe(&both, &options()).await.is_ok());
    for source in [http(&url), http_with(&url, basic("me", "hunter3"))] {
        let error = probe(&source, &options()).await.unwrap_err();
        assert_eq!(
            (error.reason(), error.is_retryable()),
            ("Unauthorized", false)
        );
        let shown = format!("{} {error:?}", error.message());
        assert!(!shown.contains("hunter"), "{shown}");
    }
}

#[tokio::test]
async fn nothing_is_shown_to_another_origin_and_all_of_it_on_the_way_back() {
    let bytes = disk(43, 5 << 20);
    let content = bytes.clone();
    // Where it leads back to is known only once both are there.
    let home = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let back = std::sync::Arc::clone(&home);
    let elsewhere = Server::start(move |_| {
        let to = back.get().unwrap().replace("http://", "http://you:word@");
        Reply::status(307).header("Location", &to)
    })
    .await;
    let to = elsewhere.url("/there");
    let first = Server::start(move |request| match request.path.as_str() {
        "/image" => Reply::status(302).header("Location", &to),
        _ => Reply::tagged(request, &content),
    })
    .await;
    home.set(first.url("/back")).unwrap();

    let mut access = basic("me", "hunter2");
    access.headers = vec![header("X-Token", "secret\n"), header("x-token", "two")];
    let target = tempfile::tempdir().unwrap();
    let source = http_with(&first.url("/image"), access);
    run(source, file(target.path()), &options()).await.unwrap();
    let found = std::fs::read(target.path().join("disk.img")).unwrap();
    assert_same(&found, &bytes, "back again");

    for request in first.seen() {
        assert!(is_known(&request), "{request:?}");
        assert!(request.headers.contains_key("x-token"), "{request:?}");
    }
    assert!(!elsewhere.seen().is_empty());
    for request in elsewhere.seen() {
        let shown = ["authorization", "x-token"].map(|name| request.headers.get(name));
        assert_eq!(shown, [None, None]);
    }
}

#[tokio::test]
async fn credentials_do_not_leave_encryption() {
    let plain = Server::start(|request| Reply::of(request, &[7; 512])).await;
    let to = plain.url("/image");
    let (pem, tls) = authority(&["127.0.0.1"], false);
    let secure = Server::start_tls(tls, move |_| Reply::status(302).header("Location", &to)).await;
    let mut access = basic("me", "hunter2");
    access.authorities = Some(pem);
    let source = http_with(&secure.url("/image"), access);
    let error = probe(&source, &options()).await.unwrap_err();
    assert_eq!(error.reason(), "InsecureRedirect");
    assert!(plain.seen().is_empty());
}

#[tokio::test]
async fn headers_that_cannot_be_sent_are_named_before_any_request() {
    let server = Server::start(|request| Reply::of(request, &[7; 512])).await;
    for wrong in [
        header("Host", "hunter2"),
        header("Range", "bytes=0-1"),
        header("X-Token: hunter2", ""),
        header("X-Token", "hunter2\r\nX: y"),
    ] {
        let access = HttpAccess {
            headers: vec![wrong],
            ..HttpAccess::default()
        };
        let source = http_with(&server.url("/image"), access);
        assert!(!format!("{source:?}").contains("X: y"));
        let error = probe(
            &source,
            &Options {
                retries: 0,
                ..options()
            },
        )
        .await
        .unwrap_err();
        assert_eq!(
            (error.reason(), error.is_retryable()),
            ("InvalidHeader", false)
        );
        let shown = format!("{} {error:?}", error.message());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    assert!(server.seen().is_empty(), "nothing was asked");
}
