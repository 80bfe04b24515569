//! `VirtualMachinePvc`: a virtual machine's disk, made from an image, from
//! another volume or from a snapshot.

mod status;

pub use status::*;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AccessMode, VolumeMode};

/// What a `VirtualMachinePvc` asks for: exactly one source, and the claim
/// that is made from it under the resource's own name.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "hypercloud.tmaxanc.com",
    version = "v1alpha1",
    kind = "VirtualMachinePvc",
    plural = "virtualmachinepvcs",
    shortname = "vmpvc",
    category = "hypercloud",
    namespaced,
    status = "VirtualMachinePvcStatus",
    derive = "PartialEq",
    doc = "A virtual machine's disk: a PersistentVolumeClaim of the same name, cloned from an image, from another volume or from a snapshot. It is Bound only when all of its data is there.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Progress", type_ = "string", json_path = ".status.progress"),
    printcolumn(name = "Capacity", type_ = "string", json_path = ".status.capacity"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Method",
        type_ = "string",
        priority = 1,
        json_path = ".status.method"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Ready\")].message"
    )
)]
#[x_kube(validation = Rule::new("[has(self.virtualMachineImageName), has(self.pvcName), has(self.volumeSnapshotName)].filter(x, x).size() == 1")
    .message("exactly one of virtualMachineImageName, pvcName and volumeSnapshotName must be set"))]
#[x_kube(validation = Rule::new("!has(self.virtualMachineImageNamespace) || has(self.virtualMachineImageName)")
    .message("virtualMachineImageNamespace goes with virtualMachineImageName"))]
#[x_kube(validation = Rule::new("self == oldSelf")
    .message("a VirtualMachinePvc is immutable: create another one; for more room, expand the PersistentVolumeClaim of its name"))]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachinePvcSpec {
    /// Image that the disk is cloned from. One that is not there yet, or not
    /// Ready, is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub virtual_machine_image_name: Option<String>,

    /// Namespace of the image, the resource's own by default. The image of
    /// another namespace has to be shared with this one: see the image's
    /// `sharedWith`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub virtual_machine_image_namespace: Option<String>,

    /// Claim in the same namespace that the disk is cloned from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub pvc_name: Option<String>,

    /// VolumeSnapshot in the same namespace that the disk is restored from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub volume_snapshot_name: Option<String>,

    /// The claim, where the source's own properties do not fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pvc: Option<DiskClaim>,
}

/// The claim of a disk. What is not set is as with its source.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DiskClaim {
    /// Access modes, the source's by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub access_modes: Vec<AccessMode>,
    /// How much room the claim is to have at least. It is never smaller than
    /// its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<DiskResources>,
    /// Volume mode, the source's by default. With another one the data is
    /// copied rather than cloned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<VolumeMode>,
    /// Storage class, the source's by default. With another one the data is
    /// copied rather than cloned.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,
    /// Labels of the claim, beside the source's `instancetype.kubevirt.io`
    /// defaults and the system's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(validation = Rule::new("self.all(k, !k.startsWith('hypercloud.tmaxanc.com/') && k != 'app.kubernetes.io/managed-by')")
        .message("labels hypercloud.tmaxanc.com/* and app.kubernetes.io/managed-by are the system's own"))]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the claim.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(validation = Rule::new("self.all(k, !k.startsWith('hypercloud.tmaxanc.com/') && !k.contains('kubernetes.io/'))")
        .message("annotations hypercloud.tmaxanc.com/* and *kubernetes.io/* are the system's own"))]
    pub annotations: BTreeMap<String, String>,
}

/// How much room a claim has.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
pub struct DiskResources {
    /// What the claim requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<DiskRequests>,
}

/// What a claim requests.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
pub struct DiskRequests {
    /// Size in bytes, as a quantity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Quantity>,
}

/// Where a disk is in its life.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskPhase {
    /// Waiting: for the source, for a consumer, or for the next try. The
    /// `Ready` condition says for what.
    #[default]
    Pending,
    /// The storage makes the volume from its source.
    Cloning,
    /// A node agent copies the data.
    Copying,
    /// The claim is Bound and holds the disk.
    Ready,
    /// It cannot be made; the `Ready` condition says why.
    Failed,
    /// The resource is being deleted.
    Deleting,
}

/// How a disk comes to its data.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskMethod {
    /// The storage clones the source's volume.
    Clone,
    /// The storage restores the snapshot.
    Restore,
    /// The storage clones beside the source, and the volume changes hands.
    CloneAndHandOver,
    /// A node agent copies the data into a volume that then changes hands.
    Copy,
}

impl DiskPhase {
    /// The phase as it stands in the resource.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Cloning => "Cloning",
            Self::Copying => "Copying",
            Self::Ready => "Ready",
            Self::Failed => "Failed",
            Self::Deleting => "Deleting",
        }
    }
}

impl DiskMethod {
    /// The method as it stands in the resource.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clone => "Clone",
            Self::Restore => "Restore",
            Self::CloneAndHandOver => "CloneAndHandOver",
            Self::Copy => "Copy",
        }
    }
}

impl VirtualMachinePvcSpec {
    /// The size that is asked for, as it was written.
    pub fn storage(&self) -> Option<&Quantity> {
        let resources = self.pvc.as_ref()?.resources.as_ref()?;
        resources.requests.as_ref()?.storage.as_ref()
    }
}
