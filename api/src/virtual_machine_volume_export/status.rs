//! What the coordinator reports of an export.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RetryStatus;

/// What the coordinator reports of a `VirtualMachineVolumeExport`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineVolumeExportStatus {
    /// Where the export is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<ExportPhase>,
    /// Share of the disk that is stored, as `42%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Size of the object for people, as `784Mi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Generation of the resource that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// UID of the claim; another claim of the name is left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc_uid: Option<String>,
    /// What is read: chosen before anything is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_from: Option<ExportReadFrom>,
    /// When the disk had the content that is exported: of the snapshot, or of
    /// the beginning of the export.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<Time>,
    /// Number of the present try, counted from 0; part of the job's identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// The upload under way, or that which made the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upload: Option<UploadStatus>,
    /// The object that the disk became, once it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectStatus>,
    /// The disk that was exported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<ExportedDiskStatus>,
    /// Where the address stands by which the object is fetched without
    /// credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub download_url: Option<DownloadUrlStatus>,
    /// Versions of the Secrets that the store did not accept, as
    /// `name@resourceVersion`. The store is not asked again before one of
    /// them changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected_credentials: Vec<String>,
    /// Tries that failed so far and can be made again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryStatus>,
    /// `Complete`; a map by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// What an export reads.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportReadFrom {
    /// The volume itself, which nothing uses.
    Volume,
    /// A snapshot of the volume that was made for the export.
    Snapshot,
}

/// One upload of a disk, by a node agent.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct UploadStatus {
    /// Identity of the job on the agent: the resource's UID and the try.
    pub job_id: String,
    /// Node whose agent does the work.
    pub node_name: String,
    /// UID of the holder pod that has the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_uid: Option<String>,
    /// Identity of the multipart upload in the store, which lets nobody in.
    /// While it is here, parts of it may be stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upload_id: Option<String>,
    /// Versions of the Secrets that it was begun with, as
    /// `name@resourceVersion`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<String>,
    /// Size of the disk, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_total: Option<i64>,
    /// Bytes of the disk that are done.
    pub bytes_done: i64,
    /// Bytes read from the volume; holes that were told as such are not
    /// counted.
    pub bytes_read: i64,
    /// Bytes of the object that are stored.
    pub bytes_stored: i64,
    /// When it was last seen that nothing else uses a volume that is read
    /// itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watched_time: Option<Time>,
    /// When the upload began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the upload ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
}

/// An object that a disk became.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ObjectStatus {
    /// Where it is, as `s3://bucket/key`.
    pub url: String,
    /// Its http:// or https:// address, without credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its size, in bytes.
    pub size: i64,
    /// Its ETag, as the store said it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// Its checksum, as the store verified it, where it says one: the
    /// algorithm, `:`, the value in base64, and for parts `-` and their
    /// number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}

/// A disk that was exported.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ExportedDiskStatus {
    /// Size of the disk, in bytes.
    pub virtual_size: i64,
    /// Digest of the disk's raw content, as `sha256:HEX`, where it was
    /// computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// Where an address stands.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DownloadUrlStatus {
    /// Secret in the export's namespace whose key `url` is the address.
    pub secret_name: String,
    /// Until when it is good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration_time: Option<Time>,
}

/// Where an export is in its life.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExportPhase {
    /// Waiting: for the claim, for the volume, or for the next try.
    #[default]
    Pending,
    /// The volume is made ready to be read: a snapshot is taken and restored,
    /// the volume is attached.
    Preparing,
    /// The disk goes to the object store.
    Exporting,
    /// The object is there, complete.
    Succeeded,
    /// It cannot be done; the `Complete` condition says why. There is no
    /// object of it and no part of one.
    Failed,
    /// The resource is being deleted.
    Deleting,
}

impl ExportPhase {
    /// The phase as it stands in the resource.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Preparing => "Preparing",
            Self::Exporting => "Exporting",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Deleting => "Deleting",
        }
    }
}
