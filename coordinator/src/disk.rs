//! `VirtualMachinePvc`: from an image, a claim or a snapshot to a claim of
//! the resource's own name.
//!
//! The stages of one reconcile:
//!
//! 1. [`observe`] (client required): the disk, its source, its claims, its
//!    storage class, holders and agents; read by [`read`].
//! 2. [`plan`] (no client): [`validate`], [`method`], [`size`]; the answer is
//!    a list of actions, a verdict and when to look again.
//! 3. [`execute`] (client required): does the actions, made concrete by
//!    [`build`], and decides nothing.
//! 4. [`status`] (no client): the status that follows from the verdict, and
//!    the [`notices`] that its change is worth.
//!
//! [`reconcile`] is the shell around them and [`controller`] what sets it
//! off.
//!
//! Invariant: the disk's claim is Bound only when all of its data is there.
//! Where the storage fills it, the storage sees to that. Where a volume is
//! filled first, it belongs to a hidden claim, the *prime* one, until one
//! write gives it to the disk's; the disk's claim names a data source of our
//! own kind meanwhile, so that nobody else provisions for it.

pub mod build;
pub mod controller;
pub mod execute;
pub mod method;
pub mod notices;
pub mod observation;
pub mod observe;
pub mod plan;
pub mod read;
pub mod reconcile;
pub mod size;
pub mod status;
pub mod validate;
pub mod verdict;

/// Condition: the claim holds the disk.
pub const READY: &str = "Ready";
/// Condition: the claim asks for more than the disk does, because its source
/// is larger. Only there where it holds.
pub const SIZE_RAISED: &str = "SizeRaised";
