//! The platform's storage as decisions: what is installed and in which order,
//! when a component is well, what a change costs, and what a deletion waits
//! for.
//!
//! - [`stage`] is the installation as data, to be read from top to bottom.
//! - [`version`] is what is supported, with the checksum of every file.
//! - [`manifest`] makes objects of files; [`render`] makes those of the
//!   specification.
//! - [`device`] finds out which device a name means, once.
//! - [`admission`] is what of a specification is refused at once.
//! - [`health`] judges what is seen, [`state`] remembers and sums up.
//! - [`plan`] says what is applied, purged and deleted next.
//! - [`kind`] is which kinds of objects are looked at, [`refusal`] what the API
//!   server did not do.
//! - [`decide`] is all of it in one function, from a look to what is done and
//!   said.
//!
//! Invariant: nothing here reaches a client, a runtime, a clock or a file.
//! What is seen comes in as values, and so does the time.

pub mod admission;
pub mod decide;
pub mod device;
pub mod health;
pub mod kind;
pub mod manifest;
pub mod object;
pub mod plan;
pub mod refusal;
pub mod render;
pub mod stage;
pub mod state;
pub mod version;

/// Namespace of Rook, of Ceph's daemons and of the CSI drivers, as Rook's
/// manifests have it.
pub const ROOK_NAMESPACE: &str = "rook-ceph";
/// Name of the CephCluster.
pub const CEPH_CLUSTER: &str = "rook-ceph";
/// Name of the block pool, of its storage class and of its snapshot class.
pub const BLOCK: &str = "hypercloud-block";
/// Name of the object store, of its user, and of the bucket and its claim.
pub const OBJECT_STORE: &str = "hypercloud-objects";
/// Name of the Deployment that Rook makes of the object store.
pub const GATEWAY: &str = "rook-ceph-rgw-hypercloud-objects-a";
/// Name of the storage class that buckets are claimed from.
pub const BUCKET_CLASS: &str = "hypercloud-bucket";
/// Namespace of this project, in which the bucket's claim is.
pub const SYSTEM_NAMESPACE: &str = "hypercloud-storage";
/// CSI driver of block volumes.
pub const RBD_DRIVER: &str = "rook-ceph.rbd.csi.ceph.com";
/// CSI driver of file systems.
pub const CEPHFS_DRIVER: &str = "rook-ceph.cephfs.csi.ceph.com";
/// What confirms, to Rook, that data may be destroyed.
pub const ROOK_CONFIRMATION: &str = "yes-really-destroy-data";
