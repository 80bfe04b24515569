//! When work that failed is tried again. Pure.

use std::time::Duration;

use hypercloud_api::RetryStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::agents::Failure;
use crate::backoff::Backoff;

/// Tries that may fail before the work is given up, where it may be.
pub const MAX_FAILURES: i32 = 10;

/// Delay before the next try.
pub const BACKOFF: Backoff = Backoff {
    base: Duration::from_secs(5),
    cap: Duration::from_secs(300),
};

/// Tries that failed so far.
pub fn failures(retry: Option<&RetryStatus>) -> i32 {
    retry.map_or(0, |retry| retry.failures.max(0))
}

/// Whether there is another try after `failure`.
pub fn is_another(retry: Option<&RetryStatus>, failure: &Failure) -> bool {
    failure.retryable && failures(retry) + 1 < MAX_FAILURES
}

/// Why the work is given up after `failure`, as reason and message.
pub fn given_up(failure: &Failure) -> (String, String) {
    if !failure.retryable {
        return (failure.reason.clone(), failure.message.clone());
    }
    let message = format!(
        "given up after {MAX_FAILURES} failed tries; the last one failed with {}: {}",
        failure.reason, failure.message
    );
    ("RetriesExhausted".to_owned(), message)
}

/// What is written down of `failure`, with the time of the next try.
pub fn after(
    retry: Option<&RetryStatus>,
    uid: &str,
    failure: &Failure,
    now: Timestamp,
) -> RetryStatus {
    let failures = failures(retry).saturating_add(1);
    let delay = BACKOFF.delay(uid, failures.unsigned_abs());
    // Whole seconds, which is what the API keeps.
    let seconds = i64::try_from(delay.as_secs()).unwrap_or(i64::MAX);
    let next = now
        .checked_add(SignedDuration::from_secs(seconds))
        .unwrap_or(now);
    RetryStatus {
        failures,
        next_time: Some(Time(next)),
        last_reason: failure.reason.clone(),
        last_message: failure.message.clone(),
    }
}

/// How long the next try is still to be waited for.
pub fn wait(retry: Option<&RetryStatus>, now: Timestamp) -> Option<Duration> {
    let wait = retry?.next_time.as_ref()?.0.duration_since(now);
    let wait = Duration::try_from(wait).ok()?;
    Some(wait).filter(|wait| !wait.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(retryable: bool) -> Failure {
        Failure {
            reason: "Stalled".into(),
            message: "the disk does not answer".into(),
            retryable,
        }
    }

    #[test]
    fn tries_end_and_are_counted() {
        let now = Timestamp::from_second(1000).unwrap();
        let mut retry = None;
        for count in 1..MAX_FAILURES {
            assert!(is_another(retry.as_ref(), &failure(true)), "{count}");
            retry = Some(after(retry.as_ref(), "uid", &failure(true), now));
            assert_eq!(failures(retry.as_ref()), count);
            let wait = wait(retry.as_ref(), now).unwrap();
            assert!(wait >= BACKOFF.base && wait <= BACKOFF.cap, "{wait:?}");
        }
        assert!(!is_another(retry.as_ref(), &failure(true)));
        assert_eq!(given_up(&failure(true)).0, "RetriesExhausted");
    }

    #[test]
    fn what_cannot_succeed_is_not_tried_again() {
        assert!(!is_another(None, &failure(false)));
        assert_eq!(given_up(&failure(false)).0, "Stalled");
    }

    #[test]
    fn a_time_that_came_is_waited_for_no_more() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let retry = after(None, "uid", &failure(true), at(1000));
        assert_eq!(wait(Some(&retry), at(2000)), None);
        assert_eq!(wait(None, at(0)), None);
    }
}
