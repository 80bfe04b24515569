//! Refusals tell each other apart, and say what to do.

// Clippy knows tests, not what they share.
#![allow(clippy::panic)]

use std::collections::HashSet;

use hypercloud_disk::Refusal;
use hypercloud_disk::detect::{Foreign, Packing};

fn all() -> Vec<Refusal> {
    let (table, offset, entry) = ("L1", 4096, 1 << 60);
    vec![
        Refusal::Empty,
        Refusal::ForeignFormat(Foreign::Vmdk),
        Refusal::WebPage,
        Refusal::HollowPacking {
            packing: Packing::Gzip,
            limit: 9,
        },
        Refusal::Endless { limit: 9 },
        Refusal::Truncated {
            needed: 2,
            available: 1,
        },
        Refusal::Masquerade(Foreign::Qcow2),
        Refusal::UnsupportedVersion(4),
        Refusal::BackingFile,
        Refusal::ExternalDataFile,
        Refusal::Encrypted,
        Refusal::UnknownFeatures(32),
        Refusal::Corrupt,
        Refusal::InvalidHeader {
            field: "refcount_order",
            value: 7,
        },
        Refusal::ClusterBits(8),
        Refusal::SmallSubclusters(13),
        Refusal::UnknownCompression(2),
        Refusal::UnalignedVirtualSize(1000),
        Refusal::ZeroVirtualSize,
        Refusal::AbsurdVirtualSize(u64::MAX),
        Refusal::OversizedTable { table, entries: 9 },
        Refusal::ShortL1Table {
            entries: 1,
            needed: 2,
        },
        Refusal::UnalignedTable { table, offset },
        Refusal::TableBeyondEnd { table, offset },
        Refusal::OverlappingTable { table, offset },
        Refusal::SharedTable { offset },
        Refusal::ReservedBits { table, entry },
        Refusal::MisplacedCluster { offset },
        Refusal::ClusterBeyondEnd { offset },
        Refusal::UndecodableCluster { offset },
        Refusal::ShortCluster { offset },
        Refusal::LongCluster { offset },
    ]
}

#[test]
fn each_has_a_reason_of_its_own() {
    let all = all();
    let reasons: HashSet<_> = all.iter().map(Refusal::reason).collect();
    assert_eq!(reasons.len(), all.len());
    for reason in reasons {
        assert!(
            reason.starts_with(|first: char| first.is_ascii_uppercase())
                && reason.chars().all(|c| c.is_ascii_alphanumeric()),
            "{reason}"
        );
    }
}

#[test]
fn each_says_what_to_do() {
    let ways = [
        "qemu-img",
        "fetch",
        "upload",
        "check that",
        "convert",
        "pack",
    ];
    for refusal in all() {
        let message = refusal.to_string();
        let Some((_, way)) = message.split_once(": ") else {
            panic!("{message}");
        };
        assert!(ways.iter().any(|word| way.contains(word)), "{message}");
    }
}
