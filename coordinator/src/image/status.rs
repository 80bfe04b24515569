//! The status that follows from a verdict. Pure.
//!
//! Invariant: the same verdict on the same image gives the same status, so a
//! reconcile that finds nothing new writes nothing.

use hypercloud_api::conditions::{ConditionStatus, ConditionUpdate, find, set};
use hypercloud_api::{
    ImagePhase, RetryStatus, SourceStatus, TransferStatus, VirtualMachineImage,
    VirtualMachineImageStatus, names, quantity,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::estimate::{Flow, estimate};
use super::retry;
use super::verdict::{TryFailure, Verdict};
use super::{READY, SOURCE_VERIFIED};
use crate::agents::{Facts, Job};

/// The status of `image` once `verdict` was reached at `now`; `has_claim`
/// says whether the image's own claim is there.
pub fn next(
    image: &VirtualMachineImage,
    verdict: &Verdict,
    has_claim: bool,
    now: Timestamp,
) -> VirtualMachineImageStatus {
    let mut writer = Writer {
        status: image.status.clone().unwrap_or_default(),
        generation: image.metadata.generation.unwrap_or_default(),
        uid: image.metadata.uid.as_deref().unwrap_or_default(),
        now: Time(now),
    };
    let name = image.metadata.name.as_deref().unwrap_or_default();
    if *verdict != Verdict::Keep {
        writer.status.observed_generation = Some(writer.generation);
        writer.status.attempt.get_or_insert(0);
        writer.status.pvc_name = has_claim.then(|| names::image_claim(name));
    }
    writer.apply(verdict, name);
    writer.status
}

/// A status being changed.
struct Writer<'a> {
    status: VirtualMachineImageStatus,
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
            Verdict::Probed(facts) => self.probed(facts),
            Verdict::Rejected {
                reason,
                message,
                secrets,
            } => {
                self.status.rejected_credentials = secrets.clone();
                // Whoever changes a Secret begins anew.
                self.status.retry = None;
                let status = ConditionStatus::False;
                self.condition(SOURCE_VERIFIED, status, reason, message.clone());
                self.not_ready(ImagePhase::Pending, reason, message.clone());
            }
            Verdict::TransferChosen {
                job_id,
                node,
                holder_uid,
            } => {
                self.status.transfer = Some(TransferStatus {
                    job_id: job_id.clone(),
                    node_name: node.clone(),
                    holder_uid: Some(holder_uid.clone()),
                    start_time: Some(self.now.clone()),
                    ..TransferStatus::default()
                });
                self.status.progress = Some("0%".to_owned());
                let message = format!("the agent of node {node} is asked to fill the volume");
                self.not_ready(ImagePhase::Importing, "Importing", message);
            }
            Verdict::Importing { node, job } => {
                self.progress(job);
                let message = format!("node {node}: {}", job.state.as_str());
                self.not_ready(ImagePhase::Importing, "Importing", message);
            }
            Verdict::Completed(job) => self.completed(job),
            Verdict::Ready => {
                self.status.phase = Some(ImagePhase::Ready);
                self.status.progress = Some("100%".to_owned());
                self.status.retry = None;
                let claim = names::image_claim(name);
                let message = format!("the claim {claim} holds the image");
                self.condition(READY, ConditionStatus::True, "Imported", message);
            }
            Verdict::ClaimLost { message } => {
                self.status.pvc_name = None;
                self.status.retry = None;
                self.new_try();
                self.not_ready(ImagePhase::Pending, "ClaimLost", message.clone());
            }
            Verdict::TryFailed(failure) => self.try_failed(failure),
            Verdict::Failed { reason, message } => self.failed(reason, message),
        }
    }

    fn probed(&mut self, facts: &Facts) {
        let size = facts.virtual_size.map(quantity::for_people);
        let format = facts.format.as_str();
        let packing = facts.packing.map(|packing| packing.as_str());
        self.status.rejected_credentials.clear();
        self.status.source = Some(SourceStatus {
            format: format.to_owned(),
            packing: packing.map(str::to_owned),
            virtual_size: facts.virtual_size.map(signed),
            size: facts.source_size.map(signed),
            validator: facts.validator.clone(),
            ranges: Some(facts.ranges),
            digest: None,
        });
        let packed = packing.map_or_else(String::new, |packing| format!(" packed in {packing}"));
        let told = size.as_deref().unwrap_or("unknown");
        let found = format!("{format}{packed}, virtual size {told}");
        self.status.size = size;
        self.condition(SOURCE_VERIFIED, ConditionStatus::True, "Probed", found);
        let message = "the source was looked at; the claim comes next".to_owned();
        self.not_ready(ImagePhase::Preparing, "CreatingClaim", message);
    }

    fn progress(&mut self, job: &Job) {
        let progress = &job.progress;
        let source = self.status.source.as_ref();
        let source_size = source
            .and_then(|source| source.size)
            .and_then(|size| u64::try_from(size).ok());
        let flow = Flow {
            progress: *progress,
            source_size,
            rate: job.rate,
        };
        self.status.progress = Some(format!("{}%", flow.percent()));
        if let Some(transfer) = &mut self.status.transfer {
            let (received, written) = (signed(progress.received), signed(progress.written));
            let rate = job.rate.map(signed);
            // An estimate holds until there is news: one that moved with the
            // clock would have the status written for nothing.
            let news = (
                transfer.bytes_received,
                transfer.bytes_written,
                transfer.rate,
            ) != (received, written, rate);
            if news {
                transfer.estimated_completion_time = estimate(&flow, self.now.0).map(Time);
            }
            transfer.bytes_received = received;
            transfer.bytes_written = written;
            transfer.rate = rate;
        }
    }

    fn completed(&mut self, job: &Job) {
        self.progress(job);
        self.status.progress = Some("100%".to_owned());
        if let Some(transfer) = &mut self.status.transfer {
            let end = transfer.completion_time.get_or_insert(self.now.clone());
            let begin = transfer.start_time.as_ref().unwrap_or(end);
            // Whole seconds, which is what the API keeps.
            let seconds = end.0.as_second() - begin.0.as_second();
            transfer.rate = Some(transfer.bytes_received / seconds.max(1));
            transfer.estimated_completion_time = None;
        }
        if let Some(source) = &mut self.status.source {
            source.digest.clone_from(&job.digest);
            let total = Some(job.progress.total).filter(|total| *total > 0);
            source.virtual_size = source.virtual_size.or(total.map(signed));
            let size = source
                .virtual_size
                .and_then(|size| u64::try_from(size).ok());
            self.status.size = size.map(quantity::for_people);
        }
        let message = "the image is complete; its volume is being detached".to_owned();
        self.not_ready(ImagePhase::Importing, "Detaching", message);
    }

    fn try_failed(&mut self, failure: &TryFailure) {
        let failures = retry::failures(Some(&self.status)) + 1;
        let delay = retry::BACKOFF.delay(self.uid, failures.unsigned_abs());
        // Whole seconds, which is what the API keeps.
        let seconds = i64::try_from(delay.as_secs()).unwrap_or(i64::MAX);
        let next = self
            .now
            .0
            .checked_add(SignedDuration::from_secs(seconds))
            .unwrap_or(self.now.0);
        let TryFailure {
            reason,
            message,
            source,
        } = failure;
        self.status.retry = Some(RetryStatus {
            failures,
            next_time: Some(Time(next)),
            last_reason: reason.clone(),
            last_message: message.clone(),
        });
        self.new_try();
        if *source {
            let status = ConditionStatus::False;
            self.condition(SOURCE_VERIFIED, status, reason, message.clone());
        }
        let message = format!(
            "try {failures} of {} failed with {reason}: {message}",
            retry::MAX_FAILURES
        );
        self.not_ready(ImagePhase::Pending, "Retrying", message);
    }

    fn failed(&mut self, reason: &str, message: &str) {
        // A claim that is half filled does not stay.
        self.status.pvc_name = None;
        let verified = find(&self.status.conditions, SOURCE_VERIFIED)
            .is_some_and(|condition| condition.status == ConditionStatus::True.as_str());
        if self.status.transfer.is_none() && !verified {
            let status = ConditionStatus::False;
            self.condition(SOURCE_VERIFIED, status, reason, message.to_owned());
        }
        if let Some(retry) = &mut self.status.retry {
            retry.next_time = None;
        }
        self.not_ready(ImagePhase::Failed, reason, message.to_owned());
    }

    /// Nothing of the present try counts any more, and the source may have
    /// changed meanwhile.
    fn new_try(&mut self) {
        self.status.attempt = Some(self.status.attempt.unwrap_or(0) + 1);
        self.status.transfer = None;
        self.status.progress = None;
        let message = "to be looked at again before the next try".to_owned();
        self.condition(
            SOURCE_VERIFIED,
            ConditionStatus::Unknown,
            "Outdated",
            message,
        );
    }

    fn not_ready(&mut self, phase: ImagePhase, reason: &str, message: String) {
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

/// Bytes as the API counts them.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
