//! What the decisions about every kind of resource have in common. Values only.

use crate::again::Again;

/// What to do, what to say, and when to look again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<A, V> {
    /// To be done in this order; what fails ends the plan.
    pub actions: Vec<A>,
    /// What the status is to say once all is done.
    pub verdict: V,
    /// When to look again.
    pub again: Again,
}

impl<A, V> Plan<A, V> {
    /// A plan without actions.
    pub fn say(verdict: V, again: Again) -> Self {
        Self {
            actions: Vec::new(),
            verdict,
            again,
        }
    }

    /// A plan of these actions, after which it is looked again at once.
    pub fn act(actions: impl IntoIterator<Item = A>, verdict: V) -> Self {
        Self {
            actions: actions.into_iter().collect(),
            verdict,
            again: Again::Now,
        }
    }

    /// A plan of one action.
    pub fn one(action: A, verdict: V, again: Again) -> Self {
        Self {
            actions: vec![action],
            verdict,
            again,
        }
    }
}

/// What came of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<V> {
    /// What holds after its actions.
    pub verdict: V,
    /// When to look again.
    pub again: Again,
}
