//! Carries a plan out (client required).

use std::fmt::Debug;

use super::error::ExecuteError;
use crate::again::Again;
use crate::decision::{Outcome, Plan};

/// What a kind of resource has to say to how its plans are carried out.
pub struct Rules<A, V> {
    /// Whether an action stops a job. One that fails keeps nothing else from
    /// being done: it is told of at the end.
    pub is_cancellation: fn(&A) -> bool,
    /// When to look again after what was learnt; `None` where it is as the
    /// plan says.
    pub again: fn(&V) -> Option<Again>,
}

/// Does the actions of `plan` in order, each by `act`, and answers with what
/// holds after them. The first failure ends the plan, and so does what is
/// learnt.
pub async fn execute<'a, A, V, F>(
    plan: &'a Plan<A, V>,
    rules: Rules<A, V>,
    act: impl Fn(&'a A) -> F,
) -> Result<Outcome<V>, ExecuteError>
where
    A: Debug,
    V: Clone,
    F: Future<Output = Result<Option<V>, ExecuteError>>,
{
    let mut outcome = Outcome {
        verdict: plan.verdict.clone(),
        again: plan.again,
    };
    let mut uncancelled = None;
    for action in &plan.actions {
        tracing::debug!(?action, "acting");
        match act(action).await {
            Ok(None) => {}
            Ok(Some(learnt)) => {
                outcome.again = (rules.again)(&learnt).unwrap_or(plan.again);
                outcome.verdict = learnt;
                break;
            }
            Err(error) if (rules.is_cancellation)(action) => {
                uncancelled.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    match uncancelled {
        Some(error) => Err(error),
        None => Ok(outcome),
    }
}
