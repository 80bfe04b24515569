//! A snapshot with the ways through it: by name, number, link and holder.

use std::collections::{BTreeMap, BTreeSet};

use crate::snapshot::{Number, Seen, Snapshot};

pub(super) struct World<'a> {
    pub(super) snapshot: &'a Snapshot,
    names: BTreeMap<&'a str, &'a Seen>,
    numbers: BTreeMap<Number, &'a Seen>,
    links: BTreeMap<String, &'a Seen>,
    /// Holders as the devices say it that are made of others.
    holders: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// The same from the other side.
    slaves: BTreeMap<&'a str, BTreeSet<&'a str>>,
    partitions: BTreeMap<&'a str, Vec<&'a Seen>>,
}

impl<'a> World<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let mut world = Self {
            snapshot,
            names: BTreeMap::new(),
            numbers: BTreeMap::new(),
            links: BTreeMap::new(),
            holders: BTreeMap::new(),
            slaves: BTreeMap::new(),
            partitions: BTreeMap::new(),
        };
        for seen in &snapshot.devices {
            world.add(seen);
        }
        world
    }

    fn add(&mut self, seen: &'a Seen) {
        self.names.insert(&seen.name, seen);
        if let Some(number) = seen.number {
            self.numbers.insert(number, seen);
        }
        for link in &seen.links {
            self.links.insert(link.clone(), seen);
        }
        if let Some(mapper) = &seen.mapper {
            self.links
                .insert(format!("/dev/mapper/{}", mapper.name), seen);
        }
        for slave in seen.slaves.iter().flatten() {
            self.made_of(&seen.name, slave);
        }
        for holder in seen.holders.iter().flatten() {
            self.made_of(holder, &seen.name);
        }
        if let Some(disk) = &seen.disk {
            self.partitions.entry(disk).or_default().push(seen);
        }
    }

    fn made_of(&mut self, holder: &'a str, slave: &'a str) {
        self.holders.entry(slave).or_default().insert(holder);
        self.slaves.entry(holder).or_default().insert(slave);
    }

    pub(super) fn named(&self, name: &str) -> Option<&'a Seen> {
        self.names.get(name).copied()
    }

    pub(super) fn numbered(&self, number: Number) -> Option<&'a Seen> {
        self.numbers.get(&number).copied()
    }

    /// The device that a path below `/dev` leads to.
    pub(super) fn at(&self, path: &str) -> Option<&'a Seen> {
        self.links
            .get(path)
            .copied()
            .or_else(|| self.named(path.strip_prefix("/dev/")?))
    }

    /// Names of the devices that are made of this one.
    pub(super) fn holders(&self, seen: &Seen) -> impl Iterator<Item = &'a str> + '_ {
        self.holders
            .get(seen.name.as_str())
            .into_iter()
            .flatten()
            .copied()
    }

    /// Names of the devices that this one is made of.
    pub(super) fn slaves(&self, name: &str) -> impl Iterator<Item = &'a str> + '_ {
        self.slaves.get(name).into_iter().flatten().copied()
    }

    pub(super) fn partitions(&self, disk: &Seen) -> impl Iterator<Item = &'a Seen> + '_ {
        self.partitions
            .get(disk.name.as_str())
            .into_iter()
            .flatten()
            .copied()
    }

    pub(super) fn is_multipath(&self, name: &str) -> bool {
        self.named(name)
            .and_then(|seen| seen.mapper.as_ref())
            .is_some_and(|mapper| mapper.uuid.starts_with("mpath-"))
    }

    /// The device and everything below it: its disk, what it is made of.
    pub(super) fn below(&self, name: &'a str) -> BTreeSet<&'a str> {
        let mut found = BTreeSet::new();
        let mut open = vec![name];
        while let Some(name) = open.pop() {
            if !found.insert(name) {
                continue;
            }
            open.extend(self.named(name).and_then(|seen| seen.disk.as_deref()));
            open.extend(self.slaves(name));
        }
        found
    }
}
