//! What one look at the world found. Values only: made by
//! [`observe`](super::observe), read by everything that decides.

use std::collections::BTreeMap;

use hypercloud_api::{DiskMethod, DiskPhase, ImagePhase, VirtualMachinePvc, VolumeMode, names};
use k8s_openapi::jiff::Timestamp;

use crate::agents::AgentsSeen;
use crate::holder::{HolderSeen, Problem};
use crate::volume::snapshot::SnapshotSeen;

/// Everything that deciding about one disk needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The resource, as the API server has it.
    pub disk: VirtualMachinePvc,
    /// What it is to be made from.
    pub source: SourceSeen,
    /// The storage class that the claim gets.
    pub class: ClassSeen,
    /// The claim of the disk's name, whoever made it.
    pub claim: Option<ClaimSeen>,
    /// The hidden claim whose volume is filled, whoever made it.
    pub prime: Option<PrimeSeen>,
    /// Every holder pod of the disk, of any try.
    pub holders: Vec<HolderSeen>,
    /// The agents and what they do for the disk.
    pub agents: AgentsSeen,
}

/// The source of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceSeen {
    /// Nobody had to look: the disk is done, or is being deleted.
    Unseen,
    /// An image, and its own claim.
    Image {
        /// The image; none where it is not there.
        image: Option<ImageSeen>,
        /// The claim that holds it.
        claim: Option<OriginSeen>,
    },
    /// A claim.
    Claim(Option<OriginSeen>),
    /// A snapshot.
    Snapshot(Option<SnapshotOrigin>),
}

/// An image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSeen {
    /// UID of the image.
    pub uid: String,
    /// Whether disks may be made from it in the disk's namespace.
    pub shared: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Where it is in its life.
    pub phase: Option<ImagePhase>,
    /// Reason and message of its `Ready` condition.
    pub ready: Option<(String, String)>,
}

/// A claim that a disk is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginSeen {
    /// Name of the claim.
    pub name: String,
    /// UID of the claim.
    pub uid: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its phase, as Kubernetes spells it.
    pub phase: String,
    /// Name of its volume, once bound.
    pub volume_name: Option<String>,
    /// Its storage class.
    pub class: Option<String>,
    /// How its volume is presented.
    pub mode: VolumeMode,
    /// Its access modes.
    pub access_modes: Vec<String>,
    /// Bytes that its volume has.
    pub capacity: u64,
    /// Labels that the disk's claim carries on.
    pub carried: BTreeMap<String, String>,
    /// Pods that use it, where that had to be known.
    pub users: Vec<String>,
    /// The rollback that puts it back just now, where that had to be known.
    pub rolled_back_by: Option<String>,
    /// Whether a CSI driver has its volume, where that had to be known. Other
    /// provisioners may pay no heed to data sources.
    pub csi: bool,
    /// The only nodes that its volume can be attached to, where there are
    /// such and that had to be known.
    pub nodes: Option<Vec<String>>,
}

/// A snapshot that a disk is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotOrigin {
    /// The snapshot.
    pub snapshot: SnapshotSeen,
    /// The claim that it is of, if that is still there.
    pub claim: Option<OriginSeen>,
}

/// The storage class that a claim would get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassSeen {
    /// Nobody had to look.
    Unseen,
    /// It is there.
    Found(Class),
    /// The class of this name is not there.
    Missing(String),
    /// No name is given and the cluster has no default class.
    NoDefault,
}

/// A storage class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// The driver that provisions for it.
    pub provisioner: String,
    /// Whether volumes wait for their first consumer to be placed.
    pub waits: bool,
    /// Whether its operator wants data copied rather than cloned.
    pub copies: bool,
}

/// The claim of the disk's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimSeen {
    /// UID of the claim.
    pub uid: String,
    /// Version of it that was seen.
    pub resource_version: String,
    /// Whether this disk, and no other resource, owns it.
    pub ours: bool,
    /// When it was made.
    pub since: Option<Timestamp>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether its volume is gone for good.
    pub lost: bool,
    /// Name of its volume, once bound.
    pub volume_name: Option<String>,
    /// Bytes that its volume has, once bound.
    pub capacity: Option<u64>,
    /// Bytes it asks for.
    pub requested: u64,
    /// Node that its first consumer was placed on.
    pub selected_node: Option<String>,
    /// Whether its volume comes by a hand-over: its data source is of our own
    /// kind.
    pub handed: bool,
    /// Whether it was given a volume that we did not hand over, although its
    /// data source says that we do.
    pub filled_by_others: bool,
    /// How its provisioning fares.
    pub provisioning: Provisioning,
}

/// The hidden claim whose volume is filled before it changes hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimeSeen {
    /// UID of the claim.
    pub uid: String,
    /// Whether it was made for this disk.
    pub ours: bool,
    /// When it was made.
    pub since: Option<Timestamp>,
    /// Since when it is being deleted.
    pub deleting_since: Option<Timestamp>,
    /// Whether its volume is not its own any more.
    pub lost: bool,
    /// Whether the storage fills it, rather than an agent.
    pub cloned: bool,
    /// Whether it has its volume.
    pub bound: bool,
    /// Node that it was made for.
    pub node: Option<String>,
    /// Its volume, or the one that it had.
    pub volume: Option<VolumeSeen>,
    /// How its provisioning fares.
    pub provisioning: Provisioning,
}

/// A PersistentVolume that was made for a prime claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSeen {
    /// Name of the volume.
    pub name: String,
    /// Version of it that was seen.
    pub resource_version: String,
    /// UID of the claim that it belongs to.
    pub claim_uid: Option<String>,
    /// Whether its phase is Bound: one that is Released is reclaimed.
    pub bound: bool,
}

/// How the provisioning of a claim's volume fares, as its Events tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provisioning {
    /// The last failure, where it lasts long enough to be told.
    pub problem: Option<Problem>,
    /// What the storage says, where it says that it does not clone.
    pub refusal: Option<String>,
}

impl Observation {
    /// Name of the disk, and of its claim.
    pub fn name(&self) -> &str {
        self.disk.metadata.name.as_deref().unwrap_or_default()
    }

    /// Namespace of the disk.
    pub fn namespace(&self) -> &str {
        self.disk.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Namespace of the source, where the prime claim and holders are.
    pub fn source_namespace(&self) -> &str {
        source_namespace(&self.disk)
    }

    /// UID of the disk.
    pub fn uid(&self) -> &str {
        self.disk.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The phase that the status shows.
    pub fn phase(&self) -> Option<DiskPhase> {
        self.disk.status.as_ref().and_then(|status| status.phase)
    }

    /// The method that was chosen.
    pub fn method(&self) -> Option<DiskMethod> {
        self.disk.status.as_ref().and_then(|status| status.method)
    }

    /// Number of the present try.
    pub fn attempt(&self) -> u32 {
        let attempt = self.disk.status.as_ref().and_then(|status| status.attempt);
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
        names::prime_holder(self.uid(), self.attempt())
    }

    /// The claim, where it is this disk's.
    pub fn own_claim(&self) -> Option<&ClaimSeen> {
        self.claim.as_ref().filter(|claim| claim.ours)
    }

    /// The prime claim, where it is this disk's.
    pub fn own_prime(&self) -> Option<&PrimeSeen> {
        self.prime.as_ref().filter(|prime| prime.ours)
    }

    /// Whether the volume of the prime claim was given to the disk's claim as
    /// it is now.
    pub fn is_handed_over(&self) -> bool {
        let (Some(claim), Some(prime)) = (self.own_claim(), self.own_prime()) else {
            return false;
        };
        let owner = prime.volume.as_ref().and_then(|v| v.claim_uid.as_deref());
        owner == Some(claim.uid.as_str())
    }

    /// Whether the copy was seen to be complete.
    pub fn is_copied(&self) -> bool {
        let copy = self.disk.status.as_ref().and_then(|s| s.copy.as_ref());
        copy.is_some_and(|copy| copy.completion_time.is_some())
    }

    /// Whether `finalizer` is on the disk.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        let mut finalizers = self.disk.metadata.finalizers.iter().flatten();
        finalizers.any(|name| name == finalizer)
    }
}

impl SourceSeen {
    /// The claim that the data is in, if it is in one that is there.
    pub fn origin(&self) -> Option<&OriginSeen> {
        match self {
            Self::Image { claim, .. } | Self::Claim(claim) => claim.as_ref(),
            Self::Unseen | Self::Snapshot(_) => None,
        }
    }
}

/// Namespace of the source of `disk`.
pub fn source_namespace(disk: &VirtualMachinePvc) -> &str {
    let own = disk.metadata.namespace.as_deref().unwrap_or_default();
    let of_image = disk.spec.virtual_machine_image_namespace.as_deref();
    of_image.unwrap_or(own)
}
