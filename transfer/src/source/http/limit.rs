//! How many connections a source is worth.
//!
//! A source that takes its time to answer, or gives each connection its share
//! and no more, gives more to more of them; a link that is full does not. So
//! more are tried, and kept while they bring something.

/// Decides how many ranges are requested at once.
#[derive(Debug)]
pub(super) struct Limit {
    now: usize,
    most: usize,
    trial: Option<Trial>,
    /// Intervals to go before more are tried again.
    rest: u32,
    /// How often in a row more were tried in vain.
    vain: u32,
}

/// More connections than before, to see what they bring.
#[derive(Debug, Clone, Copy)]
struct Trial {
    /// How many there were.
    from: usize,
    /// Bytes per second that these brought.
    rate: f64,
    /// Whether the new ones had an interval to come about.
    is_settled: bool,
}

impl Limit {
    /// What an added connection must bring, as a share of what those before
    /// it brought each.
    const GAIN: f64 = 0.25;
    /// Intervals to rest after more were tried in vain; twice as many the
    /// next time, as trying disturbs a link that is full.
    const REST: u32 = 25;
    /// How often that doubles at most.
    const DOUBLED: u32 = 6;
    /// Intervals to rest after the server asked for fewer requests.
    const LONG_REST: u32 = 300;

    pub(super) fn new(first: usize, most: usize) -> Self {
        let now = first.max(1);
        Self {
            now,
            most: most.max(now),
            trial: None,
            rest: 0,
            vain: 0,
        }
    }

    pub(super) fn now(&self) -> usize {
        self.now
    }

    /// Judges an interval in which `rate` bytes came per second. `is_busy`:
    /// all connections had something to do, so that it is on the source.
    pub(super) fn judge(&mut self, rate: f64, is_busy: bool) {
        if let Some(trial) = &mut self.trial {
            if !trial.is_settled {
                trial.is_settled = true;
                return;
            }
            let added = (self.now - trial.from) as f64 / trial.from as f64;
            let is_worth_it = rate >= trial.rate * (1.0 + Self::GAIN * added);
            if is_worth_it {
                self.vain = 0;
            } else {
                self.now = trial.from;
                self.rest = Self::REST << self.vain;
                self.vain = (self.vain + 1).min(Self::DOUBLED);
            }
            self.trial = None;
        }
        if self.rest > 0 {
            self.rest -= 1;
        } else if is_busy && self.now < self.most {
            self.trial = Some(Trial {
                from: self.now,
                rate,
                is_settled: false,
            });
            self.now = (2 * self.now).min(self.most);
        }
    }

    /// The server asks for fewer requests.
    pub(super) fn refused(&mut self) {
        if self.rest < Self::LONG_REST {
            self.now = (self.now / 2).max(1);
        }
        self.trial = None;
        self.rest = Self::LONG_REST + Self::REST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit after some intervals with a source.
    fn after(limit: &mut Limit, intervals: usize, source: impl Fn(usize) -> f64) -> usize {
        for _ in 0..intervals {
            limit.judge(source(limit.now()), true);
        }
        limit.now()
    }

    #[test]
    fn a_share_for_each_is_taken_by_many() {
        let mut limit = Limit::new(6, 16);
        assert_eq!(after(&mut limit, 5, |now| now as f64 * 48e6), 16);
    }

    #[test]
    fn a_full_link_is_left_alone() {
        let mut limit = Limit::new(6, 16);
        let mut tried = 0;
        for _ in 0..1000 {
            let before = limit.now();
            limit.judge(12.5e6, true);
            tried += usize::from(limit.now() > before);
        }
        assert!(tried <= 6, "tried {tried} times in vain");
        assert_eq!(after(&mut limit, 3, |_| 12.5e6), 6);
    }

    #[test]
    fn it_stops_where_the_link_is_full() {
        let mut limit = Limit::new(2, 64);
        let link = |now: usize| (now as f64 * 10e6).min(80e6);
        assert_eq!(after(&mut limit, 20, link), 8);
    }

    #[test]
    fn nothing_is_tried_while_the_source_waits_for_us() {
        let mut limit = Limit::new(6, 16);
        for _ in 0..50 {
            limit.judge(100e6, false);
        }
        assert_eq!(limit.now(), 6);
    }

    #[test]
    fn a_server_that_asks_for_fewer_gets_fewer_once_for_a_burst() {
        let mut limit = Limit::new(6, 16);
        limit.judge(48e6, true);
        assert_eq!(limit.now(), 12);
        for _ in 0..12 {
            limit.refused();
        }
        assert_eq!(limit.now(), 6);
        assert_eq!(after(&mut limit, 100, |now| now as f64), 6);
    }

    #[test]
    fn bounds_hold() {
        assert_eq!(Limit::new(0, 0).now(), 1);
        let mut limit = Limit::new(8, 4);
        assert_eq!(after(&mut limit, 50, |now| now as f64), 8);
        for _ in 0..1000 {
            limit.refused();
            after(&mut limit, 50, |_| 1.0);
        }
        assert!(limit.now() >= 1);
    }
}
