//! Volumes, their snapshots and their users as other parts of the cluster
//! keep them: read, never decided about.
//!
//! - [`snapshot`]: `VolumeSnapshot`s, which are not part of Kubernetes itself.
//! - [`topology`]: which nodes a volume can be attached to.
//! - [`users`]: the pods that use a claim.

pub mod snapshot;
pub mod topology;
pub mod users;
