//! The agent from outside: volumes on real mounts and loop devices, the
//! server over real TLS, whole imports, copies and exports, and the process
//! with its signals.
//!
//! What needs root says so and passes where it is missing.

// A test says what it expects; so does what tests share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod certificates;
mod cleaning;
mod copy;
mod devices;
mod disks;
mod export;
mod export_kills;
mod hostile;
mod import;
mod kubelet;
mod memory;
mod process;
mod server;
mod volume;
mod web;

use std::time::Duration;

/// How long anything may take before the test is given up.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long what is prompt may take on a busy machine, whose disks are slow to
/// flush.
const PROMPT: Duration = Duration::from_secs(30);

/// Polls `check` until it gives a value.
async fn eventually<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let until = tokio::time::Instant::now() + DEADLINE;
    loop {
        if let Some(value) = check().await {
            return value;
        }
        assert!(tokio::time::Instant::now() < until, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether this test can mount and attach; says so if not.
fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("{test}: skipped, it mounts file systems and needs root");
    }
    root
}
