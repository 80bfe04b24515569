//! `VirtualMachineVolumeRollback`: a volume is put back, in place, to what a
//! snapshot of it holds.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CopyStatus, RetryStatus};

/// What a `VirtualMachineVolumeRollback` asks for. It is done once.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "hypercloud.tmaxanc.com",
    version = "v1alpha1",
    kind = "VirtualMachineVolumeRollback",
    plural = "virtualmachinevolumerollbacks",
    shortname = "vmrollback",
    category = "hypercloud",
    namespaced,
    status = "VirtualMachineVolumeRollbackStatus",
    derive = "PartialEq",
    doc = "Puts a volume back, in place, to what a snapshot of it holds. Only the blocks that differ are written; the PersistentVolumeClaim stays the same. Nothing may use the volume meanwhile.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Progress", type_ = "string", json_path = ".status.progress"),
    printcolumn(name = "Disk", type_ = "string", json_path = ".spec.pvcName"),
    printcolumn(
        name = "Snapshot",
        type_ = "string",
        json_path = ".spec.volumeSnapshotName"
    ),
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
    .message("a VirtualMachineVolumeRollback is immutable: create another one"))]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineVolumeRollbackSpec {
    /// Claim, in the same namespace, whose volume is put back.
    #[schemars(length(min = 1, max = 253))]
    pub pvc_name: String,
    /// VolumeSnapshot of that claim, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub volume_snapshot_name: String,
}

/// What the coordinator reports of a `VirtualMachineVolumeRollback`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineVolumeRollbackStatus {
    /// Where the rollback is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<RollbackPhase>,
    /// Share of the volume that was compared, as `42%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Generation of the resource that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// UID of the claim; another claim of the name is left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc_uid: Option<String>,
    /// UID of the snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_uid: Option<String>,
    /// Since when the volume was found in use, while it is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_use_since: Option<Time>,
    /// Number of the present try, counted from 0; part of the job's identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// The work under way, or that which put the volume back. Once it is set
    /// the volume may hold parts of both states, until the rollback completes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyStatus>,
    /// Tries that failed so far and can be made again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryStatus>,
    /// `Complete`; a map by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// Where a rollback is in its life.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RollbackPhase {
    /// Waiting: for the snapshot, for the volume's users to go, or for the
    /// next try before anything was written.
    #[default]
    Pending,
    /// The snapshot is restored beside the volume.
    Preparing,
    /// The blocks that differ are written. No pod may use the volume.
    RollingBack,
    /// The volume is as it was when the snapshot was taken.
    Succeeded,
    /// It cannot be done, and nothing was written; the `Complete` condition
    /// says why.
    Failed,
    /// The resource is being deleted.
    Deleting,
}

impl RollbackPhase {
    /// The phase as it stands in the resource.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Preparing => "Preparing",
            Self::RollingBack => "RollingBack",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Deleting => "Deleting",
        }
    }
}
