//! What follows from one status and the next. Pure.

use std::time::Duration;

use hypercloud_api::{HyperCloudStorageStatus, StorageComponent, StorageState};

/// When to look again where the status, or the world, was just changed in what
/// the next decision builds on.
pub const AT_ONCE: Duration = Duration::from_millis(200);

/// Whether the next decision builds on what the status says anew.
#[must_use]
pub fn goes_on(old: Option<&HyperCloudStorageStatus>, new: &HyperCloudStorageStatus) -> bool {
    let Some(old) = old else {
        return true;
    };
    let of = |components: &[StorageComponent]| -> Vec<_> {
        let one = |c: &StorageComponent| (c.name.clone(), c.state.as_str(), c.version.clone());
        components.iter().map(one).collect()
    };
    old.devices != new.devices
        || old.removing != new.removing
        || old.cleanup_hosts != new.cleanup_hosts
        || of(&old.components) != of(&new.components)
}

/// When to look again where nothing tells of a change. A failure that no watch
/// tells of is in the status soon after.
#[must_use]
pub fn again(status: &HyperCloudStorageStatus) -> Duration {
    let seconds = match status.state.unwrap_or_default() {
        StorageState::Ok | StorageState::Warning => 10,
        // Everything that may be in use is listed for it.
        StorageState::Deleting if !status.deletion_blockers.is_empty() => 10,
        StorageState::Error => 5,
        StorageState::Installing | StorageState::Upgrading | StorageState::Deleting => 2,
    };
    Duration::from_secs(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypercloud_api::ComponentState;

    #[test]
    fn what_the_next_decision_builds_on_is_looked_at_at_once() {
        let component = StorageComponent {
            name: "c".into(),
            state: ComponentState::Progressing,
            message: Some("1 of 2".into()),
            ..StorageComponent::default()
        };
        let old = HyperCloudStorageStatus {
            components: vec![component],
            ..HyperCloudStorageStatus::default()
        };
        assert!(goes_on(None, &old));
        assert!(!goes_on(Some(&old), &old));
        let mut new = old.clone();
        new.components[0].message = Some("2 of 2".into());
        assert!(!goes_on(Some(&old), &new));
        new.components[0].state = ComponentState::Ready;
        assert!(goes_on(Some(&old), &new));
        let mut new = old.clone();
        new.cleanup_hosts.push("a".into());
        assert!(goes_on(Some(&old), &new));
    }

    #[test]
    fn what_is_well_is_looked_at_within_the_time_that_a_failure_may_hide() {
        for state in [
            StorageState::Ok,
            StorageState::Error,
            StorageState::Deleting,
        ] {
            let status = HyperCloudStorageStatus {
                state: Some(state),
                ..HyperCloudStorageStatus::default()
            };
            assert!(again(&status) <= Duration::from_secs(10));
        }
    }
}
