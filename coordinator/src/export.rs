//! `VirtualMachineVolumeExport`: a volume's disk becomes an object in an
//! object store, whole or not at all.
//!
//! A holder pod has the volume read-only, or that of a snapshot that was made
//! for the export, and the agent of its node uploads it. The stages of one
//! reconcile:
//!
//! 1. [`observe`] (client required): the export, the claim and who uses it,
//!    the snapshot and what it was restored to, holders, agents.
//! 2. [`plan`] (no client): [`validate`], [`retry`]; a list of actions, a
//!    verdict, when to look again. Secrets are named in it and not held.
//! 3. [`execute`] (client required): does the actions, made concrete by
//!    [`build`] and [`access`](crate::access).
//! 4. [`status`] (no client): what follows from the verdict, and the
//!    [`notices`] that its change is worth.
//!
//! Invariants, tested over simulated worlds in which the coordinator dies
//! between any two effects: what is read is chosen, and written down, before
//! anything is made; nothing is read on from a volume that a pod was seen to
//! use; the parts of an upload are known until they are an object or gone; in
//! the end nothing is left over but the object.

pub mod build;
pub mod controller;
pub mod execute;
pub mod notices;
pub mod observation;
pub mod observe;
pub mod plan;
pub mod reconcile;
pub mod retry;
pub mod status;
pub mod validate;
pub mod verdict;

/// Condition: the disk is an object in the store.
pub const COMPLETE: &str = "Complete";
/// Reason of the `Complete` condition where parts of an upload may have stayed
/// in the store.
pub const UPLOAD_LEFT: &str = "UploadLeft";
/// How often it is tried to remove what an upload left, once the export is over
/// or deleted: two minutes long.
const DISCARD_LIMIT: i32 = 8;
/// Reason of the `Complete` condition where the object is there, but not the
/// address that was asked for.
pub const UNSIGNED: &str = "DownloadUrlMissing";
