//! Images that are broken or mean harm, case by case. Each is refused for a
//! reason of its own, with a message that says what to do, and leaves nothing
//! behind; or it is read, at a bounded cost.
//!
//! | case | test |
//! |---|---|
//! | backing file: absolute, relative, `json:`, `nbd:` | [`names_inside_an_image_are_never_followed`] |
//! | external data file, `json:` in its name (CVE-2024-32498, CVE-2024-4467) | [`names_inside_an_image_are_never_followed`] |
//! | extents named by a VMDK descriptor (OpenStack 2059809) | `detect::tests::a_descriptor_behind_comments_is_a_vmdk_still`, `target::a_disk_that_would_be_misread_is_not_produced` |
//! | encryption: LUKS, AES | [`encrypted_images_are_refused`] |
//! | unknown incompatible bits, corrupt bit, cluster size, table places and sizes, entries | [`every_broken_field_has_its_own_reason`], `header_tests`, `plans` |
//! | dirty bit, damaged snapshots and refcounts: not needed to read | [`what_reading_does_not_need_may_be_broken`] |
//! | internal snapshots are ignored | [`internal_snapshots_are_ignored`], `matrix::fragments_zeros_and_snapshots_give_qemus_bytes` |
//! | tables that the file cannot hold, largest and worst tables | `disk/tests/cost.rs` |
//! | compressed clusters beyond the file, that decode short, long or not at all | [`every_broken_field_has_its_own_reason`] |
//! | many entries for one cluster | [`a_cluster_that_many_entries_share_is_read_seldom`] |
//! | one L2 table for many entries | [`every_broken_field_has_its_own_reason`] |
//! | truncated anywhere | [`a_file_cut_anywhere_is_refused_or_whole`], `header_tests`, `misbehave::a_false_length_is_noticed` |
//! | virtual size not a multiple of 512 | [`qemu_makes_no_size_that_is_not_a_multiple_of_512`], [`every_broken_field_has_its_own_reason`], `matrix::raw_sources_of_any_length_are_padded_to_a_sector` |
//! | another format than the declared one | [`a_declared_format_is_held_to`] |
//! | other formats, by name; pages | `detect::tests`, `misbehave::what_is_no_disk_is_refused` |
//! | any other damage | `arbitrary`, `damage`, `plans` |
//! | the same in memory and bytes read | `tests/hostile_cost.rs` |

use hypercloud_transfer::{ImageFormat, Options, Side, SpacePolicy};

use crate::image::{assert_same, flatten, qemu, raw};
use crate::layouts::clusters;
use crate::matrix::check;
use crate::watch::{file, local, options, request, run};
use crate::writer::{Cluster, Image, Order, Shape, compress, write};

const CLUSTER: usize = 4096;

/// A good image of two L2 tables: text, compressed text, marked zero, and
/// again.
fn good() -> Image {
    let text = |n: u8| -> Vec<u8> { (0..CLUSTER).map(|at| (at % 97) as u8 ^ n).collect() };
    let clusters: Vec<_> = (0..600)
        .map(|at| match at % 3 {
            0 => Cluster::Plain(text(at as u8)),
            1 => Cluster::Compressed(text(at as u8)),
            _ => Cluster::Zero,
        })
        .collect();
    write(&Shape::usual(12), &clusters)
}

/// The reason for which an image is refused, whole and without a trace.
async fn refused(bytes: &[u8], what: &str) -> &'static str {
    let directory = tempfile::tempdir().unwrap();
    let path = raw(directory.path(), "image", bytes);
    let target = tempfile::tempdir().unwrap();
    let sparse = Options {
        space_policy: SpacePolicy::Sparse,
        ..options()
    };
    let error = match run(local(&path), file(target.path()), &sparse).await {
        Ok(_) => panic!("{what}: was taken"),
        Err(error) => error,
    };
    let message = error.message();
    assert_eq!(error.side(), Side::Refused, "{what}: {message}");
    assert!(!error.is_retryable(), "{what}: {message}");
    let left = std::fs::read_dir(target.path()).unwrap().count();
    assert_eq!(left, 0, "{what} leaves nothing behind");
    error.reason()
}

/// What is wrong, how it is done, and what it is refused for.
type Case = (&'static str, fn(&mut Image), &'static str);

/// Puts other bytes where the compressed cluster 1 is.
fn recompress(image: &mut Image, bytes: &[u8]) {
    let start = (image.get64(image.entries[1]) & ((1 << 57) - 1)) as usize;
    image.bytes[start..start + bytes.len()].copy_from_slice(bytes);
}

fn text(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 97) as u8).collect()
}

const CASES: &[Case] = &[
    ("version 1", |i| i.put32(4, 1), "UnsupportedFormat"),
    ("version 4", |i| i.put32(4, 4), "UnsupportedVersion"),
    ("backing file", |i| i.put64(8, 512), "BackingFile"),
    ("cluster_bits 8", |i| i.put32(20, 8), "InvalidClusterSize"),
    ("cluster_bits 22", |i| i.put32(20, 22), "InvalidClusterSize"),
    ("size 0", |i| i.put64(24, 0), "ZeroVirtualSize"),
    ("size 1000", |i| i.put64(24, 1000), "UnalignedVirtualSize"),
    ("size 2^63", |i| i.put64(24, 1 << 63), "AbsurdVirtualSize"),
    ("aes", |i| i.put32(32, 1), "EncryptedImage"),
    ("luks", |i| i.put32(32, 2), "EncryptedImage"),
    ("L1 too short", |i| i.put32(36, 1), "ShortL1Table"),
    ("L1 of no entries", |i| i.put32(36, 0), "ShortL1Table"),
    (
        "L1 of 2^32 entries",
        |i| i.put32(36, u32::MAX),
        "OversizedTable",
    ),
    (
        "L1 that the file cannot hold",
        |i| i.put32(36, 1 << 22),
        "TableBeyondEnd",
    ),
    (
        "L1 beyond the end",
        |i| i.put64(40, 1 << 40),
        "TableBeyondEnd",
    ),
    (
        "L1 at the end of all",
        |i| i.put64(40, !0xfff),
        "TableBeyondEnd",
    ),
    ("L1 in the header", |i| i.put64(40, 0), "OverlappingTable"),
    (
        "L1 in the refcounts",
        |i| i.put64(40, i.get64(48)),
        "OverlappingTable",
    ),
    ("L1 askew", |i| i.put64(40, 4096 + 8), "UnalignedTable"),
    (
        "refcounts beyond the end",
        |i| i.put64(48, 1 << 40),
        "TableBeyondEnd",
    ),
    (
        "refcounts in the header",
        |i| i.put64(48, 0),
        "OverlappingTable",
    ),
    ("refcounts askew", |i| i.put64(48, 4097), "UnalignedTable"),
    (
        "refcounts of 2^32 clusters",
        |i| i.put32(56, u32::MAX),
        "OversizedTable",
    ),
    ("corrupt", |i| i.put64(72, 2), "CorruptImage"),
    ("data file", |i| i.put64(72, 4), "ExternalDataFile"),
    (
        "unknown feature",
        |i| i.put64(72, 1 << 5),
        "UnknownFeatures",
    ),
    (
        "last unknown feature",
        |i| i.put64(72, 1 << 63),
        "UnknownFeatures",
    ),
    ("small subclusters", |i| i.put64(72, 16), "SmallSubclusters"),
    ("refcount_order 7", |i| i.put32(96, 7), "InvalidHeader"),
    ("header_length 96", |i| i.put32(100, 96), "InvalidHeader"),
    (
        "compression 2",
        |i| (i.put64(72, 8), i.bytes[104] = 2).1,
        "UnknownCompression",
    ),
    (
        "L1 entry reserved",
        |i| i.put64(i.l1, 1 << 56 | 4096),
        "ReservedBits",
    ),
    (
        "L2 beyond the end",
        |i| i.put64(i.l1, 1 << 40),
        "TableBeyondEnd",
    ),
    ("L2 in the header", |i| i.put64(i.l1, 512), "UnalignedTable"),
    (
        "L2 in the L1",
        |i| i.put64(i.l1, i.l1 as u64),
        "OverlappingTable",
    ),
    (
        "L2 in the refcounts",
        |i| i.put64(i.l1, i.get64(48)),
        "OverlappingTable",
    ),
    (
        "L2 used twice",
        |i| i.put64(i.l1 + 8, i.get64(i.l1)),
        "SharedTable",
    ),
    (
        "L2 entry reserved",
        |i| i.put64(i.entries[0], 1 << 60),
        "ReservedBits",
    ),
    (
        "cluster askew",
        |i| i.put64(i.entries[0], 512 * 17),
        "MisplacedCluster",
    ),
    (
        "cluster beyond the end",
        |i| i.put64(i.entries[0], 1 << 40),
        "ClusterBeyondEnd",
    ),
    (
        "compressed in the header",
        |i| i.put64(i.entries[1], 1 << 62 | 8),
        "MisplacedCluster",
    ),
    (
        "compressed beyond the end",
        |i| i.put64(i.entries[1], 1 << 62 | 1 << 40),
        "ClusterBeyondEnd",
    ),
    (
        "compressed noise",
        |i| recompress(i, &[0xff; 64]),
        "UndecodableCluster",
    ),
    (
        "compressed short",
        |i| recompress(i, &compress(&text(CLUSTER - 1), false)),
        "ShortCluster",
    ),
    (
        "compressed long",
        |i| recompress(i, &compress(&text(CLUSTER + 1), false)),
        "LongCluster",
    ),
    (
        "compressed bomb",
        |i| recompress(i, &compress(&vec![0; 1 << 17], false)),
        "LongCluster",
    ),
];

#[tokio::test]
async fn every_broken_field_has_its_own_reason() {
    let whole = good();
    let directory = tempfile::tempdir().unwrap();
    let path = raw(directory.path(), "image.qcow2", &whole.bytes);
    check(&path, &whole.disk, "nothing broken").await;
    for (what, damage, reason) in CASES {
        let mut image = whole.clone();
        damage(&mut image);
        assert_eq!(refused(&image.bytes, what).await, *reason, "{what}");
    }
}

#[tokio::test]
async fn what_reading_does_not_need_may_be_broken() {
    type Damage = fn(&mut Image);
    let cases: [(&str, Damage); 5] = [
        ("dirty", |i| i.put64(72, 1)),
        ("snapshots nowhere", |i| {
            i.put32(60, u32::MAX);
            i.put64(64, u64::MAX);
        }),
        ("refcount table of noise", |i| {
            i.put64(i.get64(48) as usize, u64::MAX)
        }),
        ("compatible and autoclear bits", |i| {
            i.put64(80, u64::MAX);
            i.put64(88, u64::MAX);
        }),
        ("L1 longer than needed", |i| i.put32(36, 512)),
    ];
    for (what, damage) in cases {
        let mut image = good();
        damage(&mut image);
        let directory = tempfile::tempdir().unwrap();
        let path = raw(directory.path(), "image.qcow2", &image.bytes);
        check(&path, &image.disk, what).await;
    }
}

#[tokio::test]
async fn names_inside_an_image_are_never_followed() {
    let directory = tempfile::tempdir().unwrap();
    let secret = raw(directory.path(), "secret", b"the host's own");
    let image = directory.path().join("image.qcow2");
    let path = image.to_str().unwrap();
    for name in [
        secret.to_str().unwrap(),
        "secret",
        "../../../../etc/hostname",
        "json:{\"driver\":\"raw\",\"file\":{\"driver\":\"file\",\"filename\":\"/etc/hostname\"}}",
        "nbd://127.0.0.1:1/export",
        "nbd:unix:/run/x.sock",
    ] {
        let size = if name.contains("nbd") {
            &["1M"][..]
        } else {
            &["64K"]
        };
        let create = [
            "create", "-q", "-f", "qcow2", "-u", "-F", "raw", "-b", name, path,
        ];
        qemu("qemu-img", &[&create[..], size].concat());
        let reason = refused(&std::fs::read(&image).unwrap(), name).await;
        assert_eq!(reason, "BackingFile", "{name}");
    }
    let data = directory.path().join("data.raw");
    let data = format!("data_file={}", data.to_str().unwrap());
    let create = ["create", "-q", "-f", "qcow2", "-o", &data, path, "1M"];
    qemu("qemu-img", &create);
    let mut bytes = std::fs::read(&image).unwrap();
    assert_eq!(refused(&bytes, "data file").await, "ExternalDataFile");
    // The same with another name in the header's extension.
    let at = (104..4096)
        .find(|at| bytes[*at..].starts_with(&data.as_bytes()[10..]))
        .unwrap();
    bytes[at..at + 5].copy_from_slice(b"json:");
    assert_eq!(refused(&bytes, "data file json:").await, "ExternalDataFile");
}

#[tokio::test]
async fn encrypted_images_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image.qcow2");
    let secret = ["--object", "secret,id=key,data=x", "-o"];
    let option = "encrypt.format=aes,encrypt.key-secret=key";
    let create = ["create", "-q", "-f", "qcow2"];
    let rest = [option, image.to_str().unwrap(), "1M"];
    qemu("qemu-img", &[&create[..], &secret, &rest].concat());
    let bytes = std::fs::read(&image).unwrap();
    assert_eq!(refused(&bytes, "AES").await, "EncryptedImage");
    // QEMU spends seconds on a key for LUKS, so this one is made by hand: the
    // method, and the extension that tells where the LUKS header is.
    let mut luks = good();
    luks.put32(32, 2);
    luks.put32(112, 0x0537_be77);
    luks.put32(116, 16);
    luks.put64(120, 4096);
    luks.put64(128, 4096);
    assert_eq!(refused(&luks.bytes, "LUKS").await, "EncryptedImage");
}

#[tokio::test]
async fn internal_snapshots_are_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image.qcow2");
    let path = image.to_str().unwrap();
    qemu("qemu-img", &["create", "-q", "-f", "qcow2", path, "4M"]);
    for (pattern, name) in [("1", "first"), ("2", "second"), ("3", "third")] {
        let write = format!("write -q -P {pattern} {pattern}M 128k");
        let over = format!("write -q -P {pattern} 0 64k");
        qemu("qemu-io", &["-f", "qcow2", "-c", &write, "-c", &over, path]);
        qemu("qemu-img", &["snapshot", "-c", name, path]);
    }
    qemu(
        "qemu-io",
        &["-f", "qcow2", "-c", "write -q -P 9 0 32k", path],
    );
    check(&image, &flatten(&image), "snapshots").await;
}

#[tokio::test]
async fn a_file_cut_anywhere_is_refused_or_whole() {
    for order in [Order::Usual, Order::TablesLast, Order::Shuffled(8)] {
        let shape = Shape {
            order,
            ..Shape::usual(12)
        };
        let image = write(&shape, &clusters(31, &shape, 12));
        let ends = (1..=image.bytes.len() / CLUSTER).map(|cluster| cluster * CLUSTER);
        let inside = ends.flat_map(|end| [end - CLUSTER + 1, end - CLUSTER / 2, end - 1, end]);
        // With less than its magic number it is no image, but a raw disk.
        let inside = inside.skip(1);
        let head = [4, 8, 71, 72, 103, 104, 111, 511, 512];
        let (mut whole, mut cut) = (0, 0);
        for length in head.into_iter().chain(inside) {
            let directory = tempfile::tempdir().unwrap();
            let path = raw(directory.path(), "image", &image.bytes[..length]);
            match run(local(&path), file(directory.path()), &options()).await {
                Ok(_) => {
                    whole += 1;
                    let found = std::fs::read(directory.path().join("disk.img")).unwrap();
                    assert_same(&found, &image.disk, &format!("{order:?}, {length} bytes"));
                }
                Err(error) => {
                    cut += 1;
                    let reason = error.reason();
                    assert!(
                        [
                            "TruncatedImage",
                            "TableBeyondEnd",
                            "ClusterBeyondEnd",
                            "UndecodableCluster"
                        ]
                        .contains(&reason),
                        "{order:?}, {length} bytes: {}",
                        error.message()
                    );
                    assert!(!directory.path().join("disk.img").exists());
                }
            }
        }
        assert!(whole > 0 && cut > 9, "{order:?}: {whole} whole, {cut} cut");
    }
}

/// Bounded by the disk's size: each 8 MiB of it costs at most one more read
/// of the cluster.
#[tokio::test]
async fn a_cluster_that_many_entries_share_is_read_seldom() {
    let size = 64 << 10;
    let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8 + 1).collect();
    for shared in [Cluster::Compressed(bytes.clone()), Cluster::Plain(bytes)] {
        let mut image = write(&Shape::usual(16), &vec![shared; 512]);
        for entry in 1..512 {
            image.put64(image.entries[entry], image.get64(image.entries[0]));
        }
        let directory = tempfile::tempdir().unwrap();
        let path = raw(directory.path(), "image.qcow2", &image.bytes);
        let imported = run(local(&path), file(directory.path()), &options())
            .await
            .unwrap();
        let found = std::fs::read(directory.path().join("disk.img")).unwrap();
        assert_same(&found, &image.disk, "shared");
        // The head and one table, then the cluster for each job.
        let most = 3 * size as u64 + (32 / 8) * (size as u64 + 8192);
        let received = imported.progress.received;
        assert!(received <= most, "{received} bytes for 32 MiB");
    }
}

#[tokio::test]
async fn qemu_makes_no_size_that_is_not_a_multiple_of_512() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let source = raw(directory.path(), "source", &[7; 1000]);
    let (created, converted) = (path("created"), path("converted"));
    qemu(
        "qemu-img",
        &["create", "-q", "-f", "qcow2", &created, "1000"],
    );
    let convert = [
        "convert",
        "-f",
        "raw",
        "-O",
        "qcow2",
        source.to_str().unwrap(),
        &converted,
    ];
    qemu("qemu-img", &convert);
    for image in [created, converted] {
        let bytes = std::fs::read(&image).unwrap();
        assert_eq!(bytes[24..32], 1024u64.to_be_bytes(), "{image}");
    }
}

#[tokio::test]
async fn a_declared_format_is_held_to() {
    let image = good();
    let directory = tempfile::tempdir().unwrap();
    let source = raw(directory.path(), "image.qcow2", &image.bytes);
    let plain = raw(directory.path(), "image.raw", &[7; 4096]);
    for (path, declared) in [(source, ImageFormat::Raw), (plain, ImageFormat::Qcow2)] {
        let mut request = request(local(&path), file(directory.path()));
        request.format = Some(declared);
        let token = hypercloud_transfer::CancellationToken::new();
        let observer = std::sync::Arc::new(());
        let error = hypercloud_transfer::import(request, &options(), observer, token)
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "FormatMismatch");
        assert!(!error.is_retryable());
        assert!(!directory.path().join("disk.img").exists());
    }
}
