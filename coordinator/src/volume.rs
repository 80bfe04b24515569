//! Volumes, their snapshots and their users as other parts of the cluster
//! keep them: read, never decided about.
//!
//! - [`claim`]: claims whose volumes are worked on.
//! - [`snapshot`]: `VolumeSnapshot`s, which are not part of Kubernetes itself.
//! - [`topology`]: which nodes a volume can be attached to.
//! - [`users`]: the pods that use a claim.

pub mod claim;
pub mod snapshot;
pub mod topology;
pub mod users;
