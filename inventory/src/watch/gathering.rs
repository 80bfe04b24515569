//! Which events are one change, and when it is told: a state without a clock.
//!
//! A change is told when the kernel is quiet and udev is done. That udev is
//! done is heard, where its own events come: in the network namespace that it
//! works in. In a container's they do not, and then it shows by the mark that
//! udev leaves for as long as it has work. It may also be late, so what was
//! told without its word is told again once it can be done.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::Change;
use super::event::{Event, Sender};

/// What belongs together comes within this time.
const SETTLE: Duration = Duration::from_millis(100);

/// udev marks that it has work within this time after an event.
const BEGINS: Duration = Duration::from_millis(300);

/// However much goes on, a change is told after this time.
const LONGEST: Duration = Duration::from_millis(1000);

/// When that was too early for udev, this is not.
const AGAIN: Duration = Duration::from_millis(1500);

/// udev gives up what takes longer.
const LATEST: Duration = Duration::from_secs(180);

/// While udev is waited for, its mark is looked at this often.
const MARK_EVERY: Duration = Duration::from_millis(50);

/// What udev shows of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Udev {
    /// It does not run.
    #[default]
    Absent,
    /// It runs, and has nothing to do.
    Idle,
    /// It works on events.
    Busy,
}

/// What has come and has not been told yet.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    change: Change,
    /// When the first and the last of it came.
    times: Option<(Instant, Instant)>,
    /// The kernel's events that udev is still at work on.
    open: BTreeSet<u64>,
    /// udev's own events come here.
    heard: bool,
    udev: Udev,
    /// When udev was first seen to be done with the last of it.
    done: Option<Instant>,
    /// When something was told without udev's word.
    owed: Option<Instant>,
}

impl Gathering {
    /// An event came.
    pub(super) fn event(&mut self, now: Instant, event: Event) {
        self.change.events += 1;
        match (event.sender, event.number) {
            (Sender::Kernel, Some(number)) if self.udev != Udev::Absent => {
                self.open.insert(number);
                self.done = None;
            }
            (Sender::Udev, number) => {
                self.heard = true;
                // It has caught up with what was told without its word.
                self.owed = None;
                if let Some(number) = number {
                    self.open.remove(&number);
                }
            }
            _ => {}
        }
        self.came(now);
    }

    /// udev was looked at.
    pub(super) fn udev(&mut self, now: Instant, udev: Udev) {
        let ended = self.udev == Udev::Busy && udev == Udev::Idle;
        self.udev = udev;
        match udev {
            Udev::Busy => self.done = None,
            Udev::Idle if ended => {
                self.done = Some(now);
                if self.owed.take().is_some() {
                    self.came(now);
                }
            }
            Udev::Idle => {}
            Udev::Absent => {
                self.open.clear();
                self.owed = None;
            }
        }
    }

    /// Whether udev has to be looked at again soon.
    fn minds_udev(&self) -> bool {
        self.owed.is_some() || !self.open.is_empty() && !self.heard
    }

    /// Events came for which there was no room; whether udev is done with
    /// those before is not known any more.
    pub(super) fn lost(&mut self, now: Instant) {
        self.change.lost = true;
        self.open.clear();
        self.came(now);
        if self.udev != Udev::Absent {
            self.owed = Some(now);
        }
    }

    /// Mounts or swaps have changed.
    pub(super) fn usage(&mut self, now: Instant) {
        self.change.usage = true;
        self.came(now);
    }

    /// Somebody wrote to a device, and nobody else tells.
    pub(super) fn written(&mut self, now: Instant) {
        self.change.written = true;
        self.came(now);
    }

    /// Somebody asks for a look.
    pub(super) fn asked(&mut self, now: Instant) {
        self.change.asked = true;
        self.came(now);
    }

    fn came(&mut self, now: Instant) {
        let first = self.times.map_or(now, |(first, _)| first);
        self.times = Some((first, now));
    }

    /// When the change is told at the latest, should nothing else come.
    pub(super) fn due_at(&self) -> Option<Instant> {
        let Some((first, last)) = self.times else {
            let late = match self.udev {
                Udev::Busy => LATEST,
                Udev::Idle | Udev::Absent => AGAIN,
            };
            return self.owed.map(|told| told + late);
        };
        let end = first + LONGEST;
        let settled = last + SETTLE;
        Some(if self.open.is_empty() {
            end.min(settled)
        } else if self.heard || self.udev == Udev::Busy {
            end
        } else {
            let done = self.done.unwrap_or(last + BEGINS);
            end.min(done.max(settled))
        })
    }

    /// When there is something to do, should nothing else come.
    pub(super) fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let mark = self.minds_udev().then(|| now + MARK_EVERY);
        mark.into_iter().chain(self.due_at()).min()
    }

    /// The change, if it is told now.
    pub(super) fn due(&mut self, now: Instant) -> Option<Change> {
        if now < self.due_at()? {
            return None;
        }
        let waited = !self.open.is_empty();
        if self.times.take().is_none() || waited {
            // With udev's mark seen and gone, it is done with all. What it
            // repeats late asks for another look by that.
            let unsure = waited && self.done.is_none() && !self.heard;
            self.owed = unsure.then_some(now);
        }
        self.open.clear();
        self.done = None;
        Some(std::mem::take(&mut self.change))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    /// A state with udev at some point.
    fn with(start: Instant, udev: Udev) -> Gathering {
        let mut gathering = Gathering::default();
        gathering.udev(start, udev);
        gathering
    }

    #[test]
    fn a_change_is_told_once_it_is_quiet() {
        let start = Instant::now();
        let mut gathering = Gathering::default();
        assert_eq!(gathering.due(start), None);
        gathering.event(start, KERNEL);
        gathering.event(after(start, 60), KERNEL);
        assert_eq!(gathering.due(after(start, 120)), None);
        let change = gathering.due(after(start, 160)).unwrap();
        assert_eq!(change.events, 2);
        assert_eq!(gathering.due(after(start, 5000)), None);
    }

    #[test]
    fn udev_is_waited_for_where_its_events_come() {
        let start = Instant::now();
        let mut gathering = with(start, Udev::Idle);
        gathering.event(start, UDEV);
        assert!(gathering.due(after(start, 100)).is_some());

        gathering.event(after(start, 200), KERNEL);
        assert_eq!(gathering.due(after(start, 1100)), None);
        gathering.event(after(start, 1100), UDEV);
        assert_eq!(gathering.due(after(start, 1199)), None);
        assert_eq!(gathering.due(after(start, 1200)).unwrap().events, 2);

        // It does not answer.
        gathering.event(after(start, 2000), KERNEL);
        assert_eq!(gathering.due(after(start, 2999)), None);
        assert!(gathering.due(after(start, 3000)).is_some());
        assert_eq!(gathering.due_at(), None);
    }

    #[test]
    fn udevs_mark_says_when_it_is_done_where_its_events_do_not_come() {
        let start = Instant::now();
        let mut gathering = with(start, Udev::Idle);
        gathering.event(start, KERNEL);
        assert_eq!(gathering.wakes_at(start), Some(after(start, 50)));
        gathering.udev(after(start, 50), Udev::Busy);
        assert_eq!(gathering.due(after(start, 600)), None);
        gathering.udev(after(start, 600), Udev::Idle);
        assert!(gathering.due(after(start, 600)).is_some());
        assert_eq!(gathering.wakes_at(after(start, 600)), None);
    }

    #[test]
    fn what_was_told_before_udev_was_done_is_told_again() {
        let start = Instant::now();
        // It works for longer than anybody waits.
        let mut gathering = with(start, Udev::Busy);
        gathering.event(start, KERNEL);
        assert!(gathering.due(after(start, 1000)).is_some());
        assert_eq!(gathering.due(after(start, 9000)), None);
        gathering.udev(after(start, 9000), Udev::Idle);
        assert_eq!(gathering.due(after(start, 9050)), None);
        assert!(gathering.due(after(start, 9100)).is_some());
        assert_eq!(gathering.due_at(), None);

        // It begins later than anybody waits for that.
        let mut gathering = with(start, Udev::Idle);
        gathering.event(start, KERNEL);
        assert_eq!(gathering.due(after(start, 299)), None);
        assert!(gathering.due(after(start, 300)).is_some());
        assert!(gathering.due(after(start, 1800)).is_some());
        assert_eq!(gathering.due_at(), None);
    }

    #[test]
    fn a_mount_while_udev_works_leaves_its_word_owed() {
        let start = Instant::now();
        let mut gathering = with(start, Udev::Busy);
        gathering.event(start, KERNEL);
        assert!(gathering.due(after(start, 1000)).is_some());
        gathering.usage(after(start, 2000));
        assert!(gathering.due(after(start, 2100)).unwrap().usage);
        gathering.udev(after(start, 3000), Udev::Idle);
        assert!(gathering.due(after(start, 3100)).is_some());
    }

    #[test]
    fn what_never_ends_is_told_every_second() {
        for udev in [Udev::Absent, Udev::Idle, Udev::Busy] {
            let start = Instant::now();
            let mut gathering = with(start, udev);
            let mut told = 0;
            let mut events = 0;
            for millisecond in 0..10_000 {
                let now = after(start, millisecond);
                gathering.event(now, KERNEL);
                if let Some(change) = gathering.due(now) {
                    told += 1;
                    events += change.events;
                }
            }
            assert_eq!((told, events), (9, 9 * 1001), "{udev:?}");
        }
    }

    #[test]
    fn what_was_lost_is_told() {
        let start = Instant::now();
        let mut gathering = with(start, Udev::Idle);
        gathering.event(start, KERNEL);
        gathering.lost(start);
        let change = gathering.due(after(start, 100)).unwrap();
        assert!(change.lost && !change.usage);
        assert!(gathering.due(after(start, 1500)).is_some());
    }

    #[derive(Debug, Clone)]
    enum Step {
        Kernel,
        Udev,
        Lost,
        Usage,
        Mark(bool),
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => Just(Step::Kernel),
            1 => Just(Step::Udev),
            1 => Just(Step::Lost),
            1 => Just(Step::Usage),
            2 => any::<bool>().prop_map(Step::Mark),
            4 => (1_u64..400).prop_map(Step::Wait),
        ]
    }

    proptest! {
        /// Whatever happens, what has come is told within a second, and once
        /// nothing comes any more, so does the telling end.
        #[test]
        fn everything_is_told_in_time_and_then_nothing(steps in proptest::collection::vec(step(), 0..60)) {
            let start = Instant::now();
            let mut gathering = with(start, Udev::Idle);
            let mut now = start;
            let mut waiting: Option<Instant> = None;
            for step in steps {
                match step {
                    Step::Kernel => gathering.event(now, KERNEL),
                    Step::Udev => gathering.event(now, UDEV),
                    Step::Lost => gathering.lost(now),
                    Step::Usage => gathering.usage(now),
                    Step::Mark(true) => gathering.udev(now, Udev::Busy),
                    Step::Mark(false) => gathering.udev(now, Udev::Idle),
                    Step::Wait(time) => now = after(now, time),
                }
                if matches!(step, Step::Kernel | Step::Udev | Step::Lost | Step::Usage) {
                    waiting = waiting.or(Some(now));
                }
                if gathering.due(now).is_some() {
                    waiting = None;
                }
                let late = waiting.is_some_and(|since| now >= since + LONGEST);
                prop_assert!(!late, "not told in time");
            }
            gathering.udev(now, Udev::Idle);
            let mut told = 0;
            while let Some(due) = gathering.due_at() {
                prop_assert!(gathering.due(due).is_some());
                told += 1;
                prop_assert!(told <= 3, "it does not end");
            }
        }
    }
}
