//! From a request to its answer, in the time that the API server gives
//! (client required).

use std::sync::Arc;
use std::time::Duration;

use hypercloud_storage::admission::Refusal;
use kube::Client;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::ground::look;
use super::review::{Change, Question, Review, Verdict, judge};
use crate::metrics::Metrics;

/// How long a review may take. Below the time after which the API server has
/// waited enough, so that it has an answer which says what was waited for.
pub const DEADLINE: Duration = Duration::from_secs(8);

/// How many reviews there are at once, from the first byte of the body on:
/// what they take of memory, and of the API server, has a bound.
const REVIEWS: usize = 4;

/// What reviews are answered by.
#[derive(Clone)]
pub struct Judge {
    client: Client,
    metrics: Arc<Metrics>,
    turns: Arc<Semaphore>,
    deadline: Duration,
}

impl Judge {
    /// One that looks at the cluster by `client`.
    pub fn new(client: Client, metrics: Arc<Metrics>, deadline: Duration) -> Self {
        Self {
            client,
            metrics,
            turns: Arc::new(Semaphore::new(REVIEWS)),
            deadline,
        }
    }

    /// When a review that begins now has to be answered.
    pub fn until(&self) -> Instant {
        Instant::now() + self.deadline
    }

    /// Waits for the turn of a review, which lasts as long as what is returned.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // Closed by nobody.
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }

    /// What is answered to `review`.
    pub async fn judge(&self, review: &Review, until: Instant) -> Verdict {
        let verdict = match &review.question {
            Question::None { warnings } => Verdict::Allowed {
                warnings: warnings.clone(),
            },
            Question::Malformed(why) => Verdict::Refused(vec![Refusal {
                reason: "SpecificationMalformed",
                message: format!(
                    "the coordinator cannot read the specification ({why}): see that it and the definition are of one release"
                ),
            }]),
            Question::May(change) => match timeout_at(until, self.asked(change)).await {
                Ok(verdict) => verdict,
                Err(_) => Verdict::Unjudged(format!(
                    "the API server did not answer the coordinator within {} s",
                    self.deadline.as_secs()
                )),
            },
        };
        self.metrics.reviewed(verdict.reason());
        if !matches!(verdict, Verdict::Allowed { .. }) {
            tracing::info!(uid = %review.uid, ?verdict, "a specification was not let through");
        }
        verdict
    }

    async fn asked(&self, change: &Change) -> Verdict {
        match look(&self.client, change).await {
            Ok(look) => judge(change, look.ground()),
            Err(error) => {
                let error = anyhow::Error::from(error);
                Verdict::Unjudged(format!("{error:#}"))
            }
        }
    }
}
