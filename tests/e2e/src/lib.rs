//! What the end-to-end tests stand on: a cluster that runs the system, a
//! namespace for each test, disks with known bytes, and a web server that
//! can be told to misbehave.
//!
//! The cluster is the one that `KUBECONFIG` names; `make test` brings one up.
//! Nothing here waits by sleeping: every wait is a condition with a deadline.

pub mod access;
pub mod agents;
pub mod cluster;
pub mod devices;
pub mod disk;
pub mod download;
pub mod export;
pub mod image;
pub mod machine;
pub mod pod;
pub mod reader;
pub mod rollback;
pub mod source;
pub mod storage;
pub mod system;
pub mod task;
pub mod vm_disk;
pub mod volume;
pub mod wait;
