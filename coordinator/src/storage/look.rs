//! The objects of every kind that matters, as they are in the cluster (client
//! required).
//!
//! They are read from the API server itself, never from a watch's cache. Kinds
//! that it does not know have no objects. Definitions are large and change
//! seldom: one is read anew when its version is another.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures::{StreamExt, TryStreamExt, stream};
use hypercloud_storage::kind::{KINDS, Kind, Part, Which};
use hypercloud_storage::object::{Key, Seen};
use kube::{Client, Error as KubeError};
use serde_json::Value;

use super::dynamic::{self, Much};
use crate::shell::error::ObserveError;

/// Requests that are under way at the same time.
const CONCURRENCY: usize = 8;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// The objects.
    pub seen: Seen,
    /// Which fields of each are this coordinator's.
    pub marks: BTreeMap<Key, u64>,
    /// Kinds that the API server knows.
    pub kinds: Vec<&'static Kind>,
}

/// Definitions as they were read last.
#[derive(Debug, Default)]
pub struct Definitions(Mutex<BTreeMap<Key, Value>>);

/// Everything that matters.
pub async fn read(client: &Client, definitions: &Definitions) -> Result<Objects, ObserveError> {
    let mut asked = Vec::new();
    for kind in KINDS {
        let which = kind.which.iter();
        asked.extend(which.map(|which| one(client, kind, *which, definitions)));
    }
    let found: Vec<Found> = stream::iter(asked)
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await?;
    let mut objects = Objects::default();
    for (kind, items) in found {
        let Some(items) = items else {
            continue;
        };
        if !objects.kinds.contains(&kind) {
            objects.kinds.push(kind);
        }
        for mut item in items {
            if let (Some(key), Some(mark)) = (Key::of(&item), dynamic::mark(&item)) {
                objects.marks.insert(key, mark);
            }
            dynamic::disown(&mut item);
            dynamic::slim(&mut item);
            objects.seen.insert(item);
        }
    }
    Ok(objects)
}

type Found = (&'static Kind, Option<Vec<Value>>);

async fn one(
    client: &Client,
    kind: &'static Kind,
    which: Which,
    definitions: &Definitions,
) -> Result<Found, ObserveError> {
    let items = match (which, kind.part) {
        (Which::Named(names), _) => named(client, kind, which, names).await,
        (_, Part::Whole) => dynamic::list(client, kind, which, Much::Whole).await,
        (_, Part::Metadata) => dynamic::list(client, kind, which, Much::Metadata).await,
        (_, Part::Definition) => definitions.read(client, kind, which).await,
    };
    let what = kind.plural;
    let items = items.map_err(|source| ObserveError::Read { what, source })?;
    Ok((kind, items))
}

async fn named(
    client: &Client,
    kind: &'static Kind,
    which: Which,
    names: &[&str],
) -> Result<Option<Vec<Value>>, KubeError> {
    let mut found = Vec::new();
    for name in names {
        let object = dynamic::get(client, kind, kind.place(which), name, Much::Metadata).await?;
        found.extend(object);
    }
    Ok(Some(found))
}

impl Definitions {
    /// The definitions; what is kept of each was read of its present version.
    async fn read(
        &self,
        client: &Client,
        kind: &'static Kind,
        which: Which,
    ) -> Result<Option<Vec<Value>>, KubeError> {
        let Some(listed) = dynamic::list(client, kind, which, Much::Metadata).await? else {
            return Ok(None);
        };
        let listed = listed.into_iter();
        let asked: Vec<_> = listed
            .map(|metadata| self.current(client, kind, metadata))
            .collect();
        let found: Vec<Option<Value>> = stream::iter(asked)
            .buffer_unordered(CONCURRENCY)
            .try_collect()
            .await?;
        let found: Vec<Value> = found.into_iter().flatten().collect();
        let kept = found.iter().filter_map(|object| {
            let mut object = object.clone();
            dynamic::slim(&mut object);
            Some((Key::of(&object)?, object))
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = kept.collect();
        Ok(Some(found))
    }

    async fn current(
        &self,
        client: &Client,
        kind: &'static Kind,
        metadata: Value,
    ) -> Result<Option<Value>, KubeError> {
        let fields = metadata["metadata"]["managedFields"].clone();
        let mut object = match self.known(&metadata) {
            Some(known) => known,
            None => {
                let name = metadata["metadata"]["name"].as_str().unwrap_or_default();
                let whole = dynamic::get(client, kind, None, name, Much::Whole).await?;
                match whole {
                    Some(whole) => dynamic::definition(&whole),
                    None => return Ok(None),
                }
            }
        };
        object["metadata"]["managedFields"] = fields;
        Ok(Some(object))
    }

    fn known(&self, metadata: &Value) -> Option<Value> {
        let key = Key::of(metadata)?;
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(&key)?;
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        (version(known) == version(metadata)).then(|| known.clone())
    }
}
