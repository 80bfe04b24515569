//! Where work is, as its resource tells it. Values in, values out.

use hypercloud_api::conditions::find;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

/// The condition that says how it is.
const COMPLETE: &str = "Complete";
/// The reason of work that could be done and never succeeded.
const EXHAUSTED: &str = "RetriesExhausted";

/// Where work is; `F` are the figures of its kind, `D` is what it ends with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Course<F, D> {
    /// Not at its end.
    UnderWay(Step<F>),
    /// At its good end.
    Done(D),
    /// It cannot be done.
    Refused(Said),
    /// It was tried, and failed.
    Failed(Said),
}

impl<F, D> Course<F, D> {
    /// The course of work whose phase is that it failed.
    pub(crate) fn of_failed(said: Said) -> Self {
        if said.reason == EXHAUSTED {
            Self::Failed(said)
        } else {
            Self::Refused(said)
        }
    }
}

/// Where work is that is not at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Step<F> {
    /// The resource's phase.
    pub(crate) phase: &'static str,
    #[serde(flatten)]
    pub(crate) said: Said,
    /// Share of the disk that is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) percent: Option<u8>,
    /// Size of the disk in bytes, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_total: Option<u64>,
    /// Bytes of the disk that are done.
    pub(crate) bytes_done: u64,
    /// What else is counted.
    #[serde(flatten)]
    pub(crate) figures: F,
}

/// What a condition says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Said {
    /// In one word.
    pub(crate) reason: String,
    /// For people.
    pub(crate) message: String,
}

impl Said {
    /// What is said of how it is; nothing where nothing is said yet.
    pub(crate) fn of(conditions: &[Condition]) -> Self {
        let said = find(conditions, COMPLETE).map(|condition| Self {
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        });
        said.unwrap_or_default()
    }
}

/// A number of bytes; none where it makes no sense.
pub(crate) fn bytes(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

/// The number of `42%`.
pub(crate) fn percent(text: &str) -> Option<u8> {
    text.strip_suffix('%')?.parse().ok().filter(|n| *n <= 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_no_percentage() {
        assert_eq!(percent("42%"), Some(42));
        for text in ["", "%", "42", "101%", "-1%", "4.2%"] {
            assert_eq!(percent(text), None, "{text}");
        }
    }

    #[test]
    fn work_that_was_tried_has_failed_and_other_is_refused() {
        let said = |reason: &str| Said {
            reason: reason.into(),
            message: "m".into(),
        };
        let of = |reason: &str| Course::<(), ()>::of_failed(said(reason));
        assert_eq!(of(EXHAUSTED), Course::Failed(said(EXHAUSTED)));
        assert_eq!(of("VolumeInUse"), Course::Refused(said("VolumeInUse")));
    }
}
