//! What would be destroyed, in words. Values in, text out.

use std::fmt::{self, Display, Formatter};

use hypercloud_api::quantity::for_people;
use hypercloud_api::{CLEANUP_CONFIRMATION, NodeDeviceInventory};
use hypercloud_inventory::Device;
use hypercloud_inventory::rook::Selector;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::cluster::quoted;
use crate::devices::plain;
use crate::node_devices::nodes::OneNode;

/// A device that somebody named without saying that he means it.
pub(super) struct Meant {
    node: String,
    /// Whether the node's devices are known to be these, as one word.
    state: String,
    device: Device,
    /// The link to name it by, or what it was called.
    name: String,
    /// The words that name the cluster.
    cluster: String,
}

impl Meant {
    /// The device called `name`.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub(super) fn of(
        inventory: &NodeDeviceInventory,
        name: &str,
        cluster: String,
        now: Timestamp,
    ) -> Result<Self, String> {
        let node = OneNode::of(inventory, &Selector::default(), now);
        let called = node.called(name);
        let of_node = inventory.name_any();
        let device = match called.as_slice() {
            [device] => (*device).clone(),
            [] => {
                let hidden = node.hidden();
                return Err(format!(
                    "node {of_node} has no device {name}{hidden}; \
                     kubectl hcs devices {of_node}{cluster}"
                ));
            }
            several => {
                let names: Vec<_> = several.iter().map(|one| one.name.as_str()).collect();
                let names = names.join(", ");
                return Err(format!("on node {of_node} {name} is claimed by {names}"));
            }
        };
        let link = device.identity.by_id.clone();
        Ok(Self {
            node: of_node,
            state: node.state(),
            name: link.unwrap_or_else(|| name.to_owned()),
            device,
            cluster,
        })
    }
}

impl Meant {
    /// What to call it by, for good.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Display for Meant {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let device = &self.device;
        let identity = &device.identity;
        writeln!(
            f,
            "nothing was done: this would destroy everything on a device of node {}:",
            self.node
        )?;
        let mut line = |what: &str, value: Option<&str>| match value {
            Some(value) if !value.is_empty() => writeln!(f, "  {what:9} {}", plain(value)),
            _ => Ok(()),
        };
        line("device", Some(&device.path))?;
        line("by-id", identity.by_id.as_deref())?;
        line("size", Some(&for_people(device.size)))?;
        line("model", device.model.as_deref())?;
        line("serial", identity.serial.as_deref())?;
        line("file", device.backing_file.as_deref())?;
        let partitions: Vec<_> = device.partitions.iter().map(|p| p.name.as_str()).collect();
        line("parts", Some(&partitions.join(", ")))?;
        let mut what = "reasons";
        for reason in &device.reasons {
            line(what, Some(&format!("{}: {reason}", reason.code())))?;
            what = "";
        }
        if self.state != "Current" {
            line("as of", Some(&self.state))?;
        }
        if device.available {
            line("note", Some("it is available already"))?;
        }
        write!(
            f,
            "if that is meant: kubectl hcs devices clean {} {} --{CLEANUP_CONFIRMATION}{}",
            self.node,
            quoted(&plain(&self.name)),
            self.cluster
        )
    }
}
