//! `HyperCloudStorage`: the platform's storage in one resource.

mod cleanup;
mod cluster;
mod delivery;
mod status;

pub use cleanup::*;
pub use cluster::*;
pub use delivery::*;
pub use status::*;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name that the one `HyperCloudStorage` of a cluster has.
pub const HYPERCLOUD_STORAGE_NAME: &str = "hypercloud";

/// What a `HyperCloudStorage` asks for.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "hypercloud.tmaxanc.com",
    version = "v1alpha1",
    kind = "HyperCloudStorage",
    plural = "hypercloudstorages",
    shortname = "hcs",
    category = "hypercloud",
    status = "HyperCloudStorageStatus",
    derive = "PartialEq",
    doc = "The platform's storage: installs, watches and upgrades the snapshot controller, Rook, a Ceph cluster on the named devices, its pool and classes, an object store, and CDI where it is asked for.",
    validation = Rule::new("self.metadata.name == 'hypercloud'")
        .message("a cluster has one HyperCloudStorage, and its name is hypercloud"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.ready"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message"),
    printcolumn(
        name = "Rook",
        type_ = "string",
        priority = 1,
        json_path = ".status.versions.rook"
    ),
    printcolumn(
        name = "Ceph",
        type_ = "string",
        priority = 1,
        json_path = ".status.versions.ceph"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct HyperCloudStorageSpec {
    /// The Ceph cluster and what is made of it.
    pub storage: StorageCluster,

    /// CDI, where it is wanted beside the images of this project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cdi: Option<CdiInstallation>,

    /// What is installed. Where nothing is set, the newest that is supported
    /// is installed, and what runs stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<StorageVersions>,

    /// Where the manifests come from; the projects' release addresses where
    /// nothing is set. Every file is checked against its known SHA-256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifests: Option<ManifestMirror>,

    /// Registries that stand in for others, for clusters that reach no public
    /// one. The longest `from` that fits an image is taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["from".into()]))]
    pub registries: Vec<RegistryMirror>,

    /// What becomes of the data when the resource is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<StorageCleanup>,
}

/// CDI, the Containerized Data Importer of KubeVirt.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CdiInstallation {
    /// SHA-256 of the release's `cdi-operator.yaml`, in hexadecimal. The file
    /// is not part of CDI's tagged sources, so whoever asks for it says which
    /// bytes are meant; without it nothing of CDI is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 64, max = 64), regex(pattern = r"^[0-9a-f]{64}$"))]
    pub sha256: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = r"^[0-9]+\.[0-9]+\.[0-9]+$"))]
    pub version: Option<String>,
}

#[cfg(test)]
mod tests;
