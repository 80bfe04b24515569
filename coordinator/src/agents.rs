//! The node agents as the reconcilers see them.
//!
//! [`Agents`] is the seam: reconcilers know this trait and the types below
//! and nothing of gRPC, so a test can put a simulated agent in its place.
//! [`pool`] is the real one. Generated protocol types stop at [`wire`].

pub mod collect;
pub mod devices;
pub mod discover;
pub mod pool;
pub mod rate;
pub mod seen;
pub mod source;
pub mod table;
mod wire;

use std::time::Duration;

use async_trait::async_trait;
use devices::{Cleaned, CleaningOrder, DevicesSeen};
use hypercloud_api::{ExportCompression, ExportFormat, VolumeMode};
use k8s_openapi::jiff::Timestamp;
pub use seen::AgentsSeen;
use source::{SignedAddress, Source, Stored};

/// Format of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    /// The disk's bytes as they are.
    Raw,
    /// QEMU's copy-on-write format, versions 2 and 3.
    Qcow2,
}

impl ImageFormat {
    /// The format as it stands in a status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        }
    }

    /// The format that a status names.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "raw" => Some(Self::Raw),
            "qcow2" => Some(Self::Qcow2),
            _ => None,
        }
    }
}

/// What an image is packed in, around its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// gzip.
    Gzip,
    /// xz.
    Xz,
    /// Zstandard.
    Zstd,
}

impl Packing {
    /// The packing as it stands in a status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        }
    }

    /// The packing that a status names.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Gzip, Self::Xz, Self::Zstd]
            .into_iter()
            .find(|packing| packing.as_str() == name)
    }
}

/// What is known of a source once its first bytes were seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Format of the source.
    pub format: ImageFormat,
    /// What it is packed in.
    pub packing: Option<Packing>,
    /// Size of the disk that a guest sees, in bytes, where the source tells
    /// it before all of it was read.
    pub virtual_size: Option<u64>,
    /// Size of the source object in bytes, where the server says it.
    pub source_size: Option<u64>,
    /// ETag or modification date.
    pub validator: Option<String>,
    /// Whether the server answers range requests.
    pub ranges: bool,
}

/// Why something failed, as the agent says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// One CamelCase word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Whether the same request can succeed later with nothing changed.
    pub retryable: bool,
}

/// How a probe ended.
pub type Probed = Result<Facts, Failure>;

/// Where a job stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum JobState {
    /// Accepted.
    #[default]
    Pending,
    /// Opening source and volume.
    Preparing,
    /// Moving bytes.
    Transferring,
    /// Checking what was written.
    Verifying,
    /// Flushing and closing.
    Finalizing,
    /// Done; the volume is closed.
    Succeeded,
    /// Given up; the volume is closed.
    Failed(Failure),
}

impl JobState {
    /// The state in one word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Preparing => "Preparing",
            Self::Transferring => "Transferring",
            Self::Verifying => "Verifying",
            Self::Finalizing => "Finalizing",
            Self::Succeeded => "Succeeded",
            Self::Failed(_) => "Failed",
        }
    }
}

/// How far a job is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the virtual disk.
    pub total: u64,
    /// Those of them that are done.
    pub done: u64,
    /// Bytes received from the source.
    pub received: u64,
    /// Bytes written to the volume.
    pub written: u64,
}

impl Progress {
    /// Share that is done, in whole percent, never above 100.
    pub fn percent(&self) -> u64 {
        match self.total {
            0 => 0,
            total => (u128::from(self.done.min(total)) * 100 / u128::from(total)) as u64,
        }
    }
}

/// A job as the agent last reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Its identity: the owner's UID and the try.
    pub id: String,
    /// Where it stands.
    pub state: JobState,
    /// How far it is.
    pub progress: Progress,
    /// Whether it waits to be started again, for what lets in at its source.
    pub awaiting_access: bool,
    /// Digest of the source's bytes, as `sha256:HEX`, where it was computed;
    /// of an export, of the disk's raw content.
    pub digest: Option<String>,
    /// Of an export: the multipart upload that may have parts in the store.
    pub upload_id: Option<String>,
    /// Of an export that succeeded.
    pub object: Option<ExportedObject>,
    /// Bytes per second received, smoothed, where there is a rate to tell.
    pub rate: Option<u64>,
}

/// An object that a disk became.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportedObject {
    /// Its size, in bytes.
    pub size: u64,
    /// Size of the disk, in bytes.
    pub virtual_size: u64,
    /// Its ETag, as the store said it.
    pub etag: Option<String>,
    /// Its checksum, as the store verified it.
    pub checksum: Option<String>,
    /// Its address, without credentials.
    pub address: String,
}

/// A job together with the node whose agent has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSeen {
    /// Node of the agent.
    pub node: String,
    /// The job.
    pub job: Job,
}

/// How a volume is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeKind {
    /// A block device.
    Block,
    /// A file system.
    Filesystem,
}

impl From<VolumeMode> for VolumeKind {
    fn from(mode: VolumeMode) -> Self {
        match mode {
            VolumeMode::Block => Self::Block,
            VolumeMode::Filesystem => Self::Filesystem,
        }
    }
}

/// An import to start, but for its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportJob {
    /// Identity of the job.
    pub id: String,
    /// What the claim was sized by.
    pub expected: Facts,
    /// Digest that the source's bytes are said to have.
    pub checksum: Option<String>,
    /// Format that the image is said to have.
    pub format: Option<ImageFormat>,
    /// Whether the volume is given all of its room now.
    pub preallocation: bool,
    /// UID of the pod that holds the volume.
    pub pod_uid: String,
    /// Name of the PersistentVolume.
    pub volume_name: String,
    /// How the volume is presented.
    pub volume_kind: VolumeKind,
}

/// A volume that a job works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobVolume {
    /// Name of the PersistentVolume.
    pub name: String,
    /// How the volume is presented.
    pub kind: VolumeKind,
}

/// A copy from volume to volume to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyJob {
    /// Identity of the job.
    pub id: String,
    /// UID of the pod that holds both volumes.
    pub pod_uid: String,
    /// Volume that is read.
    pub source: JobVolume,
    /// Volume that is written.
    pub target: JobVolume,
    /// Whether the target holds another state of the same disk: then only
    /// what differs is written.
    pub only_differences: bool,
}

/// An export to start, but for its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportJob {
    /// Identity of the job.
    pub id: String,
    /// UID of the pod that holds the volume.
    pub pod_uid: String,
    /// Volume that is read.
    pub volume: JobVolume,
    /// Format of the object.
    pub format: ExportFormat,
    /// How a qcow2's clusters are compressed.
    pub compression: ExportCompression,
    /// Whether an object that is there is replaced.
    pub overwrite: bool,
    /// Whether the digest of the disk's raw content is computed.
    pub digest: bool,
}

/// Whether an agent can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// Connected, and its jobs are known.
    Synced,
    /// Not connected, or not there at all.
    Away {
        /// Since when, as far as this coordinator knows.
        since: Timestamp,
    },
}

/// Why an agent could not be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// There is no connection to the agent.
    #[error("the agent of node {node} is not connected")]
    Away {
        /// Node of the agent.
        node: String,
    },
    /// The call failed on its way.
    #[error("{call} on node {node} failed: {code}: {message}")]
    Call {
        /// Node of the agent.
        node: String,
        /// Name of the call.
        call: &'static str,
        /// gRPC status code.
        code: String,
        /// What the status says.
        message: String,
    },
    /// Too many calls of this kind are on their way.
    #[error("too many calls of {call} are on their way")]
    Busy {
        /// Name of the call.
        call: &'static str,
    },
    /// The answer did not come within the call's deadline.
    #[error("{call} on node {node} was not answered in time")]
    Late {
        /// Node of the agent.
        node: String,
        /// Name of the call.
        call: &'static str,
    },
    /// The agent refuses the request as such.
    #[error("the agent of node {node} refuses {call}: {message}")]
    Refused {
        /// Node of the agent.
        node: String,
        /// Name of the call.
        call: &'static str,
        /// What the agent says.
        message: String,
    },
    /// The agent answered what the protocol does not allow.
    #[error("the agent of node {node} answered {call} without {missing}")]
    Incomplete {
        /// Node of the agent.
        node: String,
        /// Name of the call.
        call: &'static str,
        /// What is missing.
        missing: &'static str,
    },
}

impl AgentError {
    /// The kind of error in one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Away { .. } => "AgentAway",
            Self::Call { .. } => "AgentCallFailed",
            Self::Busy { .. } => "AgentsBusy",
            Self::Late { .. } => "AgentLate",
            Self::Refused { .. } => "AgentRefused",
            Self::Incomplete { .. } => "AgentAnswerIncomplete",
        }
    }

    /// Whether the agent itself answered, and with nothing to go on by.
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Incomplete { .. })
    }

    /// Whether the same call can succeed later.
    pub fn is_retryable(&self) -> bool {
        !matches!(self, Self::Refused { .. })
    }
}

/// The agents of every node.
///
/// The questions without `async` are answered from memory: what the agents'
/// streams told last.
#[async_trait]
pub trait Agents: Send + Sync + 'static {
    /// Nodes whose agent can be asked, sorted.
    fn synced(&self) -> Vec<String>;

    /// Whether the agent of `node` can be asked.
    fn state(&self, node: &str) -> AgentState;

    /// Every known job, sorted by node and id.
    fn jobs(&self) -> Vec<JobSeen>;

    /// Every known job that belongs to the resource with this UID, sorted by
    /// node and id.
    fn jobs_of(&self, uid: &str) -> Vec<JobSeen>;

    /// Looks at a source.
    async fn probe(&self, node: &str, source: &Source) -> Result<Probed, AgentError>;

    /// Starts a job, or answers with the job of the same id as it stands. One
    /// that waits for what lets in at its source takes it from here.
    async fn start(&self, node: &str, job: &ImportJob, source: &Source) -> Result<Job, AgentError>;

    /// Starts a copy, or answers with the job of the same id as it stands.
    async fn copy(&self, node: &str, job: &CopyJob) -> Result<Job, AgentError>;

    /// Starts an export to `object`, or answers with the job of the same id as
    /// it stands. One that waits for what lets in at its store takes it from
    /// here.
    async fn export(&self, node: &str, job: &ExportJob, object: &Stored)
    -> Result<Job, AgentError>;

    /// Removes what an upload that did not complete left in the store. One
    /// that is not there is answered the same way.
    async fn discard(
        &self,
        node: &str,
        object: &Stored,
        upload_id: &str,
    ) -> Result<Result<(), Failure>, AgentError>;

    /// An address by which an object is fetched without credentials for some
    /// time.
    async fn presign(
        &self,
        node: &str,
        object: &Stored,
        valid: Duration,
    ) -> Result<Result<SignedAddress, Failure>, AgentError>;

    /// Stops and forgets a job; answers when its volume is closed. A job
    /// that is not known is answered the same way.
    async fn cancel(&self, node: &str, job_id: &str) -> Result<(), AgentError>;

    /// What is known of the devices of `node`, from memory.
    fn devices(&self, node: &str) -> DevicesSeen;

    /// Has a device cleaned; answers when that is over. The agent goes on
    /// when nobody waits, and a repeat of the same order joins it.
    async fn clean(
        &self,
        node: &str,
        order: &CleaningOrder,
    ) -> Result<Result<Cleaned, Failure>, AgentError>;
}
