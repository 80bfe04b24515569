//! Which blocks of two disks differ. Bytes in, ranges out.

use std::ops::Range;

use super::BLOCK;

/// The ranges where two equally long stretches differ, in whole blocks and in
/// order; neighbours are one range. The last block may be short.
pub(super) fn differing<'a>(
    source: &'a [u8],
    target: &'a [u8],
) -> impl Iterator<Item = Range<usize>> + 'a {
    let length = source.len();
    let differs = move |at: usize| {
        let block = at..(at + BLOCK).min(length);
        // A comparison of slices is the platform's memcmp.
        source.get(block.clone()) != target.get(block)
    };
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < length && !differs(at) {
            at += BLOCK;
        }
        if at >= length {
            return None;
        }
        let start = at;
        while at < length && differs(at) {
            at += BLOCK;
        }
        Some(start..at.min(length))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn exactly_the_blocks_that_differ_are_told(
            blocks in prop::collection::vec(prop::option::of(0..BLOCK), 0..40),
            tail in 0..BLOCK,
            tail_differs in any::<bool>(),
        ) {
            let source = vec![5; blocks.len() * BLOCK + tail];
            let mut target = source.clone();
            let mut expected = vec![false; blocks.len() + usize::from(tail > 0)];
            for (index, at) in blocks.iter().enumerate() {
                if let Some(at) = at {
                    target[index * BLOCK + at] = 6;
                    expected[index] = true;
                }
            }
            if tail > 0 && tail_differs {
                *target.last_mut().unwrap() = 6;
                *expected.last_mut().unwrap() = true;
            }
            let mut found = vec![false; expected.len()];
            let mut last_end = None;
            for run in differing(&source, &target) {
                prop_assert!(run.start.is_multiple_of(BLOCK) && run.start < run.end);
                prop_assert!(run.end.is_multiple_of(BLOCK) || run.end == source.len());
                prop_assert!(last_end.is_none_or(|end| end < run.start), "neighbours are one");
                last_end = Some(run.end);
                found[run.start / BLOCK..run.end.div_ceil(BLOCK)].fill(true);
            }
            prop_assert_eq!(found, expected);
        }
    }
}
