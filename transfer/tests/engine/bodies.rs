//! What is sent: tiny bodies, parts shorter than asked for, odd validators.

use hypercloud_transfer::{ImageFormat, probe};
use tokio::net::TcpListener;

use crate::image::{assert_same, disk};
use crate::misbehave::{fail, fetch};
use crate::server::{Reply, Request, Server};
use crate::watch::{http, options};

/// Answers with no more than `most` bytes of what was asked for.
fn at_most(request: &Request, content: &[u8], most: usize) -> Reply {
    let mut request = request.clone();
    if let Some((first, last)) = request.range {
        request.range = Some((first, last.min(first + most - 1)));
    }
    Reply::tagged(&request, content)
}

#[tokio::test]
async fn tiny_disks_are_padded_and_empty_ones_refused() {
    for size in [1, 511, 512, 513] {
        for ranges in [true, false] {
            let server = Server::start(move |request| match ranges {
                true => Reply::tagged(request, &vec![b'x'; size]),
                false => Reply::whole(&vec![b'x'; size]),
            })
            .await;
            let facts = probe(&http(&server.url("/image")), &options())
                .await
                .unwrap();
            assert_eq!((facts.format, facts.ranges), (ImageFormat::Raw, ranges));
            assert_eq!(facts.source_size, Some(size as u64));
            let found = fetch(&server, "/image").await.unwrap();
            let mut expected = vec![b'x'; size];
            expected.resize(size.next_multiple_of(512), 0);
            assert!(found == expected, "{size} bytes, ranges {ranges}");
        }
    }
    assert_eq!(fail(|_| Reply::whole(b"")).await.reason(), "EmptySource");
}

#[tokio::test]
async fn a_server_that_knows_only_get_is_enough() {
    let bytes = disk(45, 3 << 20);
    let content = bytes.clone();
    let server = Server::start(move |request| match request.method.as_str() {
        "GET" => Reply::tagged(request, &content).header("Accept-Ranges", "none"),
        _ => Reply::status(403),
    })
    .await;
    // What it says of ranges counts less than what it does.
    assert_same(&fetch(&server, "/image").await.unwrap(), &bytes, "GET");
    assert!(server.seen().iter().all(|request| request.method == "GET"));
}

#[tokio::test]
async fn parts_shorter_than_asked_for_are_put_together() {
    let bytes = disk(46, 6 << 20);
    for most in [40_000, 150_000] {
        let content = bytes.clone();
        let server = Server::start(move |request| at_most(request, &content, most)).await;
        let found = fetch(&server, "/image").await;
        if most >= 64 << 10 {
            assert_same(&found.unwrap(), &bytes, "short parts");
        } else {
            // The first bytes come all the same, and then it is hopeless.
            let facts = probe(&http(&server.url("/image")), &options())
                .await
                .unwrap();
            assert_eq!(facts.source_size, Some(bytes.len() as u64));
            assert_eq!(found.unwrap_err().reason(), "WrongRange");
        }
    }
}

#[tokio::test]
async fn a_length_that_is_not_told_with_ranges_is_named() {
    let error = fail(|request| {
        let mut reply = Reply::of(request, &[7; 100_000]);
        reply.headers = vec![("Content-Range".into(), "bytes 0-65535/*".into())];
        reply
    })
    .await;
    assert_eq!(error.reason(), "LengthUnknown");
}

#[tokio::test]
async fn if_range_takes_a_strong_tag_only() {
    let bytes = disk(47, 5 << 20);
    for (name, value, strong) in [
        ("ETag", "\"v1\"", true),
        ("ETag", "W/\"v1\"", false),
        ("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT", false),
    ] {
        let content = bytes.clone();
        let server =
            Server::start(move |request| Reply::of(request, &content).header(name, value)).await;
        assert_same(&fetch(&server, "/image").await.unwrap(), &bytes, value);
        let later = server.seen().split_off(2);
        assert!(!later.is_empty());
        for request in later {
            let sent = request.headers.get("if-range").map(String::as_str);
            assert_eq!(sent, strong.then_some(value));
        }
    }
}

#[tokio::test]
async fn weak_tags_and_dates_tell_a_change_as_well() {
    let bytes = disk(48, 12 << 20);
    for (name, before, after) in [
        ("ETag", "W/\"v1\"", "W/\"v2\""),
        (
            "Last-Modified",
            "Sat, 21 Nov 2026 10:00:00 GMT",
            "Sat, 21 Nov 2026 10:00:01 GMT",
        ),
    ] {
        let content = bytes.clone();
        let error = fail(move |request| {
            let value = if request.number < 3 { before } else { after };
            Reply::of(request, &content).header(name, value)
        })
        .await;
        assert_eq!(error.reason(), "SourceChanged", "{name}");
    }
}

#[tokio::test]
async fn a_page_in_a_disks_place_is_refused_by_ranges_too() {
    let page = b"\n<html>please log in</html>";
    let error = fail(|request| Reply::tagged(request, page)).await;
    assert_eq!(error.reason(), "WebPage");
}

#[tokio::test]
async fn a_server_at_an_ipv6_address_is_one_like_others() {
    let Ok(listener) = TcpListener::bind("[::1]:0").await else {
        println!("skipped: this machine has no IPv6 loopback");
        return;
    };
    let bytes = disk(49, 3 << 20);
    let content = bytes.clone();
    let server = Server::serve(listener, None, move |request| {
        Reply::tagged(request, &content)
    });
    assert!(server.url("/image").starts_with("http://[::1]:"));
    assert_same(&fetch(&server, "/image").await.unwrap(), &bytes, "IPv6");
}
