//! What the workers take next: the disk in pieces, in order.
//!
//! A place is looked at for holes when its turn comes. Pieces end at
//! multiples of [`PIECE`], but for the last one; a hole counts from there.

use hypercloud_disk::Extent;

/// What is read at once.
pub(super) const PIECE: u64 = 1 << 20;
/// The longest hole that is zeroed as one piece, so that a checkpoint need
/// not wait for all of a long one.
const HOLE: u64 = 1 << 30;

/// What is to be done with a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Read the source and write it.
    Copy,
    /// Make it zeros: the source has a hole.
    Zero,
    /// Read both and write what differs.
    Compare,
    /// Make zeros of what is not: the source has a hole.
    Clear,
    /// Nothing: both have a hole.
    Skip,
}

/// Where the next data is at or behind a place, on either side; the end of
/// the disk where there is none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Data {
    pub(super) source: u64,
    /// `None` where what the target holds is not looked at.
    pub(super) target: Option<u64>,
}

/// The piece at `at` of a disk that ends at `end`.
pub(super) fn piece(at: u64, end: u64, data: Data) -> (Extent, Task) {
    let next = end.min((at + 1).next_multiple_of(PIECE));
    // How far a hole is that ends where data begins.
    let hole = |data: u64| {
        if data >= end {
            end
        } else {
            data - data % PIECE
        }
    };
    let source = hole(data.source);
    let is_hole = source > at;
    let (end, task) = match data.target.map(hole) {
        Some(target) if is_hole && target > at => (source.min(target), Task::Skip),
        Some(_) if is_hole => (next, Task::Clear),
        Some(_) => (next, Task::Compare),
        None if is_hole => (source.min((at - at % PIECE) + HOLE), Task::Zero),
        None => (next, Task::Copy),
    };
    (Extent::between(at, end), task)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn at(at: u64, end: u64, source: u64, target: Option<u64>) -> (Extent, Task) {
        piece(at, end, Data { source, target })
    }

    #[test]
    fn a_piece_is_what_both_sides_make_it() {
        let end = 100 * MIB + 700;
        let first = Extent::between(0, MIB);
        assert_eq!(at(0, end, 0, None), (first, Task::Copy));
        assert_eq!(at(0, end, MIB - 1, None), (first, Task::Copy));
        assert_eq!(at(0, end, 0, Some(end)), (first, Task::Compare));
        assert_eq!(at(0, end, end, Some(0)), (first, Task::Clear));
        assert_eq!(at(0, end, 5 * MIB, Some(4096)), (first, Task::Clear));
        let skipped = Extent::between(0, 4 * MIB);
        assert_eq!(
            at(0, end, 5 * MIB, Some(4 * MIB + 9)),
            (skipped, Task::Skip)
        );
        let whole = Extent::between(0, end);
        assert_eq!(at(0, end, end, None), (whole, Task::Zero));
        assert_eq!(at(0, end, end, Some(end)), (whole, Task::Skip));
        let tail = Extent::between(100 * MIB, end);
        assert_eq!(at(100 * MIB, end, 100 * MIB + 3, None), (tail, Task::Copy));
        let long = 1 << 40;
        assert_eq!(
            at(MIB, long, long, None),
            (Extent::between(MIB, MIB + HOLE), Task::Zero)
        );
    }

    proptest! {
        #[test]
        fn pieces_make_the_whole_and_no_data_is_in_a_hole(
            end in 1..(40 * MIB),
            source in prop::collection::btree_set(0..(40 * MIB), 0..8),
            target in prop::option::of(prop::collection::btree_set(0..(40 * MIB), 0..8)),
        ) {
            let next = |data: &std::collections::BTreeSet<u64>, at| {
                data.range(at..end).next().copied().unwrap_or(end)
            };
            let mut at = 0;
            while at < end {
                let seen = Data {
                    source: next(&source, at),
                    target: target.as_ref().map(|target| next(target, at)),
                };
                let (extent, task) = piece(at, end, seen);
                prop_assert_eq!(extent.start, at);
                prop_assert!(extent.length > 0 && extent.end() <= end);
                prop_assert!(extent.end().is_multiple_of(PIECE) || extent.end() == end);
                let has = |data: &std::collections::BTreeSet<u64>| {
                    data.range(extent.start..extent.end()).next().is_some()
                };
                if matches!(task, Task::Zero | Task::Clear | Task::Skip) {
                    prop_assert!(!has(&source));
                }
                if task == Task::Skip {
                    prop_assert!(!target.as_ref().is_some_and(has));
                }
                if !matches!(task, Task::Zero | Task::Skip) {
                    prop_assert!(extent.length <= PIECE);
                }
                prop_assert_eq!(target.is_none(), matches!(task, Task::Copy | Task::Zero));
                at = extent.end();
            }
        }
    }
}
