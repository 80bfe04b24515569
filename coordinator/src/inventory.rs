//! `NodeDeviceInventory`: the block devices of every node, as its agent sees
//! them.
//!
//! The agents tell their devices over streams of their own; what they told
//! last is in memory ([`agents::devices`](crate::agents::devices)) and here
//! becomes a resource for each node. The stages of one reconcile:
//!
//! 1. [`observe`] (client required): the node, its inventory, what its agent
//!    told.
//! 2. [`plan`] (no client): whether there is to be an inventory, and whether
//!    the devices are what the node has now.
//! 3. [`execute`] (client required): makes the resource, or takes it away.
//! 4. [`status`] (no client): what follows, made to [`fit`].
//!
//! [`pace`] keeps bursts of changes to a write a second; [`collect`] takes away
//! what belongs to no node.
//!
//! Invariant: the same devices give the same status but for the heartbeat,
//! which is renewed every five minutes, so nothing else is written while
//! nothing changes.

pub mod collect;
pub mod controller;
pub mod execute;
pub mod fit;
pub mod observation;
pub mod observe;
pub mod pace;
pub mod plan;
pub mod reconcile;
pub mod status;
pub mod verdict;

/// Condition: the devices are what the node has now.
pub const READY: &str = "Ready";
