//! OSDs that are given up, and what a deletion looks at, against an API
//! server that holds what is made and Jobs that a small Ceph carries out.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod removal;
mod server;
mod users;
mod world;
