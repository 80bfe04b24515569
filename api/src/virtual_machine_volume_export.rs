//! `VirtualMachineVolumeExport`: a volume's disk becomes an object in an
//! object store.

mod status;

pub use status::*;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CaReference, SecretReference, StoredObject};

/// What a `VirtualMachineVolumeExport` asks for. It is done once.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "hypercloud.tmaxanc.com",
    version = "v1alpha1",
    kind = "VirtualMachineVolumeExport",
    plural = "virtualmachinevolumeexports",
    shortname = "vmexport",
    category = "hypercloud",
    namespaced,
    status = "VirtualMachineVolumeExportStatus",
    derive = "PartialEq",
    doc = "A volume's disk becomes a qcow2 or raw object in an S3-compatible object store, whole or not at all. A volume in use is exported from a snapshot that is made for it.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Progress", type_ = "string", json_path = ".status.progress"),
    printcolumn(name = "Disk", type_ = "string", json_path = ".spec.pvcName"),
    printcolumn(name = "Size", type_ = "string", json_path = ".status.size"),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.object.url"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Complete\")].message"
    )
)]
#[x_kube(validation = Rule::new("self == oldSelf")
    .message("a VirtualMachineVolumeExport is immutable: create another one"))]
#[x_kube(validation = Rule::new("!has(self.compression) || self.compression == 'none' || !has(self.format) || self.format != 'raw'")
    .message("a raw object is not compressed: leave compression out, or set format to qcow2"))]
#[x_kube(validation = Rule::new("!(has(self.caConfigMap) && has(self.certConfigMap))")
    .message("caConfigMap and certConfigMap name the same thing: set one of them"))]
#[x_kube(validation = Rule::new("!has(self.secretRef) || !has(self.objectStore.objectBucketClaim)")
    .message("the objectBucketClaim brings its own Secret: set it or secretRef"))]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineVolumeExportSpec {
    /// Claim, in the same namespace, whose disk is exported.
    #[schemars(length(min = 1, max = 253))]
    pub pvc_name: String,
    /// The object that it becomes.
    pub object_store: StoredObject,
    /// Secret in the export's namespace whose keys `accessKeyId` and
    /// `secretKey` (or `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, with
    /// `AWS_SESSION_TOKEN` where the keys are temporary) sign the requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
    /// ConfigMap in the export's namespace with certificates (PEM) of
    /// authorities to trust beside the public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_config_map: Option<CaReference>,
    /// Name of such a ConfigMap, all of whose keys are read: another way of
    /// writing `caConfigMap`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub cert_config_map: Option<String>,
    /// Format of the object; `qcow2` where it is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<ExportFormat>,
    /// How the clusters of a qcow2 are compressed; `zlib`, which every reader
    /// knows, where it is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<ExportCompression>,
    /// Whether an object that is there is replaced. It stays as it is until
    /// the new one is complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwrite: bool,
    /// Whether the digest of the disk's raw content is computed. Where it is
    /// not set, it is for disks of up to 256 GiB: all of the disk goes through
    /// it, holes too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<ExportDigest>,
    /// Makes, once the object is there, an address by which it can be fetched
    /// for some time without credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub download_url: Option<DownloadUrl>,
}

/// Format of an exported disk.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ExportFormat {
    /// QEMU's copy-on-write format, version 3.
    #[default]
    Qcow2,
    /// The disk's bytes as they are, zeros too.
    Raw,
}

/// How the clusters of a qcow2 are compressed.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ExportCompression {
    /// Not at all; clusters of zeros take no room.
    None,
    /// By deflate, which every reader of qcow2 knows.
    #[default]
    Zlib,
    /// By Zstandard: quicker and smaller, for QEMU 5.1 and later.
    Zstd,
}

/// Digest of a disk's raw content.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ExportDigest {
    /// SHA-256 of every byte of the disk in its order.
    Sha256,
    /// None.
    None,
}

/// An address by which an object is fetched without credentials.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DownloadUrl {
    /// For how many seconds the address is good, a week at most.
    #[schemars(range(min = 60, max = 604_800))]
    pub expires_after_seconds: i64,
}
