//! Packed sources: every packing, around every kind of image, from every kind
//! of source.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hypercloud_transfer::{
    CancellationToken, Checksum, ImageFormat, Options, Packing, TargetSpec, import, probe,
};

use crate::device::LoopDevice;
use crate::image::{assert_same, disk, flatten, qcow2, qemu, raw};
use crate::packing::{ALL, gzip, pack, xz, zstd};
use crate::server::{Reply, Request, Server};
use crate::watch::{Watch, file, http, local, options, request, run};

/// How a server gives a file.
type Manner = fn(&Request, &[u8]) -> Reply;

fn with_ranges(request: &Request, bytes: &[u8]) -> Reply {
    Reply::tagged(request, bytes)
}

fn without_ranges(_: &Request, bytes: &[u8]) -> Reply {
    Reply::whole(bytes).header("ETag", "\"v1\"")
}

/// Neither ranges nor a length.
fn in_chunks(request: &Request, bytes: &[u8]) -> Reply {
    Reply {
        chunked: true,
        ..without_ranges(request, bytes)
    }
}

/// An image with the data of its disk's end first.
fn out_of_order(directory: &Path) -> std::path::PathBuf {
    let image = directory.join("odd.qcow2");
    let path = image.to_str().unwrap();
    let create = [
        "create",
        "-f",
        "qcow2",
        "-o",
        "cluster_size=4k",
        path,
        "24M",
    ];
    qemu("qemu-img", &create);
    let writes: Vec<String> = (0..8)
        .rev()
        .map(|part| format!("write -P {} {}M 2M", part + 1, part * 3))
        .collect();
    let mut arguments = vec!["-f", "qcow2"];
    for write in &writes {
        arguments.extend(["-c", write]);
    }
    arguments.push(path);
    qemu("qemu-io", &arguments);
    image
}

struct Content {
    name: &'static str,
    bytes: Vec<u8>,
    format: ImageFormat,
    disk: Vec<u8>,
}

/// A disk as it is, and in images of several layouts.
fn contents(directory: &Path) -> Vec<Content> {
    let bytes = disk(71, (5 << 20) + 512 * 3);
    let source = raw(directory, "source.raw", &bytes);
    let mut contents = vec![Content {
        name: "raw",
        // Not a multiple of a sector: padded with zeros.
        bytes: bytes[..bytes.len() - 100].to_vec(),
        format: ImageFormat::Raw,
        disk: {
            let mut padded = bytes.clone();
            let end = padded.len() - 100;
            padded[end..].fill(0);
            padded
        },
    }];
    for (name, image) in [
        ("zlib", qcow2(&source, "zlib.qcow2", &["-c"])),
        ("plain", qcow2(&source, "plain.qcow2", &[])),
        ("out of order", out_of_order(directory)),
    ] {
        contents.push(Content {
            name,
            bytes: std::fs::read(&image).unwrap(),
            format: ImageFormat::Qcow2,
            disk: flatten(&image),
        });
    }
    contents
}

#[tokio::test(flavor = "multi_thread")]
async fn every_packing_around_every_image_from_every_source_gives_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    for content in contents(directory.path()) {
        for packing in ALL {
            let packed = pack(packing, &content.bytes);
            let path = raw(directory.path(), "packed", &packed);
            for (manner, name) in [
                (Some(with_ranges as Manner), "ranges"),
                (Some(without_ranges), "no ranges"),
                (Some(in_chunks), "no length"),
                (None, "file"),
            ] {
                let what = format!("{} in {packing}, {name}", content.name);
                let bytes = packed.clone();
                let server = match manner {
                    Some(manner) => Some(Server::start(move |r| manner(r, &bytes)).await),
                    None => None,
                };
                let source = server
                    .as_ref()
                    .map_or_else(|| local(&path), |server| http(&server.url("/image")));
                let target = tempfile::tempdir().unwrap();
                let imported = run(source, file(target.path()), &options())
                    .await
                    .unwrap_or_else(|error| panic!("{what}: {}", error.message()));
                let facts = imported.facts;
                assert_eq!(
                    (facts.format, facts.packing),
                    (content.format, Some(packing))
                );
                let size = content.disk.len() as u64;
                assert_eq!(facts.virtual_size, Some(size), "{what}");
                let progress = imported.progress;
                assert_eq!((progress.done, progress.total), (size, size), "{what}");
                let found = std::fs::read(target.path().join("disk.img")).unwrap();
                assert_same(&found, &content.disk, &what);
            }
        }
    }
}

#[tokio::test]
async fn an_image_out_of_order_is_read_again_where_that_is_safe() {
    let directory = tempfile::tempdir().unwrap();
    let image = out_of_order(directory.path());
    let expected = flatten(&image);
    let bytes = std::fs::read(&image).unwrap();

    let content = bytes.clone();
    let server = Server::start(move |request| without_ranges(request, &content)).await;
    let target = tempfile::tempdir().unwrap();
    let imported = run(http(&server.url("/")), file(target.path()), &options())
        .await
        .unwrap();
    let found = std::fs::read(target.path().join("disk.img")).unwrap();
    assert_same(&found, &expected, "without ranges");
    // The beginning, a pass that failed, one for the tables, one for the rest.
    assert_eq!(server.seen().len(), 4);
    assert!(imported.progress.received <= 4 * bytes.len() as u64);

    // Without a validator the passes could be over different files.
    let packed = gzip(&bytes);
    for content in [bytes, packed] {
        let server = Server::start(move |_| Reply::whole(&content)).await;
        let target = tempfile::tempdir().unwrap();
        let error = run(http(&server.url("/")), file(target.path()), &options())
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "RangesRequired");
        assert!(!target.path().join("disk.img").exists());
    }
}

/// Several units, and what may stand between and behind them.
fn in_several_units(bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let (first, second) = bytes.split_at(bytes.len() / 3);
    let zeros = vec![0; 1024];
    let skippable = [&b"\x53\x2a\x4d\x18\x05\0\0\0"[..], b"words"].concat();
    vec![
        (
            "members of gzip",
            [gzip(first), gzip(b""), gzip(second), zeros.clone()].concat(),
        ),
        (
            "streams of xz",
            [
                xz(first, 1 << 20),
                zeros.clone(),
                xz(b"", 1 << 20),
                xz(second, 300_000),
                zeros,
            ]
            .concat(),
        ),
        ("blocks of xz", xz(bytes, 1 << 20)),
        ("odd blocks of xz", xz(bytes, 1_500_001)),
        (
            "frames of zstd",
            [
                skippable.clone(),
                zstd(first, None),
                skippable.clone(),
                zstd(second, None),
                skippable,
            ]
            .concat(),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn several_units_are_one_disk() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk(72, 9 << 20);
    for (what, packed) in in_several_units(&bytes) {
        let path = raw(directory.path(), "packed", &packed);
        let facts = probe(&local(&path), &options()).await.unwrap();
        assert_eq!(facts.virtual_size, Some(bytes.len() as u64), "{what}");
        let server = Server::start(move |request| with_ranges(request, &packed)).await;
        for source in [local(&path), http(&server.url("/"))] {
            let target = tempfile::tempdir().unwrap();
            run(source, file(target.path()), &options())
                .await
                .unwrap_or_else(|error| panic!("{what}: {}", error.message()));
            let found = std::fs::read(target.path().join("disk.img")).unwrap();
            assert_same(&found, &bytes, what);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_is_zeroed_around_and_behind_the_disk() {
    const SIZE: usize = 12 << 20;
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk(73, (7 << 20) + 512);
    for packing in ALL {
        let Some(device) = LoopDevice::new(directory.path(), SIZE, 512) else {
            return;
        };
        let path = raw(directory.path(), "packed", &pack(packing, &bytes));
        let target = TargetSpec::BlockDevice(device.path().into());
        let imported = run(local(&path), target, &options()).await.unwrap();
        assert_eq!(imported.facts.virtual_size, Some(bytes.len() as u64));
        let mut expected = bytes.clone();
        expected.resize(SIZE, 0);
        assert_same(&device.read(SIZE), &expected, "device");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_goes_on_where_it_broke() {
    let bytes = disk(74, 20 << 20);
    for packing in ALL {
        let packed = pack(packing, &bytes);
        let size = packed.len();
        let content = packed.clone();
        let server = Server::start(move |request| {
            let mut reply = with_ranges(request, &content);
            if request.number % 3 == 2 {
                reply.cut = Some(reply.body.len() * 9 / 10);
            }
            reply
        })
        .await;
        let target = tempfile::tempdir().unwrap();
        let imported = run(http(&server.url("/")), file(target.path()), &options())
            .await
            .unwrap();
        let found = std::fs::read(target.path().join("disk.img")).unwrap();
        assert_same(&found, &bytes, "ranges");
        let received = imported.progress.received as usize;
        assert!(
            received < size + size / 10 + (128 << 10),
            "{received} of {size}"
        );

        // Without ranges it begins again.
        let breaks = Arc::new(AtomicUsize::new(0));
        let server = Server::start(move |request| {
            let mut reply = without_ranges(request, &packed);
            if breaks.fetch_add(1, Ordering::Relaxed) < 3 {
                reply.cut = Some(packed.len() / 2);
            }
            reply
        })
        .await;
        run(http(&server.url("/")), file(target.path()), &options())
            .await
            .unwrap();
        let found = std::fs::read(target.path().join("disk.img")).unwrap();
        assert_same(&found, &bytes, "no ranges");
    }
}

#[tokio::test]
async fn probing_measures_only_where_it_is_asked_to() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk(75, (6 << 20) + 10);
    let size = (bytes.len() as u64).next_multiple_of(512);
    let unmeasured = Options {
        measure: false,
        ..options()
    };
    for packing in ALL {
        let path = raw(directory.path(), "packed", &pack(packing, &bytes));
        let facts = probe(&local(&path), &options()).await.unwrap();
        assert_eq!(
            (facts.format, facts.packing),
            (ImageFormat::Raw, Some(packing))
        );
        assert_eq!(facts.virtual_size, Some(size));
        let facts = probe(&local(&path), &unmeasured).await.unwrap();
        // Only xz tells at its end.
        let told = (packing == Packing::Xz).then_some(size);
        assert_eq!(facts.virtual_size, told, "{packing}");
        let short = Options {
            measure_limit: 1 << 20,
            ..options()
        };
        let error = probe(&local(&path), &short)
            .await
            .map(|facts| facts.virtual_size);
        match (packing, error) {
            (Packing::Xz, found) => assert_eq!(found.ok().flatten(), Some(size)),
            (_, error) => assert_eq!(error.unwrap_err().reason(), "UnpacksTooLarge"),
        }
    }
    // An image in a packed source says its disk's size at its beginning.
    let source = raw(directory.path(), "source.raw", &bytes);
    let image = std::fs::read(qcow2(&source, "image.qcow2", &["-c"])).unwrap();
    let path = raw(directory.path(), "packed", &gzip(&image));
    let facts = probe(&local(&path), &unmeasured).await.unwrap();
    assert_eq!(
        (facts.format, facts.virtual_size),
        (ImageFormat::Qcow2, Some(size))
    );
    assert_eq!(
        facts.source_size,
        Some(std::fs::metadata(path).unwrap().len())
    );
}

#[tokio::test]
async fn a_disk_of_another_size_than_was_measured_has_changed() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk(76, 3 << 20);
    for packing in ALL {
        let path = raw(directory.path(), "packed", &pack(packing, &bytes));
        let facts = probe(&local(&path), &options()).await.unwrap();
        let size = facts.virtual_size.unwrap();
        for (said, fits) in [(size, true), (size + 512, false), (size - 512, false)] {
            let target = tempfile::tempdir().unwrap();
            let mut asked = request(local(&path), file(target.path()));
            asked.expected = Some(hypercloud_transfer::SourceFacts {
                virtual_size: Some(said),
                ..facts.clone()
            });
            let watch = Arc::new(Watch::default());
            let result = import(asked, &options(), watch.clone(), CancellationToken::new()).await;
            assert_eq!(target.path().join("disk.img").exists(), fits);
            match result {
                Ok(imported) => {
                    assert!(fits);
                    assert_eq!(imported.progress.total, size);
                    let progress = watch.progress.lock().unwrap();
                    assert!(progress.iter().all(|progress| progress.total == size));
                }
                Err(error) => assert_eq!((error.reason(), fits), ("SourceChanged", false)),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_is_of_the_bytes_as_they_are_packed() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk(77, 3 << 20);
    let source = raw(directory.path(), "source.raw", &bytes);
    let image = std::fs::read(qcow2(&source, "image.qcow2", &["-c"])).unwrap();
    for packing in ALL {
        for content in [&bytes, &image] {
            let path = raw(directory.path(), "packed", &pack(packing, content));
            let printed = std::process::Command::new("sha256sum")
                .arg(&path)
                .output()
                .unwrap();
            let digits = String::from_utf8(printed.stdout).unwrap();
            let digits = digits.split_whitespace().next().unwrap();
            let right: Checksum = format!("sha256:{digits}").parse().unwrap();
            let wrong: Checksum = format!("sha256:{}", "0".repeat(64)).parse().unwrap();
            for checksum in [right.clone(), wrong] {
                let target = tempfile::tempdir().unwrap();
                let mut asked = request(local(&path), file(target.path()));
                asked.checksum = Some(checksum.clone());
                let never = CancellationToken::new();
                let result = import(asked, &options(), Arc::new(()), never).await;
                let is_right = checksum == right;
                assert_eq!(target.path().join("disk.img").exists(), is_right);
                match result {
                    Ok(imported) => assert_eq!(imported.digest, Some(right.clone())),
                    Err(error) => assert_eq!(
                        (error.reason(), is_right),
                        ("ChecksumMismatch", false),
                        "{}",
                        error.message()
                    ),
                }
            }
        }
    }
}
