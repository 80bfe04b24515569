//! Where a device is overwritten: everywhere that something is looked for.

use std::ops::Range;

use hypercloud_inventory::BLUESTORE_LABELS;

const MIB: u64 = 1 << 20;

/// At both ends of a device: tables of partitions and their copies, LVM's
/// label and metadata, both headers of LUKS with its keys, all labels of ZFS
/// and of RAIDs, superblocks.
const ENDS: u64 = 16 * MIB;

/// The same for each partition, which may become one again at the same place.
const ENDS_OF_PARTITIONS: u64 = MIB;

/// A label of BlueStore, a superblock of Btrfs.
const BLOCK: u64 = 4096;

/// Copies of the superblock of Btrfs, by which it can be brought back.
const BTRFS: [u64; 2] = [64 * MIB, 256 << 30];

/// What is discarded at one go; the next may be given up.
const DISCARD: u64 = 1 << 30;

/// The ranges to overwrite on a device of `size` bytes with these partitions:
/// in order, apart from each other, and on the device.
pub(super) fn overwritten(size: u64, partitions: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut ranges = ends(0..size, ENDS).to_vec();
    let copies = BLUESTORE_LABELS.iter().chain(&BTRFS);
    ranges.extend(copies.map(|copy| *copy..copy.saturating_add(BLOCK)));
    for partition in partitions {
        ranges.extend(ends(partition.clone(), ENDS_OF_PARTITIONS));
        let copies = BLUESTORE_LABELS.map(|copy| partition.start.saturating_add(copy));
        let within = copies.into_iter().filter(|copy| partition.contains(copy));
        ranges.extend(within.map(|copy| copy..copy.saturating_add(BLOCK)));
    }
    merged(ranges, size)
}

fn ends(of: Range<u64>, length: u64) -> [Range<u64>; 2] {
    let end = of.start.saturating_add(length).min(of.end);
    let begin = of.end.saturating_sub(length).max(of.start);
    [of.start..end, begin..of.end]
}

fn merged(mut ranges: Vec<Range<u64>>, size: u64) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut out: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        let range = range.start..range.end.min(size);
        if range.is_empty() {
            continue;
        }
        match out.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

/// The device in pieces that are discarded one after the other.
pub(super) fn discarded(size: u64) -> impl Iterator<Item = Range<u64>> {
    (0..size.div_ceil(DISCARD)).map(move |piece| {
        let begin = piece * DISCARD;
        begin..begin.saturating_add(DISCARD).min(size)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn copies_are_overwritten_as_far_as_the_device_goes() {
        let gib = 1 << 30;
        let ranges = overwritten(11 * gib, &[]);
        assert_eq!(
            ranges,
            [
                0..ENDS,
                BTRFS[0]..BTRFS[0] + BLOCK,
                gib..gib + BLOCK,
                10 * gib..10 * gib + BLOCK,
                11 * gib - ENDS..11 * gib,
            ]
        );
        let small = overwritten(MIB, &[]);
        assert_eq!((small.len(), small.first()), (1, Some(&(0..MIB))));
        assert_eq!(overwritten(0, &[]), []);
    }

    proptest! {
        #[test]
        fn ranges_are_in_order_apart_and_on_the_device(
            size in 0_u64..1 << 41,
            partitions in proptest::collection::vec((0_u64..1 << 41, 0_u64..1 << 40), 0..5),
        ) {
            let partitions: Vec<_> = partitions.into_iter().map(|(start, length)| start..start + length).collect();
            let ranges = overwritten(size, &partitions);
            for range in &ranges {
                prop_assert!(range.start < range.end && range.end <= size);
            }
            for pair in ranges.windows(2) {
                prop_assert!(pair[0].end < pair[1].start);
            }
            let covered = |at: u64| at >= size || ranges.iter().any(|range| range.contains(&at));
            for partition in partitions.iter().filter(|partition| !partition.is_empty()) {
                prop_assert!(covered(partition.start) && covered(partition.end - 1));
            }
            prop_assert!(covered(0) && covered(size.saturating_sub(1)));
            prop_assert!(BLUESTORE_LABELS.iter().all(|at| covered(*at)));
        }

        #[test]
        fn every_byte_is_discarded_once(size in 0_u64..1 << 40) {
            let mut end = 0;
            for range in discarded(size) {
                prop_assert_eq!(range.start, end);
                prop_assert!(!range.is_empty());
                end = range.end;
            }
            prop_assert_eq!(end, size);
        }
    }
}
