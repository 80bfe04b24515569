//! Cleaning: what a device carries is removed, so that it becomes available.
//!
//! The order: look afresh; find the device that is meant and what speaks
//! against it; open it alone, which the kernel refuses while it or a partition
//! of it is mounted, held or opened alone; see through that descriptor that it
//! is the same device; only then write. [`plan`] says where, [`device`] does
//! it, [`work`] is the order.
//!
//! A cleaning goes on when whoever asked for it is gone, and who asks for the
//! same again waits for the same. The [`ledger`] sees to it that no order is
//! begun twice.

mod device;
mod ledger;
mod openers;
mod plan;
mod work;

#[cfg(test)]
mod loop_tests;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use hypercloud_inventory::cleaning::Meant;
use hypercloud_inventory::watch::Bell;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use self::ledger::Ledger;
use self::work::CleanError;
use super::eyes::Eyes;
use crate::job::drive::chain;
use crate::job::state::Failure;

/// Devices that are cleaned at the same time, each by a thread of its own.
const AT_A_TIME: usize = 8;

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleaned {
    /// What was found and removed, as `ext4 at byte 1080`.
    pub removed: Vec<String>,
    /// Whether the device took the discard of all its blocks.
    pub discarded: bool,
}

type Outcome = Result<Cleaned, Failure>;

/// What is asked for; with the same reference it is the same order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Order {
    meant: Meant,
    reference: String,
}

/// Orders that go on, and those that were begun.
struct Orders {
    running: BTreeMap<Order, watch::Receiver<Option<Outcome>>>,
    ledger: Ledger,
}

impl Orders {
    /// The answer to an order that is not to be begun.
    fn answer(&self, order: &Order) -> Option<Outcome> {
        let running = self.running.keys();
        let same =
            |other: &&Order| !order.reference.is_empty() && other.reference == order.reference;
        let begun = self.ledger.entry(&order.reference);
        let other = running.chain(begun.map(|entry| &entry.order));
        if let Some(other) = other.filter(same).find(|other| *other != order) {
            return Some(Err(Failure {
                reason: "AnotherDevice".to_owned(),
                message: format!(
                    "{} ordered {} before, as another device: order anew",
                    order.reference, other.meant.path
                ),
                retryable: false,
            }));
        }
        let outcome = begun?.outcome.clone();
        Some(outcome.unwrap_or_else(|| {
            Err(Failure {
                reason: CleanError::Interrupted.reason().to_owned(),
                message: format!(
                    "the agent that began to clean {} ended before it was done: look at the device, and order anew",
                    order.meant.path
                ),
                retryable: false,
            })
        }))
    }
}

/// Cleans devices. Clones are the same.
#[derive(Clone)]
pub struct Cleaner {
    eyes: Arc<Eyes>,
    bell: Bell,
    orders: Arc<Mutex<Orders>>,
    turns: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Cleaner {
    pub(super) fn new(eyes: Arc<Eyes>, bell: Bell, state: &Path) -> io::Result<Self> {
        let orders = Orders {
            running: BTreeMap::new(),
            ledger: Ledger::open(state)?,
        };
        Ok(Self {
            eyes,
            bell,
            orders: Arc::new(Mutex::new(orders)),
            turns: Arc::new(Semaphore::new(AT_A_TIME)),
            stop: CancellationToken::new(),
        })
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
            Begun::GoesOn(outcome) => outcome,
            Begun::Answered(outcome) => return outcome,
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

    /// An order that has ended, goes on or begins.
    fn begin(&self, order: Order) -> Begun {
        let mut orders = self.orders.lock();
        if let Some(outcome) = orders.running.get(&order) {
            return Begun::GoesOn(outcome.clone());
        }
        if let Some(outcome) = orders.answer(&order) {
            return Begun::Answered(outcome);
        }
        let (told, outcome) = watch::channel(None);
        orders.running.insert(order.clone(), outcome.clone());
        let mut running = Running {
            cleaner: self.clone(),
            order,
            outcome: None,
        };
        let turns = Arc::clone(&self.turns);
        tokio::spawn(async move {
            let turn = turns.acquire_owned().await;
            let work = move || {
                let outcome = running.cleaner.carry_out(&running.order);
                running.outcome = Some(outcome.clone());
                drop(running);
                drop(turn);
                told.send_replace(Some(outcome));
            };
            let hired = thread::Builder::new().name("cleaning".into()).spawn(work);
            if let Err(error) = hired {
                tracing::error!(%error, "there is no thread to clean with");
            }
        });
        Begun::GoesOn(outcome)
    }

    fn carry_out(&self, order: &Order) -> Outcome {
        let Order { meant, reference } = order;
        let path = meant.path.as_str();
        let mut begun = false;
        let done = work::prepare(&self.eyes, meant, &self.stop).and_then(|cleaning| {
            cleaning.announce(reference);
            let written = self.orders.lock().ledger.put(order, None);
            written.map_err(CleanError::Ledger)?;
            begun = true;
            cleaning.carry_out()
        });
        match done {
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
                let reason = error.reason();
                tracing::warn!(
                    device = path,
                    reference,
                    reason,
                    message,
                    "device not cleaned"
                );
                Err(Failure {
                    reason: reason.to_owned(),
                    message,
                    // What was begun is not begun again: somebody may have
                    // made something of the device since.
                    retryable: error.is_retryable() && !begun,
                })
            }
        }
    }
}

enum Begun {
    /// It is to come.
    GoesOn(watch::Receiver<Option<Outcome>>),
    /// It is known.
    Answered(Outcome),
}

/// That an order goes on; however it ends, it does so no more, and the device
/// looks different.
struct Running {
    cleaner: Cleaner,
    order: Order,
    outcome: Option<Outcome>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut orders = self.cleaner.orders.lock();
        orders.running.remove(&self.order);
        let last = match &self.outcome {
            Some(Err(failure)) if failure.retryable => None,
            outcome => outcome.as_ref(),
        };
        if last.is_some()
            && let Err(error) = orders.ledger.put(&self.order, last)
        {
            tracing::error!(%error, "how a cleaning ended is not written down");
        }
        self.cleaner.bell.ring();
    }
}
