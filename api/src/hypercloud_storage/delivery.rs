//! What is installed, and where it comes from.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::CaReference;

/// What is installed.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct StorageVersions {
    /// Rook, as `1.20.6`. It goes up by one minor version at a time, and never
    /// down.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = r"^[0-9]+\.[0-9]+\.[0-9]+$"))]
    pub rook: Option<String>,
    /// Ceph, as `20.2.4`. Where nothing is set, what runs stays if Rook takes
    /// it, and else goes to what Rook comes with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = r"^[0-9]+\.[0-9]+\.[0-9]+$"))]
    pub ceph: Option<String>,
}

/// Where the manifests come from, laid out as
/// `rook/v1.20.6/crds.yaml`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new("[has(self.http), has(self.configMaps), has(self.folder)].filter(x, x).size() == 1")
    .message("exactly one of http, configMaps and folder must be set"))]
#[serde(rename_all = "camelCase")]
pub struct ManifestMirror {
    /// A web server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpMirror>,
    /// ConfigMaps in the coordinator's namespace. A file's key is its path
    /// with `_` for every `/`; a key that ends in `.gz` holds the file packed,
    /// since some files are larger than a ConfigMap may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub config_maps: Option<Vec<String>>,
    /// A folder that is mounted in the coordinator.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 4096), regex(pattern = "^/"))]
    #[x_kube(validation = Rule::new("!self.contains('..')").message("folder must not lead out of itself by .."))]
    pub folder: Option<String>,
}

/// A web server that has the manifests.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HttpMirror {
    /// The address below which the files are.
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = Rule::new("isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != ''")
        .message("url must be an absolute http:// or https:// URL with a host"))]
    pub url: String,
    /// ConfigMap in the coordinator's namespace with certificates (PEM) of
    /// authorities to trust beside the public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_config_map: Option<CaReference>,
}

/// A registry that stands in for another.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RegistryMirror {
    /// The beginning of images' names that is replaced, at a boundary, such as
    /// `docker.io` or `quay.io/ceph`.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[^/\s]+(/[^/\s]+)*$"))]
    pub from: String,
    /// What takes its place, such as `registry.example:5000/quay`.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[^/\s]+(/[^/\s]+)*$"))]
    pub to: String,
}
