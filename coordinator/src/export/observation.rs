//! What one look at the world found. Values only: made by
//! [`observe`](super::observe), read by everything that decides.

use hypercloud_api::{
    ExportPhase, ExportReadFrom, UploadStatus, VirtualMachineVolumeExport,
    VirtualMachineVolumeExportStatus, names,
};
use k8s_openapi::jiff::Timestamp;

use crate::agents::{AgentsSeen, JobState};
use crate::holder::HolderSeen;
use crate::volume::claim::{RestoredSeen, TargetSeen};
use crate::volume::snapshot::{ClassSeen, SnapshotSeen};

/// Everything that deciding about one export needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The resource, as the API server has it.
    pub export: VirtualMachineVolumeExport,
    /// The claim whose disk is exported.
    pub target: Option<TargetSeen>,
    /// Pods that use the volume and are no holders that read it, sorted.
    pub users: Vec<String>,
    /// Pods that came to use the volume since it is read itself, and have
    /// ended.
    pub passed: Vec<String>,
    /// When the first of all these was made.
    pub used_since: Option<Timestamp>,
    /// A rollback of the claim that is not over.
    pub rollback: Option<String>,
    /// The snapshot classes, where one may be needed.
    pub classes: Vec<ClassSeen>,
    /// The snapshot of the export's name, whoever made it.
    pub snapshot: Option<OwnSnapshot>,
    /// The claim that the snapshot is restored to.
    pub restored: Option<RestoredSeen>,
    /// Every holder pod of the export, of any try.
    pub holders: Vec<HolderSeen>,
    /// The agents and what they do for the export.
    pub agents: AgentsSeen,
    /// Whether a Secret of the operator's lets in at his store.
    pub default_keys: bool,
}

/// The snapshot of an export's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnSnapshot {
    /// Whether it is the export's, and of its claim.
    pub ours: bool,
    /// Since when it is being deleted.
    pub deleting_since: Option<Timestamp>,
    /// The snapshot.
    pub seen: SnapshotSeen,
}

impl OwnSnapshot {
    /// Whether a volume can be made from it, and it stays so.
    pub fn is_usable(&self) -> bool {
        self.ours && self.seen.ready && self.deleting_since.is_none()
    }
}

impl Observation {
    /// UID of the export.
    pub fn uid(&self) -> &str {
        self.export.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Name of the claim whose disk is exported.
    pub fn pvc(&self) -> &str {
        &self.export.spec.pvc_name
    }

    /// The status as it stands.
    pub fn status(&self) -> Option<&VirtualMachineVolumeExportStatus> {
        self.export.status.as_ref()
    }

    /// The phase that the status shows.
    pub fn phase(&self) -> Option<ExportPhase> {
        self.status()?.phase
    }

    /// What is read, once it was chosen.
    pub fn read_from(&self) -> Option<ExportReadFrom> {
        self.status()?.read_from
    }

    /// What is written down of the upload, of any try.
    pub fn upload(&self) -> Option<&UploadStatus> {
        self.status()?.upload.as_ref()
    }

    /// What is written down of the present try's upload.
    pub fn present_upload(&self) -> Option<&UploadStatus> {
        let id = self.job_id();
        self.upload().filter(|upload| upload.job_id == id)
    }

    /// An upload that may have parts in the store.
    pub fn upload_id(&self) -> Option<&str> {
        self.upload()?.upload_id.as_deref()
    }

    /// Whether the object is there, complete.
    pub fn is_complete(&self) -> bool {
        self.status().is_some_and(|status| status.object.is_some())
    }

    /// Whether what a snapshot was restored to is there, so that the claim
    /// itself is not needed any more.
    pub fn has_the_disk(&self) -> bool {
        let restored = self.restored.as_ref();
        self.read_from() == Some(ExportReadFrom::Snapshot)
            && restored.is_some_and(RestoredSeen::is_usable)
    }

    /// Whether the present try's job is known to have read all of the disk: it
    /// succeeded, or its store is just asked to complete the object.
    pub fn has_read(&self) -> bool {
        let job = self
            .present_upload()
            .and_then(|upload| self.agents.job(&upload.node_name, &upload.job_id));
        job.is_some_and(|job| {
            matches!(
                job.state,
                JobState::Verifying | JobState::Finalizing | JobState::Succeeded
            )
        })
    }

    /// Number of the present try.
    pub fn attempt(&self) -> u32 {
        let attempt = self.status().and_then(|status| status.attempt);
        attempt
            .and_then(|attempt| u32::try_from(attempt).ok())
            .unwrap_or(0)
    }

    /// Identity of the present try's job.
    pub fn job_id(&self) -> String {
        names::job_id(self.uid(), self.attempt())
    }

    /// Name of the present try's holder.
    pub fn holder_name(&self) -> String {
        names::export_holder(self.uid(), self.attempt())
    }

    /// The snapshot, where it is the export's.
    pub fn own_snapshot(&self) -> Option<&OwnSnapshot> {
        self.snapshot.as_ref().filter(|snapshot| snapshot.ours)
    }

    /// Whether `finalizer` is on the export.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        let finalizers = &self.export.metadata.finalizers;
        finalizers.iter().flatten().any(|name| name == finalizer)
    }
}
