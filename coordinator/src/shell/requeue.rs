//! When the controller looks again.

use std::time::Duration;

use kube::runtime::controller::Action as Requeue;

use crate::again::Again;
use crate::backoff;

/// Plans that one reconcile carries out before it lets others have a turn.
pub const ROUNDS: u32 = 8;
/// The slow look that guards against a lost event.
const GUARD: Duration = Duration::from_secs(600);

/// What the controller is told of the resource with this UID; `None` where
/// it is looked at again at once.
pub fn requeue(again: Again, uid: &str) -> Option<Requeue> {
    match again {
        Again::Now => None,
        Again::After(delay) => Some(after(delay, uid)),
        Again::OnChange => Some(after(GUARD, uid)),
    }
}

/// `delay`, or up to a tenth more: not everything is looked at together.
fn after(delay: Duration, uid: &str) -> Requeue {
    Requeue::requeue(delay + (delay / 10).mul_f64(backoff::fraction(uid, 0)))
}
