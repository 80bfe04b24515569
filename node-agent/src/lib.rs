//! The node agent: moves image bytes into volumes of its own node, and knows
//! the node's block devices.
//!
//! It takes orders over mutually authenticated gRPC from the coordinator,
//! keeps them in a journal, and finds the volumes below kubelet's directory.
//! It must not know Kubernetes' API: it has no credentials for it, and
//! whatever it has to know is in the request.

pub mod agent;
pub mod cli;
pub mod devices;
pub mod engine;
pub mod health;
pub mod hold;
pub mod job;
pub mod logs;
pub mod memory;
pub mod node;
pub mod server;
pub mod source;
pub mod tls;
pub mod volume;
