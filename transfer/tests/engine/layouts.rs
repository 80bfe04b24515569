//! Layouts that no tool of QEMU's writes and that the format allows. Each
//! image is the tests' own, `qemu-img check` finds nothing wrong with it, and
//! QEMU and the engine read the same disk from it.

use crate::image::{Random, assert_same, flatten, qemu, raw};
use crate::matrix::check;
use crate::server::{Reply, Server};
use crate::watch::{file, http, options, run};
use crate::writer::{Cluster, Image, Order, Shape, write};

/// The bytes of a cluster: noise, text, one byte all over, or nearly nothing.
pub fn content(seed: u64, size: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = vec![0; size];
    match random.below(4) {
        0 => random.fill(&mut bytes),
        1 => {
            let from = random.below(21) as usize;
            for (index, byte) in bytes.iter_mut().enumerate() {
                *byte = b"all work and no play "[(index + from) % 21];
            }
        }
        2 => bytes.fill(random.next() as u8),
        _ => bytes[random.below(size as u64) as usize] = 7,
    }
    bytes
}

/// Clusters of every kind, by a seed.
pub fn clusters(seed: u64, shape: &Shape, count: usize) -> Vec<Cluster> {
    let mut random = Random::new(seed);
    let size = 1 << shape.cluster_bits;
    (0..count)
        .map(|_| {
            let bytes = content(random.next(), size);
            match random.below(8) {
                0 => Cluster::Unallocated,
                1 => Cluster::Zero,
                2 => Cluster::Kept(bytes),
                3 | 4 => Cluster::Compressed(bytes),
                5 => Cluster::Partial {
                    allocated: (random.next() >> 32) as u32 | 1,
                    zeros: (random.next() >> 32) as u32,
                    bytes,
                },
                _ => Cluster::Plain(bytes),
            }
        })
        .collect()
}

/// QEMU finds nothing wrong with the image, and reads the disk from it that
/// was meant; so does the engine.
async fn all_agree(image: &Image, what: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = raw(directory.path(), "image.qcow2", &image.bytes);
    qemu(
        "qemu-img",
        &["check", "-q", "-f", "qcow2", path.to_str().unwrap()],
    );
    assert_same(&flatten(&path), &image.disk, what);
    check(&path, &image.disk, what).await;
}

#[tokio::test]
async fn tables_may_lie_anywhere() {
    for (seed, order) in [
        (1, Order::Usual),
        (2, Order::TablesLast),
        (3, Order::Shuffled(3)),
        (4, Order::Shuffled(4)),
    ] {
        for bits in [9, 12, 16] {
            let shape = Shape {
                order,
                ..Shape::usual(bits)
            };
            // Some 20 L2 tables of clusters of 512 bytes.
            let count = if bits == 9 { 1300 } else { 70 };
            let image = write(&shape, &clusters(seed, &shape, count));
            all_agree(&image, &format!("{shape:?}")).await;
        }
    }
}

#[tokio::test]
async fn refcounts_may_have_any_width() {
    for refcount_order in 0..=6 {
        let shape = Shape {
            refcount_order,
            order: Order::Shuffled(9),
            ..Shape::usual(10)
        };
        let image = write(&shape, &clusters(10, &shape, 300));
        all_agree(&image, &format!("{shape:?}")).await;
    }
}

#[tokio::test]
async fn clusters_may_have_any_size_and_the_last_may_lack_some() {
    for bits in 9..=21 {
        for (version, zstd) in [(2, false), (3, true)] {
            let size = 1u64 << bits;
            let shape = Shape {
                version,
                zstd,
                order: Order::Shuffled(u64::from(bits)),
                lacking: (size / 2).next_multiple_of(512) % size,
                ..Shape::usual(bits)
            };
            let count = (4 << 20 >> bits).clamp(2, 60);
            let image = write(&shape, &clusters(u64::from(bits), &shape, count));
            all_agree(&image, &format!("{shape:?}")).await;
        }
    }
}

#[tokio::test]
async fn subclusters_may_be_of_any_kind() {
    for bits in [14, 16, 18] {
        let shape = Shape {
            extended: true,
            zstd: bits == 16,
            order: Order::Shuffled(5),
            lacking: 512 * 3,
            ..Shape::usual(bits)
        };
        let image = write(&shape, &clusters(77, &shape, 40));
        all_agree(&image, &format!("{shape:?}")).await;
    }
}

#[tokio::test]
async fn a_server_gives_the_same_as_a_file() {
    for (bits, zstd) in [(9, false), (16, true)] {
        let shape = Shape {
            order: Order::Shuffled(21),
            zstd,
            ..Shape::usual(bits)
        };
        let image = write(&shape, &clusters(22, &shape, 400 >> (bits - 9).min(2)));
        let content = image.bytes.clone();
        let server = Server::start(move |request| Reply::tagged(request, &content)).await;
        let target = tempfile::tempdir().unwrap();
        run(http(&server.url("/image")), file(target.path()), &options())
            .await
            .unwrap();
        let found = std::fs::read(target.path().join("disk.img")).unwrap();
        assert_same(&found, &image.disk, &format!("{shape:?}"));
    }
}
