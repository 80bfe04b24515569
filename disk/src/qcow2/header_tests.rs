//! The header judged field by field.

use super::*;

/// The header of a good image: version 3, 64 KiB clusters, 1 GiB, its L1
/// table in cluster 3, its refcount table in cluster 1.
fn good() -> Vec<u8> {
    let mut head = vec![0; 512];
    head[..4].copy_from_slice(b"QFI\xfb");
    put32(&mut head, 4, 3);
    put32(&mut head, 20, 16);
    put64(&mut head, 24, 1 << 30);
    put32(&mut head, 36, 2);
    put64(&mut head, 40, 3 << 16);
    put64(&mut head, 48, 1 << 16);
    put32(&mut head, 56, 1);
    put32(&mut head, 96, 4);
    put32(&mut head, 100, 112);
    head
}

fn put32(head: &mut [u8], at: usize, value: u32) {
    head[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn put64(head: &mut [u8], at: usize, value: u64) {
    head[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

const SIZE: Option<u64> = Some(10 << 20);

#[test]
fn a_good_header_is_read() {
    let header = Header::parse(&good(), SIZE).unwrap();
    assert_eq!(header.virtual_size(), 1 << 30);
    assert_eq!(header.cluster_size(), 1 << 16);
    assert_eq!(
        header.l1_place(),
        Extent {
            start: 3 << 16,
            length: 16
        }
    );
    assert_eq!(header.compression(), Compression::Deflate);
    assert!(!header.has_extended_l2());
}

#[test]
fn only_the_needed_part_of_a_long_l1_table_is_asked_for() {
    let mut head = good();
    put32(&mut head, 36, 8000);
    let header = Header::parse(&head, SIZE).unwrap();
    assert_eq!(header.l1_place().length, 16);
}

#[test]
fn a_dirty_image_is_read() {
    let mut head = good();
    put64(&mut head, 72, 1);
    assert!(Header::parse(&head, SIZE).is_ok());
}

#[test]
fn unknown_compatible_and_autoclear_bits_are_ignored() {
    let mut head = good();
    put64(&mut head, 80, u64::MAX);
    put64(&mut head, 88, u64::MAX);
    assert!(Header::parse(&head, SIZE).is_ok());
}

#[test]
fn version_2_has_no_features() {
    let mut head = good();
    put32(&mut head, 4, 2);
    head[72..112].fill(0xff);
    let header = Header::parse(&head, SIZE).unwrap();
    assert_eq!((header.version(), header.has_extended_l2()), (2, false));
}

#[test]
fn what_cannot_or_must_not_be_read_has_its_own_refusal() {
    type Change = fn(&mut [u8]);
    let cases: [(Change, Refusal); 27] = [
        (|h| put32(h, 4, 1), Refusal::UnsupportedVersion(1)),
        (|h| put32(h, 4, 4), Refusal::UnsupportedVersion(4)),
        (|h| put64(h, 8, 1024), Refusal::BackingFile),
        (|h| put32(h, 20, 8), Refusal::ClusterBits(8)),
        (|h| put32(h, 20, 22), Refusal::ClusterBits(22)),
        (|h| put32(h, 20, u32::MAX), Refusal::ClusterBits(u32::MAX)),
        (|h| put64(h, 24, 0), Refusal::ZeroVirtualSize),
        (|h| put64(h, 24, 1000), Refusal::UnalignedVirtualSize(1000)),
        (
            |h| put64(h, 24, u64::MAX),
            Refusal::AbsurdVirtualSize(u64::MAX),
        ),
        (
            |h| put64(h, 24, (64 << 40) + 512),
            Refusal::AbsurdVirtualSize((64 << 40) + 512),
        ),
        (|h| put32(h, 32, 1), Refusal::Encrypted),
        (|h| put32(h, 32, 2), Refusal::Encrypted),
        (
            |h| put32(h, 36, 1),
            Refusal::ShortL1Table {
                entries: 1,
                needed: 2,
            },
        ),
        (
            |h| put32(h, 36, 0),
            Refusal::ShortL1Table {
                entries: 0,
                needed: 2,
            },
        ),
        (
            |h| put32(h, 36, (4 << 20) + 1),
            Refusal::OversizedTable {
                table: "L1",
                entries: (4 << 20) + 1,
            },
        ),
        (
            |h| put64(h, 40, (3 << 16) + 8),
            Refusal::UnalignedTable {
                table: "L1",
                offset: (3 << 16) + 8,
            },
        ),
        (
            |h| put64(h, 40, 0),
            Refusal::OverlappingTable {
                table: "L1",
                offset: 0,
            },
        ),
        (
            |h| put64(h, 40, 1 << 16),
            Refusal::OverlappingTable {
                table: "L1",
                offset: 1 << 16,
            },
        ),
        (
            |h| put64(h, 40, 10 << 20),
            Refusal::TableBeyondEnd {
                table: "L1",
                offset: 10 << 20,
            },
        ),
        (
            |h| put64(h, 40, !0xffff),
            Refusal::TableBeyondEnd {
                table: "L1",
                offset: 0xffff_ffff_ffff_0000,
            },
        ),
        (
            |h| put64(h, 48, 0),
            Refusal::OverlappingTable {
                table: "refcount",
                offset: 0,
            },
        ),
        (
            |h| put32(h, 56, 129),
            Refusal::OversizedTable {
                table: "refcount",
                entries: (129 << 16) / 8,
            },
        ),
        (|h| put64(h, 72, 2), Refusal::Corrupt),
        (|h| put64(h, 72, 4), Refusal::ExternalDataFile),
        (
            |h| put64(h, 72, 1 << 5 | 1 << 63),
            Refusal::UnknownFeatures(1 << 5 | 1 << 63),
        ),
        (
            |h| put32(h, 96, 7),
            Refusal::InvalidHeader {
                field: "refcount_order",
                value: 7,
            },
        ),
        (
            |h| put32(h, 100, 103),
            Refusal::InvalidHeader {
                field: "header_length",
                value: 103,
            },
        ),
    ];
    for (change, refusal) in cases {
        let mut head = good();
        change(&mut head);
        assert_eq!(Header::parse(&head, SIZE), Err(refusal));
    }
}

#[test]
fn the_compression_bit_and_field_agree() {
    let with = |bits: u64, kind: u8| {
        let mut head = good();
        put64(&mut head, 72, bits);
        head[104] = kind;
        Header::parse(&head, SIZE).map(|header| header.compression())
    };
    assert_eq!(with(0, 0), Ok(Compression::Deflate));
    assert_eq!(with(8, 1), Ok(Compression::Zstd));
    assert_eq!(with(8, 2), Err(Refusal::UnknownCompression(2)));
    let invalid = |value| {
        Err(Refusal::InvalidHeader {
            field: "compression_type",
            value,
        })
    };
    assert_eq!(with(0, 1), invalid(1));
    assert_eq!(with(8, 0), invalid(0));
}

#[test]
fn extended_l2_needs_room_for_subclusters() {
    let mut head = good();
    put64(&mut head, 72, 16);
    put32(&mut head, 36, 4);
    let header = Header::parse(&head, SIZE).unwrap();
    assert_eq!(
        (header.has_extended_l2(), header.l2_entries()),
        (true, 4096)
    );
    put32(&mut head, 20, 13);
    assert_eq!(
        Header::parse(&head, SIZE),
        Err(Refusal::SmallSubclusters(13))
    );
}

#[test]
fn a_header_that_is_cut_short_is_told_apart() {
    let head = good();
    for length in 0..104 {
        let refusal = Header::parse(&head[..length], Some(length as u64)).unwrap_err();
        assert!(
            matches!(refusal, Refusal::Truncated { .. }),
            "{length}: {refusal}"
        );
    }
}
