//! When to look again at a resource: part of every plan. Values only.

use std::time::Duration;

/// How often what is waited for is looked at where no event tells of it.
pub const RECHECK: Duration = Duration::from_secs(15);
/// How often a conflict that only a person can end is looked at.
pub const SLOW_RECHECK: Duration = Duration::from_secs(60);

/// When to look again, if nothing happens before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// At once: the status or the world was changed by the plan itself.
    Now,
    /// After this time.
    After(Duration),
    /// When something changes; a slow look guards against a lost event.
    OnChange,
}
