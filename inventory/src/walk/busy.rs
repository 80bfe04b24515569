//! Devices that somebody has alone for no reason that shows.
//!
//! Whoever looks at devices has each of them alone for a moment. Two who look
//! at the same time would take each other for users, so such a device is
//! opened again a moment later.

use std::thread;
use std::time::Duration;

use super::{Tree, probed};
use crate::probe::Opener;
use crate::snapshot::{Probe, Seen, Snapshot};

/// The pauses before each new try; not alike, so that two who began together
/// do not go on together.
const PAUSES: [Duration; 3] = [
    Duration::from_micros(700),
    Duration::from_micros(3100),
    Duration::from_micros(7300),
];

pub(super) fn look_again(tree: &Tree, opener: &dyn Opener, snapshot: &mut Snapshot) {
    if !tree.is_live() {
        return;
    }
    let own = Duration::from_micros(u64::from(std::process::id() % 1000));
    for pause in PAUSES {
        let busy: Vec<usize> = (0..snapshot.devices.len())
            .filter(|index| is_busy(&snapshot.devices[*index]) && !is_explained(snapshot, *index))
            .collect();
        if busy.is_empty() {
            return;
        }
        thread::park_timeout(pause + own);
        for index in busy {
            let probe = probed(tree, opener, &snapshot.devices[index]);
            snapshot.devices[index].probe = probe;
        }
    }
}

fn is_busy(device: &Seen) -> bool {
    matches!(&device.probe, Probe::Made(look) if look.busy)
}

/// Whether it shows who has the device or a partition of it, or the disk that
/// it is part of.
fn is_explained(snapshot: &Snapshot, index: usize) -> bool {
    let device = &snapshot.devices[index];
    let related = |other: &&Seen| {
        other.name == device.name
            || other.disk.as_ref() == Some(&device.name)
            || device.disk.as_ref() == Some(&other.name)
    };
    snapshot.devices.iter().filter(related).any(|other| {
        let held = other
            .holders
            .as_ref()
            .is_some_and(|holders| !holders.is_empty());
        let mut mounts = snapshot.mounts.iter().flatten();
        held || mounts.any(|mount| mount.number.is_some() && mount.number == other.number)
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::path::Path;

    use super::*;
    use crate::probe::Opened;
    use crate::snapshot::{Look, Mount, Number};

    /// Finds a device busy for so many times.
    struct Busy(RefCell<u32>);

    impl Opener for Busy {
        fn open(&self, _: &Path, _: Opened, _: &Seen) -> Probe {
            let mut times = self.0.borrow_mut();
            let busy = *times > 0;
            *times = times.saturating_sub(1);
            Probe::Made(Look {
                busy,
                ..Look::default()
            })
        }
    }

    fn snapshot() -> Snapshot {
        let number = Some(Number { major: 8, minor: 0 });
        let seen = Seen {
            name: "sda".into(),
            number,
            probe: Probe::Made(Look {
                busy: true,
                ..Look::default()
            }),
            ..Seen::default()
        };
        Snapshot {
            devices: vec![seen],
            ..Snapshot::default()
        }
    }

    fn busy_after(times: u32, mut snapshot: Snapshot) -> (bool, u32) {
        let opener = Busy(RefCell::new(times));
        look_again(&Tree::live(), &opener, &mut snapshot);
        (is_busy(&snapshot.devices[0]), opener.0.into_inner())
    }

    #[test]
    fn who_only_looks_is_no_user() {
        assert_eq!(busy_after(0, snapshot()), (false, 0));
        assert_eq!(busy_after(2, snapshot()), (false, 0));
        assert_eq!(busy_after(9, snapshot()), (true, 6));
    }

    #[test]
    fn what_is_mounted_is_not_waited_for() {
        let mut mounted = snapshot();
        mounted.mounts = Some(vec![Mount {
            number: mounted.devices[0].number,
            source: String::new(),
            target: "/data".into(),
        }]);
        assert_eq!(busy_after(9, mounted), (true, 9));
    }
}
