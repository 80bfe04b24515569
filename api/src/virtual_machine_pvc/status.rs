//! What the coordinator reports of a disk.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{DiskMethod, DiskPhase};
use crate::{CopyStatus, RetryStatus};

/// What the coordinator reports of a `VirtualMachinePvc`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachinePvcStatus {
    /// Where the disk is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<DiskPhase>,
    /// Share of the disk that was copied, as `42%`; only where it is copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Capacity of the claim's volume for people, as `10Gi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<String>,
    /// Generation of the resource that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Name of the claim that holds the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc_name: Option<String>,
    /// How the disk comes to its data. Chosen once, when its source is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<DiskMethod>,
    /// The source, as it was when the method was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<DiskSourceStatus>,
    /// Number of the present try, counted from 0; part of the job's identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// The copy under way, or the one that made the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyStatus>,
    /// Tries that failed so far and can be made again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryStatus>,
    /// `Ready`; a map by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// The source of a disk.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DiskSourceStatus {
    /// `VirtualMachineImage`, `PersistentVolumeClaim` or `VolumeSnapshot`.
    pub kind: String,
    /// Namespace of the source.
    pub namespace: String,
    /// Name of the source.
    pub name: String,
    /// UID of the source.
    pub uid: String,
    /// UID of the claim that the data is in; none for a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_uid: Option<String>,
}
