//! Where a rollback is, as its resource tells it. Values in, values out.

use hypercloud_api::conditions::find;
use hypercloud_api::{RollbackPhase, VirtualMachineVolumeRollback};
use serde::Serialize;

/// The condition that says how it is.
const COMPLETE: &str = "Complete";
/// The reason of a rollback that could be done and never succeeded.
const EXHAUSTED: &str = "RetriesExhausted";

/// Where a rollback is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Course {
    /// Not at its end.
    UnderWay(Step),
    /// The disk is as it was when the snapshot was taken.
    Done(Done),
    /// It cannot be done, and nothing was written.
    Refused(Said),
    /// It was tried, and failed.
    Failed(Said),
}

/// Where a rollback is that is not at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Step {
    /// The resource's phase.
    pub(super) phase: &'static str,
    #[serde(flatten)]
    pub(super) said: Said,
    /// Share of the disk that is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) percent: Option<u8>,
    /// Size of the disk in bytes, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes_total: Option<u64>,
    /// Bytes of the disk that are done.
    pub(super) bytes_done: u64,
    /// Bytes that were written.
    pub(super) bytes_written: u64,
}

/// What a condition says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Said {
    /// In one word.
    pub(super) reason: String,
    /// For people.
    pub(super) message: String,
}

/// A rollback that is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Done {
    /// Bytes that were written.
    pub(super) bytes_written: u64,
    /// For people.
    pub(super) message: String,
}

/// Where `rollback` is.
pub(super) fn course(rollback: &VirtualMachineVolumeRollback) -> Course {
    let status = rollback.status.clone().unwrap_or_default();
    let said = find(&status.conditions, COMPLETE)
        .map(|condition| Said {
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        })
        .unwrap_or_default();
    let copy = status.copy.unwrap_or_default();
    let bytes = |count: i64| u64::try_from(count).unwrap_or(0);
    let phase = status.phase.unwrap_or_default();
    match phase {
        RollbackPhase::Succeeded => Course::Done(Done {
            bytes_written: bytes(copy.bytes_written),
            message: said.message,
        }),
        RollbackPhase::Failed if said.reason == EXHAUSTED => Course::Failed(said),
        RollbackPhase::Failed => Course::Refused(said),
        RollbackPhase::Pending
        | RollbackPhase::Preparing
        | RollbackPhase::RollingBack
        | RollbackPhase::Deleting => Course::UnderWay(Step {
            phase: phase.as_str(),
            said,
            percent: status.progress.as_deref().and_then(percent),
            bytes_total: copy.bytes_total.map(bytes),
            bytes_done: bytes(copy.bytes_done),
            bytes_written: bytes(copy.bytes_written),
        }),
    }
}

/// The number of `42%`.
fn percent(text: &str) -> Option<u8> {
    text.strip_suffix('%')?.parse().ok().filter(|n| *n <= 100)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(status: Value) -> Course {
        course(&super::super::tests::rollback("7", status))
    }

    #[test]
    fn each_phase_is_understood() {
        let complete = |reason: &str| {
            json!([{"type": "Complete", "status": "False", "reason": reason, "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}])
        };
        let said = |reason: &str| Said {
            reason: reason.into(),
            message: "m".into(),
        };
        let step = |phase| Step {
            phase,
            ..Step::default()
        };
        assert_eq!(of(json!({})), Course::UnderWay(step("Pending")));
        assert_eq!(
            of(json!({"phase": "Deleting"})),
            Course::UnderWay(step("Deleting"))
        );
        let working = json!({"phase": "RollingBack", "progress": "42%",
            "conditions": complete("RollingBack"),
            "copy": {"jobId": "j", "nodeName": "n", "bytesTotal": 100, "bytesDone": 42,
                "bytesWritten": 5}});
        let expected = Step {
            phase: "RollingBack",
            said: said("RollingBack"),
            percent: Some(42),
            bytes_total: Some(100),
            bytes_done: 42,
            bytes_written: 5,
        };
        assert_eq!(of(working), Course::UnderWay(expected));
        let failed = |reason| of(json!({"phase": "Failed", "conditions": complete(reason)}));
        assert_eq!(failed("VolumeInUse"), Course::Refused(said("VolumeInUse")));
        assert_eq!(failed(EXHAUSTED), Course::Failed(said(EXHAUSTED)));
        let done = Done {
            bytes_written: 0,
            message: String::new(),
        };
        assert_eq!(of(json!({"phase": "Succeeded"})), Course::Done(done));
    }

    #[test]
    fn nonsense_is_no_percentage() {
        for text in ["", "%", "42", "101%", "-1%", "4.2%"] {
            assert_eq!(percent(text), None, "{text}");
        }
    }
}
