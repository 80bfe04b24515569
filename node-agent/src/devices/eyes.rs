//! Looks at the devices, one look at a time: each opens every device alone for
//! a moment, and two at once would take each other for users.

use hypercloud_inventory::snapshot::Snapshot;
use hypercloud_inventory::{
    Inventory, Policy, Prober, SignatureSource, Tree, WalkError, classify, walk,
};
use parking_lot::{Mutex, MutexGuard};

/// What looks at the devices.
pub(super) struct Eyes {
    tree: Tree,
    policy: Policy,
    prober: Mutex<Prober>,
}

/// The turn of whoever looks; nobody else looks meanwhile.
pub(super) struct Turn<'a> {
    eyes: &'a Eyes,
    prober: MutexGuard<'a, Prober>,
}

/// What was seen, and what that means.
pub(super) struct Sight {
    pub(super) snapshot: Snapshot,
    pub(super) inventory: Inventory,
}

impl Eyes {
    pub(super) fn new(tree: Tree) -> Self {
        Self {
            tree,
            policy: Policy::default(),
            // udev looks again whenever a writer closes a device. The disks
            // need not spin for every look of ours.
            prober: Mutex::new(Prober::new(SignatureSource::UdevFirst)),
        }
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Waits for its turn.
    pub(super) fn turn(&self) -> Turn<'_> {
        Turn {
            eyes: self,
            prober: self.prober.lock(),
        }
    }
}

impl Turn<'_> {
    pub(super) fn look(&self) -> Result<Sight, WalkError> {
        let snapshot = walk(&self.eyes.tree, &*self.prober)?;
        let inventory = classify(&snapshot, &self.eyes.policy);
        Ok(Sight {
            snapshot,
            inventory,
        })
    }
}
