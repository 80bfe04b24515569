//! The Events that a change of the status is worth. Pure.
//!
//! Derived from the former status and the one that was written, so an Event
//! tells of a transition and is never repeated by a look that finds the world
//! as it was.

use hypercloud_api::conditions::find;
use hypercloud_api::{ComponentState, HyperCloudStorageStatus, StorageComponent, StorageState};

use crate::shell::report::Notice;

/// Something to tell, and of what: Events of the same reason about another
/// part are not the same.
pub type Told = (String, Notice);

/// What people are told when the status goes from `old` to `new`.
#[must_use]
pub fn notices(old: Option<&HyperCloudStorageStatus>, new: &HyperCloudStorageStatus) -> Vec<Told> {
    let default = HyperCloudStorageStatus::default();
    let old = old.unwrap_or(&default);
    let mut told = Vec::new();
    for component in &new.components {
        let before = old.components.iter().find(|c| c.name == component.name);
        told.extend(of_component(before, component));
    }
    told.extend(whole(old, new));
    // Of many, each that goes is not worth an Event.
    let first = new.deletion_blockers.first();
    if first.is_some() && first != old.deletion_blockers.first() {
        let message = new.message.clone().unwrap_or_default();
        told.push(say("Deletion", true, "DeletionBlocked", message));
    }
    told
}

fn say(about: &str, warning: bool, reason: &str, message: String) -> Told {
    let notice = Notice {
        warning,
        reason: reason.to_owned(),
        message,
    };
    (about.to_owned(), notice)
}

fn of_component(before: Option<&StorageComponent>, now: &StorageComponent) -> Option<Told> {
    let was = before.map(|component| component.state).unwrap_or_default();
    if was == now.state {
        return None;
    }
    let message = match &now.message {
        Some(message) => format!("{}: {message}", now.name),
        None => now.name.clone(),
    };
    let version = now.version.as_deref().unwrap_or_default();
    let had = before.and_then(|component| component.version.as_deref());
    match now.state {
        ComponentState::Failed => Some(say(&now.name, true, "ComponentFailed", message)),
        ComponentState::Warning => Some(say(&now.name, true, "ComponentWarns", message)),
        ComponentState::Ready if was == ComponentState::Failed => {
            Some(say(&now.name, false, "ComponentRecovered", message))
        }
        ComponentState::Ready if had != Some(version) => {
            let message = format!("{} {version} is ready", now.name);
            Some(say(&now.name, false, "ComponentReady", message))
        }
        ComponentState::Ready | ComponentState::Waiting | ComponentState::Progressing => None,
    }
}

/// What the whole has become. That it is an ERROR because of a component is
/// told of the component.
fn whole(old: &HyperCloudStorageStatus, new: &HyperCloudStorageStatus) -> Option<Told> {
    let state = new.state?;
    let message = new.message.clone().unwrap_or_default();
    if state == StorageState::Error {
        let reason = |status: &HyperCloudStorageStatus| {
            let degraded = find(&status.conditions, "Degraded");
            degraded.map(|condition| condition.reason.clone())
        };
        let is_component = new.components.iter().any(|component| {
            component.state == ComponentState::Failed
                && message.starts_with(&format!("{}: ", component.name))
        });
        let (was, is) = (reason(old), reason(new)?);
        let is_news = old.state != new.state || was.as_ref() != Some(&is);
        return (is_news && !is_component).then(|| say("Storage", true, &is, message));
    }
    if old.state == Some(state) {
        return None;
    }
    let reason = match state {
        StorageState::Ok => "Healthy",
        StorageState::Installing => "Installing",
        StorageState::Upgrading => "Upgrading",
        StorageState::Deleting => "Deleting",
        StorageState::Warning | StorageState::Error => return None,
    };
    let message = match message.is_empty() {
        true => "every component is ready".to_owned(),
        false => message,
    };
    Some(say("Storage", false, reason, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(state: ComponentState, version: Option<&str>) -> StorageComponent {
        StorageComponent {
            name: "ceph-cluster".into(),
            state,
            message: Some("Ceph fails".into()),
            version: version.map(str::to_owned),
            ..StorageComponent::default()
        }
    }

    fn status(state: StorageState, component: StorageComponent) -> HyperCloudStorageStatus {
        HyperCloudStorageStatus {
            state: Some(state),
            message: Some("ceph-cluster: Ceph fails".into()),
            components: vec![component],
            ..HyperCloudStorageStatus::default()
        }
    }

    fn reasons(
        old: Option<&HyperCloudStorageStatus>,
        new: &HyperCloudStorageStatus,
    ) -> Vec<(bool, String)> {
        let told = notices(old, new).into_iter();
        told.map(|(_, notice)| (notice.warning, notice.reason))
            .collect()
    }

    #[test]
    fn transitions_are_told_once() {
        let progressing = component(ComponentState::Progressing, None);
        let installing = status(StorageState::Installing, progressing);
        let mut ok = status(
            StorageState::Ok,
            component(ComponentState::Ready, Some("20.2.4")),
        );
        ok.message = None;
        let failed = component(ComponentState::Failed, Some("20.2.4"));
        let error = status(StorageState::Error, failed);
        let told = |warning, reason: &str| (warning, reason.to_owned());
        assert_eq!(reasons(None, &installing), [told(false, "Installing")]);
        assert_eq!(
            reasons(Some(&installing), &ok),
            [told(false, "ComponentReady"), told(false, "Healthy")]
        );
        assert_eq!(reasons(Some(&ok), &error), [told(true, "ComponentFailed")]);
        assert_eq!(reasons(Some(&error), &error), []);
        assert_eq!(
            reasons(Some(&error), &ok),
            [told(false, "ComponentRecovered"), told(false, "Healthy")]
        );
    }

    #[test]
    fn what_blocks_a_deletion_is_told_when_it_changes() {
        let mut deleting = status(
            StorageState::Deleting,
            component(ComponentState::Ready, None),
        );
        let before = deleting.clone();
        deleting.deletion_blockers = vec!["PersistentVolumeClaim a/b".into()];
        let told = notices(Some(&before), &deleting);
        assert_eq!(told[0].1.reason, "DeletionBlocked");
        assert!(notices(Some(&deleting), &deleting).is_empty());
    }
}
