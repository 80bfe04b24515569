//! What to do about a cleanup. Pure.
//!
//! Invariant: the agent is asked only for the device that the status names,
//! and only while the phase says so.

use std::time::Duration;

use hypercloud_api::{CLEANUP_CONFIRMATION, CleanupDevice, CleanupPhase, NodeDeviceCleanupStatus};
use hypercloud_inventory::Inventory;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::choose::{before, choose, of_storage};
use super::observation::{Observation, OtherSeen, age, is_over};
use super::verdict::{Action, Plan, Verdict, failed, waiting};
use crate::again::{Again, RECHECK};
use crate::agents::devices::{DeviceLink, Loss, Standing};
use crate::agents::{AgentState, Failure};
use crate::work::retry;

/// How long an order may wait before it begins: nobody expects a device to be
/// destroyed long after he asked for it. And how long the agent may be away
/// once it began.
pub const PATIENCE: SignedDuration = SignedDuration::from_hours(1);

/// How long after it was made an order goes by a name that may become another
/// device's.
pub const MOMENT: SignedDuration = SignedDuration::from_mins(1);

/// How long after it was made an order that began is gone on with. What
/// somebody has put on the device since may not be told from leftovers.
pub const LIFE: SignedDuration = SignedDuration::from_hours(24);

/// Links that stay with a device. Any other name may be another device's by
/// the time it is looked at.
const LASTING: [&str; 3] = [
    "/dev/disk/by-id/",
    "/dev/disk/by-uuid/",
    "/dev/disk/by-partuuid/",
];

/// How often another cleanup that goes first is looked at.
const SOON: Duration = Duration::from_secs(3);

/// What to do about what was seen.
pub fn plan(seen: &Observation, now: Timestamp) -> Plan {
    let cleanup = &seen.cleanup;
    if cleanup.metadata.deletion_timestamp.is_some() || is_over(cleanup) {
        return Plan::say(Verdict::Keep, Again::OnChange);
    }
    let node = seen.node_name();
    if cleanup.spec.confirmation != CLEANUP_CONFIRMATION {
        let message = format!("confirmation is not {CLEANUP_CONFIRMATION}: nothing is done");
        return end("NotConfirmed", message);
    }
    let created = cleanup.metadata.creation_timestamp.as_ref();
    let gone = match &seen.node {
        None => Some(format!("there is no node {node}")),
        Some(node) if created.is_some_and(|time| node.is_younger_than(time.0)) => Some(format!(
            "node {} is another one than when this was asked for",
            seen.node_name()
        )),
        Some(_) => None,
    };
    let device = seen.status().and_then(|status| status.device.as_ref());
    match (gone, device) {
        (Some(why), None) => end("NodeNotFound", format!("{why}: nothing is done")),
        (Some(why), Some(device)) => given_up("NodeNotFound", &why, device),
        (None, None) => begin(seen, now),
        (None, Some(device)) => go_on(seen, device, now),
    }
}

/// Which device it is.
fn begin(seen: &Observation, now: Timestamp) -> Plan {
    let node = seen.node_name();
    let name = &seen.cleanup.spec.device;
    if !is_lasting(name) && is_older(seen, MOMENT, now) {
        let message = format!(
            "nobody looked at it for a minute, and {name} may be another device's name by now, so nothing is done: name it by its link in /dev/disk/by-id"
        );
        return end("Expired", message);
    }
    let told = match seen.devices.standing(now) {
        Standing::Current { told, .. } => told,
        Standing::Expected { .. } => {
            let message = format!("waiting for the agent of node {node} to tell its devices");
            return Plan::say(waiting("NotYetTold", message), Again::After(RECHECK));
        }
        Standing::Lost(loss) => {
            let message = format!(
                "{}, and which device is meant is settled by what the node has now",
                loss.message(node)
            );
            return wait(seen, loss.reason(), message, RECHECK, now);
        }
    };
    let inventory = &told.inventory;
    let device = match choose(inventory, node, name) {
        Ok(device) => device,
        Err((reason, message)) => return end(&reason, message),
    };
    if let Some(link) = of_storage(Some(inventory), &device, &seen.storage) {
        return end("DeviceOfStorage", of_the_storage(&device, link));
    }
    if let Some(other) = first(seen, Some(inventory), &device, false) {
        return wait(
            seen,
            "CleanupUnderWay",
            under_way(&device, &other),
            SOON,
            now,
        );
    }
    // However it came to be this late.
    if is_older(seen, PATIENCE, now) {
        return expired("the order is older than an hour");
    }
    Plan::say(Verdict::Chosen(device), Again::Now)
}

/// The device is written down: its agent is asked.
fn go_on(seen: &Observation, device: &CleanupDevice, now: Timestamp) -> Plan {
    let node = seen.node_name();
    let status = seen.status();
    if is_older(seen, LIFE, now) {
        return given_up("Expired", "the order is older than a day", device);
    }
    if let Some(wait) = status.and_then(|status| retry::wait(status.retry.as_ref(), now)) {
        return Plan::say(Verdict::Keep, Again::After(wait));
    }
    let told = match seen.devices.standing(now) {
        Standing::Current { told, .. } => Some(told),
        Standing::Expected { .. } | Standing::Lost(_) => None,
    };
    let inventory = told.as_ref().map(|told| &told.inventory);
    if let Some(other) = first(seen, inventory, device, true) {
        let verdict = waiting("CleanupUnderWay", under_way(device, &other));
        return Plan::say(verdict, Again::After(SOON));
    }
    if let AgentState::Away { since } = seen.agent {
        let loss = Loss::Unreachable;
        let message = loss.message(node);
        if now.duration_since(since) > PATIENCE {
            return given_up(loss.reason(), &format!("{message} for an hour"), device);
        }
        return Plan::say(waiting(loss.reason(), message), Again::After(RECHECK));
    }
    if seen.devices.link == DeviceLink::TooOld {
        let loss = Loss::TooOld;
        return given_up(loss.reason(), &loss.message(node), device);
    }
    if status.and_then(|status| status.phase) != Some(CleanupPhase::Cleaning) {
        // Nothing was asked for yet.
        if let Some(link) = of_storage(inventory, device, &seen.storage) {
            return end("DeviceOfStorage", of_the_storage(device, link));
        }
        return Plan::say(Verdict::Begun, Again::Now);
    }
    // Where nothing was learnt the agent is at it still.
    let action = Action::Clean(device.clone());
    Plan::one(action, Verdict::Keep, Again::After(SOON))
}

/// The verdict on a try that failed.
pub fn judge(status: Option<&NodeDeviceCleanupStatus>, failure: Failure) -> Verdict {
    let so_far = status.and_then(|status| status.retry.as_ref());
    if retry::is_another(so_far, &failure) {
        return Verdict::TryFailed(failure);
    }
    let (reason, message) = retry::given_up(&failure);
    failed(&reason, message)
}

/// Name of the cleanup that goes first.
fn first(
    seen: &Observation,
    inventory: Option<&Inventory>,
    device: &CleanupDevice,
    is_chosen: bool,
) -> Option<String> {
    let own = age(&seen.cleanup);
    let is_older = |other: &OtherSeen| other.age < own;
    before(inventory, device, &seen.others, is_older, is_chosen).map(|other| other.name.clone())
}

fn of_the_storage(device: &CleanupDevice, link: &str) -> String {
    format!(
        "{} is the platform's storage's, as {link}, so nothing is done: take it out of storage.nodes of the HyperCloudStorage, with removal PurgeOsds, and clean it once it is given up",
        device.path
    )
}

fn under_way(device: &CleanupDevice, other: &str) -> String {
    format!("the cleanup {other} of {} goes first", device.path)
}

/// Waits, but not for longer than the order is good, and not at all where the
/// device is called by a name that may be another one's then.
fn wait(
    seen: &Observation,
    reason: &str,
    message: String,
    again: Duration,
    now: Timestamp,
) -> Plan {
    let name = &seen.cleanup.spec.device;
    if !is_lasting(name) {
        let message = format!(
            "{message}; until then {name} may be another device's name, so nothing is done: name it by its link in /dev/disk/by-id, or create another cleanup then"
        );
        return end(reason, message);
    }
    if is_older(seen, PATIENCE, now) {
        return expired(&message);
    }
    Plan::say(waiting(reason, message), Again::After(again))
}

fn is_lasting(name: &str) -> bool {
    LASTING.iter().any(|links| name.starts_with(links))
}

fn is_older(seen: &Observation, age: SignedDuration, now: Timestamp) -> bool {
    let created = seen.cleanup.metadata.creation_timestamp.as_ref();
    created.is_some_and(|time| now.duration_since(time.0) > age)
}

/// The end of an order that began.
fn given_up(reason: &str, why: &str, device: &CleanupDevice) -> Plan {
    let message = format!(
        "{why}: {} may have been cleaned in part, or not at all; look at it, and create another cleanup if it is still meant",
        device.path
    );
    end(reason, message)
}

fn expired(why: &str) -> Plan {
    let message = format!(
        "it did not begin within an hour of its creation, and nothing was done: {why}; create another cleanup if it is still meant"
    );
    end("Expired", message)
}

fn end(reason: &str, message: String) -> Plan {
    Plan::say(failed(reason, message), Again::OnChange)
}
