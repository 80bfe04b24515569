//! Finding zeros among data.

/// Zeros are looked for in steps of this.
const STEP: usize = 4096;
static ZEROS: [u8; STEP] = [0; STEP];

fn is_zero(bytes: &[u8]) -> bool {
    // A comparison of slices is the platform's memcmp.
    ZEROS.get(..bytes.len()).is_some_and(|zeros| zeros == bytes)
}

/// A part of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) is_zero: bool,
}

/// The bytes in parts, in order: zeros of at least `shortest`, and the rest.
pub(crate) fn parts(bytes: &[u8], shortest: usize) -> impl Iterator<Item = Part> {
    let mut at = 0;
    // A run of zeros that ends the data before it.
    let mut found: Option<Part> = None;
    std::iter::from_fn(move || {
        if let Some(zeros) = found.take() {
            return Some(zeros);
        }
        if at >= bytes.len() {
            return None;
        }
        let start = at;
        let mut run = at;
        while at < bytes.len() {
            let end = (at + STEP).min(bytes.len());
            let zero = bytes.get(at..end).is_some_and(is_zero);
            if !zero && at - run >= shortest {
                break;
            }
            at = end;
            if !zero {
                run = at;
            }
        }
        // At the end of the bytes any whole step of zeros will do when it is
        // long enough as well.
        if at - run < shortest {
            return Some(Part {
                start,
                end: at,
                is_zero: false,
            });
        }
        let zeros = Part {
            start: run,
            end: at,
            is_zero: true,
        };
        if run == start {
            return Some(zeros);
        }
        found = Some(zeros);
        Some(Part {
            start,
            end: run,
            is_zero: false,
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_make_the_whole_and_only_zeros_are_called_zero(
            steps in prop::collection::vec((any::<bool>(), 1usize..=3), 0..40),
            tail in 0usize..STEP,
            shortest in 1usize..=4,
        ) {
            let mut bytes = Vec::new();
            for (zero, count) in steps {
                let length = bytes.len() + count * STEP;
                bytes.resize(length, if zero { 0 } else { 7 });
            }
            bytes.resize(bytes.len() + tail, 0);
            let shortest = shortest * STEP;
            let mut at = 0;
            let mut last: Option<Part> = None;
            for part in parts(&bytes, shortest) {
                prop_assert_eq!(part.start, at);
                prop_assert!(part.end > part.start);
                at = part.end;
                let body = &bytes[part.start..part.end];
                if part.is_zero {
                    prop_assert!(body.iter().all(|byte| *byte == 0));
                    prop_assert!(body.len() >= shortest);
                } else {
                    let longest = body.split(|byte| *byte != 0).map(<[u8]>::len).max();
                    prop_assert!(longest.unwrap_or(0) < shortest + STEP);
                }
                prop_assert!(last.is_none_or(|last| last.is_zero != part.is_zero));
                last = Some(part);
            }
            prop_assert_eq!(at, bytes.len());
        }
    }
}
