//! What the coordinator reports of a copy from volume to volume.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// One copy from one volume to another, by a node agent.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CopyStatus {
    /// Identity of the job on the agent: the resource's UID and the try.
    pub job_id: String,
    /// Node whose agent does the work.
    pub node_name: String,
    /// UID of the holder pod that has both volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_uid: Option<String>,
    /// Size of the disk, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_total: Option<i64>,
    /// Bytes of the disk that are done.
    pub bytes_done: i64,
    /// Bytes of data written to the volume; zeros are not counted.
    pub bytes_written: i64,
    /// When the copy began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the copy ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
}
