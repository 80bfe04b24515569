//! Digests of what came, taken while it is imported.

use std::sync::Arc;

use hypercloud_transfer::{
    Algorithm, CancellationToken, Checksum, ImportRequest, SourceSpec, import,
};
use sha2::{Digest, Sha256, Sha512};

use crate::image::{assert_same, disk, qcow2, raw};
use crate::server::{Reply, Server};
use crate::watch::{file, http, local, options, request};

/// What the bytes' checksum has to be.
pub fn checksum(bytes: &[u8]) -> Checksum {
    Checksum::new(Algorithm::Sha256, Sha256::digest(bytes).to_vec()).unwrap()
}

/// Imports with a checksum and compares; the bytes received.
async fn check(source: SourceSpec, content: &[u8], expected: &[u8], what: &str) -> u64 {
    let wide = Checksum::new(Algorithm::Sha512, Sha512::digest(content).to_vec()).unwrap();
    let mut received = 0;
    for right in [checksum(content), wide] {
        let target = tempfile::tempdir().unwrap();
        let asked = ImportRequest {
            checksum: Some(right.clone()),
            ..request(source.clone(), file(target.path()))
        };
        let imported = import(asked, &options(), Arc::new(()), CancellationToken::new())
            .await
            .unwrap_or_else(|error| panic!("{what}: {}", error.message()));
        assert_eq!(imported.digest, Some(right), "{what}");
        received = imported.progress.received;
        assert_same(
            &std::fs::read(target.path().join("disk.img")).unwrap(),
            expected,
            what,
        );
    }
    let target = tempfile::tempdir().unwrap();
    let asked = ImportRequest {
        checksum: Some(checksum(b"another file")),
        ..request(source, file(target.path()))
    };
    let error = import(asked, &options(), Arc::new(()), CancellationToken::new())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "ChecksumMismatch", "{what}");
    assert!(!error.is_retryable());
    let left: Vec<_> = std::fs::read_dir(target.path()).unwrap().collect();
    assert!(left.is_empty(), "{what}: {left:?}");
    received
}

#[tokio::test]
async fn the_digest_is_of_the_sources_bytes_whatever_their_layout() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk(51, (9 << 20) + 512 * 5);
    let source = raw(directory.path(), "source.raw", &bytes);
    check(local(&source), &bytes, &bytes, "raw, local").await;
    for (what, arguments) in [
        ("zlib", &["-c"][..]),
        ("plain", &["-q"]),
        ("out of order", &["-W", "-m", "8", "-o", "cluster_size=4k"]),
        ("2 MiB clusters", &["-c", "-o", "cluster_size=2M"]),
    ] {
        let image = qcow2(&source, "image.qcow2", arguments);
        let content = std::fs::read(&image).unwrap();
        check(local(&image), &content, &bytes, what).await;
        let whole = content.clone();
        let server = Server::start(move |_| Reply::whole(&whole).header("ETag", "\"v1\"")).await;
        check(http(&server.url("/image")), &content, &bytes, what).await;
        let served = content.clone();
        let server = Server::start(move |request| Reply::tagged(request, &served)).await;
        let url = server.url("/image");
        let received = check(http(&url), &content, &bytes, what).await;
        // The head and the tables are read for what they say as well.
        let length = content.len() as u64;
        assert!(
            received < length + (1 << 20),
            "{what}: {received} of {length}"
        );
    }
}

#[tokio::test]
async fn what_lies_behind_the_image_counts() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk(52, 3 << 20);
    let source = raw(directory.path(), "source.raw", &bytes);
    let image = qcow2(&source, "image.qcow2", &["-c"]);
    let mut content = std::fs::read(&image).unwrap();
    content.extend(disk(53, 5_000_001));
    std::fs::write(&image, &content).unwrap();
    check(local(&image), &content, &bytes, "with a tail").await;
    let whole = content.clone();
    let server = Server::start(move |_| Reply::whole(&whole)).await;
    check(http(&server.url("/image")), &content, &bytes, "a stream").await;
}
