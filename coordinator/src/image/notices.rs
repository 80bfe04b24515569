//! The Events that a change of the status is worth. Pure.
//!
//! Derived from the former status and the one that was written, so an Event
//! tells of a transition and is never repeated by a reconcile that finds the
//! world as it was.

use hypercloud_api::conditions::find;
use hypercloud_api::{ImagePhase, VirtualMachineImageStatus};

use super::{CLONING_UNDER_WAY, READY, SOURCE_VERIFIED};
use crate::shell::report::Notice;

/// Reasons of the `Ready` condition that stop the import until someone acts.
const WORRYING: [&str; 18] = [
    "AgentUnreachable",
    "ClaimConflict",
    "ClaimLost",
    "ClaimRefused",
    "ConfigMapNotFound",
    "CredentialsRejected",
    "HolderConflict",
    "HolderImageFailed",
    "HolderMountFailed",
    "HolderNotStarting",
    "HolderRefused",
    "HolderUnschedulable",
    "InvalidCertificate",
    "InvalidConfigMap",
    "InvalidSecret",
    "ProvisioningFailed",
    "SecretNotFound",
    "StorageClassNotFound",
];

/// What people are told when the status goes from `old` to `new`.
pub fn notices(
    old: Option<&VirtualMachineImageStatus>,
    new: &VirtualMachineImageStatus,
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
    let ready = ready_condition(new);
    let verified = |status: &VirtualMachineImageStatus| {
        find(&status.conditions, SOURCE_VERIFIED)
            .filter(|condition| condition.status == "True")
            .map(|condition| condition.message.clone())
    };
    if let Some(found) = verified(new)
        && verified(&before).is_none()
    {
        say(false, "Probed", format!("source: {found}"));
    }
    if let Some(claim) = &new.pvc_name
        && before.pvc_name.is_none()
    {
        say(false, "ClaimCreated", format!("created claim {claim}"));
    }
    if let Some(transfer) = &new.transfer {
        let former = before.transfer.as_ref();
        if former.is_none_or(|former| former.job_id != transfer.job_id) {
            let node = &transfer.node_name;
            let job = &transfer.job_id;
            say(false, "ImportStarted", format!("job {job} on node {node}"));
        }
    }
    let failures = |status: &VirtualMachineImageStatus| {
        status.retry.as_ref().map_or(0, |retry| retry.failures)
    };
    if failures(new) > failures(&before) {
        say(true, "Retrying", ready.1.clone());
    }
    if new.phase != before.phase {
        match new.phase {
            Some(ImagePhase::Ready) => say(false, "Imported", ready.1.clone()),
            Some(ImagePhase::Failed) => {
                say(true, "ImportFailed", format!("{}: {}", ready.0, ready.1));
            }
            Some(ImagePhase::Deleting) => {
                say(false, "Deleting", "the image is being deleted".to_owned());
            }
            _ => {}
        }
    }
    if ready.0 == CLONING_UNDER_WAY && ready_condition(&before).0 != ready.0 {
        say(false, &ready.0, ready.1.clone());
    }
    if WORRYING.contains(&ready.0.as_str()) && ready_condition(&before).0 != ready.0 {
        say(true, &ready.0, ready.1);
    }
    list
}

/// Reason and message of the `Ready` condition.
fn ready_condition(status: &VirtualMachineImageStatus) -> (String, String) {
    find(&status.conditions, READY)
        .map(|condition| (condition.reason.clone(), condition.message.clone()))
        .unwrap_or_default()
}
