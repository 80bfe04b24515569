//! Ranges of bytes.

use serde::{Deserialize, Serialize};

/// A range of bytes of a source or a disk. Its end never overflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Extent {
    /// The first byte.
    pub start: u64,
    /// How many bytes.
    pub length: u64,
}

impl Extent {
    /// The bytes from `start` up to `end`; empty when `end` is not behind
    /// `start`.
    #[must_use]
    pub fn between(start: u64, end: u64) -> Self {
        Self {
            start,
            length: end.saturating_sub(start),
        }
    }

    /// The first byte behind the extent.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }

    /// Whether the two share a byte.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end() && other.start < self.end()
    }

    /// The extent in parts of at most `size` bytes, in order.
    pub fn parts(self, size: u64) -> impl Iterator<Item = Extent> {
        let size = size.max(1);
        (0..self.length.div_ceil(size)).map(move |part| {
            let start = self.start + part * size;
            Extent::between(start, start.saturating_add(size).min(self.end()))
        })
    }
}

/// What of `whole` none of `parts` covers. `parts` are in order and do not
/// overlap.
#[must_use]
pub fn complement(whole: Extent, parts: impl IntoIterator<Item = Extent>) -> Vec<Extent> {
    let mut gaps = Vec::new();
    let mut at = whole.start;
    for part in parts {
        if part.start > at {
            gaps.push(Extent::between(at, part.start));
        }
        at = at.max(part.end());
    }
    if at < whole.end() {
        gaps.push(Extent::between(at, whole.end()));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_complement_and_the_parts_make_the_whole() {
        let whole = Extent::between(10, 100);
        let parts = [
            Extent::between(10, 20),
            Extent::between(30, 40),
            Extent::between(40, 50),
        ];
        assert_eq!(
            complement(whole, parts),
            [Extent::between(20, 30), Extent::between(50, 100)]
        );
        assert_eq!(complement(whole, [whole]), []);
        assert_eq!(complement(whole, []), [whole]);
    }

    #[test]
    fn parts_cover_without_overlap() {
        let parts: Vec<_> = Extent::between(5, 26).parts(10).collect();
        assert_eq!(
            parts,
            [
                Extent::between(5, 15),
                Extent::between(15, 25),
                Extent::between(25, 26)
            ]
        );
        assert_eq!(Extent::between(5, 5).parts(10).count(), 0);
    }
}
