//! The Events that a change of the status is worth. Pure.
//!
//! Derived from the former status and the one that was written, so an Event
//! tells of a transition and is never repeated by a reconcile that finds the
//! world as it was.

use hypercloud_api::conditions::find;
use hypercloud_api::{DiskMethod, DiskPhase, VirtualMachinePvcStatus};

use super::{READY, SIZE_RAISED};
use crate::shell::report::Notice;

/// Reasons of the `Ready` condition that stop the disk until someone acts.
const WORRYING: [&str; 16] = [
    "AgentUnreachable",
    "ClaimConflict",
    "ClaimRefused",
    "HolderConflict",
    "HolderImageFailed",
    "HolderMountFailed",
    "HolderNotStarting",
    "HolderRefused",
    "HolderUnschedulable",
    "ImageDeleting",
    "ImageNotShared",
    "NodeRefused",
    "ProvisioningFailed",
    "SourceElsewhere",
    "SourceLost",
    "StorageClassNotFound",
];

/// Reasons of waits that people are told of once.
const WAITS: [&str; 9] = [
    "ImageNotFound",
    "ImageNotReady",
    "PvcNotFound",
    "PvcNotBound",
    "SnapshotNotFound",
    "SnapshotNotReady",
    "SourceInUse",
    "WaitForFirstConsumer",
    "CloneRefused",
];

/// What people are told when the status goes from `old` to `new`.
pub fn notices(
    old: Option<&VirtualMachinePvcStatus>,
    new: &VirtualMachinePvcStatus,
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
    if let (Some(method), Some(source)) = (new.method, &new.source)
        && before.source.as_ref() != Some(source)
    {
        let how = match method {
            DiskMethod::Clone | DiskMethod::CloneAndHandOver => "is cloned",
            DiskMethod::Restore => "is restored",
            DiskMethod::Copy => "is copied",
        };
        let message = format!("the {} {} {how}", source.kind, source.name);
        say(false, "SourceReady", message);
    }
    let raised = |status: &VirtualMachinePvcStatus| {
        find(&status.conditions, SIZE_RAISED).map(|condition| condition.message.clone())
    };
    if let Some(message) = raised(new)
        && raised(&before).is_none()
    {
        say(true, "SizeRaised", message);
    }
    if let Some(claim) = &new.pvc_name
        && before.pvc_name.is_none()
    {
        say(false, "ClaimCreated", format!("created claim {claim}"));
    }
    if let Some(copy) = &new.copy
        && before
            .copy
            .as_ref()
            .is_none_or(|former| former.job_id != copy.job_id)
    {
        let message = format!("job {} on node {}", copy.job_id, copy.node_name);
        say(false, "CopyStarted", message);
    }
    let failures =
        |status: &VirtualMachinePvcStatus| status.retry.as_ref().map_or(0, |retry| retry.failures);
    if failures(new) > failures(&before) {
        say(true, "Retrying", ready.1.clone());
    }
    if new.phase != before.phase {
        match new.phase {
            Some(DiskPhase::Ready) => say(false, "Ready", ready.1.clone()),
            Some(DiskPhase::Failed) => say(true, "Failed", format!("{}: {}", ready.0, ready.1)),
            Some(DiskPhase::Deleting) => {
                say(false, "Deleting", "the disk is being deleted".to_owned());
            }
            _ => {}
        }
    }
    if ready_condition(&before).0 != ready.0 && new.phase != Some(DiskPhase::Failed) {
        let reason = ready.0.as_str();
        if WORRYING.contains(&reason) {
            say(true, &ready.0, ready.1);
        } else if WAITS.contains(&reason) {
            say(false, &ready.0, ready.1);
        }
    }
    list
}

/// Reason and message of the `Ready` condition.
fn ready_condition(status: &VirtualMachinePvcStatus) -> (String, String) {
    find(&status.conditions, READY)
        .map(|condition| (condition.reason.clone(), condition.message.clone()))
        .unwrap_or_default()
}
