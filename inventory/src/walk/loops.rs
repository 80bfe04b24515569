//! Ties loop devices to the devices behind them.

use std::collections::BTreeMap;

use crate::snapshot::{Number, Probe, Seen};

/// A loop device is made of the device behind it. The kernel tells which that
/// is; in a record the path may.
pub(super) fn tie(devices: &mut [Seen]) {
    let backed = |seen: &Seen| match &seen.probe {
        Probe::Made(look) => look.backing,
        Probe::NotMade | Probe::Failed(_) => None,
    };
    if !devices
        .iter()
        .any(|seen| backed(seen).is_some() || behind(seen).is_some())
    {
        return;
    }
    let mut numbers: BTreeMap<Number, String> = BTreeMap::new();
    let mut paths: BTreeMap<String, String> = BTreeMap::new();
    for seen in devices.iter() {
        if let Some(number) = seen.number {
            numbers.insert(number, seen.name.clone());
        }
        for link in &seen.links {
            paths.insert(link.clone(), seen.name.clone());
        }
        paths.insert(format!("/dev/{}", seen.name), seen.name.clone());
    }
    for seen in devices {
        let by_number = backed(seen).and_then(|number| numbers.get(&number));
        let found = by_number.or_else(|| paths.get(behind(seen)?));
        if let (Some(name), Some(slaves)) = (found, &mut seen.slaves)
            && *name != seen.name
            && !slaves.contains(name)
        {
            slaves.push(name.clone());
        }
    }
}

/// The path of the device that a loop device says is behind it.
fn behind(seen: &Seen) -> Option<&str> {
    seen.backing_file
        .as_deref()
        .filter(|path| path.starts_with("/dev/"))
}
