//! Who this agent is.

use std::io;

/// The node as the coordinator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Name of the Kubernetes node.
    pub name: String,
    /// Version of the agent.
    pub version: String,
    /// Changes with every boot.
    pub boot_id: String,
}

impl Node {
    /// This agent on the node called `name`.
    pub fn this(name: String) -> io::Result<Self> {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        Ok(Self {
            name,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: boot_id.trim().to_owned(),
        })
    }
}
