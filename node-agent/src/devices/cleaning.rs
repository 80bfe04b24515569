//! Cleaning: what a device carries is removed, so that it becomes available.
//!
//! The order: look afresh; find the device that is meant and what speaks
//! against it; open it alone, which the kernel refuses while it or a partition
//! of it is mounted, held or opened alone; see through that descriptor that it
//! is the same device; only then write. [`plan`] says where, [`device`] does
//! it, [`work`] is the order.
//!
//! A cleaning goes on when whoever asked for it is gone, and who asks for the
//! same again waits for the same. How it ended is remembered for a while: the
//! answer may have been lost, and something new be on the device since.

mod device;
mod openers;
mod plan;
mod work;

#[cfg(test)]
mod loop_tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hypercloud_inventory::cleaning::Meant;
use hypercloud_inventory::watch::Bell;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::eyes::Eyes;
use crate::job::drive::chain;
use crate::job::state::Failure;

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// What was found and removed, as `ext4 at byte 1080`.
    pub removed: Vec<String>,
    /// Whether the device took the discard of all its blocks.
    pub discarded: bool,
}

type Outcome = Result<Cleaned, Failure>;

/// How long it is remembered how a cleaning ended: longer than whoever ordered
/// it asks again.
const REMEMBERED: Duration = Duration::from_secs(72 * 3600);
/// The most that are remembered; the oldest go first.
const MOST_REMEMBERED: usize = 256;

/// One request; with the same reference it is the same one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    meant: Meant,
    reference: String,
}

/// Requests that go on, and those that have ended.
#[derive(Default)]
struct Orders {
    running: BTreeMap<Order, watch::Receiver<Option<Outcome>>>,
    ended: VecDeque<(Instant, Order, Outcome)>,
}

impl Orders {
    /// How the same request has ended, where it has for good.
    fn remembered(&mut self, order: &Order) -> Option<Outcome> {
        self.ended.retain(|(when, ..)| when.elapsed() < REMEMBERED);
        let same = self.ended.iter().find(|(_, ended, _)| ended == order)?;
        Some(same.2.clone())
    }

    fn end(&mut self, order: &Order, outcome: Option<&Outcome>) {
        self.running.remove(order);
        match outcome {
            None => {}
            // It is to be tried again.
            Some(Err(failure)) if failure.retryable => {}
            // Without a reference nobody says that it is the same.
            Some(_) if order.reference.is_empty() => {}
            Some(outcome) => {
                self.ended
                    .push_back((Instant::now(), order.clone(), outcome.clone()));
                if self.ended.len() > MOST_REMEMBERED {
                    self.ended.pop_front();
                }
            }
        }
    }
}

/// Cleans devices. Clones are the same.
#[derive(Clone)]
pub struct Cleaner {
    eyes: Arc<Eyes>,
    bell: Bell,
    orders: Arc<Mutex<Orders>>,
    stop: CancellationToken,
}

impl Cleaner {
    pub(super) fn new(eyes: Arc<Eyes>, bell: Bell) -> Self {
        Self {
            eyes,
            bell,
            orders: Arc::default(),
            stop: CancellationToken::new(),
        }
    }

    /// Ends what goes on, between two steps; what is asked for then ends too.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Cleans the device that is meant; `reference` says why and for whom.
    ///
    /// # Errors
    /// It is refused, or failed.
    pub async fn clean(&self, meant: Meant, reference: String) -> Outcome {
        let mut outcome = match self.begin(Order { meant, reference }) {
            Begun::Outcome(outcome) => outcome,
            Begun::Ended(outcome) => return outcome,
        };
        match outcome.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            // Whoever was to say it is gone without.
            Ok(None) | Err(_) => Err(Failure {
                reason: "CleaningFailed".to_owned(),
                message: "the cleaning ended by a fault of the agent, whose log has more"
                    .to_owned(),
                retryable: true,
            }),
        }
    }

    /// The outcome of a cleaning that has ended, goes on or begins.
    fn begin(&self, order: Order) -> Begun {
        let mut orders = self.orders.lock();
        if let Some(outcome) = orders.remembered(&order) {
            return Begun::Ended(outcome);
        }
        if let Some(outcome) = orders.running.get(&order) {
            return Begun::Outcome(outcome.clone());
        }
        let (told, outcome) = watch::channel(None);
        orders.running.insert(order.clone(), outcome.clone());
        let mut entry = Entry {
            cleaner: self.clone(),
            order,
            outcome: None,
        };
        tokio::task::spawn_blocking(move || {
            let Order { meant, reference } = &entry.order;
            let outcome = entry.cleaner.carry_out(meant, reference);
            entry.outcome = Some(outcome.clone());
            drop(entry);
            told.send_replace(Some(outcome));
        });
        Begun::Outcome(outcome)
    }

    fn carry_out(&self, meant: &Meant, reference: &str) -> Outcome {
        let path = meant.path.as_str();
        match work::clean(&self.eyes, meant, reference, &self.stop) {
            Ok(cleaned) => {
                tracing::info!(
                    device = path,
                    reference,
                    removed = cleaned.removed.join(", "),
                    discarded = cleaned.discarded,
                    "device cleaned"
                );
                Ok(cleaned)
            }
            Err(error) => {
                let message = chain(&error);
                tracing::warn!(
                    device = path,
                    reference,
                    reason = error.reason(),
                    message,
                    "device not cleaned"
                );
                Err(Failure {
                    reason: error.reason().to_owned(),
                    message,
                    retryable: error.is_retryable(),
                })
            }
        }
    }
}

enum Begun {
    /// It is to come.
    Outcome(watch::Receiver<Option<Outcome>>),
    /// It is known.
    Ended(Outcome),
}

/// That a cleaning goes on; however it ends, it does so no more, and the
/// device looks different.
struct Entry {
    cleaner: Cleaner,
    order: Order,
    outcome: Option<Outcome>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut orders = self.cleaner.orders.lock();
        orders.end(&self.order, self.outcome.as_ref());
        self.cleaner.bell.ring();
    }
}
