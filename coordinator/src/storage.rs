//! `HyperCloudStorage`: the platform's storage.
//!
//! What is decided about it is the crate `hypercloud_storage`'s.
//!
//! - [`fetch`] (network and client required): the manifests of the releases.
//! - [`nodes`] (client required): the cluster's nodes and their devices.

pub mod fetch;
pub mod nodes;
