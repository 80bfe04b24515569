//! `VirtualMachineImage`: an image at a remote address becomes a claim that
//! the system fills and owns.

mod source;
mod status;

pub use source::*;
pub use status::*;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
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
        name = "Bytes/s",
        type_ = "integer",
        priority = 1,
        json_path = ".status.transfer.rate"
    ),
    printcolumn(
        name = "ETA",
        type_ = "string",
        priority = 1,
        json_path = ".status.transfer.estimatedCompletionTime"
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
#[x_kube(validation = Rule::new("has(self.preallocation) == has(oldSelf.preallocation) && (!has(self.preallocation) || self.preallocation == oldSelf.preallocation)")
    .message("preallocation is immutable: create another VirtualMachineImage"))]
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

    /// Whether the disk is given all of its room now, so that no guest meets
    /// a full store later. Off by default: areas without data take no room
    /// where the store allows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preallocation: Option<bool>,

    /// With whom the image is shared. Disks in other namespaces can be made
    /// from it only if they are named here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_with: Option<ImageSharing>,
}

/// With whom an image is shared.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ImageSharing {
    /// Namespaces in which disks may be made from the image; `*` stands for
    /// every namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub namespaces: Vec<String>,
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
    /// needs is worked out from its header; this can only raise it. Where the
    /// disk's size shows only at the end of a packed image, this stands for
    /// it, and a file system's own needs are added.
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

impl VirtualMachineImageSpec {
    /// Whether the image's owner lets disks be made from it in `namespace`.
    pub fn is_shared_with(&self, namespace: &str) -> bool {
        self.shared_with
            .iter()
            .flat_map(|sharing| &sharing.namespaces)
            .any(|name| name == "*" || name == namespace)
    }

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
