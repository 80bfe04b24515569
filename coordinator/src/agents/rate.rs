//! How fast a job receives, smoothed. Pure: time is an argument.

use std::time::{Duration, Instant};

/// How long ago a sample counts for little more than a third.
const MEMORY: Duration = Duration::from_secs(8);
/// Shortest time over which a rate says something.
const SAMPLE: Duration = Duration::from_millis(500);

/// Follows the bytes that a job has received.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    at: Instant,
    received: u64,
    rate: Option<f64>,
}

impl Meter {
    /// A meter of a job that had `received` bytes at `now`.
    pub fn new(received: u64, now: Instant) -> Self {
        Self {
            at: now,
            received,
            rate: None,
        }
    }

    /// The job has `received` bytes by `now`. One that has fewer than before
    /// began anew.
    pub fn update(&mut self, received: u64, now: Instant) {
        let Some(bytes) = received.checked_sub(self.received) else {
            *self = Self::new(received, now);
            return;
        };
        let passed = now.saturating_duration_since(self.at);
        if passed < SAMPLE {
            return;
        }
        let sample = bytes as f64 / passed.as_secs_f64();
        let weight = 1.0 - (-passed.as_secs_f64() / MEMORY.as_secs_f64()).exp();
        self.rate = Some(match self.rate {
            None => sample,
            Some(rate) => rate + weight * (sample - rate),
        });
        self.at = now;
        self.received = received;
    }

    /// Bytes per second, once there is something to tell.
    pub fn rate(&self) -> Option<u64> {
        self.rate.map(|rate| rate.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_stream_has_its_rate_and_a_change_shows_in_some_seconds() {
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let mut meter = Meter::new(7, begun);
        assert_eq!(meter.rate(), None);
        meter.update(50, begun + Duration::from_millis(100));
        assert_eq!(meter.rate(), None, "too short to tell");
        for second in 1..=10 {
            meter.update(7 + second * 1000, at(second));
            assert_eq!(meter.rate(), Some(1000));
        }
        meter.update(10_007, at(11));
        assert!((700..1000).contains(&meter.rate().unwrap()), "{meter:?}");
        meter.update(10_007, at(60));
        assert!(meter.rate().unwrap() < 10, "{meter:?}");
        // A job that began anew.
        meter.update(3, at(61));
        assert_eq!(meter.rate(), None);
    }
}
