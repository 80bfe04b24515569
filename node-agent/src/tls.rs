//! Who may command this agent, and how it shows who it is.
//!
//! Certificates come from a directory that a Secret is mounted on: `ca.crt`,
//! `tls.crt`, `tls.key`. Invariant: being signed by the CA is not enough,
//! since every agent's certificate is; a client must be the coordinator by
//! the DNS name in its certificate. Both are settled in the handshake, before
//! a byte of a request is read.

mod coordinator_only;
mod identity;

pub use identity::{Identity, IdentityError, IdentityFiles};

/// DNS name in the coordinator's certificate.
pub const COORDINATOR: &str = "coordinator.hypercloud-storage";
/// DNS name in the certificates of agents.
pub const NODE_AGENT: &str = "node-agent.hypercloud-storage";
