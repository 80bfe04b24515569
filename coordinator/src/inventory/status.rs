//! The status that follows from a verdict. Pure.
//!
//! Invariant: the same verdict on the same inventory gives the same status,
//! but for a heartbeat that is due.

use hypercloud_api::conditions::{ConditionStatus, ConditionUpdate, set};
use hypercloud_api::{InventoryState, NodeDeviceInventory, NodeDeviceInventoryStatus, quantity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::READY;
use super::fit::{self, fit};
use super::observation::NodeSeen;
use super::verdict::Verdict;
use crate::agents::devices::{Loss, Told};

/// How old a heartbeat may become before it is renewed.
pub const HEARTBEAT: SignedDuration = SignedDuration::from_mins(5);

/// The status of `inventory`, which is of `node`, once `verdict` was reached
/// at `now`.
pub fn next(
    inventory: &NodeDeviceInventory,
    node: &NodeSeen,
    verdict: &Verdict,
    now: Timestamp,
) -> NodeDeviceInventoryStatus {
    let old = inventory.status.clone().unwrap_or_default();
    let mut writer = Writer {
        status: old.clone(),
        node,
        name: inventory.metadata.name.as_deref().unwrap_or_default(),
        generation: inventory.metadata.generation.unwrap_or_default(),
        now: Time(now),
    };
    match verdict {
        Verdict::Keep => {}
        Verdict::Current { told, heard } => {
            let message = writer.devices(told, *heard);
            writer.status.state = Some(InventoryState::Current);
            writer.ready(ConditionStatus::True, "Current", message);
            spare_heartbeat(&mut writer.status, &old, now);
        }
        Verdict::Expected => writer.expected(),
        Verdict::Lost { loss, told } => {
            if let Some((told, heard)) = told {
                writer.devices(told, *heard);
            }
            writer.lost(*loss);
        }
    }
    writer.status
}

/// Leaves the heartbeat as it was where nothing else is to be written and it
/// is not due.
fn spare_heartbeat(
    new: &mut NodeDeviceInventoryStatus,
    old: &NodeDeviceInventoryStatus,
    now: Timestamp,
) {
    let Some(former) = &old.heartbeat_time else {
        return;
    };
    let fresh = new.heartbeat_time.replace(former.clone());
    if new != old || now.duration_since(former.0) >= HEARTBEAT {
        new.heartbeat_time = fresh;
    }
}

/// A status being changed.
struct Writer<'a> {
    status: NodeDeviceInventoryStatus,
    node: &'a NodeSeen,
    name: &'a str,
    generation: i64,
    now: Time,
}

impl Writer<'_> {
    /// What was told, and a word on it.
    fn devices(&mut self, told: &Told, heard: Timestamp) -> String {
        let devices = &told.inventory.devices;
        let available = || told.inventory.available();
        let count = available().count();
        let bytes = available()
            .map(|device| device.size)
            .fold(0, u64::saturating_add);
        let fitted = fit(devices, fit::LIMIT);
        let mut message = format!("{} devices, {count} of them available", devices.len());
        if fitted.shortened {
            message += "; for want of room only their chosen links are shown";
        }
        if fitted.omitted > 0 {
            message += &format!(
                ", and {} devices are not shown: hcs devices --agent shows all",
                fitted.omitted
            );
        }
        // The former one may be of another coordinator's clock.
        let former = self.status.heartbeat_time.take();
        self.status.heartbeat_time = former.max(Some(Time(seconds(heard))));
        self.status.hostname = self.node.hostname.clone();
        self.status.boot_id = told.inventory.boot_id.clone();
        self.status.revision = Some(i64::try_from(told.revision).unwrap_or(i64::MAX));
        self.status.device_count = Some(number(devices.len()));
        self.status.available_count = Some(number(count));
        self.status.capacity = Some(quantity::for_people(bytes));
        self.status.devices = fitted.devices;
        self.status.omitted_devices = (fitted.omitted > 0).then(|| number(fitted.omitted));
        message
    }

    /// A former coordinator's word stands for a while.
    fn expected(&mut self) {
        if self.status.heartbeat_time.is_some() && self.status.state.is_some() {
            return;
        }
        let message = format!("waiting for the agent of node {} to tell", self.name);
        self.pending("NotYetTold", message);
    }

    fn lost(&mut self, loss: Loss) {
        let reason = loss.reason();
        let message = loss.message(self.name);
        let Some(heard) = &self.status.heartbeat_time else {
            return self.pending(reason, message);
        };
        let message = format!("{message}; the devices are those of {}", heard.0);
        self.status.state = Some(InventoryState::Stale);
        self.status.hostname = self.node.hostname.clone();
        self.ready(ConditionStatus::False, reason, message);
    }

    fn pending(&mut self, reason: &str, message: String) {
        self.status = NodeDeviceInventoryStatus {
            state: Some(InventoryState::Pending),
            hostname: self.node.hostname.clone(),
            conditions: std::mem::take(&mut self.status.conditions),
            ..NodeDeviceInventoryStatus::default()
        };
        self.ready(ConditionStatus::Unknown, reason, message);
    }

    fn ready(&mut self, status: ConditionStatus, reason: &str, message: String) {
        let update = ConditionUpdate::new(READY, status, reason, message);
        let conditions = &mut self.status.conditions;
        conditions.retain(|condition| condition.type_ == READY);
        set(conditions, update, self.generation, &self.now);
    }
}

/// Whole seconds, which is what the API keeps.
fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
