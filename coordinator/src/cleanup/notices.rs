//! The Events that a change of the status is worth, on the cleanup and on
//! its node. Pure.
//!
//! Derived from the former status and the one that was written, so an Event
//! tells of a transition and is never repeated by a reconcile that finds the
//! world as it was.

use hypercloud_api::conditions::find;
use hypercloud_api::{CleanupPhase, NodeDeviceCleanupStatus};

use super::COMPLETE;
use crate::shell::report::Notice;
use crate::work::retry::failures;

/// Reasons for which a device may be left half clean.
const PARTIAL: [&str; 8] = [
    "AgentTooOld",
    "AgentUnreachable",
    "CleaningFailed",
    "CleaningInterrupted",
    "Expired",
    "LeftoversRemain",
    "NodeNotFound",
    "Unreadable",
];

/// What people are told when the status goes from `old` to `new`.
pub fn notices(
    old: Option<&NodeDeviceCleanupStatus>,
    new: &NodeDeviceCleanupStatus,
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
    if before.device.is_none() && new.device.is_some() {
        say(false, "Cleaning", message.clone());
    }
    let failed = failures(new.retry.as_ref());
    if failed > failures(before.retry.as_ref()) {
        say(true, "Retrying", message.clone());
    }
    if new.phase != before.phase {
        match new.phase {
            Some(CleanupPhase::Succeeded) => say(false, "Cleaned", message),
            Some(CleanupPhase::Failed) => {
                let event = if failed > 0 || is_partial(&before, &reason) {
                    "CleaningFailed"
                } else {
                    "CleaningRefused"
                };
                say(true, event, format!("{reason}: {message}"));
            }
            _ => {}
        }
    }
    list
}

/// Whether what failed may have been done in part, at the first try.
fn is_partial(before: &NodeDeviceCleanupStatus, reason: &str) -> bool {
    before.device.is_some() && PARTIAL.contains(&reason)
}

/// Those of a cleanup called `name`, for its node.
pub fn on_node(name: &str, notices: &[Notice]) -> Vec<Notice> {
    notices
        .iter()
        .map(|notice| Notice {
            message: format!("NodeDeviceCleanup {name}: {}", notice.message),
            ..notice.clone()
        })
        .collect()
}

/// Reason and message of the `Complete` condition.
fn complete(status: &NodeDeviceCleanupStatus) -> (String, String) {
    find(&status.conditions, COMPLETE)
        .map(|condition| (condition.reason.clone(), condition.message.clone()))
        .unwrap_or_default()
}
