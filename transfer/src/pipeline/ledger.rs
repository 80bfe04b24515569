//! Which items are under way and which are done.
//!
//! Items begin in order and end in any order; what may be kept is only the
//! position before which nothing is missing.

use std::collections::{BTreeMap, BTreeSet};

/// A place in the plan: that many items of the window are before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) window: u64,
    pub(crate) item: u64,
}

/// Keeps count of one run.
#[derive(Debug)]
pub(crate) struct Ledger {
    under_way: BTreeSet<Position>,
    /// Ended while an earlier one had not, with their bytes.
    early: BTreeMap<Position, u64>,
    /// Bytes of the disk settled without a gap.
    settled: u64,
    /// Where that was last known to end.
    reached: Position,
    /// Bytes of the disk settled in all.
    done: u64,
}

impl Ledger {
    /// A ledger of a run that begins at `start`, `done` bytes being settled
    /// before it.
    pub(crate) fn new(start: Position, done: u64) -> Self {
        Self {
            under_way: BTreeSet::new(),
            early: BTreeMap::new(),
            settled: done,
            reached: start,
            done,
        }
    }

    pub(crate) fn begin(&mut self, item: Position) {
        self.under_way.insert(item);
    }

    pub(crate) fn finish(&mut self, item: Position, bytes: u64) {
        if self.under_way.remove(&item) {
            self.early.insert(item, bytes);
            self.done += bytes;
        }
    }

    /// Items begun that a checkpoint does not count: the first that is not
    /// done, and all behind it.
    pub(crate) fn ahead(&self) -> usize {
        let Some(first) = self.under_way.first() else {
            return 0;
        };
        self.under_way.len() + self.early.range(first..).count()
    }

    /// Bytes of the disk settled in all.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Before which position nothing is missing, and the bytes before it.
    /// `next` is the item to be begun next.
    pub(crate) fn settled(&mut self, next: Position) -> (Position, u64) {
        let floor = self.under_way.first().copied().unwrap_or(next).min(next);
        let later = self.early.split_off(&floor);
        let settled = std::mem::replace(&mut self.early, later);
        self.settled += settled.values().sum::<u64>();
        self.reached = floor;
        (floor, self.settled)
    }

    /// The same at the end of a run, where items under way have failed.
    pub(crate) fn settled_to_first_gap(&self) -> (Position, u64) {
        match self.under_way.first() {
            Some(first) => {
                let before: u64 = self.early.range(..first).map(|(_, bytes)| bytes).sum();
                (*first, self.settled + before)
            }
            // Without a gap the next item is not known here.
            None => (self.reached, self.settled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(window: u64, item: u64) -> Position {
        Position { window, item }
    }

    #[test]
    fn only_what_has_no_gap_before_it_is_settled() {
        let mut ledger = Ledger::new(at(0, 0), 0);
        for item in 0..4 {
            ledger.begin(at(0, item));
        }
        assert_eq!(ledger.settled(at(1, 0)), (at(0, 0), 0));
        ledger.finish(at(0, 1), 10);
        ledger.finish(at(0, 2), 20);
        assert_eq!(ledger.settled(at(1, 0)), (at(0, 0), 0));
        assert_eq!(ledger.done(), 30);
        assert_eq!(ledger.ahead(), 4);
        ledger.finish(at(0, 0), 5);
        assert_eq!(ledger.settled(at(1, 0)), (at(0, 3), 35));
        assert_eq!(ledger.settled_to_first_gap(), (at(0, 3), 35));
        ledger.finish(at(0, 3), 1);
        assert_eq!(ledger.settled(at(1, 0)), (at(1, 0), 36));
    }

    #[test]
    fn a_resumed_run_counts_on() {
        let mut ledger = Ledger::new(at(3, 7), 1000);
        ledger.begin(at(3, 7));
        ledger.finish(at(3, 7), 24);
        assert_eq!(ledger.settled(at(3, 8)), (at(3, 8), 1024));
        assert_eq!(ledger.done(), 1024);
    }
}
