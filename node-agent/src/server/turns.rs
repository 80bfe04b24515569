//! How many calls of a kind go on at the same time, and for how long.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tonic::Status;

/// Longest time that a call may take, once it has its turn.
pub(super) const CALL_LIMIT: Duration = Duration::from_secs(60);
/// Longest time that a call waits for its turn: more than a call may take, so
/// that one round of others that do not answer turns nobody away. Whoever is
/// turned away comes again, and it counts as nothing against what he asks
/// about.
pub(super) const TURN_LIMIT: Duration = Duration::from_secs(90);

/// The turns of one kind of call. Clones are the same turns.
#[derive(Clone)]
pub(super) struct Turns {
    semaphore: Arc<Semaphore>,
    /// What whoever finds no turn is told.
    full: &'static str,
}

impl Turns {
    /// As many at a time as `most`.
    pub(super) fn new(most: usize, full: &'static str) -> Self {
        Self {
            semaphore: Arc::new(Semaphore::new(most)),
            full,
        }
    }

    /// Makes a call when it is its turn; `None` where it takes too long.
    ///
    /// # Errors
    /// No turn came.
    pub(super) async fn call<T>(&self, call: impl Future<Output = T>) -> Result<Option<T>, Status> {
        let turn = tokio::time::timeout(TURN_LIMIT, self.semaphore.acquire()).await;
        let _turn = turn.map_err(|_| Status::resource_exhausted(self.full))?;
        Ok(tokio::time::timeout(CALL_LIMIT, call).await.ok())
    }
}
