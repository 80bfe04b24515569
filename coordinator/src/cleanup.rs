//! `NodeDeviceCleanup`: what a device still carries is removed.
//!
//! Which device is meant is settled once, by what the node has now, and
//! written down before its agent is asked; the agent looks again, and judges.
//! The stages of one reconcile:
//!
//! 1. [`observe`] (client required): the cleanup, the node, what its agent
//!    told, other cleanups there.
//! 2. [`plan`] (no client): [`choose`]; an action at most, a verdict, when to
//!    look again.
//! 3. [`execute`] (client required): has the agent clean.
//! 4. [`status`] (no client): what follows from the verdict, and the
//!    [`notices`] that its change is worth, told on the node too.
//!
//! Invariants: no agent is asked before the device is written down, and none
//! is asked for another one after that; a device is chosen by a current
//! inventory, within an hour of the order, and is none of the platform's
//! storage; what was done or refused is done or
//! refused once, and stays as a record.
//!
//! [`withhold`] is for whoever takes devices: what unfinished cleanups name is
//! left alone.
//!
//! There is no finalizer: a deletion of the resource takes the record away,
//! and neither stops nor undoes what the agent does.

pub mod choose;
pub mod controller;
pub mod execute;
pub mod notices;
pub mod observation;
pub mod observe;
pub mod plan;
pub mod reconcile;
pub mod status;
pub mod verdict;
pub mod withhold;

/// Condition: the device carries nothing any more.
pub const COMPLETE: &str = "Complete";
