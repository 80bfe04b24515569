//! Every layout that `qemu-img` can write, to files and devices, byte by byte.

use crate::device::LoopDevice;
use crate::image::{Random, assert_same, disk, flatten, qcow2, qemu, raw};
use crate::server::{Reply, Server};
use crate::watch::{file, http, local, options, run};
use hypercloud_transfer::{ImageFormat, TargetSpec};

/// Imports a local image to a file and compares.
pub async fn check(image: &std::path::Path, expected: &[u8], what: &str) {
    let target = tempfile::tempdir().unwrap();
    let imported = run(local(image), file(target.path()), &options())
        .await
        .unwrap_or_else(|error| panic!("{what}: {}", error.message()));
    assert_eq!(
        imported.facts.virtual_size,
        Some(expected.len() as u64),
        "{what}"
    );
    assert_eq!(imported.progress.done, imported.progress.total, "{what}");
    assert_same(
        &std::fs::read(target.path().join("disk.img")).unwrap(),
        expected,
        what,
    );
}

#[tokio::test]
async fn every_cluster_size_version_and_compression_gives_qemus_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk(1, (5 << 20) + 512 * 37);
    let source = raw(directory.path(), "source.raw", &bytes);
    for cluster in [512, 1024, 4096, 65536, 262_144, 2_097_152] {
        for (version, compression) in [
            ("0.10", "plain"),
            ("0.10", "zlib"),
            ("1.1", "plain"),
            ("1.1", "zlib"),
            ("1.1", "zstd"),
        ] {
            let what = format!("cluster {cluster}, compat {version}, {compression}");
            let mut option = format!("cluster_size={cluster},compat={version}");
            if compression == "zstd" {
                option += ",compression_type=zstd";
            }
            let mut arguments = vec!["-o", &option];
            if compression != "plain" {
                arguments.push("-c");
            }
            let image = qcow2(&source, "image.qcow2", &arguments);
            check(&image, &bytes, &what).await;
        }
    }
}

#[tokio::test]
async fn extended_l2_and_preallocation_give_qemus_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk(2, (9 << 20) + 512);
    let source = raw(directory.path(), "source.raw", &bytes);
    for (option, extra) in [
        ("extended_l2=on", "-q"),
        ("extended_l2=on,cluster_size=16k", "-q"),
        ("extended_l2=on,cluster_size=2M", "-q"),
        ("extended_l2=on,cluster_size=128k", "-c"),
        ("preallocation=metadata", "-q"),
        ("preallocation=falloc", "-q"),
        ("preallocation=full", "-q"),
        ("lazy_refcounts=on,refcount_bits=1", "-q"),
    ] {
        let image = qcow2(&source, "image.qcow2", &["-o", option, extra]);
        check(&image, &bytes, option).await;
    }
}

#[tokio::test]
async fn fragments_zeros_and_snapshots_give_qemus_bytes() {
    let directory = tempfile::tempdir().unwrap();
    for (seed, option) in [
        (1, "cluster_size=4096"),
        (2, "extended_l2=on"),
        (3, "compat=0.10"),
        (4, "cluster_size=64k"),
    ] {
        let image = directory.path().join("image.qcow2");
        let path = image.to_str().unwrap();
        qemu(
            "qemu-img",
            &["create", "-f", "qcow2", "-o", option, path, "40M"],
        );
        let mut random = Random::new(seed);
        let mut commands = Vec::new();
        for round in 0..120 {
            let offset = random.below(40 << 11) * 512;
            let length = (random.below(400) * 512 + 512).min((40 << 20) - offset);
            let command = match random.below(6) {
                0 if option != "compat=0.10" => format!("write -z {offset} {length}"),
                1 if option != "compat=0.10" => format!("write -z -u {offset} {length}"),
                2 => format!("discard {offset} {length}"),
                _ => format!("write -P {} {offset} {length}", random.below(255)),
            };
            commands.extend(["-c".to_owned(), command]);
            if round == 60 {
                let arguments: Vec<&str> = commands.iter().map(String::as_str).collect();
                qemu(
                    "qemu-io",
                    &[&["-f", "qcow2"], &arguments[..], &[path]].concat(),
                );
                qemu("qemu-img", &["snapshot", "-c", "earlier", path]);
                commands.clear();
            }
        }
        let arguments: Vec<&str> = commands.iter().map(String::as_str).collect();
        qemu(
            "qemu-io",
            &[&["-f", "qcow2"], &arguments[..], &[path]].concat(),
        );
        check(&image, &flatten(&image), option).await;
    }
}

#[tokio::test]
async fn clusters_out_of_order_give_qemus_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk(3, 24 << 20);
    let source = raw(directory.path(), "source.raw", &bytes);
    for extra in [&["-c"][..], &["-q"]] {
        let arguments = [&["-W", "-m", "16"], extra].concat();
        let image = qcow2(&source, "image.qcow2", &arguments);
        check(&image, &bytes, "out of order").await;
    }
}

#[tokio::test]
async fn raw_sources_of_any_length_are_padded_to_a_sector() {
    for size in [
        1,
        511,
        512,
        513,
        4095,
        4097,
        (2 << 20) - 1,
        (2 << 20) + 1,
        (7 << 20) + 777,
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut bytes = disk(size as u64, size);
        bytes[0] = b'x';
        let source = raw(directory.path(), "source.raw", &bytes);
        bytes.resize(size.next_multiple_of(512), 0);
        check(&source, &bytes, &format!("raw of {size}")).await;
    }
}

#[tokio::test]
async fn a_disk_file_is_sparse_and_has_its_mode_and_owner() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let mut bytes = vec![0; 64 << 20];
    bytes[32 << 20..33 << 20].fill(7);
    let source = raw(directory.path(), "source.raw", &bytes);
    let target = tempfile::tempdir().unwrap();
    let mut spec = file(target.path());
    if let TargetSpec::DiskFile(file) = &mut spec {
        let is_root = rustix::process::geteuid().is_root();
        file.owner = is_root.then_some((107, 107));
    }
    run(local(&source), spec, &options()).await.unwrap();
    let metadata = std::fs::metadata(target.path().join("disk.img")).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o660);
    assert!(
        metadata.blocks() * 512 < 2 << 20,
        "{} blocks",
        metadata.blocks()
    );
    if rustix::process::geteuid().is_root() {
        assert_eq!((metadata.uid(), metadata.gid()), (107, 107));
    }
    let names: Vec<_> = std::fs::read_dir(target.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing but the disk is left");
}

#[tokio::test]
async fn a_device_with_old_data_reads_as_the_image_and_zeros() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk(4, (21 << 20) + 512 * 3);
    let source = raw(directory.path(), "source.raw", &bytes);
    let size = 32 << 20;
    let mut expected = bytes.clone();
    expected.resize(size, 0);
    for sector in [512, 4096] {
        for (name, arguments) in [
            ("plain", &["-q"][..]),
            ("zlib", &["-c"]),
            ("small", &["-o", "cluster_size=512"]),
            ("zstd", &["-c", "-o", "compression_type=zstd"]),
        ] {
            let image = qcow2(&source, "image.qcow2", arguments);
            let Some(device) = LoopDevice::new(directory.path(), size, sector) else {
                return;
            };
            let target = TargetSpec::BlockDevice(device.path().into());
            let imported = run(local(&image), target, &options()).await.unwrap();
            assert_eq!(imported.facts.format, ImageFormat::Qcow2);
            assert_same(
                &device.read(size),
                &expected,
                &format!("{name}, sector {sector}"),
            );
        }
        let Some(device) = LoopDevice::new(directory.path(), size, sector) else {
            return;
        };
        let target = TargetSpec::BlockDevice(device.path().into());
        run(local(&source), target, &options()).await.unwrap();
        assert_same(
            &device.read(size),
            &expected,
            &format!("raw, sector {sector}"),
        );
    }
}

#[tokio::test]
async fn http_gives_the_same_as_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk(5, 48 << 20);
    let source = raw(directory.path(), "source.raw", &bytes);
    for (name, arguments) in [
        ("plain", &["-q"][..]),
        ("zlib", &["-c"]),
        ("zstd", &["-c", "-o", "compression_type=zstd"]),
        ("raw", &[]),
    ] {
        let image = match name {
            "raw" => source.clone(),
            _ => qcow2(&source, "image.qcow2", arguments),
        };
        let content = std::fs::read(&image).unwrap();
        let length = content.len() as u64;
        let server = Server::start(move |request| Reply::tagged(request, &content)).await;
        let target = tempfile::tempdir().unwrap();
        let imported = run(http(&server.url("/image")), file(target.path()), &options())
            .await
            .unwrap();
        assert_same(
            &std::fs::read(target.path().join("disk.img")).unwrap(),
            &bytes,
            name,
        );
        // A little is read twice: the head, and sectors shared by two jobs.
        assert!(
            imported.progress.received < length + length / 50 + (256 << 10),
            "{name}"
        );
        assert!(server.seen().iter().all(|request| request.method == "GET"));
    }
}
