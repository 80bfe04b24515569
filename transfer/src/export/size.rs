//! How long the parts of an object are.
//!
//! A store takes ten thousand of them, and each is held until the store has
//! it. So they are as short as the worst case allows: nothing of what is left
//! is zeros, nothing shrinks.

use super::request::{Compression, ExportFormat};

const MIB: u64 = 1 << 20;
/// As many parts as an object may have.
const MOST_PARTS: u32 = 10_000;
/// No part is shorter, but for the last: what a request costs is little beside
/// it.
const SHORTEST: u64 = 8 * MIB;
/// No part is longer as long as it can be hoped that much will be zeros, or
/// shrink.
const COMMON: u64 = 32 * MIB;
/// So many parts are made in that hope, where it takes hope.
const HOPEFUL: u32 = 2_000;
/// Of longer parts only one is held at a time.
pub(super) const LONG: u64 = 64 * MIB;
/// No longer part is held: a disk that needs one has no room in ten thousand.
const LONGEST: u64 = 256 * MIB;
/// From here on the worst case counts, whatever was told of the disk.
const LATE: u32 = 8_000;

/// The lengths of the parts of one object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    usual: u64,
    /// From this part on, the worst case counts.
    sure_from: u32,
}

/// The length of each of `parts` parts that hold `bytes` together. What is
/// lost where a part ends, and tables, have room as well.
fn even(bytes: u64, parts: u32) -> u64 {
    let bytes = bytes + bytes / 2048 + 32 * MIB;
    let each = bytes.div_ceil(u64::from(parts.max(1))) + (64 << 10);
    each.next_multiple_of(MIB).max(SHORTEST)
}

impl Sizes {
    /// Of an object that a disk of `size` bytes becomes, of which `allocated`
    /// may be other than zeros.
    pub(super) fn new(format: ExportFormat, size: u64, allocated: u64) -> Self {
        let most = match format {
            ExportFormat::Raw => {
                return Self {
                    usual: even(size, MOST_PARTS),
                    sure_from: MOST_PARTS,
                };
            }
            // A block of a cluster takes all of it.
            ExportFormat::Qcow2(Compression::None) => size,
            ExportFormat::Qcow2(_) => size.min(allocated + allocated / 8),
        };
        // Sure before the worst case counts, which then changes nothing.
        let usual = even(most, LATE);
        if usual <= COMMON {
            return Self {
                usual,
                sure_from: LATE,
            };
        }
        Self {
            usual: COMMON,
            sure_from: HOPEFUL,
        }
    }

    /// Of a file, which may have any number of parts.
    pub(super) fn of_file() -> Self {
        Self {
            usual: SHORTEST,
            sure_from: u32::MAX,
        }
    }

    /// Whether they are of an object, which has so many parts and no more.
    pub(super) fn is_of_object(&self) -> bool {
        self.sure_from != u32::MAX
    }

    /// Whether there may be a part of this number.
    pub(super) fn has(&self, number: u32) -> bool {
        number <= MOST_PARTS || !self.is_of_object()
    }

    /// The length of part `number`, when `left` bytes of the disk are left.
    pub(super) fn next(&self, number: u32, left: u64) -> u64 {
        if number <= self.sure_from {
            return self.usual;
        }
        let parts = (MOST_PARTS + 1).saturating_sub(number);
        even(left, parts).min(LONGEST).max(self.usual)
    }
}

/// How many parts may be on their way at once, beside the one that is being
/// made and, where `keeps_first`, the first one.
pub(super) fn at_once(part: u64, keeps_first: bool, budget: usize) -> usize {
    let held = if keeps_first { 2 } else { 1 };
    let affordable = (budget as u64 / part.max(1)).saturating_sub(held);
    affordable.clamp(1, 4) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;
    const ZLIB: ExportFormat = ExportFormat::Qcow2(Compression::Zlib);

    #[test]
    fn parts_are_short_as_long_as_they_can_be() {
        let part =
            |format, size, allocated| Sizes::new(format, size, allocated).next(1, size) / MIB;
        assert_eq!(part(ZLIB, 10 * GIB, 10 * GIB), 8);
        assert_eq!(part(ZLIB, 60 * GIB, 60 * GIB), 8);
        assert_eq!(part(ZLIB, 2048 * GIB, 50 * GIB), 8);
        assert_eq!(part(ZLIB, 200 * GIB, 200 * GIB), 26);
        assert_eq!(part(ZLIB, 2048 * GIB, 2048 * GIB), 32);
        assert_eq!(part(ExportFormat::Raw, 10 * GIB, 0), 8);
        assert_eq!(part(ExportFormat::Raw, 2048 * GIB, 0), 210);
    }

    #[test]
    fn the_budget_says_how_many_are_on_their_way() {
        assert_eq!(at_once(8 * MIB, true, 96 << 20), 4);
        assert_eq!(at_once(24 * MIB, true, 96 << 20), 2);
        assert_eq!(at_once(32 * MIB, true, 96 << 20), 1);
        assert_eq!(at_once(32 * MIB, false, 96 << 20), 2);
        assert_eq!(at_once(500 * MIB, true, 96 << 20), 1);
    }

    #[test]
    fn two_tebibytes_that_do_not_shrink_fit() {
        let size = 2048 * GIB;
        let sizes = Sizes::new(ZLIB, size, size);
        let (mut at, mut number) = (0, 0);
        while at < size {
            number += 1;
            at += sizes.next(number, size - at) - (64 << 10);
        }
        assert!((9_000..=MOST_PARTS).contains(&number), "{number} parts");
    }

    proptest! {
        #[test]
        fn every_disk_fits_into_ten_thousand_parts(
            size in 1..(40u64 << 40),
            told in 0.0..=1.0f64,
            dense in prop::collection::vec(0.0..=1.0f64, 1..6),
        ) {
            // However much of each stretch is stored, more than was told too.
            let allocated = (size as f64 * told) as u64;
            let sizes = Sizes::new(ZLIB, size, allocated);
            let mut at = 0;
            let mut number = 1;
            let mut stored = 0;
            while at < size {
                // But for one that stores more than that many hold.
                let hopeless = stored >= u64::from(MOST_PARTS - sizes.sure_from) * LONGEST;
                if hopeless && number > MOST_PARTS {
                    break;
                }
                prop_assert!(number <= MOST_PARTS, "{stored} bytes stored");
                let part = sizes.next(number, size - at);
                prop_assert!(part.is_multiple_of(MIB) && (SHORTEST..=LONGEST).contains(&part));
                stored += part;
                let stretch = (at as f64 / size as f64 * dense.len() as f64) as usize;
                let share = dense[stretch.min(dense.len() - 1)].max(0.01);
                at += ((part - (64 << 10)) as f64 / share) as u64;
                number += 1;
            }
        }
    }
}
