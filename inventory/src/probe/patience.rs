//! Work on another thread, which is left to itself when it takes too long.
//!
//! Reading a disk that lost its last path, or a device that is suspended, may
//! never return, and the kernel lets nobody interrupt it. What was left is not
//! begun again before it has ended, so that a disk costs one thread, however
//! often it is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

/// A disk that spins up answers in this time.
const LONGEST: Duration = Duration::from_secs(15);

/// While others hang, none is waited for longer than this at least.
const SHORTEST: Duration = Duration::from_millis(50);

/// Does one piece of work after the other on a thread of its own.
pub(super) struct Patience<K, A, B> {
    work: fn(A) -> B,
    longest: Duration,
    worker: Option<(Sender<A>, Receiver<B>)>,
    /// Work that took too long, by what it was on.
    left: BTreeMap<K, Receiver<B>>,
    /// What took too long last time: it is not waited for again before it has
    /// answered at once.
    slow: BTreeSet<K>,
}

const HANGS: &str = "it does not answer";
const GONE: &str = "the thread that reads devices is gone";

impl<K: Ord + Clone, A: Send + 'static, B: Send + 'static> Patience<K, A, B> {
    pub(super) fn new(work: fn(A) -> B) -> Self {
        Self {
            work,
            longest: LONGEST,
            worker: None,
            left: BTreeMap::new(),
            slow: BTreeSet::new(),
        }
    }

    /// The result of work on `key`, or why there is none. After work that took
    /// too long the next is done by a new thread.
    pub(super) fn carry_out(&mut self, key: K, order: A) -> Result<B, &'static str> {
        self.left
            .retain(|_, results| matches!(results.try_recv(), Err(TryRecvError::Empty)));
        if self.left.contains_key(&key) {
            return Err(HANGS);
        }
        let (orders, results) = match self.worker.take() {
            Some(worker) => worker,
            None => self.hire().map_err(|_| "a thread could not be started")?,
        };
        orders.send(order).map_err(|_| GONE)?;
        let patience = if self.slow.contains(&key) {
            SHORTEST.min(self.longest)
        } else {
            self.patience()
        };
        let result = match results.recv_timeout(patience) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => {
                self.slow.insert(key.clone());
                self.left.insert(key, results);
                return Err(HANGS);
            }
            Err(RecvTimeoutError::Disconnected) => return Err(GONE),
        };
        self.slow.remove(&key);
        self.worker = Some((orders, results));
        Ok(result)
    }

    /// The more that hang, the less is the next one waited for: together no
    /// more than twice the longest time, and a little for each.
    fn patience(&self) -> Duration {
        let halved = u32::try_from(self.left.len()).unwrap_or(u32::MAX).min(16);
        (self.longest / 2_u32.pow(halved)).max(SHORTEST.min(self.longest))
    }

    fn hire(&self) -> std::io::Result<(Sender<A>, Receiver<B>)> {
        let (orders, taken) = channel::<A>();
        let (made, results) = channel();
        let work = self.work;
        thread::Builder::new().name("probe".into()).spawn(move || {
            for order in taken {
                if made.send(work(order)).is_err() {
                    return;
                }
            }
        })?;
        Ok((orders, results))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn gates() -> Patience<u32, Option<Receiver<()>>, ()> {
        Patience::new(|gate: Option<Receiver<()>>| {
            if let Some(gate) = gate {
                let _ = gate.recv();
            }
        })
    }

    #[test]
    fn what_does_not_answer_is_given_up_and_the_next_is_done() {
        let mut patience = gates();
        patience.longest = Duration::from_millis(20);
        let (hold, gate) = channel();
        assert_eq!(patience.carry_out(1, Some(gate)), Err(HANGS));
        patience.longest = LONGEST;
        assert_eq!(patience.carry_out(2, None), Ok(()));
        drop(hold);
    }

    #[test]
    fn what_hangs_is_not_begun_again_before_it_has_ended() {
        let mut patience = gates();
        patience.longest = Duration::from_millis(20);
        let (hold, gate) = channel();
        assert_eq!(patience.carry_out(1, Some(gate)), Err(HANGS));
        patience.longest = LONGEST;
        assert_eq!(patience.carry_out(1, None), Err(HANGS));
        drop(hold);
        let begin = Instant::now();
        while patience.carry_out(1, None) == Err(HANGS) {
            assert!(begin.elapsed() < LONGEST, "it has ended");
            thread::yield_now();
        }
        assert!(patience.left.is_empty() && patience.slow.is_empty());
    }

    #[test]
    fn a_hundred_that_hang_are_not_waited_for_one_by_one() {
        let mut patience = gates();
        let mut waits = Vec::new();
        let mut holds = Vec::new();
        for key in 0..100 {
            waits.push(patience.patience());
            // Nothing is sent through it, as nothing comes from what hangs.
            let (hold, results) = channel();
            patience.left.insert(key, results);
            holds.push(hold);
        }
        assert_eq!(waits[0], LONGEST);
        assert!(waits.iter().sum::<Duration>() < 2 * LONGEST + 100 * SHORTEST);
        assert!(waits.iter().all(|wait| *wait >= SHORTEST));
    }

    #[test]
    fn a_panic_is_an_answer_too() {
        let mut patience = Patience::new(|fails: bool| assert!(!fails));
        assert!(patience.carry_out(1, true).is_err());
        assert_eq!(patience.carry_out(1, false), Ok(()));
    }
}
