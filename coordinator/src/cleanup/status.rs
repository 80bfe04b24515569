//! The status that follows from a verdict. Pure.
//!
//! Invariants: the same verdict on the same cleanup gives the same status; a
//! device that is written down is never replaced.

use hypercloud_api::conditions::{ConditionStatus, ConditionUpdate, set};
use hypercloud_api::{CleanupDevice, CleanupPhase, NodeDeviceCleanup, NodeDeviceCleanupStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::COMPLETE;
use super::verdict::Verdict;
use crate::agents::Failure;
use crate::agents::devices::Cleaned;
use crate::work::retry;

/// The status of `cleanup` once `verdict` was reached at `now`.
pub fn next(
    cleanup: &NodeDeviceCleanup,
    verdict: &Verdict,
    now: Timestamp,
) -> NodeDeviceCleanupStatus {
    let mut writer = Writer {
        status: cleanup.status.clone().unwrap_or_default(),
        node: &cleanup.spec.node_name,
        generation: cleanup.metadata.generation.unwrap_or_default(),
        uid: cleanup.metadata.uid.as_deref().unwrap_or_default(),
        now: Time(now),
    };
    if *verdict != Verdict::Keep {
        writer.status.observed_generation = Some(writer.generation);
        writer.apply(verdict);
    }
    writer.status
}

/// A status being changed.
struct Writer<'a> {
    status: NodeDeviceCleanupStatus,
    node: &'a str,
    generation: i64,
    uid: &'a str,
    now: Time,
}

impl Writer<'_> {
    fn apply(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Keep => {}
            Verdict::Waiting { reason, message } => {
                self.incomplete(CleanupPhase::Pending, reason, message.clone());
            }
            Verdict::Chosen(device) => {
                let device = self.status.device.get_or_insert_with(|| device.clone());
                let message = begun(self.node, device);
                self.incomplete(CleanupPhase::Cleaning, "Cleaning", message);
            }
            Verdict::Begun => {
                let device = self.status.device.clone().unwrap_or_default();
                let message = begun(self.node, &device);
                self.incomplete(CleanupPhase::Cleaning, "Cleaning", message);
            }
            Verdict::Cleaned(cleaned) => self.cleaned(cleaned),
            Verdict::TryFailed(failure) => self.try_failed(failure),
            Verdict::Failed { reason, message } => {
                if let Some(retry) = &mut self.status.retry {
                    retry.next_time = None;
                }
                self.status.completion_time = Some(self.now.clone());
                self.incomplete(CleanupPhase::Failed, reason, message.clone());
            }
        }
    }

    fn cleaned(&mut self, cleaned: &Cleaned) {
        let status = &mut self.status;
        status.phase = Some(CleanupPhase::Succeeded);
        status.retry = None;
        status.removed = cleaned.removed.clone();
        status.discarded = Some(cleaned.discarded);
        status.completion_time = Some(self.now.clone());
        let path = status.device.as_ref().map(|device| device.path.as_str());
        let what = match cleaned.removed.as_slice() {
            [] => "nothing was left on it to remove".to_owned(),
            removed => format!("removed {}", removed.join(", ")),
        };
        let rest = if cleaned.discarded {
            "all of its blocks are discarded"
        } else {
            "it takes no discard of all its blocks, so data that nothing points to stays on it"
        };
        let message = format!(
            "{} of node {} is cleaned: {what}; {rest}",
            path.unwrap_or("the device"),
            self.node
        );
        self.condition(ConditionStatus::True, "Cleaned", message);
    }

    fn try_failed(&mut self, failure: &Failure) {
        let retry = retry::after(self.status.retry.as_ref(), self.uid, failure, self.now.0);
        let message = format!(
            "try {} of {} failed with {}: {}",
            retry.failures,
            retry::MAX_FAILURES,
            failure.reason,
            failure.message
        );
        self.status.retry = Some(retry);
        self.incomplete(CleanupPhase::Pending, "Retrying", message);
    }

    fn incomplete(&mut self, phase: CleanupPhase, reason: &str, message: String) {
        self.status.phase = Some(phase);
        self.condition(ConditionStatus::False, reason, message);
    }

    fn condition(&mut self, status: ConditionStatus, reason: &str, message: String) {
        let update = ConditionUpdate::new(COMPLETE, status, reason, message);
        let conditions = &mut self.status.conditions;
        set(conditions, update, self.generation, &self.now);
    }
}

/// What is being done, with all that tells the device from others.
fn begun(node: &str, device: &CleanupDevice) -> String {
    let known = [
        ("link", device.by_id.as_deref()),
        ("serial number", device.serial.as_deref()),
        ("world wide name", device.wwn.as_deref()),
    ];
    let mut message = format!(
        "{} of node {node} is to be cleaned, if its agent finds nothing against it: {} bytes",
        device.path, device.size
    );
    for (what, text) in known {
        if let Some(text) = text {
            message += &format!(", {what} {text}");
        }
    }
    message
}
