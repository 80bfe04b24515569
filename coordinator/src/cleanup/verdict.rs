//! What was concluded about a cleanup, and what to do about it. Values only,
//! compared by tests.

use hypercloud_api::CleanupDevice;

use crate::agents::Failure;
use crate::agents::devices::Cleaned;

/// One thing to do. The executor does it and decides nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Have the agent clean the device that is written down.
    Clean(CleanupDevice),
}

/// What was concluded; the status follows from it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to say that the status does not say already.
    Keep,
    /// Not there yet, for a reason that is no failure.
    Waiting {
        /// One CamelCase word.
        reason: String,
        /// For people.
        message: String,
    },
    /// Which device it is: written down before its agent is asked.
    Chosen(CleanupDevice),
    /// The agent is asked once more.
    Begun,
    /// The device carries nothing any more.
    Cleaned(Cleaned),
    /// The present try failed; there is another.
    TryFailed(Failure),
    /// Refused, or there is nothing more to try.
    Failed {
        /// One CamelCase word.
        reason: String,
        /// For people.
        message: String,
    },
}

impl Verdict {
    /// Whether an agent said so, which is not to be lost.
    pub fn is_answer(&self) -> bool {
        matches!(
            self,
            Self::Cleaned(_) | Self::TryFailed(_) | Self::Failed { .. }
        )
    }
}

/// What to do, what to say, and when to look again.
pub type Plan = crate::decision::Plan<Action, Verdict>;

/// A [`Verdict::Waiting`].
pub fn waiting(reason: &str, message: impl Into<String>) -> Verdict {
    Verdict::Waiting {
        reason: reason.to_owned(),
        message: message.into(),
    }
}

/// A [`Verdict::Failed`].
pub fn failed(reason: &str, message: impl Into<String>) -> Verdict {
    Verdict::Failed {
        reason: reason.to_owned(),
        message: message.into(),
    }
}
