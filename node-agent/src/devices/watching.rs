//! When the devices are looked at: at once, after each change, and now and
//! then, so that an event which was lost costs nothing for long.
//!
//! A thread of its own does it, because a look waits for files and devices. A
//! device that does not answer is left to another thread by the prober.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hypercloud_inventory::watch::{Bell, Watch};

use super::board::DeviceBoard;
use super::eyes::{Eyes, Sight};
use crate::job::drive::chain;

/// A look is told at least this often; watchers are promised a minute.
const TELL_EVERY: Duration = Duration::from_secs(45);

/// Where the kernel's events are not to be had, devices are looked at this
/// often.
const POLL_EVERY: Duration = Duration::from_secs(2);

/// After a look nothing is done for this many times as long as it took, so
/// that looking takes a tenth of a core at most; but no longer than
/// [`LONGEST_REST`].
const REST: u32 = 9;
const LONGEST_REST: Duration = Duration::from_secs(1);

/// The thread that looks. Dropped, it ends by itself.
pub(super) struct Watching {
    bell: Bell,
    stop: Arc<AtomicBool>,
    thread: Thread,
}

impl Watching {
    pub(super) fn start(eyes: Arc<Eyes>, board: DeviceBoard) -> io::Result<Self> {
        let watch = match Watch::begin(eyes.tree()) {
            Ok(watch) => watch,
            Err(error) => {
                tracing::warn!(
                    error = chain(&error),
                    every_seconds = POLL_EVERY.as_secs(),
                    "the kernel's events are not to be had: devices are polled"
                );
                Watch::without_events(eyes.tree())?
            }
        };
        let bell = watch.bell();
        let stop = Arc::new(AtomicBool::new(false));
        let looking = Looking {
            watch,
            eyes,
            board,
            stop: Arc::clone(&stop),
            told: None,
            complaint: None,
        };
        let thread = thread::Builder::new()
            .name("devices".into())
            .spawn(move || looking.run())?
            .thread()
            .clone();
        Ok(Self { bell, stop, thread })
    }

    /// What asks for a look.
    pub(super) fn bell(&self) -> Bell {
        self.bell.clone()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.bell.ring();
        self.thread.unpark();
    }
}

struct Looking {
    watch: Watch,
    eyes: Arc<Eyes>,
    board: DeviceBoard,
    stop: Arc<AtomicBool>,
    /// When watchers were told last.
    told: Option<Instant>,
    /// What was said last of a look that failed.
    complaint: Option<String>,
}

impl Looking {
    fn run(mut self) {
        while !self.stopped() {
            let begin = Instant::now();
            // A device is minded from its first look on, and what was written
            // to it before that was closed shows at the second.
            let look = AssertUnwindSafe(|| self.look(begin));
            let again = catch_unwind(look).unwrap_or_else(|_| {
                tracing::error!("looking at the devices failed by a fault of the agent");
                self.complaint = Some(String::new());
                false
            });
            let rest = (begin.elapsed() * REST).min(LONGEST_REST);
            thread::park_timeout(rest);
            if !again {
                self.wait();
            }
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Looks and shows; whether it is to be done again at once.
    fn look(&mut self, begin: Instant) -> bool {
        let seen = self.eyes.turn().look();
        let inventory = match seen {
            Ok(Sight { inventory, .. }) => inventory,
            Err(error) => {
                let text = chain(&error);
                if self.complaint.as_ref() != Some(&text) {
                    tracing::error!(error = text, "the devices cannot be looked at");
                    self.complaint = Some(text);
                }
                return false;
            }
        };
        self.complaint = None;
        let names = inventory.devices.iter().map(|device| device.name.as_str());
        let new = self.watch.mind(names);
        let milliseconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| {
                u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
            });
        let took = begin.elapsed();
        let due = self.until_due().is_zero();
        if self.board.put(inventory, milliseconds, took, due) {
            self.told = Some(Instant::now());
        }
        new
    }

    fn until_due(&self) -> Duration {
        self.told.map_or(Duration::ZERO, |told| {
            TELL_EVERY.saturating_sub(told.elapsed())
        })
    }

    /// Waits for a reason to look.
    fn wait(&mut self) {
        let limit = if !self.watch.has_events() {
            POLL_EVERY
        } else if self.complaint.is_some() {
            TELL_EVERY
        } else {
            self.until_due()
        };
        if let Err(error) = self.watch.wait(limit) {
            tracing::warn!(
                error = chain(&error),
                every_seconds = POLL_EVERY.as_secs(),
                "the kernel's events come no more: devices are polled"
            );
            self.watch.forget_events();
            thread::park_timeout(LONGEST_REST);
        }
    }
}
