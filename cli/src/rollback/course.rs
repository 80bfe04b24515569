//! Where a rollback is, as its resource tells it. Values in, values out.

use hypercloud_api::{RollbackPhase, VirtualMachineVolumeRollback};
use indicatif::HumanBytes;
use serde::Serialize;

use crate::cluster::{Course, Figures, Followed, Outcome, Said, Step, Work, bytes, percent};

/// What is counted of a rollback.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Written {
    /// Bytes that were written.
    pub(crate) bytes_written: u64,
}

impl Figures for Written {
    fn shown(&self) -> String {
        format!("{} written", HumanBytes(self.bytes_written))
    }
}

/// A rollback that is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Done {
    /// Bytes that were written.
    pub(crate) bytes_written: u64,
    /// For people.
    pub(crate) message: String,
}

impl Outcome for Done {
    fn shown(&self) -> String {
        format!("rolled back: wrote {}", HumanBytes(self.bytes_written))
    }
}

impl Followed for VirtualMachineVolumeRollback {
    type Figures = Written;
    type Done = Done;
    const WORK: &'static Work = &Work {
        word: "rollback",
        kind: "VirtualMachineVolumeRollback",
        resource: "virtualmachinevolumerollback",
        vanished: "the disk is as it was, or was put back wholly, if writing had begun",
    };

    fn course(&self) -> Course<Written, Done> {
        let status = self.status.clone().unwrap_or_default();
        let said = Said::of(&status.conditions);
        let copy = status.copy.unwrap_or_default();
        let phase = status.phase.unwrap_or_default();
        match phase {
            RollbackPhase::Succeeded => Course::Done(Done {
                bytes_written: bytes(copy.bytes_written),
                message: said.message,
            }),
            RollbackPhase::Failed => Course::of_failed(said),
            RollbackPhase::Pending
            | RollbackPhase::Preparing
            | RollbackPhase::RollingBack
            | RollbackPhase::Deleting => Course::UnderWay(Step {
                phase: phase.as_str(),
                said,
                percent: status.progress.as_deref().and_then(percent),
                bytes_total: copy.bytes_total.map(bytes),
                bytes_done: bytes(copy.bytes_done),
                figures: Written {
                    bytes_written: bytes(copy.bytes_written),
                },
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(status: Value) -> Course<Written, Done> {
        let object = super::super::tests::object("7", status);
        let rollback: VirtualMachineVolumeRollback = serde_json::from_value(object).unwrap();
        rollback.course()
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
            figures: Written { bytes_written: 5 },
        };
        assert_eq!(of(working), Course::UnderWay(expected));
        let failed = |reason| of(json!({"phase": "Failed", "conditions": complete(reason)}));
        assert_eq!(failed("VolumeInUse"), Course::Refused(said("VolumeInUse")));
        let exhausted = "RetriesExhausted";
        assert_eq!(failed(exhausted), Course::Failed(said(exhausted)));
        let done = Done {
            bytes_written: 0,
            message: String::new(),
        };
        assert_eq!(of(json!({"phase": "Succeeded"})), Course::Done(done));
    }
}
