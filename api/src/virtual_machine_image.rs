//! `VirtualMachineImage`: an image at a remote address becomes a claim that
//! the system fills and owns.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a `VirtualMachineImage` asks for.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "hypercloud.tmaxanc.com",
    version = "v1alpha1",
    kind = "VirtualMachineImage",
    plural = "virtualmachineimages",
    shortname = "vmim",
    shortname = "vmi-image",
    category = "hypercloud",
    namespaced,
    status = "VirtualMachineImageStatus",
    derive = "PartialEq",
    doc = "A virtual machine image. The image at the source becomes a PersistentVolumeClaim that the system fills and owns; virtual machine disks are cloned from it.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Progress", type_ = "string", json_path = ".status.progress"),
    printcolumn(name = "Size", type_ = "string", json_path = ".status.size"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Ready\")].message"
    )
)]
#[x_kube(validation = Rule::new("has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)")
    .message("storageClassName is immutable: create another VirtualMachineImage"))]
#[x_kube(validation = Rule::new("has(self.pvc) == has(oldSelf.pvc) && (!has(self.pvc) || self.pvc == oldSelf.pvc)")
    .message("pvc is immutable: create another VirtualMachineImage"))]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineImageSpec {
    /// Storage class of the image's claim. The cluster's default class is
    /// used where none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,

    /// Where the image comes from.
    #[x_kube(validation = Rule::new("self == oldSelf").message("source is immutable: create another VirtualMachineImage"))]
    pub source: ImageSource,

    /// How the image's claim is made, where the defaults do not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc: Option<ImageClaim>,
}

/// Where an image comes from: exactly one of the fields is set.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[x_kube(validation = Rule::new("has(self.http) != has(self.objectStore)")
    .message("exactly one of http and objectStore must be set"))]
#[serde(rename_all = "camelCase")]
pub struct ImageSource {
    /// Address of a qcow2 or raw image, `http://` or `https://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = Rule::new("isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != ''")
        .message("http must be an absolute http:// or https:// URL with a host"))]
    pub http: Option<String>,

    /// An object in an S3-compatible object store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_store: Option<ObjectStoreSource>,
}

/// An object in an S3-compatible object store.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ObjectStoreSource {
    /// Name of the bucket.
    #[schemars(length(min = 3, max = 63))]
    pub bucket_name: String,
    /// Key of the object.
    #[schemars(length(min = 1, max = 1024))]
    pub object_name: String,
}

/// The image's claim, where the defaults do not fit.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ImageClaim {
    /// `Block` (the default) holds the disk's bytes from offset 0;
    /// `Filesystem` holds them as one file, `disk.img`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<VolumeMode>,
    /// Access modes of the claim, `ReadWriteOnce` by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub access_modes: Vec<AccessMode>,
    /// A size that the claim is to have at least. The size that the image
    /// needs is worked out from its header; this can only raise it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Quantity>,
}

/// Volume mode of a claim.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumeMode {
    /// The raw device.
    #[default]
    Block,
    /// A file system with one file, `disk.img`.
    Filesystem,
}

/// Access mode of a claim.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// Read and write by one node.
    ReadWriteOnce,
    /// Read by many nodes.
    ReadOnlyMany,
    /// Read and write by many nodes.
    ReadWriteMany,
    /// Read and write by one pod.
    ReadWriteOncePod,
}

/// Where an image is in its life.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImagePhase {
    /// Waiting: for an agent to look at the source, or for the next try.
    #[default]
    Pending,
    /// The claim and its holder pod are being made and placed.
    Preparing,
    /// The bytes are under way.
    Importing,
    /// The claim holds the image.
    Ready,
    /// The import failed for good; the `Ready` condition says why.
    Failed,
    /// The resource is being deleted.
    Deleting,
}

impl ImagePhase {
    /// The phase as it stands in the resource.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Preparing => "Preparing",
            Self::Importing => "Importing",
            Self::Ready => "Ready",
            Self::Failed => "Failed",
            Self::Deleting => "Deleting",
        }
    }
}

/// What the coordinator reports of a `VirtualMachineImage`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineImageStatus {
    /// Where the image is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<ImagePhase>,
    /// Share of the image's virtual size that is done, as `42%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Virtual size of the image for people, as `2.2Gi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Generation of the resource that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Name of the claim that holds the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc_name: Option<String>,
    /// Number of the present try, counted from 0; part of the job's identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// What was found at the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceStatus>,
    /// The transfer under way, or the one that made the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferStatus>,
    /// Tries that failed so far and can be made again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryStatus>,
    /// `SourceVerified`, `Ready`; a map by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// What was found at the source.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SourceStatus {
    /// `qcow2` or `raw`.
    pub format: String,
    /// Size of the disk that a guest sees, in bytes.
    pub virtual_size: i64,
    /// Size of the source object, in bytes, where the server says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// The validator (an ETag or a modification date) that ties every part
    /// of one import to one version of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validator: Option<String>,
    /// Whether the server answers range requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranges: Option<bool>,
}

/// One transfer of the image's bytes.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TransferStatus {
    /// Identity of the job on the agent: the resource's UID and the try.
    pub job_id: String,
    /// Node whose agent does the work.
    pub node_name: String,
    /// UID of the holder pod whose volume the job fills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_uid: Option<String>,
    /// Bytes received from the source.
    pub bytes_received: i64,
    /// Bytes written to the volume.
    pub bytes_written: i64,
    /// When the transfer began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the transfer ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
}

/// Tries that failed and can be made again.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RetryStatus {
    /// Number of tries that failed.
    pub failures: i32,
    /// The next try is not made before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_time: Option<Time>,
    /// Why the last try failed, in one word.
    pub last_reason: String,
    /// Why the last try failed, for people.
    pub last_message: String,
}

impl VirtualMachineImageSpec {
    /// Volume mode of the image's claim.
    pub fn volume_mode(&self) -> VolumeMode {
        self.pvc
            .as_ref()
            .and_then(|p| p.volume_mode)
            .unwrap_or_default()
    }

    /// Access modes of the image's claim; never empty.
    pub fn access_modes(&self) -> Vec<AccessMode> {
        match self.pvc.as_ref().map(|p| p.access_modes.as_slice()) {
            None | Some([]) => vec![AccessMode::ReadWriteOnce],
            Some(modes) => modes.to_vec(),
        }
    }
}

impl VolumeMode {
    /// The mode as Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Block => "Block",
            Self::Filesystem => "Filesystem",
        }
    }
}

impl AccessMode {
    /// The mode as Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadWriteOnce => "ReadWriteOnce",
            Self::ReadOnlyMany => "ReadOnlyMany",
            Self::ReadWriteMany => "ReadWriteMany",
            Self::ReadWriteOncePod => "ReadWriteOncePod",
        }
    }
}
