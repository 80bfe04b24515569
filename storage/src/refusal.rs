//! What the API server did not do, and what people can do about it.
//!
//! A refusal is remembered for as long as the same is asked for, or until it is
//! done after all. A coordinator that forgets one meets it again.

use std::collections::BTreeMap;

use crate::health::{Judgement, hopeless};
use crate::object::{Desired, Key, applied};

/// How often a server may fail before somebody is told.
const PATIENCE: u32 = 3;

/// What was refused, by object.
pub type Refusals = BTreeMap<Key, Refused>;

/// One refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What was asked for.
    pub what: Asked,
    /// The answer's code.
    pub code: u16,
    /// What the API server said.
    pub message: String,
    /// How often in a row.
    pub times: u32,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The object with this digest.
    Apply(Option<String>),
    /// That the object goes.
    Delete,
}

impl Asked {
    /// That an object becomes as it is meant.
    #[must_use]
    pub fn of(desired: &Desired) -> Self {
        Self::Apply(applied(&desired.object).map(str::to_owned))
    }
}

impl Refused {
    /// Whether it is worth telling: a server that fails is given time.
    fn is_told(&self) -> bool {
        self.code < 500 || self.times >= PATIENCE
    }

    /// How the component of an object is whose application was refused.
    fn judge(&self, key: &Key) -> Judgement {
        let said = &self.message;
        match self.code {
            403 if said.contains("being terminated") => hopeless(
                "NamespaceTerminating",
                format!(
                    "{key} waits until its namespace is gone, which somebody deletes, and is made anew then: {said}"
                ),
            ),
            403 => hopeless(
                "ApplyForbidden",
                format!(
                    "the API server forbids {key}: {said}; see to the coordinator's rights (coordinator-storage-rbac.yaml), or to the quota or policy that it names"
                ),
            ),
            code if code >= 500 => hopeless(
                "ApplyFailed",
                format!(
                    "the API server fails at {key}: {said}; it is tried again: see to what it names"
                ),
            ),
            _ if matches!(key.kind.as_str(), "StorageClass" | "VolumeSnapshotClass") => hopeless(
                "ApplyRefused",
                format!(
                    "the API server refuses {key}: {said}; take the change back, or delete the class: it is made anew, and volumes stay as they are"
                ),
            ),
            _ => hopeless(
                "ApplyRefused",
                format!("the API server refuses {key}: {said}; correct what is asked for"),
            ),
        }
    }
}

/// How a component is by what of its objects was refused.
#[must_use]
pub fn judge(desired: &[Desired], refusals: &Refusals) -> Option<Judgement> {
    desired.iter().find_map(|desired| {
        let refused = refusals.get(&desired.key)?;
        let same = refused.what == Asked::of(desired);
        (same && refused.is_told()).then(|| refused.judge(&desired.key))
    })
}

/// The first of these that could not be deleted, and why.
#[must_use]
pub fn standing<'a>(keys: &'a [Key], refusals: &Refusals) -> Option<(&'a Key, String)> {
    keys.iter().find_map(|key| {
        let refused = refusals.get(key)?;
        let is_told = refused.what == Asked::Delete && refused.is_told();
        is_told.then(|| {
            let said = &refused.message;
            let message = format!(
                "the API server does not delete {key}: {said}; it is tried again: see to what it names"
            );
            (key, message)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Keep;
    use serde_json::json;

    fn class(pool: &str) -> Desired {
        let object = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": "c"}, "parameters": {"pool": pool}});
        Desired::new(object, Keep::Current, "s").unwrap()
    }

    fn refused(desired: &Desired, code: u16, times: u32) -> Refusals {
        let refused = Refused {
            what: Asked::of(desired),
            code,
            message: "no".into(),
            times,
        };
        BTreeMap::from([(desired.key.clone(), refused)])
    }

    #[test]
    fn what_is_refused_is_told_as_long_as_it_is_asked_for() {
        let desired = [class("a")];
        let reason = |code, times| {
            judge(&desired, &refused(&desired[0], code, times)).map(|judgement| judgement.reason)
        };
        assert_eq!(reason(422, 1), Some("ApplyRefused"));
        assert_eq!(reason(403, 1), Some("ApplyForbidden"));
        assert_eq!(reason(500, 1), None);
        let mut going = refused(&desired[0], 403, 1);
        let message = "namespace n is forbidden because it is being terminated";
        going.get_mut(&desired[0].key).unwrap().message = message.into();
        let judgement = judge(&desired, &going).unwrap();
        assert_eq!(judgement.reason, "NamespaceTerminating");
        assert_eq!(reason(500, 3), Some("ApplyFailed"));
        assert_eq!(judge(&[class("b")], &refused(&desired[0], 422, 1)), None);
    }

    #[test]
    fn what_does_not_go_is_named() {
        let desired = class("a");
        let keys = [desired.key.clone()];
        let mut refusals = refused(&desired, 403, 1);
        assert_eq!(standing(&keys, &refusals), None);
        refusals.get_mut(&desired.key).unwrap().what = Asked::Delete;
        let (key, message) = standing(&keys, &refusals).unwrap();
        assert_eq!(key.name, "c");
        assert!(message.contains("StorageClass c: no"), "{message}");
    }
}
