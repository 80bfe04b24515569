//! What an operator decides about devices, where the facts leave a choice.

use crate::inventory::Kind;

/// What may be offered to storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The smallest device in bytes.
    pub min_size: u64,
    /// Kinds of devices that are offered; of others the kind is a reason.
    pub kinds: Vec<Kind>,
    /// Paths whose file systems the node itself needs.
    pub system_paths: Vec<String>,
}

/// Ceph refuses smaller devices (`ceph-volume`).
const MIN_SIZE: u64 = 5 << 30;

impl Default for Policy {
    /// What Rook takes without being told a name: disks, partitions, encrypted
    /// devices and multipath devices.
    fn default() -> Self {
        Self {
            min_size: MIN_SIZE,
            kinds: vec![
                Kind::Disk,
                Kind::Partition,
                Kind::Encrypted,
                Kind::Multipath,
            ],
            system_paths: [
                "/",
                "/boot",
                "/boot/efi",
                "/efi",
                "/usr",
                "/var",
                "/var/lib/kubelet",
            ]
            .map(String::from)
            .to_vec(),
        }
    }
}

impl Policy {
    /// The same policy for a device that was named: Rook takes logical volumes
    /// and loop devices then.
    #[must_use]
    pub fn for_named(&self) -> Self {
        let mut policy = self.clone();
        policy.kinds.extend([Kind::LogicalVolume, Kind::Loop]);
        policy
    }

    /// The same policy on a node whose kubelet has its directory at `root`.
    #[must_use]
    pub fn with_kubelet(mut self, root: &str) -> Self {
        if !self.system_paths.iter().any(|path| path == root) {
            self.system_paths.push(root.to_owned());
        }
        self
    }
}
