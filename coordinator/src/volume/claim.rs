//! Claims whose volumes are worked on.

use hypercloud_api::{VolumeMode, quantity};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::holder::Problem;

/// A claim that was there before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetSeen {
    /// UID of the claim.
    pub uid: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether its volume is gone for good.
    pub lost: bool,
    /// Name of its volume, once bound.
    pub volume_name: Option<String>,
    /// Its volume as the CSI driver calls it, where it is known.
    pub volume_handle: Option<String>,
    /// The CSI driver of its volume, where it has one.
    pub driver: Option<String>,
    /// Its storage class.
    pub storage_class: Option<String>,
    /// How its volume is presented.
    pub mode: VolumeMode,
    /// How its volume may be attached, as the API spells it.
    pub access_modes: Vec<String>,
    /// Size of its volume, in bytes.
    pub capacity: u64,
    /// The only nodes that its volume can be attached to, where a volume of
    /// its class is made without regard to who needs it; none where any node
    /// will do, where the scheduler sees to it, or where nobody asked.
    pub nodes: Option<Vec<String>>,
}

impl TargetSeen {
    /// Whether several nodes may have its volume attached.
    pub fn many_nodes(&self) -> bool {
        let many = |mode: &String| !mode.starts_with("ReadWriteOnce");
        self.access_modes.iter().any(many)
    }
}

/// A hidden claim that a snapshot is restored to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoredSeen {
    /// UID of the claim.
    pub uid: String,
    /// When it was made.
    pub since: Option<Timestamp>,
    /// Since when it is being deleted.
    pub deleting_since: Option<Timestamp>,
    /// Whether its volume is gone for good.
    pub lost: bool,
    /// Name of its volume, once bound.
    pub volume_name: Option<String>,
    /// How its volume is presented.
    pub mode: VolumeMode,
    /// Size of its volume, in bytes.
    pub capacity: u64,
    /// Why it is not bound, where something says so.
    pub problem: Option<Problem>,
}

impl RestoredSeen {
    /// Whether it is bound and stays so.
    pub fn is_usable(&self) -> bool {
        self.deleting_since.is_none() && !self.lost && self.volume_name.is_some()
    }
}

/// A claim that was there before, but for what its volume says.
pub fn target(claim: &PersistentVolumeClaim) -> TargetSeen {
    let spec = claim.spec.as_ref();
    TargetSeen {
        uid: claim.uid().unwrap_or_default(),
        deleting: claim.metadata.deletion_timestamp.is_some(),
        lost: phase(claim) == Some("Lost"),
        volume_name: bound_volume(claim),
        storage_class: spec.and_then(|spec| spec.storage_class_name.clone()),
        mode: mode(claim),
        access_modes: spec
            .and_then(|spec| spec.access_modes.clone())
            .unwrap_or_default(),
        capacity: capacity(claim),
        ..TargetSeen::default()
    }
}

/// A hidden claim that a snapshot is restored to.
pub fn restored(claim: &PersistentVolumeClaim) -> RestoredSeen {
    let meta = &claim.metadata;
    RestoredSeen {
        uid: meta.uid.clone().unwrap_or_default(),
        since: meta.creation_timestamp.as_ref().map(|time| time.0),
        deleting_since: meta.deletion_timestamp.as_ref().map(|time| time.0),
        lost: phase(claim) == Some("Lost"),
        volume_name: bound_volume(claim),
        mode: mode(claim),
        capacity: capacity(claim),
        problem: None,
    }
}

fn phase(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.status.as_ref()?.phase.as_deref()
}

fn mode(claim: &PersistentVolumeClaim) -> VolumeMode {
    let spec = claim.spec.as_ref();
    match spec.and_then(|spec| spec.volume_mode.as_deref()) {
        Some("Block") => VolumeMode::Block,
        // Kubernetes' own default.
        _ => VolumeMode::Filesystem,
    }
}

fn capacity(claim: &PersistentVolumeClaim) -> u64 {
    let status = claim.status.as_ref();
    status
        .and_then(|status| status.capacity.as_ref()?.get("storage"))
        .and_then(|storage| quantity::bytes(storage).ok())
        .unwrap_or(0)
}

/// Name of a claim's volume. The binder names it before the claim is Bound:
/// then it is not to be used yet.
fn bound_volume(claim: &PersistentVolumeClaim) -> Option<String> {
    let volume = claim.spec.as_ref()?.volume_name.clone();
    volume.filter(|_| phase(claim) == Some("Bound"))
}
