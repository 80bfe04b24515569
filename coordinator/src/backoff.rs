//! Growing, capped, jittered delays.
//!
//! Pure: the jitter is a digest of who waits and how often it failed, so the
//! same try always gets the same delay and a plan can be compared by value,
//! while a thousand resources that failed together do not come back together.

use std::time::Duration;

use sha2::{Digest, Sha256};

/// How delays grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Shortest delay.
    pub base: Duration,
    /// Longest delay.
    pub cap: Duration,
}

impl Backoff {
    /// The delay after `failures` failures (1 for the first) of `who`.
    ///
    /// Doubles from twice `base`; between one half and the whole of that is
    /// taken, so it never is below `base` nor above `cap`.
    pub fn delay(&self, who: &str, failures: u32) -> Duration {
        let doublings = failures.clamp(1, 31);
        let whole = self
            .base
            .saturating_mul(1u32 << doublings.min(30))
            .min(self.cap);
        (whole / 2 + (whole / 2).mul_f64(fraction(who, failures))).clamp(self.base, self.cap)
    }
}

/// A number in 0..1 that depends on `who` and `n` alone.
pub fn fraction(who: &str, n: u32) -> f64 {
    f64::from(hash(who, n) as u32) / f64::from(u32::MAX)
}

/// A number that depends on `who` and `n` alone, to spread work evenly.
pub fn hash(who: &str, n: u32) -> u64 {
    let digest = Sha256::new()
        .chain_update(who.as_bytes())
        .chain_update(n.to_be_bytes())
        .finalize();
    digest
        .iter()
        .take(8)
        .fold(0u64, |sum, byte| (sum << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RETRIES: Backoff = Backoff {
        base: Duration::from_secs(5),
        cap: Duration::from_secs(300),
    };

    #[test]
    fn grows_and_is_capped() {
        let first = RETRIES.delay("uid", 1);
        assert!(first >= Duration::from_secs(5) && first <= Duration::from_secs(10));
        let later = RETRIES.delay("uid", 4);
        assert!(later >= Duration::from_secs(40) && later <= Duration::from_secs(80));
        assert!(RETRIES.delay("uid", 9) >= Duration::from_secs(150));
    }

    #[test]
    fn different_resources_are_spread() {
        let delays: std::collections::BTreeSet<_> = (0..100)
            .map(|n| RETRIES.delay(&format!("uid-{n}"), 3))
            .collect();
        assert!(delays.len() > 90);
    }

    proptest! {
        #[test]
        fn stays_within_its_bounds(who in ".*", failures in any::<u32>()) {
            let delay = RETRIES.delay(&who, failures);
            prop_assert!(delay >= RETRIES.base && delay <= RETRIES.cap);
            prop_assert_eq!(delay, RETRIES.delay(&who, failures));
        }
    }
}
