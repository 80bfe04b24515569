//! The connections that are used at once, as many as the source is worth.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::limit::Limit;
use crate::error::SourceError;
use crate::object_store::ObjectStoreError;
use crate::options::Options;

/// How long an interval is that tells how fast a source is.
const INTERVAL: Duration = Duration::from_millis(200);

/// What the memory of one more range costs, twice over: one is fetched while
/// another is decoded.
const COST: usize = 4 << 20;

/// Hands out connections.
pub(super) struct Connections {
    permits: Semaphore,
    state: Mutex<State>,
}

struct State {
    limit: Limit,
    /// How many permits there are.
    granted: usize,
    /// When the interval began, and what had been received by then.
    since: Instant,
    received: u64,
}

impl Connections {
    pub(super) fn new(options: &Options) -> Self {
        let most = options.max_connections.min(options.memory_budget / COST);
        let limit = Limit::new(options.connections, most);
        Self {
            permits: Semaphore::new(limit.now()),
            state: Mutex::new(State {
                granted: limit.now(),
                limit,
                since: Instant::now(),
                received: 0,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are used at once, at most.
    pub(super) fn limit(&self) -> usize {
        self.state().limit.now()
    }

    /// Waits for one.
    pub(super) async fn take(&self) -> Option<SemaphorePermit<'_>> {
        // Never closed.
        self.permits.acquire().await.ok()
    }

    /// Takes note of a failure.
    pub(super) fn failed(&self, error: &SourceError) {
        let refused = matches!(
            error,
            SourceError::TooManyRequests(_)
                | SourceError::ServerError { status: 503, .. }
                | SourceError::ObjectStore(ObjectStoreError::SlowDown(_))
        );
        if refused {
            self.state().limit.refused();
        }
    }

    /// Gives one back, `received` bytes having come over all of them so far.
    pub(super) fn give_back(&self, permit: Option<SemaphorePermit<'_>>, received: u64) {
        // Without one to spare, somebody waits, or is about to.
        let is_busy = self.permits.available_permits() == 0;
        let mut state = self.state();
        let elapsed = state.since.elapsed();
        if elapsed >= INTERVAL {
            let rate = received.saturating_sub(state.received) as f64 / elapsed.as_secs_f64();
            state.limit.judge(rate, is_busy);
            state.since = Instant::now();
            state.received = received;
        }
        let limit = state.limit.now();
        if limit > state.granted {
            self.permits.add_permits(limit - state.granted);
            state.granted = limit;
        } else if limit < state.granted
            && let Some(permit) = permit
        {
            permit.forget();
            state.granted -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn as_many_are_handed_out_as_the_limit_says() {
        let connections = Connections::new(&Options::default());
        assert_eq!(connections.limit(), 6);
        let mut taken = Vec::new();
        for _ in 0..6 {
            taken.push(connections.take().await);
        }
        assert_eq!(connections.permits.available_permits(), 0);
        connections.failed(&SourceError::TooManyRequests(String::new()));
        assert_eq!(connections.limit(), 3);
        for permit in taken {
            connections.give_back(permit, 0);
        }
        assert_eq!(connections.permits.available_permits(), 3);

        let small = Options {
            memory_budget: 8 << 20,
            connections: 1,
            ..Options::default()
        };
        let connections = Connections::new(&small);
        let permit = connections.take().await;
        connections.state().since -= INTERVAL;
        connections.give_back(permit, 1 << 20);
        assert_eq!(
            connections.limit(),
            2,
            "no more than the budget has room for"
        );
        assert_eq!(connections.permits.available_permits(), 2);
    }
}
