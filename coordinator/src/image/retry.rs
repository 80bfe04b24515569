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

/// Reasons of a source that does not let in.
const REJECTIONS: [&str; 8] = [
    "AccessDenied",
    "CredentialsRequired",
    "Forbidden",
    "InvalidToken",
    "KeysExpired",
    "SignatureDoesNotMatch",
    "Unauthorized",
    "UnknownAccessKey",
];

/// The verdict on a probe that failed. Where the `secrets` that went with it
/// were not accepted, another one may be: it is waited for, because asking
/// again with the same may lock an account out.
pub fn judge_probe(
    status: Option<&VirtualMachineImageStatus>,
    failure: &Failure,
    secrets: &[String],
) -> Verdict {
    if secrets.is_empty() || !REJECTIONS.contains(&failure.reason.as_str()) {
        return judge(status, failure, true);
    }
    let names: Vec<&str> = secrets
        .iter()
        .map(|secret| secret.split('@').next().unwrap_or_default())
        .collect();
    Verdict::Rejected {
        reason: "CredentialsRejected".to_owned(),
        message: format!(
            "{}; change the Secret {}, and the import goes on; where the server was put right, delete the image and apply it again",
            failure.message,
            names.join(" or ")
        ),
        secrets: secrets.to_vec(),
    }
}

/// The verdict on a job that failed; `guarded` says whether a Secret lets in
/// at its source. What was accepted once and then no more is another try,
/// whose probe will tell.
pub fn judge_job(
    status: Option<&VirtualMachineImageStatus>,
    failure: &Failure,
    guarded: bool,
) -> Verdict {
    if !guarded || !REJECTIONS.contains(&failure.reason.as_str()) {
        return judge(status, failure, false);
    }
    let failure = TryFailure {
        reason: failure.reason.clone(),
        message: failure.message.clone(),
        source: true,
    };
    another(status, failure)
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
