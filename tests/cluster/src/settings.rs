//! Where the cluster lives and what its addresses are.
//!
//! Everything the cluster writes is below [`Settings::root`], everything it
//! builds below [`Settings::cache`]. No other module makes up a path or an
//! address.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// The Kubernetes version, which the Go module of the same name pins.
pub const KUBERNETES_VERSION: &str = "1.34.4";
/// The host's end of the bridge between the nodes, and the API server's address.
pub const HOST_ADDRESS: &str = "10.231.0.1";
/// The bridge's network.
pub const NODE_NETWORK: &str = "10.231.0.0/24";
/// The network of all pods.
pub const POD_NETWORK: &str = "10.244.0.0/16";
/// The network of the services' virtual addresses.
pub const SERVICE_NETWORK: &str = "10.96.0.0/16";
/// The virtual address of the `kubernetes` service.
pub const SERVICE_ADDRESS: &str = "10.96.0.1";
/// The virtual address of the cluster's name server.
pub const NAME_SERVER_ADDRESS: &str = "10.96.0.10";
/// The port of the API server; not the usual one, which may be taken.
pub const API_PORT: u16 = 36443;
/// The bridge between the host and the nodes.
pub const BRIDGE: &str = "hcs-br0";
/// The control group below which everything of the nodes runs.
pub const CONTROL_GROUP: &str = "hcs-test";
/// The sandbox image, built here.
pub const PAUSE_IMAGE: &str = "hcs-test/pause:1";
/// A shell for test pods.
pub const SHELL_IMAGE: &str = "hcs-test/busybox:1";
/// QEMU and the program that drives it, for pods that boot a disk.
pub const MACHINE_IMAGE: &str = "hcs-test/machine:1";
/// The most nodes that fit the addresses and the names.
pub const MAXIMAL_NODES: usize = 4;

const LONGEST_ROOT: usize = 60;

/// The directories of one cluster.
#[derive(Debug, Clone)]
pub struct Settings {
    /// State of the running cluster; removed by `down`.
    pub root: PathBuf,
    /// Built programs; kept.
    pub cache: PathBuf,
    /// This crate's directory, which holds the Go modules.
    pub sources: PathBuf,
}

impl Settings {
    /// Reads the environment: `HCS_CLUSTER_DIR`, `HCS_CACHE`, `XDG_CACHE_HOME`.
    pub fn from_environment() -> Result<Self> {
        let variable = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let root = variable("HCS_CLUSTER_DIR")
            .unwrap_or_else(|| PathBuf::from("/var/lib/hypercloud-storage-cluster"));
        if !root.is_absolute() || root.as_os_str().len() > LONGEST_ROOT {
            bail!(
                "HCS_CLUSTER_DIR {} is relative or longer than {LONGEST_ROOT} characters (sockets are below it)",
                root.display()
            );
        }
        let cache = match variable("HCS_CACHE") {
            Some(cache) => cache,
            None => variable("XDG_CACHE_HOME")
                .or_else(|| variable("HOME").map(|home| home.join(".cache")))
                .context("none of HCS_CACHE, XDG_CACHE_HOME and HOME is set")?
                .join("hypercloud-storage"),
        };
        Ok(Self {
            root,
            cache,
            sources: PathBuf::from(env!("CARGO_MANIFEST_DIR")),
        })
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.credentials("admin")
    }

    /// The kubeconfig of a component.
    pub fn credentials(&self, component: &str) -> PathBuf {
        self.root
            .join("kubeconfig")
            .join(format!("{component}.json"))
    }

    /// Certificates and keys.
    pub fn certificates(&self) -> PathBuf {
        self.root.join("certificates")
    }

    /// One log file per process.
    pub fn log(&self, process: &str) -> PathBuf {
        self.root.join("logs").join(format!("{process}.log"))
    }

    /// Recorded process ids.
    pub fn processes(&self) -> PathBuf {
        self.root.join("processes")
    }

    /// The tree of the CSI driver's volumes.
    pub fn volumes(&self) -> PathBuf {
        self.root.join("volumes")
    }

    /// The file whose file system holds the volumes.
    pub fn volumes_image(&self) -> PathBuf {
        self.root.join("volumes.xfs")
    }

    /// The socket of the CSI controller.
    pub fn controller_socket(&self) -> PathBuf {
        self.root.join("csi-controller.sock")
    }

    /// Directories made on the host outside the root, one per line.
    pub fn made_directories(&self) -> PathBuf {
        self.root.join("made-directories")
    }
}

/// One node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// `node-a`, `node-b`, ...
    pub name: String,
    /// Its address on the bridge.
    pub address: String,
    /// The network of its pods.
    pub pods: String,
    /// Its own directory below the root.
    pub directory: PathBuf,
}

impl Node {
    /// The first `count` nodes of a cluster in `root`.
    pub fn list(root: &Path, count: usize) -> Result<Vec<Self>> {
        if !(1..=MAXIMAL_NODES).contains(&count) {
            bail!("{count} nodes: between 1 and {MAXIMAL_NODES} are possible");
        }
        let nodes = (1..=count).zip('a'..).map(|(number, letter)| {
            let name = format!("node-{letter}");
            Self {
                address: format!("10.231.0.{}", 10 + number),
                pods: format!("10.244.{number}.0/24"),
                directory: root.join("nodes").join(&name),
                name,
            }
        });
        Ok(nodes.collect())
    }

    /// The name of one of its processes.
    pub fn process(&self, program: &str) -> String {
        format!("{}-{program}", self.name)
    }

    /// The socket of its containerd.
    pub fn containerd_socket(&self) -> PathBuf {
        self.directory.join("containerd.sock")
    }

    /// The host's end of its cable.
    pub fn cable(&self) -> String {
        format!("hcs-{}", self.name)
    }

    /// Directories that are the node's own although their names are the
    /// host's: (name below the node's directory, name inside the node).
    pub fn own_directories(&self) -> [(&'static str, &'static str); 8] {
        [
            ("kubelet", "/var/lib/kubelet"),
            ("hypercloud-storage", "/var/lib/hypercloud-storage"),
            ("run-hypercloud-storage", "/run/hypercloud-storage"),
            ("cni-state", "/var/lib/cni"),
            ("log-pods", "/var/log/pods"),
            ("log-containers", "/var/log/containers"),
            ("run-containerd", "/run/containerd"),
            ("run-netns", "/run/netns"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_their_own_names_and_addresses() {
        let nodes = Node::list(Path::new("/c"), 2).unwrap();
        assert_eq!(nodes[0].name, "node-a");
        assert_eq!(nodes[0].address, "10.231.0.11");
        assert_eq!(nodes[1].name, "node-b");
        assert_eq!(nodes[1].pods, "10.244.2.0/24");
        assert_eq!(
            nodes[1].containerd_socket(),
            Path::new("/c/nodes/node-b/containerd.sock")
        );
    }

    #[test]
    fn a_cluster_has_a_node_and_no_more_than_fit() {
        assert!(Node::list(Path::new("/c"), 0).is_err());
        assert!(Node::list(Path::new("/c"), MAXIMAL_NODES).is_ok());
        assert!(Node::list(Path::new("/c"), MAXIMAL_NODES + 1).is_err());
    }
}
