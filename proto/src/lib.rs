//! The gRPC protocol between coordinator and node agent.
//!
//! The crate holds the generated code and one thing beside it: a `Debug`
//! without a secret for the messages that carry some. `cargo xtask generate`
//! makes the code from `proto/`, in Rust, without `protoc`. Generated types
//! stop at the agent's server and at the coordinator's agent pool.

mod redacted;

/// The agent's service, version 1.
#[allow(missing_docs, clippy::all, clippy::pedantic, clippy::nursery)]
pub mod agent {
    /// Generated from `hypercloud/agent/v1/agent.proto`.
    pub mod v1 {
        include!("generated/hypercloud.agent.v1.rs");
    }
}
