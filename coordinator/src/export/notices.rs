//! The Events that a change of the status is worth. Pure.
//!
//! Derived from the former status and the one that was written, so an Event
//! tells of a transition and is never repeated by a reconcile that finds the
//! world as it was.

use hypercloud_api::conditions::find;
use hypercloud_api::{ExportPhase, VirtualMachineVolumeExportStatus};

use super::{COMPLETE, DISCARD_LIMIT, UNSIGNED, UPLOAD_LEFT};
use crate::shell::report::Notice;
use crate::work::retry::failures;

/// Reasons of the `Complete` condition that stop the export until someone
/// acts, or that someone should know of.
const WORRYING: [&str; 29] = [
    "AgentUnreachable",
    "ClaimConflict",
    "ClaimRefused",
    "ConfigMapNotFound",
    "CredentialsRejected",
    UNSIGNED,
    "HolderConflict",
    "HolderImageFailed",
    "HolderMountFailed",
    "HolderNotStarting",
    "HolderRefused",
    "HolderUnschedulable",
    "InvalidCertificate",
    "InvalidConfigMap",
    "InvalidSecret",
    "NoAgentReady",
    "ProvisioningFailed",
    "PvcNotBound",
    "PvcNotFound",
    "RollbackUnderWay",
    "SecretConflict",
    "SecretNotFound",
    "SecretRefused",
    "SnapshotConflict",
    "SnapshotGone",
    "SnapshotRefused",
    UPLOAD_LEFT,
    "VolumeInUse",
    "VolumeUnwatched",
];

/// What people are told when the status goes from `old` to `new`.
pub fn notices(
    old: Option<&VirtualMachineVolumeExportStatus>,
    new: &VirtualMachineVolumeExportStatus,
) -> Vec<Notice> {
    let mut list = Vec::new();
    let mut say = |warning: bool, reason: &str, message: String| {
        list.push(Notice {
            warning,
            reason: reason.to_owned(),
            message,
        });
    };
    let before = old.cloned().unwrap_or_default();
    let (reason, message) = complete(new);
    if let Some(upload) = &new.upload {
        let former = before.upload.as_ref();
        if former.is_none_or(|former| former.job_id != upload.job_id) {
            let (node, job) = (&upload.node_name, &upload.job_id);
            say(false, "ExportStarted", format!("job {job} on node {node}"));
        }
    }
    let again = failures(new.retry.as_ref()) > failures(before.retry.as_ref());
    if again && reason == "Retrying" {
        say(true, "Retrying", message.clone());
    }
    if let (Some(made), None) = (&new.download_url, &before.download_url) {
        let secret = &made.secret_name;
        let message = format!("the address to fetch the object by is in the Secret {secret}");
        say(false, "DownloadUrlMade", message);
    }
    if new.phase != before.phase {
        match new.phase {
            Some(ExportPhase::Preparing) => say(false, "Preparing", message.clone()),
            Some(ExportPhase::Succeeded) => say(false, "Exported", message.clone()),
            Some(ExportPhase::Failed) => {
                say(true, "ExportFailed", format!("{reason}: {message}"));
            }
            Some(ExportPhase::Deleting) => {
                say(false, "Deleting", "the export is being deleted".to_owned());
            }
            _ => {}
        }
    }
    let left = |status: &VirtualMachineVolumeExportStatus| {
        let retry = status.retry.as_ref();
        let counted = retry.filter(|retry| retry.last_reason == UPLOAD_LEFT);
        counted.is_some_and(|retry| retry.failures >= DISCARD_LIMIT)
    };
    if left(new) && !left(&before) {
        say(true, UPLOAD_LEFT, message.clone());
    }
    let failed = new.phase == Some(ExportPhase::Failed);
    if !failed && WORRYING.contains(&reason.as_str()) && complete(&before).0 != reason {
        say(true, &reason, message);
    }
    list
}

/// Reason and message of the `Complete` condition.
fn complete(status: &VirtualMachineVolumeExportStatus) -> (String, String) {
    find(&status.conditions, COMPLETE)
        .map(|condition| (condition.reason.clone(), condition.message.clone()))
        .unwrap_or_default()
}
