//! What one look at the world found. Values only: made by
//! [`observe`](super::observe), read by everything that decides.

use hypercloud_api::{VirtualMachineImage, names};
use k8s_openapi::jiff::Timestamp;

use crate::agents::AgentsSeen;
use crate::holder::{HolderSeen, Problem};

/// Everything that deciding about one image needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The resource, as the API server has it.
    pub image: VirtualMachineImage,
    /// The claim of the image's name, whoever made it.
    pub claim: Option<ClaimSeen>,
    /// Every holder pod of the image, of any try.
    pub holders: Vec<HolderSeen>,
    /// Names of the claims in the image's namespace that are being made from
    /// the image, sorted. Only its deletion asks for them.
    pub clones: Vec<String>,
    /// The storage class the claim would get.
    pub storage_class: StorageClassSeen,
    /// The agents and what they do for the image.
    pub agents: AgentsSeen,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimSeen {
    /// UID of the claim.
    pub uid: String,
    /// Whether this image, and no other resource, owns it.
    pub ours: bool,
    /// When it was made.
    pub since: Option<Timestamp>,
    /// Since when it is being deleted.
    pub deleting_since: Option<Timestamp>,
    /// Whether its volume is gone for good.
    pub lost: bool,
    /// Name of its volume, once bound.
    pub volume_name: Option<String>,
    /// Bytes it asks for.
    pub requested: u64,
    /// Whether several nodes may have its volume attached.
    pub many_nodes: bool,
    /// Why it is not bound, where something says so.
    pub problem: Option<Problem>,
}

/// The storage class that a claim would get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageClassSeen {
    /// It is there, or nobody had to look.
    Found,
    /// The class of this name is not there.
    Missing(String),
    /// No name is given and the cluster has no default class.
    NoDefault,
}

impl Observation {
    /// Name of the image.
    pub fn name(&self) -> &str {
        self.image.metadata.name.as_deref().unwrap_or_default()
    }

    /// UID of the image.
    pub fn uid(&self) -> &str {
        self.image.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Number of the present try.
    pub fn attempt(&self) -> u32 {
        self.image
            .status
            .as_ref()
            .and_then(|status| status.attempt)
            .and_then(|attempt| u32::try_from(attempt).ok())
            .unwrap_or(0)
    }

    /// Identity of the present try's job.
    pub fn job_id(&self) -> String {
        names::job_id(self.uid(), self.attempt())
    }

    /// Name of the present try's holder.
    pub fn holder_name(&self) -> String {
        names::image_holder(self.name(), self.attempt())
    }

    /// The present try's holder.
    pub fn holder(&self) -> Option<&HolderSeen> {
        let name = self.holder_name();
        self.holders.iter().find(|holder| holder.name == name)
    }

    /// The claim, where it is this image's.
    pub fn own_claim(&self) -> Option<&ClaimSeen> {
        self.claim.as_ref().filter(|claim| claim.ours)
    }

    /// Whether `finalizer` is on the image.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.image
            .metadata
            .finalizers
            .iter()
            .flatten()
            .any(|name| name == finalizer)
    }
}
