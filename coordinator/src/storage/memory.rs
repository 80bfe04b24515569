//! What is remembered between two looks: when an object was applied last, and
//! what was refused. Pure: time is an argument.
//!
//! All of it may be lost: then objects are applied once more, and what was
//! refused is refused again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hypercloud_storage::kind::Kind;
use hypercloud_storage::object::{Desired, Keep, Key, applied};
use hypercloud_storage::plan::change::Notice;
use hypercloud_storage::refusal::{Asked, Refusals, Refused};

use super::look::Objects;
use crate::backoff::Backoff;

/// How often everything is applied although nothing tells that it has to be.
const EVERY: Duration = Duration::from_secs(180);
/// How long an object is left alone of which somebody takes fields again and
/// again.
const CONTESTED: Duration = Duration::from_secs(5);
/// How long after a refusal the same is asked for again.
const REFUSED: Backoff = Backoff {
    base: Duration::from_secs(2),
    cap: Duration::from_secs(60),
};

/// What is remembered.
#[derive(Debug, Default)]
pub struct Memory {
    applied: BTreeMap<Key, Applied>,
    refused: BTreeMap<Key, (Refused, Instant)>,
    told: Vec<Notice>,
}

#[derive(Debug)]
struct Applied {
    digest: Option<String>,
    mark: Option<u64>,
    at: Instant,
}

impl Memory {
    /// Whether an object is applied now.
    #[must_use]
    pub fn is_due(&self, desired: &Desired, objects: &Objects, now: Instant) -> bool {
        let key = &desired.key;
        // What goes is made anew once it is gone.
        if objects.seen.is_going(key) || !self.may(key, &Asked::of(desired), now) {
            return false;
        }
        if self.is_new(desired, objects) {
            return true;
        }
        if desired.keep == Keep::Seeded {
            return false;
        }
        let Some(last) = self.applied.get(key) else {
            return true;
        };
        let age = now.saturating_duration_since(last.at);
        let is_other = last.digest.as_deref() != applied(&desired.object);
        let mark = objects.marks.get(key).copied();
        let is_taken = Kind::of(key).is_some() && mark != last.mark;
        is_other || age >= EVERY || (is_taken && age >= CONTESTED)
    }

    /// Whether an object is not there as it is meant. One of a kind that is not
    /// looked at, as another release may have, is so once it was applied.
    #[must_use]
    pub fn is_new(&self, desired: &Desired, objects: &Objects) -> bool {
        match Kind::of(&desired.key) {
            Some(_) => !desired.is_applied(&objects.seen),
            None => {
                let last = self.applied.get(&desired.key);
                last.is_none_or(|last| last.digest.as_deref() != applied(&desired.object))
            }
        }
    }

    /// Whether the same was not refused a moment ago.
    #[must_use]
    pub fn may(&self, key: &Key, what: &Asked, now: Instant) -> bool {
        let refused = self.refused.get(key);
        refused.is_none_or(|(refused, next)| refused.what != *what || *next <= now)
    }

    /// An object was applied; whether it had been refused.
    pub fn applied(&mut self, desired: &Desired, mark: Option<u64>, now: Instant) -> bool {
        let record = Applied {
            digest: applied(&desired.object).map(str::to_owned),
            mark,
            at: now,
        };
        self.applied.insert(desired.key.clone(), record);
        self.refused.remove(&desired.key).is_some()
    }

    /// An object was deleted; whether that had been refused.
    pub fn deleted(&mut self, key: &Key) -> bool {
        self.applied.remove(key);
        self.refused.remove(key).is_some()
    }

    /// Something was refused; whether that is news.
    pub fn refuse(
        &mut self,
        key: &Key,
        what: Asked,
        (code, message): (u16, String),
        now: Instant,
    ) -> bool {
        let before = self.refused.get(key).map(|(refused, _)| refused);
        let before = before.filter(|refused| refused.what == what);
        let times = before.map_or(1, |refused| refused.times.saturating_add(1));
        let is_same = before.is_some_and(|refused| refused.code == code && refused.times > 3);
        let refused = Refused {
            what,
            code,
            message,
            times,
        };
        let next = now + REFUSED.delay(&key.to_string(), times);
        self.refused.insert(key.clone(), (refused, next));
        !is_same
    }

    /// What was refused.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        let refused = self.refused.iter();
        refused
            .map(|(key, (refused, _))| (key.clone(), refused.clone()))
            .collect()
    }

    /// Those of `notices` that were not told after the last look.
    pub fn untold(&mut self, notices: &[Notice]) -> Vec<Notice> {
        let news = notices.iter().filter(|notice| !self.told.contains(notice));
        let news = news.cloned().collect();
        self.told = notices.to_vec();
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypercloud_storage::object::Seen;
    use serde_json::json;

    fn desired(data: &str, keep: Keep) -> Desired {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "m", "namespace": "n"}, "data": {"k": data}});
        Desired::new(object, keep, "s").unwrap()
    }

    fn live(desired: &Desired, mark: u64) -> Objects {
        Objects {
            seen: Seen::from_iter([desired.object.clone()]),
            marks: BTreeMap::from([(desired.key.clone(), mark)]),
            kinds: Vec::new(),
        }
    }

    #[test]
    fn what_is_not_as_meant_is_applied_at_once_and_the_rest_in_time() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let object = desired("a", Keep::Current);
        let mut memory = Memory::default();
        assert!(memory.is_due(&object, &Objects::default(), start));
        // After a restart everything is applied once.
        assert!(memory.is_due(&object, &live(&object, 1), start));
        memory.applied(&object, Some(1), start);
        assert!(!memory.is_due(&object, &live(&object, 1), after(100)));
        assert!(memory.is_due(&object, &live(&object, 1), after(180)));
        // Somebody took a field.
        assert!(!memory.is_due(&object, &live(&object, 2), after(1)));
        assert!(memory.is_due(&object, &live(&object, 2), after(6)));
        let other = desired("b", Keep::Current);
        assert!(memory.is_due(&other, &live(&object, 1), after(1)));
    }

    #[test]
    fn what_is_not_looked_at_is_applied_once_and_then_in_time() {
        let start = Instant::now();
        let object = json!({"apiVersion": "example.com/v1", "kind": "Strange",
            "metadata": {"name": "x"}});
        let object = Desired::new(object, Keep::Current, "s").unwrap();
        let none = Objects::default();
        let mut memory = Memory::default();
        assert!(memory.is_due(&object, &none, start) && memory.is_new(&object, &none));
        memory.applied(&object, Some(1), start);
        assert!(!memory.is_due(&object, &none, start + Duration::from_secs(60)));
        assert!(!memory.is_new(&object, &none));
        assert!(memory.is_due(&object, &none, start + EVERY));
    }

    #[test]
    fn what_is_seeded_is_made_where_it_is_not_there() {
        let now = Instant::now();
        let object = desired("a", Keep::Seeded);
        let memory = Memory::default();
        assert!(memory.is_due(&object, &Objects::default(), now));
        let theirs = desired("theirs", Keep::Seeded);
        assert!(!memory.is_due(&object, &live(&theirs, 1), now));
    }

    #[test]
    fn what_goes_is_not_applied() {
        let object = desired("a", Keep::Current);
        let mut going = desired("old", Keep::Current);
        going.object["metadata"]["deletionTimestamp"] = json!("now");
        let memory = Memory::default();
        assert!(!memory.is_due(&object, &live(&going, 1), Instant::now()));
    }

    #[test]
    fn what_was_refused_is_asked_for_again_later() {
        let start = Instant::now();
        let object = desired("a", Keep::Current);
        let none = Objects::default();
        let mut memory = Memory::default();
        let no = || (422, "no".to_owned());
        assert!(memory.refuse(&object.key, Asked::of(&object), no(), start));
        assert!(!memory.is_due(&object, &none, start + Duration::from_secs(1)));
        assert!(memory.is_due(&object, &none, start + Duration::from_secs(60)));
        // Something else is not what was refused.
        assert!(memory.is_due(&desired("b", Keep::Current), &none, start));
        for _ in 0..3 {
            memory.refuse(&object.key, Asked::of(&object), no(), start);
        }
        assert!(!memory.refuse(&object.key, Asked::of(&object), no(), start));
        assert_eq!(memory.refusals()[&object.key].times, 5);
        assert!(memory.applied(&object, None, start));
        assert!(memory.refusals().is_empty());
    }

    #[test]
    fn notices_are_told_once() {
        let notice = Notice {
            reason: "DevicesAdded",
            message: "m".into(),
        };
        let mut memory = Memory::default();
        let notices = [notice];
        assert_eq!(memory.untold(&notices).len(), 1);
        assert_eq!(memory.untold(&notices).len(), 0);
        assert_eq!(memory.untold(&[]).len(), 0);
        assert_eq!(memory.untold(&notices).len(), 1);
    }
}
