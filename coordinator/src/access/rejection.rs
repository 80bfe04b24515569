//! Judging what a source or a store does not let in. Pure.

use hypercloud_api::RetryStatus;

use super::DEFAULT_STORE;
use crate::agents::Failure;

/// Reasons of what does not let in.
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

/// Those of them that servers also give when nothing is wrong with what was
/// shown: while they are overloaded, or do not know a new key yet. No account
/// is locked out for asking again; for a wrong password it may be.
const DOUBTFUL: [&str; 3] = ["AccessDenied", "Forbidden", "UnknownAccessKey"];

/// Tries that fail before a doubtful rejection is believed; the last two of
/// them have to be rejections.
const DOUBTS: i32 = 3;

/// Reason of what is not asked again before its Secret changes.
pub const REJECTED: &str = "CredentialsRejected";

/// What was not let in, in words.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// What goes on, as in `import`.
    pub work: &'static str,
    /// The resource, as in `image`.
    pub resource: &'static str,
    /// Where the resource names its Secret.
    pub field: &'static str,
}

/// Whether `failure` is that nobody was let in.
pub fn is_rejection(failure: &Failure) -> bool {
    is_rejecting(&failure.reason)
}

fn is_rejecting(reason: &str) -> bool {
    REJECTIONS.contains(&reason)
}

/// Whether a rejection after the tries of `retry` may have been the server's
/// mistake; the last of `most` tries is believed.
pub fn is_doubted(retry: Option<&RetryStatus>, failure: &Failure, most: i32) -> bool {
    let twice = retry.is_some_and(|retry| is_rejecting(&retry.last_reason));
    let tries = retry.map_or(0, |retry| retry.failures.max(0)) + 1;
    DOUBTFUL.contains(&failure.reason.as_str()) && !(twice && tries >= DOUBTS) && tries < most
}

/// What to do about `secrets`, as `name@version`, that are not accepted.
pub fn remedy(secrets: &[String], words: Words) -> String {
    let Words {
        work,
        resource,
        field,
    } = words;
    let names: Vec<&str> = secrets
        .iter()
        .map(|secret| secret.split('@').next().unwrap_or_default())
        .collect();
    if names.contains(&DEFAULT_STORE) {
        return format!(
            "have the keys of {DEFAULT_STORE} changed, and the {work} goes on, or make another {resource} with a {field}"
        );
    }
    format!(
        "change the Secret {}, and the {work} goes on; where the server was put right, delete the {resource} and apply it again",
        names.join(" or ")
    )
}
