//! A real Kubernetes on one Debian machine, for the tests and the demonstration.
//!
//! The programs are built from their Go modules and cached; the nodes are sets
//! of namespaces with a containerd and a kubelet each; the storage is a CSI
//! driver of this crate. [`up`] brings everything up, [`down`] takes it away
//! again. Linux only, as root.
//!
//! Invariants: nothing is written outside the cluster's directory and the
//! cache, but for mount points, one bridge with its cables and one firewall
//! rule, all of which [`down`] removes. Only processes started here are ended.

pub mod binaries;
mod certificates;
mod cgroup;
mod command;
mod control_plane;
pub mod csi;
mod dns;
pub mod images;
mod kubectl;
mod lifecycle;
mod loops;
mod network;
pub mod node;
mod packages;
mod phase;
mod process;
pub mod settings;
pub mod smoke;

pub use lifecycle::{down, nodes, status, up};
