//! Files out of ConfigMaps of the coordinator's namespace, and certificates
//! in one (client required).

use std::collections::BTreeMap;

use hypercloud_api::{CaReference, ManifestMirror};
use hypercloud_storage::manifest::ManifestError;
use hypercloud_storage::manifest::source::{Place, Wanted};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use kube::{Client, Error as KubeError};

use super::trouble::{Authorities, Trouble};

/// What begins a certificate.
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";

/// Certificates of authorities from a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// The ConfigMap's name.
    pub config_map: String,
    /// The certificates, as PEM.
    pub pem: String,
}

/// The files that ConfigMaps were found to hold.
pub(super) struct Maps(BTreeMap<Wanted, Result<Vec<u8>, ManifestError>>);

impl Maps {
    /// The bytes of a file that they were read for.
    pub(super) fn file(&self, wanted: &Wanted) -> Result<Vec<u8>, ManifestError> {
        let missing = || {
            Err(ManifestError::Missing {
                path: wanted.path(),
                place: "the ConfigMaps of manifests.configMaps".to_owned(),
            })
        };
        self.0.get(wanted).cloned().unwrap_or_else(missing)
    }
}

/// Reads ConfigMaps for these files, one after the other: no more than one of
/// them is held at a time.
pub(super) async fn read(
    client: &Client,
    namespace: &str,
    names: &[String],
    wanted: &[Wanted],
    mirror: Option<&ManifestMirror>,
) -> Maps {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let mut found = BTreeMap::new();
    let mut looked_at = Vec::new();
    for name in names {
        let map = match api.get_opt(name).await {
            Ok(map) => map,
            Err(error) => {
                let place = format!("the ConfigMap {name} in namespace {namespace}");
                for wanted in wanted {
                    let error = trouble(&error).of(wanted.path(), place.clone(), true);
                    found.entry(wanted.clone()).or_insert(Err(error));
                }
                return Maps(found);
            }
        };
        let is_there = map.is_some();
        let held = [(name.clone(), map.map(values).unwrap_or_default())];
        for (wanted, key) in keys(wanted, mirror) {
            if !found.contains_key(wanted) && holds(&held[0].1, &key) {
                found.insert(wanted.clone(), wanted.pick(&key, &held));
            }
        }
        let name = match is_there {
            true => name.clone(),
            false => format!("{name} (which is not in namespace {namespace})"),
        };
        looked_at.push((name, BTreeMap::new()));
    }
    for (wanted, key) in keys(wanted, mirror) {
        let missing = || wanted.pick(&key, &looked_at);
        found.entry(wanted.clone()).or_insert_with(missing);
    }
    Maps(found)
}

/// Files with their keys in ConfigMaps.
fn keys<'a>(
    wanted: &'a [Wanted],
    mirror: Option<&ManifestMirror>,
) -> impl Iterator<Item = (&'a Wanted, String)> {
    wanted
        .iter()
        .filter_map(move |wanted| match wanted.place(mirror) {
            Place::ConfigMaps { key, .. } => Some((wanted, key)),
            _ => None,
        })
}

fn holds(content: &BTreeMap<String, Vec<u8>>, key: &str) -> bool {
    content.contains_key(key) || content.contains_key(&format!("{key}.gz"))
}

/// The certificates in a ConfigMap: at the key that is named, else at every
/// key that holds some.
pub(super) async fn authorities(
    client: &Client,
    namespace: &str,
    ca: &CaReference,
) -> Result<Given, Authorities> {
    let no = |why: String| Authorities {
        config_map: ca.name.clone(),
        why,
    };
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = api.get_opt(&ca.name).await;
    let map = map.map_err(|error| no(format!("could not be read: {}", said(&error))))?;
    let map = map.ok_or_else(|| no(format!("does not exist in namespace {namespace}")))?;
    let content = values(map);
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let pem = match &ca.key {
        Some(key) => {
            let value = content.get(key);
            text(value.ok_or_else(|| no(format!("has no key {key}")))?)
        }
        None => {
            let texts = content.values().map(|value| text(value));
            let texts: Vec<String> = texts.filter(|text| text.contains(BEGIN)).collect();
            texts.join("\n")
        }
    };
    Ok(Given {
        config_map: ca.name.clone(),
        pem,
    })
}

fn values(map: ConfigMap) -> BTreeMap<String, Vec<u8>> {
    let texts = map.data.unwrap_or_default();
    let bytes = map.binary_data.unwrap_or_default();
    let texts = texts.into_iter().map(|(k, v)| (k, v.into_bytes()));
    let bytes = bytes.into_iter().map(|(k, v)| (k, v.0));
    texts.chain(bytes).collect()
}

/// The API server did not answer, or does not let us read.
fn trouble(error: &KubeError) -> Trouble {
    match error {
        KubeError::Api(status) if status.is_forbidden() => Trouble::Refused(said(error)),
        _ => Trouble::Unreachable(said(error)),
    }
}

fn said(error: &KubeError) -> String {
    match error {
        KubeError::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
