//! `HyperCloudStorage`: the platform's storage.
//!
//! What is decided about it is the crate `hypercloud_storage`'s.
//!
//! - [`nodes`] (client required): the cluster's nodes and their devices.

pub mod nodes;
