//! The conditions that follow from components and the whole.

use hypercloud_api::conditions::{ConditionStatus, ConditionUpdate};
use hypercloud_api::{StorageComponent, StorageState};

use super::Whole;

/// Components without which no disk is read or written.
const NEEDED: [&str; 3] = ["ceph-cluster", "csi-drivers", "block-storage"];

/// `Available`, `Progressing`, `Degraded` and `Upgradeable`.
#[must_use]
pub fn conditions(components: &[StorageComponent], whole: &Whole) -> [ConditionUpdate; 4] {
    let says = |type_, holds: bool, reason: &str, message: &str| {
        let status = match holds {
            true => ConditionStatus::True,
            false => ConditionStatus::False,
        };
        ConditionUpdate::new(type_, status, reason, message.to_owned())
    };
    let lacking: Vec<&str> = NEEDED
        .into_iter()
        .filter(|name| {
            let component = components.iter().find(|component| component.name == *name);
            !component.is_some_and(|component| component.state.is_healthy())
        })
        .collect();
    let available = match lacking.as_slice() {
        [] => says("Available", true, "Available", "disks are read and written"),
        lacking => {
            let message = format!("not healthy: {}", lacking.join(", "));
            says("Available", false, "NotAvailable", &message)
        }
    };
    let busy = matches!(
        whole.state,
        StorageState::Installing | StorageState::Upgrading | StorageState::Deleting
    );
    let failed = whole.state == StorageState::Error;
    let steady = matches!(whole.state, StorageState::Ok | StorageState::Warning);
    let why = (whole.reason.as_str(), whole.message.as_str());
    let otherwise = |holds, reason: &'static str| match holds {
        true => why,
        false => (reason, ""),
    };
    let progressing = otherwise(busy, "AsAsked");
    let degraded = otherwise(failed, "NotDegraded");
    let upgradeable = otherwise(!steady, "Healthy");
    [
        available,
        says("Progressing", busy, progressing.0, progressing.1),
        says("Degraded", failed, degraded.0, degraded.1),
        says("Upgradeable", steady, upgradeable.0, upgradeable.1),
    ]
}
