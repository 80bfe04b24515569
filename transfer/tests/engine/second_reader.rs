//! A second opinion beside QEMU's: the crate `imago` reads the same images.
//!
//! It has neither zstd nor subclusters, and says so; those images stand
//! between QEMU and the engine alone (`matrix`, `layouts`).

use std::path::Path;

use imago::file::File;
use imago::qcow2::Qcow2;
use imago::{DenyImplicitOpenGate, FormatAccess, FormatDriverBuilder, Storage, StorageOpenOptions};

use crate::image::{assert_same, disk, qcow2, raw};
use crate::layouts::clusters;
use crate::matrix::check;
use crate::writer::{Order, Shape, write};

/// The disk in an image, as `imago` reads it.
async fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = File::open(StorageOpenOptions::new().filename(path)).await?;
    let image = Qcow2::<File>::builder(file)
        .open(DenyImplicitOpenGate::default())
        .await?;
    let image = FormatAccess::new(image);
    let mut bytes = vec![0; image.size() as usize];
    image.read(&mut bytes[..], 0).await?;
    Ok(bytes)
}

#[tokio::test]
async fn another_reader_finds_the_same_disk() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk(61, (2 << 20) + 512 * 5);
    let source = raw(directory.path(), "source.raw", &bytes);
    for arguments in [
        &["-c", "-o", "cluster_size=512"][..],
        &["-c", "-o", "cluster_size=4k,compat=0.10"],
        &["-o", "cluster_size=2M,refcount_bits=64"],
        &["-W", "-m", "16", "-o", "cluster_size=16k"],
    ] {
        let image = qcow2(&source, "image.qcow2", arguments);
        let what = format!("{arguments:?}");
        assert_same(&read(&image).await.unwrap(), &bytes, &what);
        check(&image, &bytes, &what).await;
    }
}

#[tokio::test]
async fn another_reader_finds_the_same_in_odd_layouts() {
    let directory = tempfile::tempdir().unwrap();
    for (seed, bits) in [(1, 9), (2, 12), (3, 16)] {
        let shape = Shape {
            order: Order::Shuffled(seed),
            lacking: (1 << bits) / 2 / 512 * 512,
            refcount_order: seed as u32,
            ..Shape::usual(bits)
        };
        let image = write(&shape, &clusters(seed, &shape, 60));
        let path = raw(directory.path(), "image.qcow2", &image.bytes);
        let what = format!("{shape:?}");
        assert_same(&read(&path).await.unwrap(), &image.disk, &what);
        check(&path, &image.disk, &what).await;
    }
}

#[tokio::test]
async fn what_the_other_reader_lacks_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let source = raw(directory.path(), "source.raw", &disk(62, 1 << 20));
    for option in ["extended_l2=on", "compression_type=zstd"] {
        let image = qcow2(&source, "image.qcow2", &["-c", "-o", option]);
        let error = read(&image).await.unwrap_err();
        assert!(error.to_string().contains("incompatible"), "{error}");
    }
}
