//! Which failures are tried again, and when. Pure.

use std::time::Duration;

use hypercloud_api::VirtualMachineImageStatus;

use super::verdict::{TryFailure, Verdict};
use crate::agents::Failure;
use crate::backoff::Backoff;

/// Tries that may fail before the import is given up.
pub const MAX_FAILURES: i32 = 10;

/// Delay before the next try.
pub const BACKOFF: Backoff = Backoff {
    base: Duration::from_secs(5),
    cap: Duration::from_secs(300),
};

/// Tries of the image that failed so far.
pub fn failures(status: Option<&VirtualMachineImageStatus>) -> i32 {
    status
        .and_then(|status| status.retry.as_ref())
        .map_or(0, |retry| retry.failures.max(0))
}

/// The verdict on a try that failed and could be made again: another try, or
/// the end where too many failed.
pub fn another(status: Option<&VirtualMachineImageStatus>, failure: TryFailure) -> Verdict {
    if failures(status) + 1 < MAX_FAILURES {
        return Verdict::TryFailed(failure);
    }
    Verdict::Failed {
        reason: "RetriesExhausted".to_owned(),
        message: format!(
            "given up after {MAX_FAILURES} failed tries; the last one failed with {}: {}",
            failure.reason, failure.message
        ),
    }
}

/// The verdict on what an agent calls a failure; `source` says whether it
/// was the source that failed.
pub fn judge(
    status: Option<&VirtualMachineImageStatus>,
    failure: &Failure,
    source: bool,
) -> Verdict {
    let Failure {
        reason,
        message,
        retryable,
    } = failure.clone();
    if retryable {
        another(
            status,
            TryFailure {
                reason,
                message,
                source,
            },
        )
    } else {
        Verdict::Failed { reason, message }
    }
}
