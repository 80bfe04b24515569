//! `HyperCloudStorage`: the platform's storage.
//!
//! What is decided about it is the crate `hypercloud_storage`'s.
//!
//! - [`nodes`] (client required): the cluster's nodes and their devices.
//! - [`ceph`] (client required): OSDs whose devices are given up.
//! - [`users`] (client required): what a deletion has to look at.

pub mod ceph;
pub mod nodes;
pub mod users;
