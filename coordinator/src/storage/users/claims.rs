//! Claims and volumes of this storage (client required).

use std::collections::{BTreeMap, BTreeSet};

use hypercloud_storage::object::{Seen, is_found, stage_of};
use hypercloud_storage::{BLOCK, CEPHFS_DRIVER, RBD_DRIVER};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use super::list::{Known, all};
use crate::shell::error::ObserveError;

/// Provisioners of storage classes, by the classes' names.
pub type Classes = BTreeMap<String, String>;

/// Whether a CSI driver is one that Rook runs for this storage.
#[must_use]
pub fn is_driver(name: &str) -> bool {
    name == RBD_DRIVER || name == CEPHFS_DRIVER
}

/// The cluster's storage classes.
pub async fn classes(client: &Client) -> Result<Classes, ObserveError> {
    let api: Api<StorageClass> = Api::all(client.clone());
    let pick = |class: StorageClass| Some((class.name_any(), class.provisioner));
    let what = ("the storage classes", Known::Defined);
    let found = all(&api, what, ListParams::default(), pick).await?;
    Ok(found.into_iter().collect())
}

/// A volume of this storage.
struct Volume {
    name: String,
    /// Namespace and name of its claim.
    claim: Option<(String, String)>,
}

/// Claims, as `namespace/name` and with whose they are, and names of volumes
/// that no claim has. Whatever is claimed in a namespace that goes counts too.
pub async fn look(
    client: &Client,
    classes: &Classes,
    seen: &Seen,
) -> Result<(Vec<String>, Vec<String>), ObserveError> {
    // Claims first: a volume that is made meanwhile has one.
    let api: Api<PersistentVolumeClaim> = Api::all(client.clone());
    let every = ListParams::default;
    let what = ("the claims", Known::Defined);
    let claims = all(&api, what, every(), |claim| Some(Claim::of(&claim))).await?;
    let api: Api<PersistentVolume> = Api::all(client.clone());
    let what = ("the volumes", Known::Defined);
    let volumes = all(&api, what, every(), ours).await?;
    let names: BTreeSet<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
    let claimed: BTreeSet<&(String, String)> = volumes
        .iter()
        .filter_map(|volume| volume.claim.as_ref())
        .collect();
    let going: BTreeSet<&str> = seen
        .keys()
        .filter(|key| key.kind == "Namespace")
        .filter(|key| {
            let live = seen.get(key);
            live.is_some_and(|live| stage_of(live).is_some() && !is_found(live))
        })
        .map(|key| key.name.as_str())
        .collect();
    let mut of_storage = BTreeMap::new();
    for claim in &claims {
        let has = claim.volume.as_deref().is_some_and(|v| names.contains(v));
        let goes = going.contains(claim.key.0.as_str());
        if has || goes || claimed.contains(&claim.key) || claim.is_of(classes) {
            of_storage.insert(claim.key.clone(), claim.text());
        }
    }
    let mut left: Vec<String> = volumes
        .iter()
        .filter(|volume| !matches!(&volume.claim, Some(key) if of_storage.contains_key(key)))
        .map(|volume| volume.name.clone())
        .collect();
    left.sort();
    Ok((of_storage.into_values().collect(), left))
}

/// A volume, if it is of this storage.
fn ours(volume: PersistentVolume) -> Option<Volume> {
    let name = volume.name_any();
    let spec = volume.spec?;
    is_driver(&spec.csi?.driver).then_some(())?;
    let claim = spec
        .claim_ref
        .and_then(|claim| Some((claim.namespace?, claim.name?)));
    Some(Volume { name, claim })
}

/// What is of interest in a claim.
struct Claim {
    key: (String, String),
    volume: Option<String>,
    class: Option<String>,
    owner: Option<String>,
}

impl Claim {
    fn of(claim: &PersistentVolumeClaim) -> Self {
        let spec = claim.spec.as_ref();
        let owner = claim.owner_references().iter().next();
        Self {
            key: (claim.namespace().unwrap_or_default(), claim.name_any()),
            volume: spec.and_then(|spec| spec.volume_name.clone()),
            class: spec.and_then(|spec| spec.storage_class_name.clone()),
            owner: owner.map(|owner| format!("{} {}", owner.kind, owner.name)),
        }
    }

    /// Whether it has no volume yet, and is to get one of this storage.
    fn is_of(&self, classes: &Classes) -> bool {
        let has_volume = self.volume.as_ref().is_some_and(|name| !name.is_empty());
        let Some(class) = self.class.as_deref().filter(|_| !has_volume) else {
            return false;
        };
        class == BLOCK || classes.get(class).is_some_and(|driver| is_driver(driver))
    }

    fn text(&self) -> String {
        let (namespace, name) = &self.key;
        match &self.owner {
            Some(owner) => format!("{namespace}/{name} (of {owner})"),
            None => format!("{namespace}/{name}"),
        }
    }
}
