//! Work on another thread, which is left to itself when it takes too long.
//!
//! Reading a disk that lost its last path, or a device that is suspended, may
//! never return, and the kernel lets nobody interrupt it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// A disk that spins up answers in this time.
const LONGEST: Duration = Duration::from_secs(15);

/// Does one piece of work after the other on a thread of its own.
pub(super) struct Patience<A, B> {
    work: fn(A) -> B,
    longest: Duration,
    worker: Option<(Sender<A>, Receiver<B>)>,
}

impl<A: Send + 'static, B: Send + 'static> Patience<A, B> {
    pub(super) fn new(work: fn(A) -> B) -> Self {
        Self {
            work,
            longest: LONGEST,
            worker: None,
        }
    }

    /// The work's result, or why there is none. After work that took too long
    /// the next is done by a new thread.
    pub(super) fn carry_out(&mut self, order: A) -> Result<B, &'static str> {
        const GONE: &str = "the thread that reads devices is gone";
        let (orders, results) = match self.worker.take() {
            Some(worker) => worker,
            None => self.hire().map_err(|_| "a thread could not be started")?,
        };
        orders.send(order).map_err(|_| GONE)?;
        let result = match results.recv_timeout(self.longest) {
            Ok(result) => result,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => return Err("it does not answer"),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return Err(GONE),
        };
        self.worker = Some((orders, results));
        Ok(result)
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
    use super::*;

    #[test]
    fn what_does_not_answer_is_given_up_and_the_next_is_done() {
        let mut patience = Patience::new(|gate: Option<Receiver<()>>| {
            if let Some(gate) = gate {
                let _ = gate.recv();
            }
        });
        patience.longest = Duration::from_millis(20);
        let (hold, gate) = channel();
        assert_eq!(patience.carry_out(Some(gate)), Err("it does not answer"));
        patience.longest = LONGEST;
        assert_eq!(patience.carry_out(None), Ok(()));
        drop(hold);
    }

    #[test]
    fn a_panic_is_an_answer_too() {
        let mut patience = Patience::new(|fails: bool| assert!(!fails));
        assert!(patience.carry_out(true).is_err());
        assert_eq!(patience.carry_out(false), Ok(()));
    }
}
