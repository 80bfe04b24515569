//! What the node does with its devices: mounts, swap, its own file systems.

use std::collections::{BTreeMap, BTreeSet};

use super::world::World;
use crate::policy::Policy;
use crate::reason::Reason;
use crate::snapshot::{Mount, Seen};

/// Uses of devices, by their names.
#[derive(Default)]
pub(super) struct Used {
    reasons: BTreeMap<String, BTreeSet<Reason>>,
    mounts: BTreeMap<String, Vec<String>>,
    /// What uses a device that cannot be told from the others.
    anywhere: BTreeSet<Reason>,
}

impl Used {
    pub(super) fn of(&self, name: &str) -> Vec<Reason> {
        let own = self.reasons.get(name).into_iter().flatten();
        own.chain(&self.anywhere).cloned().collect()
    }

    pub(super) fn mounts(&self, name: &str) -> Vec<String> {
        self.mounts.get(name).cloned().unwrap_or_default()
    }

    fn add(&mut self, name: &str, reason: Reason) {
        self.reasons
            .entry(name.to_owned())
            .or_default()
            .insert(reason);
    }
}

pub(super) fn reasons(world: &World<'_>, policy: &Policy) -> Used {
    let mut used = Used::default();
    let mounts = world.snapshot.mounts.as_deref().unwrap_or_default();
    for mount in mounts {
        mounted(world, &mut used, mount);
    }
    for path in &policy.system_paths {
        let Some(mount) = holding(mounts, path) else {
            continue;
        };
        if let Some(seen) = device(world, mount) {
            for name in world.below(&seen.name) {
                used.add(
                    name,
                    Reason::BacksSystem {
                        path: mount.target.clone(),
                    },
                );
            }
        }
    }
    for swap in world.snapshot.swaps.iter().flatten() {
        match world.at(swap) {
            Some(seen) => {
                for name in world.below(&seen.name) {
                    used.add(name, Reason::ActiveSwap);
                }
            }
            // A file's device is mounted.
            None if swap.starts_with("/dev/") => {
                used.anywhere.insert(Reason::Unknown {
                    what: format!("which device is {swap}, which the node swaps to"),
                });
            }
            None => {}
        }
    }
    used
}

fn mounted(world: &World<'_>, used: &mut Used, mount: &Mount) {
    if let Some(seen) = device(world, mount) {
        used.mounts
            .entry(seen.name.clone())
            .or_default()
            .push(mount.target.clone());
        used.add(
            &seen.name,
            Reason::Mounted {
                at: mount.target.clone(),
            },
        );
    } else if is_anonymous(mount) && mount.source.starts_with("/dev/") {
        used.anywhere.insert(Reason::Unknown {
            what: format!(
                "which device is {}, mounted at {}",
                mount.source, mount.target
            ),
        });
    }
}

/// Whether a mount's number tells no device: btrfs has one of its own.
fn is_anonymous(mount: &Mount) -> bool {
    mount.number.is_none_or(|number| number.major == 0)
}

fn device<'a>(world: &World<'a>, mount: &Mount) -> Option<&'a Seen> {
    let by_number = mount.number.and_then(|number| world.numbered(number));
    by_number.or_else(|| {
        is_anonymous(mount)
            .then(|| world.at(&mount.source))
            .flatten()
    })
}

/// The mount that a path is in; the last one hides those before it.
fn holding<'a>(mounts: &'a [Mount], path: &str) -> Option<&'a Mount> {
    mounts
        .iter()
        .filter(|mount| is_below(path, &mount.target))
        .max_by_key(|mount| mount.target.trim_end_matches('/').len())
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder.trim_end_matches('/'))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_in_the_deepest_and_last_mount() {
        let mounts = ["/", "/var", "/varnish", "/"].map(|target| Mount {
            number: None,
            source: String::new(),
            target: target.into(),
        });
        assert_eq!(holding(&mounts, "/var/lib"), Some(&mounts[1]));
        assert!(std::ptr::eq(
            holding(&mounts, "/boot").unwrap(),
            &raw const mounts[3]
        ));
        assert_eq!(holding(&mounts[1..2], "/"), None);
    }
}
