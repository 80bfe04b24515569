//! Setting conditions without making needless writes.
//!
//! Invariant: `lastTransitionTime` changes exactly when `status` does, so a
//! reconcile that finds the world as it was produces an equal list.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Longest message that the Kubernetes API allows in a condition, in bytes.
const MAX_MESSAGE: usize = 32768;

/// Status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It cannot be told.
    Unknown,
}

impl ConditionStatus {
    /// The status as Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A condition as a reconciler decides it, before it is merged into a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionUpdate {
    /// Its type, for example `Ready`.
    pub type_: &'static str,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// One CamelCase word.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl ConditionUpdate {
    /// That the condition of this type is so, for a reason that may come from
    /// an agent of another version.
    pub fn new(
        type_: &'static str,
        status: ConditionStatus,
        reason: &str,
        message: String,
    ) -> Self {
        Self {
            type_,
            status,
            reason: reason_word(reason),
            message,
        }
    }
}

/// Merges `update` into `conditions`, which speak of `generation`.
///
/// `now` becomes the transition time only where the status differs from what
/// the list holds already.
pub fn set(conditions: &mut Vec<Condition>, update: ConditionUpdate, generation: i64, now: &Time) {
    let mut message = update.message;
    if message.len() > MAX_MESSAGE {
        let cut = (0..=MAX_MESSAGE)
            .rev()
            .find(|i| message.is_char_boundary(*i))
            .unwrap_or(0);
        message.truncate(cut);
    }
    let status = update.status.as_str();
    match conditions.iter_mut().find(|c| c.type_ == update.type_) {
        Some(existing) => {
            if existing.status != status {
                existing.last_transition_time = now.clone();
                existing.status = status.to_owned();
            }
            existing.reason = update.reason;
            existing.message = message;
            existing.observed_generation = Some(generation);
        }
        None => conditions.push(Condition {
            type_: update.type_.to_owned(),
            status: status.to_owned(),
            reason: update.reason,
            message,
            observed_generation: Some(generation),
            last_transition_time: now.clone(),
        }),
    }
}

/// A reason that the API accepts: `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`.
/// It may come from an agent of another version.
pub fn reason_word(reason: &str) -> String {
    let mut word: String = reason
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .take(256)
        .collect();
    if !word.starts_with(|c: char| c.is_ascii_alphabetic()) {
        word.insert_str(0, "Unknown");
    }
    word
}

/// The condition of type `type_`, if there is one.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    fn ready(status: ConditionStatus, reason: &str) -> ConditionUpdate {
        ConditionUpdate {
            type_: "Ready",
            status,
            reason: reason.into(),
            message: "for people".into(),
        }
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let mut list = Vec::new();
        set(
            &mut list,
            ready(ConditionStatus::False, "Waiting"),
            1,
            &at(10),
        );
        set(
            &mut list,
            ready(ConditionStatus::False, "Importing"),
            2,
            &at(20),
        );
        assert_eq!(list.len(), 1);
        assert_eq!(list[0].last_transition_time, at(10));
        assert_eq!(list[0].reason, "Importing");
        assert_eq!(list[0].observed_generation, Some(2));
        set(
            &mut list,
            ready(ConditionStatus::True, "Imported"),
            2,
            &at(30),
        );
        assert_eq!(list[0].last_transition_time, at(30));
    }

    #[test]
    fn any_text_becomes_a_reason() {
        assert_eq!(reason_word("VolumeGone"), "VolumeGone");
        assert_eq!(reason_word("Corrupt 7!"), "Corrupt7");
        assert_eq!(reason_word("7"), "Unknown7");
    }

    #[test]
    fn an_overlong_message_is_cut_at_a_character() {
        let mut list = Vec::new();
        let mut update = ready(ConditionStatus::False, "Long");
        update.message = "é".repeat(MAX_MESSAGE);
        set(&mut list, update, 1, &at(10));
        assert_eq!(list[0].message.len(), MAX_MESSAGE);
    }
}
