//! Which events are one change, and when it is told: a state without a clock.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::Change;
use super::event::{Event, Sender};

/// What belongs together comes within this time.
const SETTLE: Duration = Duration::from_millis(100);

/// However much goes on, a change is told after this time.
const LONGEST: Duration = Duration::from_millis(1000);

/// What has come and has not been told yet.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    change: Change,
    /// When the first and the last of it came.
    times: Option<(Instant, Instant)>,
    /// The kernel's events that udev is still at work on.
    open: BTreeSet<u64>,
}

impl Gathering {
    /// An event came; `udev` says whether udev runs and will repeat it.
    pub(super) fn event(&mut self, now: Instant, event: Event, udev: bool) {
        self.change.events += 1;
        match (event.sender, event.number) {
            (Sender::Kernel, Some(number)) if udev => {
                self.open.insert(number);
            }
            (Sender::Udev, Some(number)) => {
                self.open.remove(&number);
            }
            _ => {}
        }
        self.came(now);
    }

    /// Events came for which there was no room; whether udev is done with
    /// those before is not known any more.
    pub(super) fn lost(&mut self, now: Instant) {
        self.change.lost = true;
        self.open.clear();
        self.came(now);
    }

    /// Mounts or swaps have changed.
    pub(super) fn usage(&mut self, now: Instant) {
        self.change.usage = true;
        self.came(now);
    }

    fn came(&mut self, now: Instant) {
        let first = self.times.map_or(now, |(first, _)| first);
        self.times = Some((first, now));
    }

    /// When the change is told at the latest, should nothing else come.
    pub(super) fn due_at(&self) -> Option<Instant> {
        let (first, last) = self.times?;
        let end = first + LONGEST;
        Some(if self.open.is_empty() {
            end.min(last + SETTLE)
        } else {
            end
        })
    }

    /// The change, if it is told now.
    pub(super) fn due(&mut self, now: Instant) -> Option<Change> {
        if now < self.due_at()? {
            return None;
        }
        self.times = None;
        // What udev is late with asks for another look by its own event.
        self.open.clear();
        Some(std::mem::take(&mut self.change))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: Event = Event {
        sender: Sender::Kernel,
        number: Some(1),
    };
    const UDEV: Event = Event {
        sender: Sender::Udev,
        number: Some(1),
    };

    fn after(start: Instant, milliseconds: u64) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_change_is_told_once_it_is_quiet() {
        let start = Instant::now();
        let mut gathering = Gathering::default();
        assert_eq!(gathering.due(start), None);
        gathering.event(start, KERNEL, false);
        gathering.event(after(start, 60), KERNEL, false);
        assert_eq!(gathering.due(after(start, 120)), None);
        let change = gathering.due(after(start, 160)).unwrap();
        assert_eq!(change.events, 2);
        assert_eq!(gathering.due(after(start, 5000)), None);
    }

    #[test]
    fn udev_is_waited_for_where_it_runs() {
        let start = Instant::now();
        let mut gathering = Gathering::default();
        gathering.event(start, KERNEL, true);
        assert_eq!(gathering.due(after(start, 500)), None);
        gathering.event(after(start, 500), UDEV, true);
        assert_eq!(gathering.due(after(start, 599)), None);
        assert_eq!(gathering.due(after(start, 600)).unwrap().events, 2);

        // It does not answer.
        gathering.event(start, KERNEL, true);
        assert!(gathering.due(after(start, 1000)).is_some());
    }

    #[test]
    fn what_never_ends_is_told_every_second() {
        let start = Instant::now();
        let mut gathering = Gathering::default();
        let mut told = 0;
        let mut events = 0;
        for millisecond in 0..10_000 {
            let now = after(start, millisecond);
            gathering.event(now, KERNEL, false);
            if let Some(change) = gathering.due(now) {
                told += 1;
                events += change.events;
            }
        }
        assert_eq!((told, events), (9, 9 * 1001));
        assert!(gathering.due(after(start, 10_099)).is_some());
    }

    #[test]
    fn what_was_lost_is_told() {
        let start = Instant::now();
        let mut gathering = Gathering::default();
        gathering.event(start, KERNEL, true);
        gathering.lost(start);
        let change = gathering.due(after(start, 100)).unwrap();
        assert!(change.lost && !change.usage);
    }
}
