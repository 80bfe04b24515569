//! The status that follows from a verdict. Pure.
//!
//! Invariant: the same verdict on the same export gives the same status, so a
//! reconcile that finds nothing new writes nothing; but for when a volume was
//! last seen to be in nobody else's use.

use hypercloud_api::conditions::{ConditionStatus, ConditionUpdate, find, set};
use hypercloud_api::{
    DownloadUrlStatus, ExportPhase, ExportReadFrom, ExportedDiskStatus, ObjectStatus, RetryStatus,
    UploadStatus, VirtualMachineVolumeExport, VirtualMachineVolumeExportStatus, names, quantity,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use url::Url;

use super::verdict::Verdict;
use super::{COMPLETE, DISCARD_LIMIT, UNSIGNED, UPLOAD_LEFT};
use crate::access::rejection::REJECTED;
use crate::agents::{ExportedObject, Failure, Job};
use crate::work::retry;

/// How old the note may be that nothing else uses a volume: it is written no
/// more often.
const LATELY: SignedDuration = SignedDuration::from_secs(4);

/// The status of `export` once `verdict` was reached at `now`.
pub fn next(
    export: &VirtualMachineVolumeExport,
    verdict: &Verdict,
    now: Timestamp,
) -> VirtualMachineVolumeExportStatus {
    let mut writer = Writer {
        status: export.status.clone().unwrap_or_default(),
        export,
        now: Time(now),
    };
    if *verdict != Verdict::Keep {
        writer.status.observed_generation = export.metadata.generation;
        writer.status.attempt.get_or_insert(0);
        writer.apply(verdict);
        writer.watch(verdict);
    }
    writer.status
}

/// A status being changed.
struct Writer<'a> {
    status: VirtualMachineVolumeExportStatus,
    export: &'a VirtualMachineVolumeExport,
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
            } => {
                if *phase == ExportPhase::Deleting && self.status.phase != Some(*phase) {
                    // What was tried before counts no more.
                    self.status.retry = None;
                }
                self.incomplete(*phase, reason, message.clone());
            }
            Verdict::Rejected {
                message,
                secrets,
                upload_id,
            } => {
                self.left(upload_id.as_deref());
                if self.status.rejected_credentials != *secrets {
                    self.status.rejected_credentials = secrets.clone();
                    self.new_try();
                }
                // Whoever changes a Secret begins anew.
                self.status.retry = None;
                self.forget_disk();
                self.incomplete(ExportPhase::Pending, REJECTED, message.clone());
            }
            Verdict::Accepted {
                pvc_uid,
                read_from,
                taken_at,
            } => self.accepted(pvc_uid, *read_from, *taken_at),
            Verdict::Taken { at } => {
                self.status.taken_at = Some(Time(*at));
                let message = "the snapshot of the claim is being restored".to_owned();
                self.incomplete(ExportPhase::Preparing, "Restoring", message);
            }
            Verdict::Chosen {
                job_id,
                node,
                holder_uid,
            } => {
                self.status.upload = Some(UploadStatus {
                    job_id: job_id.clone(),
                    node_name: node.clone(),
                    holder_uid: Some(holder_uid.clone()),
                    start_time: Some(self.now.clone()),
                    ..UploadStatus::default()
                });
                self.status.progress = Some("0%".to_owned());
                let message = format!("the agent of node {node} is asked to export the disk");
                self.incomplete(ExportPhase::Exporting, "Exporting", message);
            }
            Verdict::Exporting { node, job, secrets } => {
                self.progress(job);
                if let (Some(upload), Some(secrets)) = (&mut self.status.upload, secrets) {
                    upload.credentials = secrets.clone();
                }
                let message = format!("node {node}: {}", job.state.as_str());
                self.incomplete(ExportPhase::Exporting, "Exporting", message);
            }
            Verdict::Completed(job) => self.completed(job),
            Verdict::Signed { secret, expires } => {
                self.status.download_url = Some(DownloadUrlStatus {
                    secret_name: secret.clone(),
                    expiration_time: Some(Time(*expires)),
                });
            }
            Verdict::Succeeded { unsigned } => self.succeeded(unsigned.as_deref()),
            Verdict::StartOver {
                reason,
                message,
                upload_id,
            } => {
                self.left(upload_id.as_deref());
                self.new_try();
                self.forget_disk();
                self.incomplete(ExportPhase::Pending, reason, message.clone());
            }
            Verdict::Watched => {}
            Verdict::Attempted {
                phase,
                reason,
                message,
            } => self.attempted(*phase, reason, message),
            Verdict::TryFailed { failure, upload_id } => {
                self.try_failed(failure, upload_id.as_deref());
            }
            Verdict::Discarded => {
                if let Some(upload) = &mut self.status.upload {
                    upload.upload_id = None;
                }
            }
            Verdict::UploadLeft { message } => {
                if let Some(upload) = &mut self.status.upload {
                    upload.upload_id = None;
                }
                self.incomplete(ExportPhase::Deleting, UPLOAD_LEFT, message.clone());
            }
            Verdict::Failed {
                reason,
                message,
                upload_id,
            } => {
                self.left(upload_id.as_deref());
                if let Some(retry) = &mut self.status.retry {
                    retry.next_time = None;
                }
                self.incomplete(ExportPhase::Failed, reason, message.clone());
            }
        }
    }

    /// Notes that nothing else was seen to use the volume, now and then.
    fn watch(&mut self, verdict: &Verdict) {
        let looked = matches!(
            verdict,
            Verdict::Chosen { .. }
                | Verdict::Exporting { .. }
                | Verdict::Waiting { .. }
                | Verdict::Watched
        );
        let reads = self.status.phase == Some(ExportPhase::Exporting)
            && self.status.read_from == Some(ExportReadFrom::Volume)
            && self.status.object.is_none();
        if let Some(upload) = self.status.upload.as_mut().filter(|_| looked && reads) {
            let since = upload.watched_time.as_ref();
            let lately = since.is_some_and(|since| self.now.0.duration_since(since.0) < LATELY);
            if !lately {
                upload.watched_time = Some(self.now.clone());
            }
        }
    }

    fn accepted(&mut self, pvc_uid: &str, read_from: ExportReadFrom, taken_at: Option<Timestamp>) {
        let status = &mut self.status;
        status.pvc_uid.get_or_insert_with(|| pvc_uid.to_owned());
        status.rejected_credentials.clear();
        // At the same try nothing is newer: the first word holds.
        if status.read_from != Some(read_from) || read_from == ExportReadFrom::Snapshot {
            status.taken_at = taken_at.map(Time);
        }
        status.read_from = Some(read_from);
        let claim = &self.export.spec.pvc_name;
        let message = match read_from {
            ExportReadFrom::Volume => format!("nothing uses the claim {claim}: it is read itself"),
            ExportReadFrom::Snapshot => {
                format!("the claim {claim} is in use: a snapshot of it is read")
            }
        };
        self.incomplete(ExportPhase::Preparing, "Preparing", message);
    }

    fn progress(&mut self, job: &Job) {
        self.status.progress = Some(format!("{}%", job.progress.percent()));
        if let Some(upload) = &mut self.status.upload {
            let progress = &job.progress;
            if progress.total > 0 {
                upload.bytes_total = Some(signed(progress.total));
            }
            upload.bytes_done = signed(progress.done);
            upload.bytes_read = signed(progress.received);
            upload.bytes_stored = signed(progress.written);
            upload.upload_id.clone_from(&job.upload_id);
        }
    }

    fn completed(&mut self, job: &Job) {
        self.progress(job);
        let now = self.now.clone();
        if let Some(upload) = &mut self.status.upload {
            upload.completion_time.get_or_insert(now);
            upload.upload_id = None;
        }
        self.status.progress = Some("100%".to_owned());
        // What was tried for it counts no more.
        self.status.retry = None;
        let made = job.object.clone().unwrap_or_default();
        self.status.size = Some(quantity::for_people(made.size));
        self.status.disk = Some(ExportedDiskStatus {
            virtual_size: signed(made.virtual_size),
            digest: job.digest.clone(),
        });
        self.status.object = Some(self.object(made));
        let message = "the object is complete; the volume is being detached".to_owned();
        self.incomplete(ExportPhase::Exporting, "Detaching", message);
    }

    fn object(&self, made: ExportedObject) -> ObjectStatus {
        let asked = &self.export.spec.object_store;
        let key = &asked.object_name;
        let bucket = match &asked.bucket_name {
            Some(bucket) => bucket.clone(),
            None => bucket_of(&made.address, key),
        };
        ObjectStatus {
            url: format!("s3://{bucket}/{key}"),
            address: Some(made.address).filter(|address| !address.is_empty()),
            size: signed(made.size),
            etag: made.etag,
            checksum: made.checksum,
        }
    }

    fn succeeded(&mut self, unsigned: Option<&str>) {
        self.status.phase = Some(ExportPhase::Succeeded);
        self.status.retry = None;
        let object = self.status.object.as_ref();
        let url = object.map_or("", |object| &object.url);
        let size = self.status.size.as_deref().unwrap_or_default();
        let claim = &self.export.spec.pvc_name;
        let done = format!("the disk of the claim {claim} is the object {url}, of {size}");
        let (reason, message) = match unsigned {
            None => ("Exported", done),
            Some(why) => {
                let message = format!("{done}; an address to fetch it by could not be made: {why}");
                (UNSIGNED, message)
            }
        };
        self.condition(ConditionStatus::True, reason, message);
    }

    fn attempted(&mut self, phase: ExportPhase, reason: &str, message: &str) {
        // Those of another phase do not count.
        let over = phase == ExportPhase::Failed;
        let same = self.status.phase == Some(phase);
        let counts = |retry: &&RetryStatus| same && (!over || retry.last_reason == UPLOAD_LEFT);
        let former = self.status.retry.as_ref().filter(counts);
        let failures = retry::failures(former).saturating_add(1);
        let last_reason = if over { UPLOAD_LEFT } else { reason };
        self.status.retry = Some(RetryStatus {
            failures,
            next_time: None,
            last_reason: last_reason.to_owned(),
            last_message: message.to_owned(),
        });
        if !over {
            self.incomplete(phase, reason, message.to_owned());
        } else if failures == DISCARD_LIMIT {
            self.leave_parts(message);
        }
    }

    /// Says, beside why the export failed, that parts may have stayed.
    fn leave_parts(&mut self, why: &str) {
        let told = find(&self.status.conditions, COMPLETE);
        let Some((reason, failed)) = told.map(|told| (told.reason.clone(), told.message.clone()))
        else {
            return;
        };
        let upload = self.status.upload.as_ref();
        let id = upload.and_then(|upload| upload.upload_id.as_deref());
        let message = format!(
            "{failed}; parts of the upload {} may have stayed in the bucket: {why}",
            id.unwrap_or_default()
        );
        self.incomplete(ExportPhase::Failed, &reason, message);
    }

    fn try_failed(&mut self, failure: &Failure, upload_id: Option<&str>) {
        let uid = self.export.metadata.uid.as_deref().unwrap_or_default();
        let retry = retry::after(self.status.retry.as_ref(), uid, failure, self.now.0);
        let message = format!(
            "try {} of {} failed with {}: {}",
            retry.failures,
            retry::MAX_FAILURES,
            failure.reason,
            failure.message
        );
        self.status.retry = Some(retry);
        self.left(upload_id);
        self.new_try();
        // A volume may be used meanwhile; a snapshot stays what it is.
        if self.status.read_from == Some(ExportReadFrom::Volume) {
            self.forget_disk();
        }
        self.incomplete(ExportPhase::Pending, "Retrying", message);
    }

    /// Keeps of the present try's upload what may be in the store; a former
    /// one is not forgotten before that is known to be gone.
    fn left(&mut self, upload_id: Option<&str>) {
        let uid = self.export.metadata.uid.as_deref().unwrap_or_default();
        let attempt = self.status.attempt.unwrap_or(0);
        let id = names::job_id(uid, u32::try_from(attempt).unwrap_or(0));
        match (&mut self.status.upload, upload_id) {
            (Some(upload), Some(upload_id)) if upload.job_id == id => {
                upload.upload_id = Some(upload_id.to_owned());
            }
            (Some(upload), None) if upload.job_id == id => self.status.upload = None,
            _ => {}
        }
    }

    /// Nothing of the present try counts any more, but for what may be in the
    /// store.
    fn new_try(&mut self) {
        self.status.attempt = Some(self.status.attempt.unwrap_or(0) + 1);
        self.status.progress = None;
    }

    /// What is read is chosen anew.
    fn forget_disk(&mut self) {
        self.status.read_from = None;
        self.status.taken_at = None;
    }

    fn incomplete(&mut self, phase: ExportPhase, reason: &str, message: String) {
        self.status.phase = Some(phase);
        self.condition(ConditionStatus::False, reason, message);
    }

    fn condition(&mut self, status: ConditionStatus, reason: &str, message: String) {
        let update = ConditionUpdate::new(COMPLETE, status, reason, message);
        let generation = self.export.metadata.generation.unwrap_or_default();
        let conditions = &mut self.status.conditions;
        set(conditions, update, generation, &self.now);
    }
}

/// The bucket in an object's address: before the key in the path, or else the
/// first part of the host's name.
fn bucket_of(address: &str, key: &str) -> String {
    let Ok(url) = Url::parse(address) else {
        return String::new();
    };
    let mut segments = url.path_segments().into_iter().flatten();
    let first = segments.next().unwrap_or_default();
    let in_path = segments.count() == key.split('/').count();
    let host = url.host_str().unwrap_or_default();
    if in_path {
        first.to_owned()
    } else {
        host.split('.').next().unwrap_or_default().to_owned()
    }
}

/// Bytes as the API counts them.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_read_out_of_either_style() {
        let table = [
            ("http://s3.example:9000/vms/a/disk", "a/disk", "vms"),
            ("http://10.0.0.1/vms/disk", "disk", "vms"),
            ("https://vms.s3.example/a/disk", "a/disk", "vms"),
            ("", "disk", ""),
        ];
        for (address, key, bucket) in table {
            assert_eq!(bucket_of(address, key), bucket, "{address}");
        }
    }
}
