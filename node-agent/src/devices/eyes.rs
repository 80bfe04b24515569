//! Looks at the devices, one look at a time: each opens every device alone for
//! a moment, and two at once would take each other for users.

use std::collections::BTreeSet;

use hypercloud_inventory::snapshot::Snapshot;
use hypercloud_inventory::{
    Inventory, Policy, Prober, SignatureSource, Tree, WalkError, classify, look_closer, walk,
};
use parking_lot::{Mutex, MutexGuard};

/// What looks at the devices.
pub(super) struct Eyes {
    tree: Tree,
    policy: Policy,
    probers: Mutex<Probers>,
}

struct Probers {
    /// Takes udev's word for what is on a device: it looks again whenever a
    /// writer closes its node, and disks need not be read for every look.
    quick: Prober,
    /// Reads it: of what seems to be free, because who writes through a node
    /// of his own is not noticed, and udev does not look for all that there is.
    close: Prober,
}

/// The turn of whoever looks; nobody else looks meanwhile.
pub(super) struct Turn<'a> {
    eyes: &'a Eyes,
    probers: MutexGuard<'a, Probers>,
}

/// What was seen, and what that means.
pub(super) struct Sight {
    pub(super) snapshot: Snapshot,
    pub(super) inventory: Inventory,
}

impl Eyes {
    pub(super) fn new(tree: Tree, policy: Policy) -> Self {
        Self {
            tree,
            policy,
            probers: Mutex::new(Probers {
                quick: Prober::new(SignatureSource::UdevFirst),
                close: Prober::new(SignatureSource::Device),
            }),
        }
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Waits for its turn.
    pub(super) fn turn(&self) -> Turn<'_> {
        Turn {
            eyes: self,
            probers: self.probers.lock(),
        }
    }
}

impl Turn<'_> {
    pub(super) fn look(&self) -> Result<Sight, WalkError> {
        let Eyes { tree, policy, .. } = self.eyes;
        let mut snapshot = walk(tree, &self.probers.quick)?;
        let mut inventory = classify(&snapshot, policy);
        let free: BTreeSet<String> = inventory
            .available()
            .map(|device| device.name.clone())
            .collect();
        if !free.is_empty() {
            look_closer(tree, &self.probers.close, &mut snapshot, &free);
            inventory = classify(&snapshot, policy);
        }
        Ok(Sight {
            snapshot,
            inventory,
        })
    }
}
