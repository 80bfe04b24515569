//! The controller of the storage against an API server in memory: what is
//! written, in which order, and what is made of the answers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod deletion;
mod effects;
#[allow(dead_code)]
#[path = "../shell/fake.rs"]
mod fake;
mod installation;
#[path = "../../../tests/mirror.rs"]
mod mirror;
#[allow(dead_code)]
#[path = "../ceph/server.rs"]
mod server;
mod world;
