//! Kubernetes objects of any kind: as JSON, and by their keys.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::stage::{self, By, Stage};

/// Annotation with the digest of what was applied last.
pub const ANNOTATION_APPLIED: &str = "hypercloud.tmaxanc.com/applied";
/// Annotation of an object that was there before this system, and stays when
/// the storage goes.
pub const ANNOTATION_FOUND: &str = "hypercloud.tmaxanc.com/found";
/// Label with the name of the stage that installed an object.
pub const LABEL_STAGE: &str = "hypercloud.tmaxanc.com/storage-stage";

/// Kinds of which others may have put something of their own there.
pub(crate) const SHARED_KINDS: [&str; 2] = ["CustomResourceDefinition", "Namespace"];

/// What tells an object from all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Group and version, as `apps/v1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace, of what has one.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

impl Key {
    /// The key of what has no namespace.
    #[must_use]
    pub fn cluster(api_version: &str, kind: &str, name: &str) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: None,
            name: name.to_owned(),
        }
    }

    /// The key of what is in a namespace.
    #[must_use]
    pub fn namespaced(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            ..Self::cluster(api_version, kind, name)
        }
    }

    /// The key of an object; none of what is no object.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let metadata = &object["metadata"];
        Some(Self {
            api_version: object["apiVersion"].as_str()?.to_owned(),
            kind: object["kind"].as_str()?.to_owned(),
            namespace: metadata["namespace"].as_str().map(str::to_owned),
            name: metadata["name"].as_str()?.to_owned(),
        })
    }

    /// The group without the version.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// Objects as they are in the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen(BTreeMap<Key, Value>);

impl Seen {
    /// The object of this key.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Value> {
        self.0.get(key)
    }

    /// Objects of a kind, in the order of their names.
    pub fn of_kind<'a>(&'a self, group: &'a str, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0
            .iter()
            .filter(move |(key, _)| key.kind == kind && key.group() == group)
            .map(|(_, object)| object)
    }

    /// Whether an object of this key is there.
    #[must_use]
    pub fn has(&self, key: &Key) -> bool {
        self.0.contains_key(key)
    }

    /// Adds an object; what is none is left out.
    pub fn insert(&mut self, object: Value) {
        if let Some(key) = Key::of(&object) {
            self.0.insert(key, object);
        }
    }

    /// Takes an object away.
    pub fn remove(&mut self, key: &Key) {
        self.0.remove(key);
    }

    /// Keys of what a stage installed.
    pub fn of_stage<'a>(&'a self, stage: &'a str) -> impl Iterator<Item = &'a Key> {
        let of = move |object| stage_of(object) == Some(stage);
        self.0
            .iter()
            .filter(move |(_, object)| of(object))
            .map(|(key, _)| key)
    }

    /// Whether an object is there and being deleted.
    #[must_use]
    pub fn is_going(&self, key: &Key) -> bool {
        let object = self.get(key);
        object.is_some_and(|object| !object["metadata"]["deletionTimestamp"].is_null())
    }

    /// Every key.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.0.keys()
    }
}

impl FromIterator<Value> for Seen {
    fn from_iter<I: IntoIterator<Item = Value>>(objects: I) -> Self {
        let mut seen = Self::default();
        for object in objects {
            seen.insert(object);
        }
        seen
    }
}

/// How an object is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// As it is meant: what others change of it is put right.
    Current,
    /// It is made where it is not there, and is its administrator's then.
    Seeded,
}

/// An object as it is meant.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// Its key.
    pub key: Key,
    /// The object, with the digest of itself.
    pub object: Value,
    /// How it is kept.
    pub keep: Keep,
}

impl Desired {
    /// `object`, labelled as made by this system in a stage, and with its
    /// digest; none of what is no object.
    #[must_use]
    pub fn new(mut object: Value, keep: Keep, stage: &str) -> Option<Self> {
        use hypercloud_api::names::{LABEL_MANAGED_BY, MANAGED_BY};
        let key = Key::of(&object)?;
        let metadata = object["metadata"].as_object_mut()?;
        let labels = entry(metadata, "labels");
        labels.insert(LABEL_MANAGED_BY.to_owned(), json!(MANAGED_BY));
        labels.insert(LABEL_STAGE.to_owned(), json!(stage));
        let digest = digest(&object);
        let metadata = object["metadata"].as_object_mut()?;
        entry(metadata, "annotations").insert(ANNOTATION_APPLIED.to_owned(), json!(digest));
        Some(Self { key, object, keep })
    }

    /// Whether such an object that was there before this system stays when the
    /// storage goes: others may have put something of their own there, or live
    /// by it.
    #[must_use]
    pub fn may_be_found(&self) -> bool {
        let stage = stage_of(&self.object);
        let of_snapshots = |stage: &&Stage| stage.by == By::Snapshotter;
        SHARED_KINDS.contains(&self.key.kind.as_str())
            || stage.and_then(stage::named).filter(of_snapshots).is_some()
    }

    /// The object as it is applied over `live`, which was seen: over nothing
    /// else, and not made anew. One that bears no mark of this system was not
    /// made by it, and is marked as that.
    #[must_use]
    pub fn over(&self, live: &Value) -> Value {
        let mut object = self.object.clone();
        if let Some(uid) = live["metadata"]["uid"].as_str() {
            object["metadata"]["uid"] = json!(uid);
        }
        let is_strange = stage_of(live).is_none() && applied(live).is_none();
        let was_there = is_found(live) || is_strange;
        if was_there
            && self.may_be_found()
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            entry(metadata, "annotations").insert(ANNOTATION_FOUND.to_owned(), json!("true"));
        }
        object
    }

    /// Whether the cluster has it as it is meant, as far as it was applied.
    #[must_use]
    pub fn is_applied(&self, seen: &Seen) -> bool {
        let Some(live) = seen.get(&self.key) else {
            return false;
        };
        self.keep == Keep::Seeded || applied(live) == applied(&self.object)
    }
}

/// Whether an object stays when the storage goes: it was there before this
/// system, or somebody marked it so.
#[must_use]
pub fn is_found(live: &Value) -> bool {
    live["metadata"]["annotations"][ANNOTATION_FOUND] == "true"
}

/// The stage that installed an object, of what this system installed.
#[must_use]
pub fn stage_of(object: &Value) -> Option<&str> {
    object["metadata"]["labels"][LABEL_STAGE].as_str()
}

/// The digest of what was applied last.
#[must_use]
pub fn applied(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][ANNOTATION_APPLIED].as_str()
}

/// The map under `name`, made where there is none.
fn entry<'a>(map: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    if !map.get(name).is_some_and(Value::is_object) {
        map.insert(name.to_owned(), json!({}));
    }
    match map.get_mut(name) {
        Some(Value::Object(inner)) => inner,
        _ => unreachable!("an object was put there"),
    }
}

/// Sixteen hexadecimal digits of an object's SHA-256.
fn digest(object: &Value) -> String {
    let digest = Sha256::digest(object.to_string().as_bytes());
    digest.iter().take(8).map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(data: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
               "metadata": {"name": "m", "namespace": "n"}, "data": {"k": data}})
    }

    #[test]
    fn what_was_applied_is_told_from_what_is_to_be() {
        let desired = Desired::new(map("new"), Keep::Current, "s").unwrap();
        let older = Desired::new(map("old"), Keep::Current, "s").unwrap();
        assert_eq!(desired.key.to_string(), "ConfigMap n/m");
        assert!(!desired.is_applied(&Seen::default()));
        assert!(!desired.is_applied(&Seen::from_iter([older.object.clone()])));
        assert!(desired.is_applied(&Seen::from_iter([desired.object.clone()])));
        // What others add does not matter.
        let mut live = desired.object.clone();
        live["data"]["theirs"] = json!("x");
        assert!(desired.is_applied(&Seen::from_iter([live])));
    }

    #[test]
    fn what_is_seeded_is_left_to_its_administrator() {
        let desired = Desired::new(map("new"), Keep::Seeded, "s").unwrap();
        assert!(!desired.is_applied(&Seen::default()));
        assert!(desired.is_applied(&Seen::from_iter([map("theirs")])));
    }

    #[test]
    fn what_was_there_before_is_marked_for_good() {
        let space = |labels: Value| {
            json!({"apiVersion": "v1", "kind": "Namespace",
                   "metadata": {"name": "n", "labels": labels}})
        };
        let desired = Desired::new(space(json!({})), Keep::Current, "rook-common").unwrap();
        // Made by this system.
        assert!(!is_found(&desired.over(&desired.object)));
        let mut unlabelled = desired.object.clone();
        unlabelled["metadata"]["labels"] = Value::Null;
        assert!(!is_found(&desired.over(&unlabelled)));
        // Somebody's own, and so after it was applied as well.
        let marked = desired.over(&space(json!({"team": "a"})));
        assert!(is_found(&marked));
        assert!(is_found(&desired.over(&marked)));
        assert_eq!(applied(&marked), applied(&desired.object));
        // Only of what others may live by.
        let map = Desired::new(map("x"), Keep::Current, "rook-common").unwrap();
        assert!(!is_found(&map.over(&self::map("theirs"))));
        let map = Desired::new(self::map("x"), Keep::Current, "snapshot-controller").unwrap();
        assert!(is_found(&map.over(&self::map("theirs"))));
    }

    #[test]
    fn no_object_has_no_key() {
        assert_eq!(Key::of(&json!({"kind": "List"})), None);
        assert_eq!(Key::of(&json!(7)), None);
    }
}
