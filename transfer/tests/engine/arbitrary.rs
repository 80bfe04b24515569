//! Images that chance lays out, and damages.

use hypercloud_transfer::{Options, Side, SpacePolicy};
use proptest::prelude::*;

use crate::damage::oracle;
use crate::image::{assert_same, qemu, raw};
use crate::layouts::clusters;
use crate::watch::{file, local, options, run};
use crate::writer::{Image, Order, Shape, write};

fn shapes() -> impl Strategy<Value = Shape> {
    let order = prop_oneof![
        Just(Order::Usual),
        Just(Order::TablesLast),
        any::<u64>().prop_map(Order::Shuffled),
    ];
    (
        prop_oneof![Just(9u32), 10u32..=14, Just(16)],
        any::<bool>(),
        0u32..=6,
        any::<bool>(),
        any::<bool>(),
        order,
        any::<u64>(),
    )
        .prop_map(
            |(bits, old, refcount_order, zstd, extended, order, lacking)| {
                let version = if old { 2 } else { 3 };
                Shape {
                    version,
                    cluster_bits: bits,
                    refcount_order: if old { 4 } else { refcount_order },
                    zstd: zstd && !old,
                    extended: extended && !old && bits >= 14,
                    order,
                    lacking: lacking % (1 << bits) / 512 * 512,
                }
            },
        )
}

fn images() -> impl Strategy<Value = (Shape, Image)> {
    (shapes(), any::<u64>(), 1usize..150).prop_map(|(shape, seed, count)| {
        let count = count.min(4 << 20 >> shape.cluster_bits);
        let image = write(&shape, &clusters(seed, &shape, count));
        (shape, image)
    })
}

/// A change of a few bytes, mostly where it hurts.
#[derive(Debug, Clone)]
enum Damage {
    Header {
        at: usize,
        value: u8,
    },
    L1 {
        index: usize,
        entry: u64,
    },
    /// Of the entry of some cluster: a new one, or a bit turned over.
    Entry {
        cluster: prop::sample::Index,
        entry: u64,
    },
    Bit {
        cluster: prop::sample::Index,
        bit: u32,
    },
    /// The entry of one cluster given to another.
    Copied {
        from: prop::sample::Index,
        to: prop::sample::Index,
    },
    Byte {
        at: prop::sample::Index,
        value: u8,
    },
    Cut {
        at: prop::sample::Index,
    },
}

fn damages() -> impl Strategy<Value = Damage> {
    let index = any::<prop::sample::Index>;
    // Offsets in and just behind the file, with any flags.
    let entry = (0u64..64, any::<u64>(), 0u64..4)
        .prop_map(|(cluster, low, flags)| flags << 62 | cluster << 9 | low & 1);
    prop_oneof![
        (0usize..112, any::<u8>()).prop_map(|(at, value)| Damage::Header { at, value }),
        (0usize..4, entry.clone()).prop_map(|(index, entry)| Damage::L1 { index, entry }),
        (index(), entry).prop_map(|(cluster, entry)| Damage::Entry { cluster, entry }),
        (index(), 0u32..64).prop_map(|(cluster, bit)| Damage::Bit { cluster, bit }),
        (index(), index()).prop_map(|(from, to)| Damage::Copied { from, to }),
        (index(), any::<u8>()).prop_map(|(at, value)| Damage::Byte { at, value }),
        index().prop_map(|at| Damage::Cut { at }),
    ]
}

fn damage(image: &mut Image, damage: &Damage) {
    let entry = |image: &Image, cluster: &prop::sample::Index| {
        // Below the header's end there is no table: the cluster has no entry.
        let at = image.entries[cluster.index(image.entries.len())];
        (at >= 512 && at + 8 <= image.bytes.len()).then_some(at)
    };
    match damage {
        Damage::Header { at, value } => image.bytes[*at] = *value,
        Damage::L1 { index, entry } => {
            let at = image.l1 + index * 8;
            if at + 8 <= image.bytes.len() {
                image.put64(at, *entry);
            }
        }
        Damage::Entry { cluster, entry: to } => {
            if let Some(at) = entry(image, cluster) {
                image.put64(at, *to);
            }
        }
        Damage::Bit { cluster, bit } => {
            if let Some(at) = entry(image, cluster) {
                image.put64(at, image.get64(at) ^ 1 << bit);
            }
        }
        Damage::Copied { from, to } => {
            if let (Some(from), Some(to)) = (entry(image, from), entry(image, to)) {
                image.put64(to, image.get64(from));
            }
        }
        Damage::Byte { at, value } => {
            let at = at.index(image.bytes.len());
            image.bytes[at] = *value;
        }
        Damage::Cut { at } => {
            let length = at.index(image.bytes.len()).max(512);
            image.bytes.truncate(length);
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_an_image_holds_is_what_the_disk_gets((shape, image) in images()) {
        let directory = tempfile::tempdir().unwrap();
        let path = raw(directory.path(), "image.qcow2", &image.bytes);
        qemu("qemu-img", &["check", "-q", "-f", "qcow2", path.to_str().unwrap()]);
        let imported = runtime().block_on(run(local(&path), file(directory.path()), &options()));
        imported.unwrap_or_else(|error| panic!("{shape:?}: {}", error.message()));
        let found = std::fs::read(directory.path().join("disk.img")).unwrap();
        assert_same(&found, &image.disk, &format!("{shape:?}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_damaged_is_refused_or_read_as_qemu_reads_it(
        (shape, mut image) in images(),
        changes in prop::collection::vec(damages(), 1..4),
    ) {
        for change in &changes {
            damage(&mut image, change);
        }
        let directory = tempfile::tempdir().unwrap();
        let path = raw(directory.path(), "image.qcow2", &image.bytes);
        // A lawful size may be more than the file system can.
        let sparse = Options { space_policy: SpacePolicy::Sparse, ..options() };
        let found = directory.path().join("disk.img");
        match runtime().block_on(run(local(&path), file(directory.path()), &sparse)) {
            Ok(_) => {
                if let Some(expected) = oracle(&path) {
                    assert_same(&std::fs::read(found).unwrap(), &expected, &format!("{shape:?}"));
                }
            }
            Err(error) => {
                let lawful = error.side() == Side::Refused || error.reason() == "TargetTooSmall";
                prop_assert!(lawful, "{}", error.message());
                prop_assert!(!error.is_retryable() || error.reason() == "TargetTooSmall");
                prop_assert!(!found.exists());
            }
        }
    }
}
