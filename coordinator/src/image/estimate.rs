//! How much of a transfer is done, and when it will have ended. Pure.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::agents::Progress;

/// Longest time that is worth estimating.
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 366);

/// How a transfer goes.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// How far it is.
    pub progress: Progress,
    /// Bytes of the source, where they are known.
    pub source_size: Option<u64>,
    /// Bytes per second that are received.
    pub rate: Option<u64>,
}

impl Flow {
    /// Share that is done, in whole percent: of the disk, or of the source
    /// where the disk's size is not known yet.
    pub fn percent(&self) -> u64 {
        let progress = match (self.progress.total, self.source_size) {
            (0, Some(size)) => Progress {
                total: size,
                done: self.progress.received,
                ..self.progress
            },
            _ => self.progress,
        };
        progress.percent()
    }

    /// Bytes that are still to be received: what is left of the source, or,
    /// where its size is not known or all of it came and it is being read
    /// again, as many for each byte of the disk as up to now.
    fn remaining(&self) -> Option<u64> {
        let Progress {
            total,
            done,
            received,
            ..
        } = self.progress;
        match self.source_size {
            Some(size) if received < size => return Some(size - received),
            // Nothing says more than that all of it came.
            Some(_) if total == 0 => return Some(0),
            _ => {}
        }
        if done == 0 || total == 0 {
            return None;
        }
        let left = u128::from(total.saturating_sub(done));
        u64::try_from(u128::from(received) * left / u128::from(done)).ok()
    }
}

/// When the transfer will have ended, in whole seconds.
pub fn estimate(flow: &Flow, now: Timestamp) -> Option<Timestamp> {
    let rate = flow.rate.filter(|rate| *rate > 0)?;
    let seconds = i64::try_from(flow.remaining()?.div_ceil(rate)).ok()?;
    let left = SignedDuration::from_secs(seconds);
    if left > LONGEST {
        return None;
    }
    Timestamp::from_second(now.as_second())
        .ok()?
        .checked_add(left)
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(done: u64, total: u64, received: u64, source_size: Option<u64>) -> Flow {
        Flow {
            progress: Progress {
                total,
                done,
                received,
                written: 0,
            },
            source_size,
            rate: Some(10),
        }
    }

    fn seconds(flow: &Flow) -> Option<i64> {
        let now = Timestamp::from_millisecond(1_000_000_500).unwrap();
        estimate(flow, now).map(|end| end.as_second() - now.as_second())
    }

    #[test]
    fn what_is_left_of_the_source_takes_its_time() {
        assert_eq!(seconds(&flow(50, 100, 300, Some(1000))), Some(70));
        assert_eq!(seconds(&flow(50, 100, 995, Some(1000))), Some(1));
        assert_eq!(seconds(&flow(100, 100, 1000, Some(1000))), Some(0));
        assert_eq!(seconds(&flow(0, 0, 1000, Some(1000))), Some(0));
        assert_eq!(seconds(&flow(25, 100, 100, None)), Some(30));
    }

    #[test]
    fn a_source_that_is_read_again_is_not_at_its_end() {
        // The third of ten passes.
        assert_eq!(seconds(&flow(25, 100, 2500, Some(1000))), Some(750));
        // A part was received twice, after an interruption.
        assert_eq!(seconds(&flow(90, 100, 1100, Some(1000))), Some(13));
        // The first brought tables alone.
        assert_eq!(seconds(&flow(0, 100, 1000, Some(1000))), None);
    }

    #[test]
    fn what_cannot_be_told_is_not_guessed() {
        assert_eq!(seconds(&flow(0, 100, 0, None)), None);
        assert_eq!(seconds(&flow(0, 0, 5, None)), None);
        assert_eq!(seconds(&flow(1, u64::MAX, 1 << 40, None)), None);
        let mut still = flow(50, 100, 300, Some(1000));
        for rate in [None, Some(0)] {
            still.rate = rate;
            assert_eq!(seconds(&still), None);
        }
    }

    #[test]
    fn a_disk_of_unknown_size_is_done_as_far_as_its_source_was_read() {
        assert_eq!(flow(0, 0, 250, Some(1000)).percent(), 25);
        assert_eq!(flow(40, 80, 250, Some(1000)).percent(), 50);
        assert_eq!(flow(0, 0, 250, None).percent(), 0);
    }
}
