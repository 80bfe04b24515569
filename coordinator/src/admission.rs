//! What of a `HyperCloudStorage` is refused when it is applied: a webhook,
//! which every replica serves.
//!
//! The definition's own rules see the resource alone. What takes the cluster's
//! nodes, their devices and what runs is asked here, and decided by
//! `hypercloud_storage::admission`.
//!
//! - [`review`] (no client): the request and the answer, as the API server
//!   writes and reads them.
//! - [`ground`] (client required): what the cluster is like, read for each
//!   request.
//! - [`answer`] (client required): from a request to its answer, in time.
//! - [`serve`]: the connections.
//! - [`certificate`]: what a replica answers with.
//! - [`register`] (client required): keeps that fresh, and tells the API server
//!   whom to trust.
//!
//! Invariants: a change that the cluster has no say in passes without a look
//! at it, so that nobody waits for this who only writes a finalizer, a status
//! or a confirmation; a deletion is never asked about; nothing is written by a
//! review; one that cannot be judged is refused, and says why.

pub mod answer;
pub mod certificate;
pub mod ground;
pub mod register;
pub mod review;
pub mod serve;

/// Path at which a `HyperCloudStorage` is judged.
pub const PATH: &str = "/hypercloudstorages";
/// The `ValidatingWebhookConfiguration`.
pub const CONFIGURATION: &str = "hypercloud-storage";
