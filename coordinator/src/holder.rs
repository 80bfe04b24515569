//! Holder pods: they keep volumes attached to a node and do nothing.
//!
//! A node agent works on volumes that kubelet has set up, and kubelet sets
//! them up for pods. So whatever has to be read or written gets a pod that
//! mounts its claims and sleeps; the scheduler and the CSI driver place and
//! attach it as they would any other. Who a holder belongs to is told by its
//! labels and, where it stands in the owner's own namespace, by its owner.
//!
//! - [`seen`]: what was found of a holder; values only.
//! - [`read`] (no client): a pod as the API has it, into such values.
//! - [`observe`] (client required): a resource's holders, and the Events that
//!   explain why one does not start.
//! - [`build`] (no client): the pod.

pub mod build;
pub mod observe;
pub mod read;
pub mod seen;

pub use build::{HeldVolume, HolderPod, HolderTemplate};
pub use seen::{HolderSeen, HolderState, Problem};
