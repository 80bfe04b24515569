//! Rounds of one reconcile, and when the controller looks again.

use std::time::Duration;

use kube::runtime::controller::Action as Requeue;

use super::error::ReconcileError;
use crate::again::Again;
use crate::backoff;

/// Plans that one reconcile carries out before it lets others have a turn.
const ROUNDS: u32 = 8;
/// The slow look that guards against a lost event.
const GUARD: Duration = Duration::from_secs(600);

/// How one plan was carried out.
#[derive(Clone, Debug)]
pub struct Round {
    /// When to look again.
    pub again: Again,
    /// UID of the resource.
    pub uid: String,
}

/// One reconcile: rounds of looking, planning and acting, until something has
/// to be waited for. A `round` answers with nothing where the resource is gone.
pub async fn rounds<F>(round: impl Fn() -> F) -> Result<Requeue, ReconcileError>
where
    F: Future<Output = Result<Option<Round>, ReconcileError>>,
{
    for _ in 0..ROUNDS {
        let Some(Round { again, uid }) = round().await? else {
            return Ok(Requeue::await_change());
        };
        if let Some(requeue) = requeue(again, &uid) {
            return Ok(requeue);
        }
    }
    Ok(Requeue::requeue(Duration::ZERO))
}

/// What the controller is told of the resource with this UID; `None` where
/// it is looked at again at once.
fn requeue(again: Again, uid: &str) -> Option<Requeue> {
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
