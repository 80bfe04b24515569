//! The status that follows from a verdict. Pure.
//!
//! Invariant: the same verdict on the same disk gives the same status, so a
//! reconcile that finds nothing new writes nothing.

use hypercloud_api::conditions::{ConditionStatus, ConditionUpdate, set};
use hypercloud_api::{
    DiskMethod, DiskPhase, DiskSourceStatus, VirtualMachinePvc, VirtualMachinePvcStatus, quantity,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::verdict::Verdict;
use super::{READY, SIZE_RAISED};
use crate::agents::{Failure, Job};
use crate::copy::status as copy;
use crate::work::retry;

/// The status of `disk` once `verdict` was reached at `now`; `has_claim` says
/// whether the disk's own claim is there.
pub fn next(
    disk: &VirtualMachinePvc,
    verdict: &Verdict,
    has_claim: bool,
    now: Timestamp,
) -> VirtualMachinePvcStatus {
    let mut writer = Writer {
        status: disk.status.clone().unwrap_or_default(),
        generation: disk.metadata.generation.unwrap_or_default(),
        uid: disk.metadata.uid.as_deref().unwrap_or_default(),
        now: Time(now),
    };
    let name = disk.metadata.name.as_deref().unwrap_or_default();
    if *verdict != Verdict::Keep {
        writer.status.observed_generation = Some(writer.generation);
        writer.status.attempt.get_or_insert(0);
        writer.status.pvc_name = has_claim.then(|| name.to_owned());
    }
    writer.apply(verdict, name);
    writer.status
}

/// A status being changed.
struct Writer<'a> {
    status: VirtualMachinePvcStatus,
    generation: i64,
    uid: &'a str,
    now: Time,
}

impl Writer<'_> {
    fn apply(&mut self, verdict: &Verdict, name: &str) {
        match verdict {
            Verdict::Keep => {}
            Verdict::Waiting {
                phase,
                reason,
                message,
            } => self.not_ready(*phase, reason, message.clone()),
            Verdict::Chosen {
                method,
                source,
                raised,
            } => self.chosen(*method, source, raised.as_deref()),
            Verdict::CopyInstead { message } => {
                self.status.method = Some(DiskMethod::Copy);
                self.not_ready(DiskPhase::Pending, "CloneRefused", message.clone());
            }
            Verdict::CopyChosen {
                job_id,
                node,
                holder_uid,
            } => {
                self.status.copy = Some(copy::chosen(job_id, node, holder_uid, self.now.0));
                self.status.progress = Some("0%".to_owned());
                let message = format!("the agent of node {node} is asked to copy the data");
                self.not_ready(DiskPhase::Copying, "Copying", message);
            }
            Verdict::Copying { node, job } => {
                self.status.progress = Some(copy::percent(job));
                if let Some(status) = &mut self.status.copy {
                    copy::progress(status, job);
                }
                let message = format!("node {node}: {}", job.state.as_str());
                self.not_ready(DiskPhase::Copying, "Copying", message);
            }
            Verdict::Copied(job) => self.copied(job),
            Verdict::Ready { capacity } => self.ready(*capacity, name),
            Verdict::SourceLost { message } => {
                self.status.method = None;
                self.status.source = None;
                self.status.retry = None;
                self.status.conditions.retain(|c| c.type_ != SIZE_RAISED);
                self.new_try();
                self.not_ready(DiskPhase::Pending, "SourceLost", message.clone());
            }
            Verdict::StartOver { reason, message } => {
                self.new_try();
                self.not_ready(DiskPhase::Pending, reason, message.clone());
            }
            Verdict::TryFailed(failure) => self.try_failed(failure),
            Verdict::Failed { reason, message } => {
                if let Some(retry) = &mut self.status.retry {
                    retry.next_time = None;
                }
                self.not_ready(DiskPhase::Failed, reason, message.clone());
            }
        }
    }

    fn chosen(&mut self, method: DiskMethod, source: &DiskSourceStatus, raised: Option<&str>) {
        self.status.method = Some(method);
        self.status.source = Some(source.clone());
        if let Some(message) = raised {
            let message = message.to_owned();
            self.condition(SIZE_RAISED, ConditionStatus::True, "SizeRaised", message);
        }
        let how = match method {
            DiskMethod::Clone | DiskMethod::CloneAndHandOver => "the storage clones it",
            DiskMethod::Restore => "the storage restores it",
            DiskMethod::Copy => "the data is copied",
        };
        let message = format!("the source {} is ready: {how}", source.name);
        self.not_ready(DiskPhase::Pending, "SourceReady", message);
    }

    fn copied(&mut self, job: &Job) {
        if let Some(status) = &mut self.status.copy {
            copy::completed(status, job, self.now.0);
        }
        self.status.progress = Some("100%".to_owned());
        let message = "all is copied; the volumes are being detached".to_owned();
        self.not_ready(DiskPhase::Copying, "Detaching", message);
    }

    fn ready(&mut self, capacity: Option<u64>, name: &str) {
        self.status.phase = Some(DiskPhase::Ready);
        self.status.capacity = capacity.map(quantity::for_people);
        self.status.retry = None;
        if self.status.copy.is_some() {
            self.status.progress = Some("100%".to_owned());
        }
        let message = format!("the claim {name} holds the disk");
        self.condition(READY, ConditionStatus::True, "Bound", message);
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
        self.new_try();
        self.not_ready(DiskPhase::Pending, "Retrying", message);
    }

    /// Nothing of the present try counts any more.
    fn new_try(&mut self) {
        self.status.attempt = Some(self.status.attempt.unwrap_or(0) + 1);
        self.status.copy = None;
        self.status.progress = None;
    }

    fn not_ready(&mut self, phase: DiskPhase, reason: &str, message: String) {
        self.status.phase = Some(phase);
        self.condition(READY, ConditionStatus::False, reason, message);
    }

    fn condition(
        &mut self,
        type_: &'static str,
        status: ConditionStatus,
        reason: &str,
        message: String,
    ) {
        let update = ConditionUpdate::new(type_, status, reason, message);
        set(
            &mut self.status.conditions,
            update,
            self.generation,
            &self.now,
        );
    }
}
