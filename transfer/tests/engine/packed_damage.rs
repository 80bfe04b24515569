//! Packed sources that are damaged, hostile or nothing that is imported.

use std::io::Write;

use hypercloud_transfer::{Options, Packing, Side, TargetSpec, TransferError};

use crate::device::LoopDevice;
use crate::image::{Random, disk, raw};
use crate::packing::{self, ALL, gzip, pack, xz};
use crate::server::{Reply, Server};
use crate::watch::{file, http, local, options, run};

/// Imports a local file, expecting it to fail and to leave nothing.
async fn refuse(packed: &[u8], options: &Options) -> TransferError {
    let directory = tempfile::tempdir().unwrap();
    let path = raw(directory.path(), "packed", packed);
    let target = tempfile::tempdir().unwrap();
    let error = run(local(&path), file(target.path()), options)
        .await
        .expect_err("the import should fail");
    let left = std::fs::read_dir(target.path()).unwrap().count();
    assert_eq!(left, 0, "{}", error.message());
    error
}

fn assert_refused(error: &TransferError, reason: &str, what: &str) {
    assert_eq!(error.reason(), reason, "{what}: {}", error.message());
    assert_eq!((error.side(), error.is_retryable()), (Side::Refused, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_cut_short_is_refused_wherever_it_was_cut() {
    let bytes = disk(81, 3 << 20);
    for packing in ALL {
        let packed = pack(packing, &bytes);
        for end in [
            12,
            1000,
            packed.len() / 2,
            packed.len() - 4,
            packed.len() - 1,
        ] {
            let error = refuse(&packed[..end], &options()).await;
            assert_refused(&error, "TruncatedPacking", &format!("{packing} at {end}"));
        }
    }
    // In the second of two.
    for packing in ALL {
        let packed = pack(packing, &bytes);
        let twice = [&packed[..], &packed[..packed.len() / 2]].concat();
        let error = refuse(&twice, &options()).await;
        assert_refused(&error, "TruncatedPacking", "the second");
    }
}

/// Where nobody says how long the source is, the connection may be to blame.
#[tokio::test(flavor = "multi_thread")]
async fn what_ends_early_without_a_length_is_tried_again() {
    let bytes = disk(88, 3 << 20);
    for packing in ALL {
        let packed = pack(packing, &bytes);
        for chunked in [false, true] {
            let cut = packed[..packed.len() / 2].to_vec();
            let whole = packed.clone();
            let server = Server::start(move |request| {
                // Each opening is one request, and each reading another.
                let body = if request.number < 2 { &cut } else { &whole };
                Reply {
                    chunked,
                    until_close: !chunked,
                    ..Reply::whole(body)
                }
            })
            .await;
            let target = tempfile::tempdir().unwrap();
            let source = || http(&server.url("/"));
            let error = run(source(), file(target.path()), &options())
                .await
                .unwrap_err();
            let message = error.message();
            assert_eq!(error.reason(), "Interrupted", "{packing}: {message}");
            assert_eq!((error.side(), error.is_retryable()), (Side::Source, true));
            assert!(message.contains("does not say how long it is"), "{message}");
            assert!(!target.path().join("disk.img").exists());
            run(source(), file(target.path()), &options())
                .await
                .unwrap();
            let found = std::fs::read(target.path().join("disk.img")).unwrap();
            assert!(found == bytes, "{packing}: the disks differ");
        }
    }
}

/// Packed data that unpacks to nothing, of some more than 80 MiB.
fn hollow() -> Vec<(Packing, &'static str, Vec<u8>)> {
    const MANY: usize = 80 << 20;
    // A member with nothing in it but a field for whoever wants one.
    let mut member = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\xff\xff".to_vec();
    member.extend([7; 0xffff]);
    member.extend(b"\x03\0\0\0\0\0\0\0\0\0");
    let name = [
        &b"\x1f\x8b\x08\x08\0\0\0\0\0\xff"[..],
        &vec![b'a'; MANY][..],
    ]
    .concat();
    let mut frame = b"\x50\x2a\x4d\x18\0\0\x80\0".to_vec();
    frame.resize(8 + (8 << 20), 7);
    vec![
        (
            Packing::Gzip,
            "members",
            member.repeat(MANY / member.len() + 1),
        ),
        (Packing::Gzip, "a name", name),
        (Packing::Gzip, "zeros", vec![0; MANY]),
        (Packing::Xz, "zeros", vec![0; MANY]),
        (Packing::Zstd, "frames", frame.repeat(11)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_unpacks_to_nothing_is_not_read_for_ever() {
    let bytes = disk(89, 1 << 20);
    for (packing, what, hollow) in hollow() {
        let packed = [pack(packing, &bytes), hollow].concat();
        let error = refuse(&packed, &options()).await;
        assert_refused(&error, "HollowPacking", what);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_follows_an_image_is_not_read_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let source = raw(directory.path(), "source.raw", &disk(90, 1 << 20));
    let image = crate::image::qcow2(&source, "image.qcow2", &["-c"]);
    let mut image = std::fs::read(image).unwrap();
    for (mebibytes, fits) in [(900, true), (1100, false)] {
        let packed = directory.path().join("packed");
        let mut writer = zstd_of(&packed);
        writer.write_all(&image).unwrap();
        for _ in 0..mebibytes {
            writer.write_all(&[0; 1 << 20]).unwrap();
        }
        writer.finish().unwrap();
        let target = tempfile::tempdir().unwrap();
        let result = run(local(&packed), file(target.path()), &options()).await;
        assert_eq!(target.path().join("disk.img").exists(), fits);
        if let Err(error) = result {
            assert!(!fits, "{}", error.message());
            assert_refused(&error, "EndlessSource", "zeros");
        }
    }
    // The same where the image itself says that it goes on for so long.
    image[40..48].copy_from_slice(&(1u64 << 40).to_be_bytes());
    let server = Server::start(move |_| Reply {
        chunked: true,
        ..Reply::whole(&image)
    })
    .await;
    let target = tempfile::tempdir().unwrap();
    let error = run(http(&server.url("/")), file(target.path()), &options())
        .await
        .unwrap_err();
    assert_refused(&error, "TableBeyondEnd", "far away");
}

fn zstd_of(path: &std::path::Path) -> zstd::Encoder<'static, std::fs::File> {
    zstd::Encoder::new(std::fs::File::create(path).unwrap(), 1).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_byte_is_noticed() {
    let bytes = disk(82, 3 << 20);
    let mut random = Random::new(82);
    for packing in ALL {
        let packed = pack(packing, &bytes);
        // The last places are checksums and lengths.
        let last = packed.len() as u64 - 1;
        let mut places: Vec<u64> = (0..6).map(|_| 100 + random.below(last - 200)).collect();
        places.extend(match packing {
            Packing::Gzip => [last - 7, last],
            Packing::Xz => [last - 11, last - 30],
            Packing::Zstd => [last - 3, last],
        });
        for place in places {
            let mut damaged = packed.clone();
            damaged[place as usize] ^= 0x55;
            let error = refuse(&damaged, &options()).await;
            let what = format!("{packing} at {place} of {last}: {}", error.message());
            // Lengths that are wrong may lead beyond the end, or before it.
            let reasons = ["DamagedPacking", "TruncatedPacking", "TrailingBytes"];
            assert!(reasons.contains(&error.reason()), "{what}");
            assert_eq!(error.side(), Side::Refused, "{what}");
        }
    }
}

#[tokio::test]
async fn what_follows_the_data_is_refused() {
    let bytes = disk(83, 1 << 20);
    for packing in ALL {
        let packed = [pack(packing, &bytes), b"and more".to_vec()].concat();
        let error = refuse(&packed, &options()).await;
        assert_refused(&error, "TrailingBytes", &packing.to_string());
    }
    let padded = [xz(&bytes, 1 << 20), vec![0; 6]].concat();
    let error = refuse(&padded, &options()).await;
    assert_refused(&error, "DamagedPacking", "padding");
}

#[tokio::test]
async fn what_is_inside_is_judged_as_well() {
    let mut tar = vec![0; 4096];
    tar[257..262].copy_from_slice(b"ustar");
    let page = b"<!DOCTYPE html><html>please log in</html>".to_vec();
    for packing in ALL {
        let inner = gzip(&[7; 4096]);
        for (reason, content) in [
            ("EmptySource", vec![]),
            ("UnsupportedFormat", b"KDMV and so on".to_vec()),
            ("UnsupportedFormat", tar.clone()),
            ("WebPage", page.clone()),
            ("NestedPacking", inner),
            ("TruncatedImage", b"QFI\xfb\0\0\0\x03".to_vec()),
        ] {
            let error = refuse(&pack(packing, &content), &options()).await;
            assert_refused(&error, reason, &packing.to_string());
        }
    }
    // An image that ends before what it says it has.
    let directory = tempfile::tempdir().unwrap();
    let source = raw(directory.path(), "source.raw", &disk(84, 4 << 20));
    let image = crate::image::qcow2(&source, "image.qcow2", &["-c"]);
    let mut image = std::fs::read(image).unwrap();
    for packing in ALL {
        let error = refuse(&pack(packing, &image[..image.len() / 2]), &options()).await;
        assert_refused(&error, "TruncatedImage", &packing.to_string());
    }
    // One whose packing turns out to be damaged behind all that is used.
    let end = image.len();
    image.resize(end + 100_000, 0);
    for packing in ALL {
        let mut packed = pack(packing, &image);
        let last = packed.len() - if packing == Packing::Xz { 12 } else { 2 };
        packed[last] ^= 1;
        let error = refuse(&packed, &options()).await;
        assert_refused(&error, "DamagedPacking", &packing.to_string());
    }
    // One that would have a terabyte read before anything is found.
    image[40..48].copy_from_slice(&(1u64 << 40).to_be_bytes());
    let error = refuse(&gzip(&image), &options()).await;
    assert_refused(&error, "TableBeyondEnd", "far away");
}

#[tokio::test]
async fn a_window_beyond_the_budget_is_refused() {
    let bytes = disk(85, 1 << 20);
    let mut packed = packing::zstd(&bytes, Some(26));
    // Accepted with the default budget, not with a smaller one.
    let directory = tempfile::tempdir().unwrap();
    let path = raw(directory.path(), "packed", &packed);
    run(local(&path), file(directory.path()), &options())
        .await
        .unwrap();
    let small = Options {
        memory_budget: 32 << 20,
        ..options()
    };
    let error = refuse(&packed, &small).await;
    assert_refused(&error, "PackingWindowTooLarge", "26");
    assert!(error.message().contains("--long=26"), "{}", error.message());
    // 256 MiB, as the frame's header says it.
    assert_eq!(packed[5], (26 - 10) << 3);
    packed[5] = (28 - 10) << 3;
    let error = refuse(&packed, &options()).await;
    assert_refused(&error, "PackingWindowTooLarge", "28");

    let tiny = Options {
        memory_budget: 256 << 10,
        ..options()
    };
    let error = refuse(&xz(&bytes, 1 << 20), &tiny).await;
    assert_refused(&error, "PackingWindowTooLarge", "xz");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bomb_is_stopped_by_the_size_of_the_target() {
    const SIZE: usize = 4 << 20;
    let directory = tempfile::tempdir().unwrap();
    // What looks like a disk, and grows beyond the device.
    let mut bytes = disk(86, 2 << 20);
    bytes[510..512].copy_from_slice(b"\x55\xaa");
    bytes.resize(64 << 20, 0);
    for packing in ALL {
        let Some(device) = LoopDevice::new(directory.path(), SIZE, 512) else {
            return;
        };
        let path = raw(directory.path(), "packed", &pack(packing, &bytes));
        let target = TargetSpec::BlockDevice(device.path().into());
        let error = run(local(&path), target, &options()).await.unwrap_err();
        assert_eq!(
            (error.reason(), error.side()),
            ("TargetTooSmall", Side::Target)
        );
        assert!(!error.is_retryable());
        // What is there is as it was, or does not pass for a disk.
        assert_ne!(device.read(512), bytes[..512], "{packing}");
    }
}

#[tokio::test]
async fn a_source_that_changes_while_it_is_unpacked_is_noticed() {
    let bytes = disk(87, 16 << 20);
    for packing in ALL {
        let packed = pack(packing, &bytes);
        let server = Server::start(move |request| {
            let tag = if request.number < 3 {
                "\"v1\""
            } else {
                "\"v2\""
            };
            Reply::of(request, &packed).header("ETag", tag)
        })
        .await;
        let target = tempfile::tempdir().unwrap();
        let error = run(http(&server.url("/")), file(target.path()), &options())
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "SourceChanged", "{}", error.message());
        assert!(!target.path().join("disk.img").exists());
    }
}
