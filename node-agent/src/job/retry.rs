//! Whether a transfer that failed is tried again within its job. Pure.
//!
//! A source, or a store that an export goes to, that is away for some minutes
//! must not cost what was moved already: only the job itself can go on from
//! its checkpoint, since after its end nobody vouches for what is on the
//! volume, and what is in the store is discarded. Everything else, and a
//! source that never gave a byte, ends the job at once, so that whoever waits
//! hears of it.

use std::time::Duration;

use super::state::{Failure, Phase, State};

/// Reasons that speak of a source or a store that is away, not of one that is
/// wrong.
const OUTAGES: &[&str] = &[
    "ConnectFailed",
    "CredentialsExpired",
    "CredentialsUnavailable",
    "Interrupted",
    "NameNotResolved",
    "ObjectStoreError",
    "ServerError",
    "SlowDown",
    "Stalled",
    "TooManyRequests",
    "UploadStalled",
];
/// Pauses before the tries that bring nothing new. Each try has a patience
/// of its own, of about a minute.
const PAUSES: [Duration; 5] = [
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(60),
];

/// The pause before the next try, if there is to be one. `fruitless` tries
/// in a row made no new checkpoint.
pub fn pause(state: &State, failure: &Failure, fruitless: usize) -> Option<Duration> {
    let outage = failure.retryable && OUTAGES.contains(&failure.reason.as_str());
    let resumable = match state.phase {
        Phase::Transferring => state.checkpoint.is_some(),
        // Until the object is there, its parts are.
        Phase::Verifying => state.checkpoint.is_some() && state.upload.is_some(),
        _ => false,
    };
    PAUSES
        .get(fruitless)
        .copied()
        .filter(|_| outage && resumable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::state::Checkpoint;

    fn state(phase: Phase, checkpoint: Option<Checkpoint>) -> State {
        State {
            phase,
            checkpoint,
            ..State::accepted()
        }
    }

    fn failure(reason: &str, retryable: bool) -> Failure {
        Failure {
            reason: reason.into(),
            message: String::new(),
            retryable,
        }
    }

    #[test]
    fn only_an_outage_with_something_to_lose_is_sat_out() {
        let mark = || Some(Checkpoint(serde_json::json!(1)));
        let moving = state(Phase::Transferring, mark());
        let table = [
            (&moving, failure("Stalled", true), 0, true),
            (&moving, failure("ConnectFailed", true), 4, true),
            (&moving, failure("ConnectFailed", true), 5, false),
            (&moving, failure("CredentialsUnavailable", true), 0, true),
            // Whatever a store says with a status that passes, and other.
            (&moving, failure("ObjectStoreError", true), 0, true),
            (&moving, failure("ObjectStoreError", false), 0, false),
            (&moving, failure("Stalled", false), 0, false),
            (&moving, failure("NotFound", false), 0, false),
            (&moving, failure("WriteFailed", true), 0, false),
            (&moving, failure("SourceChanged", true), 0, false),
            (
                &state(Phase::Transferring, None),
                failure("Stalled", true),
                0,
                false,
            ),
            (
                &state(Phase::Verifying, mark()),
                failure("Stalled", true),
                0,
                false,
            ),
            (
                &State {
                    upload: Some("u".into()),
                    ..state(Phase::Verifying, mark())
                },
                failure("Stalled", true),
                0,
                true,
            ),
        ];
        for (state, failure, fruitless, again) in table {
            let pause = pause(state, &failure, fruitless);
            assert_eq!(pause.is_some(), again, "{failure:?} after {fruitless}");
        }
    }
}
