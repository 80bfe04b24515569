//! Definitions that are used (client required).

use std::collections::{BTreeMap, BTreeSet};

use hypercloud_storage::object::{Key, Seen, stage_of};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};

use super::list::{Groups, is_unknown, kinds, reading};
use crate::shell::error::ObserveError;

/// The stage that may be left until the end, for others.
const SHARED: &str = "snapshot-controller";

/// Names of definitions that a stage installed and of which there are objects,
/// wherever and whosever, or may be: only what was read and is empty counts as
/// unused. As long as there is more to be removed before definitions are,
/// nobody is asked.
pub async fn in_use(
    client: &Client,
    groups: &Groups,
    seen: &Seen,
) -> Result<BTreeSet<String>, ObserveError> {
    let of_stage = |key: &&Key| seen.get(key).and_then(stage_of).is_some();
    let (definitions, rest): (Vec<&Key>, Vec<&Key>) = seen
        .keys()
        .filter(of_stage)
        .partition(|key| key.kind == "CustomResourceDefinition");
    let names: BTreeSet<String> = definitions.iter().map(|key| key.name.clone()).collect();
    let is_shared = |key: &&Key| seen.get(key).and_then(stage_of) == Some(SHARED);
    if rest.iter().any(|key| !is_shared(key)) {
        return Ok(names);
    }
    // By their groups: a definition is called after plural and group.
    let mut grouped: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for name in &names {
        if let Some((plural, group)) = name.split_once('.') {
            grouped.entry(group).or_default().insert(plural);
        }
    }
    let mut used = names.clone();
    for (group, plurals) in grouped {
        for (resource, _) in kinds(client, groups, group).await? {
            if !plurals.contains(resource.plural.as_str()) {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let one = ListParams::default().limit(1);
            let list = match api.list_metadata(&one).await {
                Err(error) if is_unknown(&error) => continue,
                list => list.map_err(reading("the objects of a definition"))?,
            };
            if list.items.is_empty() {
                used.remove(&format!("{}.{group}", resource.plural));
            }
        }
    }
    Ok(used)
}
