//! Waiting for a condition, with a deadline and a word on what was last seen.

use std::fmt::Debug;
use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::bail;

/// How often a condition is looked at.
const INTERVAL: Duration = Duration::from_millis(200);

/// What one look at a condition found.
pub enum Seen<T> {
    /// It holds.
    Done(T),
    /// Not yet; this is what stands there instead.
    NotYet(String),
}

/// Looks until the condition called `what` holds; an error after `limit`,
/// with what was seen last. Errors of a look count as "not yet".
pub async fn until<T, F, Fut>(what: &str, limit: Duration, mut look: F) -> anyhow::Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = anyhow::Result<Seen<T>>>,
{
    let start = Instant::now();
    loop {
        let last = match look().await {
            Ok(Seen::Done(value)) => return Ok(value),
            Ok(Seen::NotYet(seen)) => seen,
            Err(error) => format!("{error:#}"),
        };
        if start.elapsed() > limit {
            bail!("{what}: not within {limit:?}; last seen: {last}");
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// `Done` when `holds`, otherwise what stands there.
pub fn when(holds: bool, seen: impl Debug) -> Seen<()> {
    if holds {
        Seen::Done(())
    } else {
        Seen::NotYet(format!("{seen:?}"))
    }
}
