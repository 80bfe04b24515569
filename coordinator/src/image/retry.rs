//! Which failures are tried again, and when. Pure.

use std::time::Duration;

use hypercloud_api::VirtualMachineImageStatus;
use hypercloud_api::conditions::find;

use super::SOURCE_VERIFIED;
use super::verdict::{TryFailure, Verdict};
use crate::access::rejection::{REJECTED, Words, is_doubted, is_rejection, remedy};
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

/// What was not let in, in words.
const WORDS: Words = Words {
    work: "import",
    resource: "image",
    field: "source.secretRef",
};

/// The verdict on a probe that failed. Where the `secrets` that went with it
/// were not accepted, another one may be: it is waited for, because asking
/// again with the same may lock an account out.
pub fn judge_probe(
    status: Option<&VirtualMachineImageStatus>,
    failure: &Failure,
    secrets: &[String],
) -> Verdict {
    if secrets.is_empty() || !is_rejection(failure) {
        return judge(status, failure, true);
    }
    let retry = status.and_then(|status| status.retry.as_ref());
    if is_doubted(retry, failure, MAX_FAILURES) {
        return Verdict::TryFailed(TryFailure {
            reason: failure.reason.clone(),
            message: failure.message.clone(),
            source: true,
        });
    }
    Verdict::Rejected {
        reason: REJECTED.to_owned(),
        message: format!("{}; {}", failure.message, remedy(secrets, WORDS)),
        secrets: secrets.to_vec(),
    }
}

/// What people are told of a source that is not asked again, where that is so.
pub fn rejection(status: Option<&VirtualMachineImageStatus>) -> Option<&str> {
    let status = status.filter(|status| !status.rejected_credentials.is_empty())?;
    find(&status.conditions, SOURCE_VERIFIED)
        .filter(|condition| condition.reason == REJECTED)
        .map(|condition| condition.message.as_str())
}

/// The verdict on `secrets` that are about to be shown, where they were
/// rejected already. What people were told then is told again: something else
/// may have been in the way since, and have been put right.
pub fn still_rejected(
    status: Option<&VirtualMachineImageStatus>,
    secrets: &[String],
) -> Option<Verdict> {
    let known = status.is_some_and(|status| status.rejected_credentials == secrets);
    if secrets.is_empty() || !known {
        return None;
    }
    Some(match rejection(status) {
        Some(message) => Verdict::Rejected {
            reason: REJECTED.to_owned(),
            message: message.to_owned(),
            secrets: secrets.to_vec(),
        },
        None => Verdict::Keep,
    })
}

/// The verdict on a job that failed; `guarded` says whether a Secret lets in
/// at its source. What was accepted once and then no more is another try,
/// whose probe will tell.
pub fn judge_job(
    status: Option<&VirtualMachineImageStatus>,
    failure: &Failure,
    guarded: bool,
) -> Verdict {
    if !guarded || !is_rejection(failure) {
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

#[cfg(test)]
mod tests {
    use hypercloud_api::RetryStatus;

    use super::*;
    use crate::access::DEFAULT_STORE;

    fn after(failures: i32, last_reason: &str) -> VirtualMachineImageStatus {
        VirtualMachineImageStatus {
            retry: Some(RetryStatus {
                failures,
                last_reason: last_reason.into(),
                ..RetryStatus::default()
            }),
            ..VirtualMachineImageStatus::default()
        }
    }

    fn judged(status: &VirtualMachineImageStatus, reason: &str, secret: &str) -> Verdict {
        let failure = Failure {
            reason: reason.into(),
            message: "no".into(),
            retryable: false,
        };
        judge_probe(Some(status), &failure, &[secret.to_owned()])
    }

    #[test]
    fn what_a_server_may_say_by_mistake_is_asked_again_first() {
        // Failed tries, the last one's reason, what the server says now,
        // and whether it is asked again.
        let table = [
            (0, "", "Forbidden", true),
            (1, "Forbidden", "Forbidden", true),
            (2, "Forbidden", "Forbidden", false),
            (1, "AccessDenied", "UnknownAccessKey", true),
            (2, "UnknownAccessKey", "AccessDenied", false),
            // A single one among other failures.
            (5, "Stalled", "Forbidden", true),
            (6, "Forbidden", "Forbidden", false),
            // There is no other try to be made: the Secret may still change.
            (9, "Stalled", "Forbidden", false),
            // A password is not tried again, and a signature stays wrong.
            (0, "", "Unauthorized", false),
            (0, "", "SignatureDoesNotMatch", false),
        ];
        for (failures, last, reason, again) in table {
            let verdict = judged(&after(failures, last), reason, "login@5");
            let tried = matches!(&verdict, Verdict::TryFailed(f) if f.source && f.reason == reason);
            let waits = matches!(verdict, Verdict::Rejected { .. });
            assert_eq!(
                (tried, waits),
                (again, !again),
                "{reason} after {failures} {last}"
            );
        }
    }

    #[test]
    fn a_rejection_says_whose_keys_to_change() {
        let told = |secret: &str| match judged(&after(0, ""), "Unauthorized", secret) {
            Verdict::Rejected { message, .. } => message,
            other => panic!("{other:?}"),
        };
        assert!(told("login@5").contains("change the Secret login, and the import goes on"));
        let operators = told(&format!("{DEFAULT_STORE}@5"));
        assert!(operators.contains("have the keys of the operator's default object store changed"));
    }
}
