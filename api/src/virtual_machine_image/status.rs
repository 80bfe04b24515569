//! What the coordinator reports of an image.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::ImagePhase;

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
    /// Versions of the Secrets that the source did not accept, as
    /// `name@resourceVersion`. The source is not asked again before one of
    /// them changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected_credentials: Vec<String>,
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
    /// What the image is packed in, `gzip`, `xz` or `zstd`, if in anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packing: Option<String>,
    /// Size of the disk that a guest sees, in bytes. A packed image may tell
    /// it only once all of it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_size: Option<i64>,
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
    /// Digest of the source's bytes, as `sha256:HEX`, where it was computed:
    /// always for an image with a checksum, else where it costs nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
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
    /// Bytes per second received from the source: smoothed over some seconds
    /// while the transfer goes on, and over the whole of it afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<i64>,
    /// When the transfer will have ended if it goes on at this rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_completion_time: Option<Time>,
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
