//! Pauses between tries.

use std::time::Duration;

use rand::Rng;

use crate::error::SourceError;
use crate::options::Options;

/// Counts tries of one thing and paces them. Progress starts the count anew.
pub(crate) struct Retry {
    failures: u32,
    limit: u32,
    initial: Duration,
    longest: Duration,
}

impl Retry {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            failures: 0,
            limit: options.retries,
            initial: options.backoff_initial,
            longest: options.backoff_limit,
        }
    }

    /// Something was achieved since the last failure.
    pub(crate) fn progressed(&mut self) {
        self.failures = 0;
    }

    /// Counts a failure that needs no pause.
    ///
    /// # Errors
    /// Gives `error` back when it is one too many.
    pub(crate) fn count(&mut self, error: SourceError) -> Result<(), SourceError> {
        if self.failures >= self.limit {
            return Err(error);
        }
        self.failures += 1;
        Ok(())
    }

    /// Waits before the next try, at least as long as the server `asked`
    /// for (within the limit).
    ///
    /// # Errors
    /// Gives `error` back when it is final, or one too many.
    pub(crate) async fn pause(
        &mut self,
        error: SourceError,
        asked: Option<Duration>,
    ) -> Result<(), SourceError> {
        // A changed source stays changed: the whole import begins anew.
        let hopeless = !error.is_retryable() || matches!(error, SourceError::SourceChanged(_));
        if hopeless || self.failures >= self.limit {
            return Err(error);
        }
        let pause = self.next_pause(asked);
        tracing::debug!(failures = self.failures, ?pause, error = %error, "trying again");
        tokio::time::sleep(pause).await;
        Ok(())
    }

    fn next_pause(&mut self, asked: Option<Duration>) -> Duration {
        let doubled = self.initial.saturating_mul(1 << self.failures.min(16));
        self.failures += 1;
        let full = doubled.min(self.longest);
        // Half fixed, half random: many readers do not come back together.
        let jittered = full / 2 + full.mul_f64(rand::rng().random_range(0.0..0.5));
        jittered.max(asked.unwrap_or_default().min(self.longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_the_limit_and_heed_the_server() {
        let options = Options {
            backoff_initial: Duration::from_millis(100),
            backoff_limit: Duration::from_secs(1),
            ..Options::default()
        };
        let mut retry = Retry::new(&options);
        for full in [100, 200, 400, 800, 1000, 1000] {
            let pause = retry.next_pause(None);
            assert!(
                pause >= Duration::from_millis(full / 2),
                "{pause:?} of {full}"
            );
            assert!(pause <= Duration::from_millis(full), "{pause:?} of {full}");
        }
        let mut retry = Retry::new(&options);
        let asked = Some(Duration::from_millis(700));
        assert_eq!(retry.next_pause(asked), Duration::from_millis(700));
        let asked = Some(Duration::from_secs(3600));
        assert_eq!(retry.next_pause(asked), Duration::from_secs(1));
    }
}
