//! `VirtualMachineVolumeRollback`: a volume is put back, in place, to what a
//! snapshot of it holds.
//!
//! The snapshot is restored beside the volume, a holder pod has both, and the
//! agent of its node writes what differs. The stages of one reconcile:
//!
//! 1. [`observe`] (client required): the rollback, the claim and who uses it,
//!    the snapshot, the restored claim, holders, agents.
//! 2. [`plan`] (no client): a list of actions, a verdict, when to look again.
//! 3. [`execute`] (client required): does the actions, made concrete by
//!    [`build`] and [`copy::execute`](crate::copy::execute).
//! 4. [`status`] (no client): what follows from the verdict, and the
//!    [`notices`] that its change is worth.
//!
//! Invariants, tested over simulated worlds in which the coordinator dies
//! between any two effects: nothing is written while a pod uses the volume;
//! once a job may have begun to write, the rollback goes on until the volume
//! is what the snapshot holds, even if the resource is deleted; in the end
//! nothing is left over.

pub mod build;
pub mod controller;
pub mod execute;
pub mod notices;
pub mod observation;
pub mod observe;
pub mod plan;
pub mod reconcile;
pub mod status;
pub mod verdict;

/// Condition: the volume is what the snapshot holds.
pub const COMPLETE: &str = "Complete";
/// Condition: pods that would use the volume are refused. The admission
/// policy goes by the phase; the condition's time tells since when.
pub const CLOSED: &str = "Closed";
