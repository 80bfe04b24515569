//! Whole kinds, page by page (client required).

use std::collections::BTreeMap;
use std::fmt::Debug;

use hypercloud_storage::object::{Key, Seen};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::PartialObjectMeta;
use kube::error::DiscoveryError;
use kube::{Client, Error as KubeError};
use serde::de::DeserializeOwned;

use crate::shell::error::ObserveError;

/// How many objects are asked for at once.
const PAGE: u32 = 500;

/// Groups that the API server knows, with their versions.
pub type Groups = BTreeMap<String, Vec<String>>;

/// That the API server does not know a group of which there are definitions.
pub fn lacking(group: &str) -> ObserveError {
    let missing = DiscoveryError::MissingApiGroup(group.to_owned());
    reading("the groups of the API")(KubeError::Discovery(missing))
}

/// What is known of a kind before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// There is such a kind: that the API server does not know it is an error.
    Defined,
    /// There may be none.
    Perhaps,
}

impl Known {
    /// What the definition of this name says.
    #[must_use]
    pub fn by(seen: &Seen, name: &str) -> Self {
        const KIND: &str = "CustomResourceDefinition";
        match seen.has(&Key::cluster("apiextensions.k8s.io/v1", KIND, name)) {
            true => Self::Defined,
            false => Self::Perhaps,
        }
    }
}

/// Every object of a kind, of which `pick` keeps what matters.
pub async fn all<K, T>(
    api: &Api<K>,
    (what, known): (&'static str, Known),
    params: ListParams,
    mut pick: impl FnMut(K) -> Option<T>,
) -> Result<Vec<T>, ObserveError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut found = Vec::new();
    let mut page = params.limit(PAGE);
    loop {
        let list = match api.list(&page).await {
            Err(error) if known == Known::Perhaps && is_unknown(&error) => return Ok(found),
            list => list.map_err(reading(what))?,
        };
        found.extend(list.items.into_iter().filter_map(&mut pick));
        match list.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => page = page.continue_token(&next),
            None => return Ok(found),
        }
    }
}

/// The same of objects of whose metadata is all that matters.
pub async fn metadata<T>(
    api: &Api<DynamicObject>,
    what: &'static str,
    mut pick: impl FnMut(PartialObjectMeta<DynamicObject>) -> Option<T>,
) -> Result<Vec<T>, ObserveError> {
    let mut found = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = match api.list_metadata(&page).await {
            Err(error) if is_unknown(&error) => return Ok(found),
            list => list.map_err(reading(what))?,
        };
        found.extend(list.items.into_iter().filter_map(&mut pick));
        match list.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => page = page.continue_token(&next),
            None => return Ok(found),
        }
    }
}

/// The groups that there are.
pub async fn groups(client: &Client) -> Result<Groups, ObserveError> {
    let groups = client.list_api_groups().await;
    let groups = groups.map_err(reading("the groups of the API"))?.groups;
    let versions = groups.into_iter().map(|group| {
        let versions = group.versions.into_iter();
        (
            group.name,
            versions.map(|version| version.version).collect(),
        )
    });
    Ok(versions.collect())
}

/// The kinds of a group of which objects can be listed, each in one of its
/// versions.
pub async fn kinds(
    client: &Client,
    groups: &Groups,
    group: &str,
) -> Result<Vec<(ApiResource, APIResource)>, ObserveError> {
    let mut kinds = BTreeMap::new();
    for version in groups.get(group).into_iter().flatten() {
        let named = format!("{group}/{version}");
        let found = match client.list_api_group_resources(&named).await {
            Err(error) if is_unknown(&error) => continue,
            found => found.map_err(reading("the kinds of the API"))?,
        };
        for kind in found.resources {
            if kind.name.contains('/') || !kind.verbs.iter().any(|verb| verb == "list") {
                continue;
            }
            let resource = ApiResource {
                group: group.to_owned(),
                version: version.clone(),
                api_version: named.clone(),
                kind: kind.kind.clone(),
                plural: kind.name.clone(),
            };
            kinds.entry(kind.name.clone()).or_insert((resource, kind));
        }
    }
    Ok(kinds.into_values().collect())
}

/// Whether the API server does not know what was asked for.
pub fn is_unknown(error: &KubeError) -> bool {
    matches!(error, KubeError::Api(status) if status.code == 404)
}

/// The error of a look at `what`.
pub fn reading(what: &'static str) -> impl Fn(KubeError) -> ObserveError {
    move |source| ObserveError::Read { what, source }
}
