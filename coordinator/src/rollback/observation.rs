//! What one look at the world found. Values only: made by
//! [`observe`](super::observe), read by everything that decides.

use hypercloud_api::{
    CopyStatus, RollbackPhase, VirtualMachineVolumeRollback, VirtualMachineVolumeRollbackStatus,
    names,
};

use crate::agents::AgentsSeen;
use crate::holder::HolderSeen;
pub use crate::volume::claim::{RestoredSeen, TargetSeen};
use crate::volume::snapshot::SnapshotSeen;

/// Everything that deciding about one rollback needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The resource, as the API server has it.
    pub rollback: VirtualMachineVolumeRollback,
    /// The claim whose volume is put back.
    pub target: Option<TargetSeen>,
    /// The snapshot.
    pub snapshot: Option<SnapshotSeen>,
    /// The claim that the snapshot is restored to.
    pub restored: Option<RestoredSeen>,
    /// Every holder pod of the rollback, of any try.
    pub holders: Vec<HolderSeen>,
    /// Pods that use the volume and are no holders of this rollback, sorted.
    pub users: Vec<String>,
    /// Another rollback of the same volume that goes first.
    pub before: Option<String>,
    /// The agents and what they do for the rollback.
    pub agents: AgentsSeen,
}

impl Observation {
    /// UID of the rollback.
    pub fn uid(&self) -> &str {
        self.rollback.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The status as it stands.
    pub fn status(&self) -> Option<&VirtualMachineVolumeRollbackStatus> {
        self.rollback.status.as_ref()
    }

    /// The phase that the status shows.
    pub fn phase(&self) -> Option<RollbackPhase> {
        self.status()?.phase
    }

    /// What is written down of the copy, of any try. Where there is
    /// something, the volume may hold parts of both states.
    pub fn copy(&self) -> Option<&CopyStatus> {
        self.status()?.copy.as_ref()
    }

    /// Number of the present try.
    pub fn attempt(&self) -> u32 {
        attempt(self.status())
    }

    /// Name of the present try's holder.
    pub fn holder_name(&self) -> String {
        names::rollback_holder(self.uid(), self.attempt())
    }

    /// Whether `finalizer` is on the rollback.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        let finalizers = &self.rollback.metadata.finalizers;
        finalizers.iter().flatten().any(|name| name == finalizer)
    }
}

/// Number of the present try, as a status has it.
pub(super) fn attempt(status: Option<&VirtualMachineVolumeRollbackStatus>) -> u32 {
    status
        .and_then(|status| status.attempt)
        .and_then(|attempt| u32::try_from(attempt).ok())
        .unwrap_or(0)
}
