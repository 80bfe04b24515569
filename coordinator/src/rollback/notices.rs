//! The Events that a change of the status is worth. Pure.
//!
//! Derived from the former status and the one that was written, so an Event
//! tells of a transition and is never repeated by a reconcile that finds the
//! world as it was.

use hypercloud_api::conditions::find;
use hypercloud_api::{RollbackPhase, VirtualMachineVolumeRollbackStatus};

use super::COMPLETE;
use crate::shell::report::Notice;
use crate::work::retry::failures;

/// Reasons of the `Complete` condition that stop the rollback until someone
/// acts.
const WORRYING: [&str; 13] = [
    "AgentUnreachable",
    "ClaimConflict",
    "ClaimRefused",
    "HolderConflict",
    "HolderImageFailed",
    "HolderMountFailed",
    "HolderNotStarting",
    "HolderRefused",
    "HolderUnschedulable",
    "ProvisioningFailed",
    "PvcNotFound",
    "SnapshotNotFound",
    "VolumeInUse",
];

/// What people are told when the status goes from `old` to `new`.
pub fn notices(
    old: Option<&VirtualMachineVolumeRollbackStatus>,
    new: &VirtualMachineVolumeRollbackStatus,
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
    if let Some(copy) = &new.copy {
        let former = before.copy.as_ref();
        if former.is_none_or(|former| former.job_id != copy.job_id) {
            let (node, job) = (&copy.node_name, &copy.job_id);
            say(
                false,
                "RollbackStarted",
                format!("job {job} on node {node}"),
            );
        }
    }
    if failures(new.retry.as_ref()) > failures(before.retry.as_ref()) {
        say(true, "Retrying", message.clone());
    }
    if new.phase != before.phase {
        match new.phase {
            Some(RollbackPhase::Preparing) => say(false, "Restoring", message.clone()),
            Some(RollbackPhase::Succeeded) => say(false, "RolledBack", message.clone()),
            Some(RollbackPhase::Failed) => {
                say(true, "RollbackFailed", format!("{reason}: {message}"));
            }
            Some(RollbackPhase::Deleting) => {
                say(
                    false,
                    "Deleting",
                    "the rollback is being deleted".to_owned(),
                );
            }
            _ => {}
        }
    }
    let failed = new.phase == Some(RollbackPhase::Failed);
    if !failed && WORRYING.contains(&reason.as_str()) && complete(&before).0 != reason {
        say(true, &reason, message);
    }
    list
}

/// Reason and message of the `Complete` condition.
fn complete(status: &VirtualMachineVolumeRollbackStatus) -> (String, String) {
    find(&status.conditions, COMPLETE)
        .map(|condition| (condition.reason.clone(), condition.message.clone()))
        .unwrap_or_default()
}
