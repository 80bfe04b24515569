//! The status that follows from a verdict. Pure.
//!
//! Invariant: the same verdict on the same rollback gives the same status, so
//! a reconcile that finds nothing new writes nothing.

use hypercloud_api::conditions::{ConditionStatus, ConditionUpdate, find, set};
use hypercloud_api::{
    RollbackPhase, VirtualMachineVolumeRollback, VirtualMachineVolumeRollbackStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::verdict::Verdict;
use super::{CLOSED, COMPLETE};
use crate::agents::{Failure, Job};
use crate::copy::status as copies;
use crate::volume::users::in_words;
use crate::work::retry;

/// The status of `rollback` once `verdict` was reached at `now`.
pub fn next(
    rollback: &VirtualMachineVolumeRollback,
    verdict: &Verdict,
    now: Timestamp,
) -> VirtualMachineVolumeRollbackStatus {
    let mut writer = Writer {
        status: rollback.status.clone().unwrap_or_default(),
        claim: &rollback.spec.pvc_name,
        snapshot: &rollback.spec.volume_snapshot_name,
        generation: rollback.metadata.generation.unwrap_or_default(),
        uid: rollback.metadata.uid.as_deref().unwrap_or_default(),
        now: Time(now),
    };
    if *verdict != Verdict::Keep {
        writer.status.observed_generation = Some(writer.generation);
        writer.status.attempt.get_or_insert(0);
        writer.apply(verdict);
        writer.close();
    }
    writer.status
}

/// A status being changed.
struct Writer<'a> {
    status: VirtualMachineVolumeRollbackStatus,
    claim: &'a str,
    snapshot: &'a str,
    generation: i64,
    uid: &'a str,
    now: Time,
}

impl Writer<'_> {
    fn apply(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Keep => {}
            Verdict::Waiting {
                phase,
                reason,
                message,
            } => self.incomplete(*phase, reason, message.clone()),
            Verdict::InUse { pods: names } => {
                let now = self.now.clone();
                self.status.in_use_since.get_or_insert(now);
                let message = format!(
                    "the claim {} is in use by {}: stop what uses it, and the rollback begins",
                    self.claim,
                    in_words(names)
                );
                self.incomplete(RollbackPhase::Pending, "VolumeInUse", message);
            }
            Verdict::Accepted {
                pvc_uid,
                snapshot_uid,
            } => {
                let status = &mut self.status;
                status.in_use_since = None;
                status.pvc_uid.get_or_insert_with(|| pvc_uid.clone());
                let uid = &mut status.volume_snapshot_uid;
                uid.get_or_insert_with(|| snapshot_uid.clone());
                let message = format!("the snapshot {} is restored first", self.snapshot);
                self.incomplete(RollbackPhase::Preparing, "Restoring", message);
            }
            Verdict::Closed => {
                let message = "nothing may use the volume from now on".to_owned();
                self.incomplete(RollbackPhase::RollingBack, "Closing", message);
            }
            Verdict::Chosen {
                job_id,
                node,
                holder_uid,
            } => self.chosen(job_id, node, holder_uid),
            Verdict::Writing { node, job } => self.writing(node, job),
            Verdict::Completed(job) => {
                if let Some(copy) = &mut self.status.copy {
                    copies::completed(copy, job, self.now.0);
                }
                self.status.progress = Some("100%".to_owned());
                let message = "all is written; the volumes are being detached".to_owned();
                self.incomplete(RollbackPhase::RollingBack, "Detaching", message);
            }
            Verdict::Succeeded => self.succeeded(),
            Verdict::TryFailed { failure, untouched } => self.try_failed(failure, *untouched),
            Verdict::Failed { reason, message } => {
                if let Some(retry) = &mut self.status.retry {
                    retry.next_time = None;
                }
                self.incomplete(RollbackPhase::Failed, reason, message.clone());
            }
        }
    }

    fn chosen(&mut self, job_id: &str, node: &str, holder_uid: &str) {
        let before = self.status.copy.as_ref();
        let mut copy = copies::chosen(job_id, node, holder_uid, self.now.0);
        // A former try may have written: so it is not forgotten.
        copy.bytes_total = before.map(|copy| copy.bytes_total.unwrap_or(0));
        self.status.copy = Some(copy);
        self.status.progress = Some("0%".to_owned());
        let message = format!("the agent of node {node} is asked to write what differs");
        self.incomplete(RollbackPhase::RollingBack, "RollingBack", message);
    }

    fn writing(&mut self, node: &str, job: &Job) {
        if let Some(copy) = &mut self.status.copy {
            copies::progress(copy, job);
        }
        self.status.progress = Some(copies::percent(job));
        let message = format!("node {node}: {}", job.state.as_str());
        self.incomplete(RollbackPhase::RollingBack, "RollingBack", message);
    }

    fn succeeded(&mut self) {
        self.status.phase = Some(RollbackPhase::Succeeded);
        self.status.progress = Some("100%".to_owned());
        self.status.retry = None;
        let copy = self.status.copy.as_ref();
        let written = copy.map_or(0, |copy| copy.bytes_written);
        let message = format!(
            "the claim {} is as it was when the snapshot {} was taken; {written} bytes written",
            self.claim, self.snapshot
        );
        self.condition(COMPLETE, ConditionStatus::True, "RolledBack", message);
    }

    fn try_failed(&mut self, failure: &Failure, untouched: bool) {
        let retry = retry::after(self.status.retry.as_ref(), self.uid, failure, self.now.0);
        let Failure {
            reason, message, ..
        } = failure;
        self.status.attempt = Some(self.status.attempt.unwrap_or(0) + 1);
        let count = retry.failures;
        self.status.retry = Some(retry);
        if untouched {
            self.status.copy = None;
            self.status.progress = None;
            let most = retry::MAX_FAILURES;
            let message = format!("try {count} of {most} failed with {reason}: {message}");
            self.incomplete(RollbackPhase::Pending, "Retrying", message);
            return;
        }
        if let Some(copy) = &mut self.status.copy {
            copy.bytes_total.get_or_insert(0);
        }
        let message = format!(
            "try {count} failed with {reason}: {message}; the volume holds parts of both states, so it is tried until it succeeds"
        );
        self.incomplete(RollbackPhase::RollingBack, "Retrying", message);
    }

    fn incomplete(&mut self, phase: RollbackPhase, reason: &str, message: String) {
        self.status.phase = Some(phase);
        self.condition(COMPLETE, ConditionStatus::False, reason, message);
    }

    /// Tells whether the volume is closed to pods, which goes by the phase.
    fn close(&mut self) {
        let closed = self.status.phase == Some(RollbackPhase::RollingBack);
        if !closed && find(&self.status.conditions, CLOSED).is_none() {
            return;
        }
        let (status, reason, message) = if closed {
            let message = "pods that would use the volume are refused";
            (ConditionStatus::True, "RollingBack", message)
        } else {
            (ConditionStatus::False, "Open", "pods may use the volume")
        };
        self.condition(CLOSED, status, reason, message.to_owned());
    }

    fn condition(
        &mut self,
        type_: &'static str,
        status: ConditionStatus,
        reason: &str,
        message: String,
    ) {
        let update = ConditionUpdate::new(type_, status, reason, message);
        let conditions = &mut self.status.conditions;
        set(conditions, update, self.generation, &self.now);
    }
}
