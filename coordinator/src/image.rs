//! `VirtualMachineImage`: from a source to a claim that holds its disk.
//!
//! The stages of one reconcile:
//!
//! 1. [`observe`] (client required): the image, its claim and holders, the
//!    storage class, the agents; read by [`read`].
//! 2. [`plan`] (no client): [`validate`], [`size`], [`retry`]; the answer is
//!    a list of actions, a verdict and when to look again. A [`source`] in it
//!    names Secrets and holds none.
//! 3. [`execute`] (client required): does the actions, made concrete by
//!    [`build`] and [`access`](crate::access), and decides nothing; what it learnt may change
//!    the verdict.
//! 4. [`status`] (no client): the status that follows from the verdict, and
//!    the [`notices`] that its change is worth.
//!
//! [`reconcile`] is the shell around them and [`controller`] what sets it
//! off.

pub mod build;
pub mod controller;
pub mod estimate;
pub mod execute;
pub mod notices;
pub mod observation;
pub mod observe;
pub mod plan;
pub mod read;
pub mod reconcile;
pub mod retry;
pub mod size;
pub mod source;
pub mod status;
pub mod validate;
pub mod verdict;

/// Condition: the claim holds the image.
pub const READY: &str = "Ready";
/// Condition: the source was looked at and is an image.
pub const SOURCE_VERIFIED: &str = "SourceVerified";
/// Reason of the `Ready` condition while a deletion waits for claims that are
/// still being made from the image.
pub const CLONING_UNDER_WAY: &str = "CloningUnderWay";
