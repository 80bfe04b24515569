//! Whatever a node looks like: nothing panics, nothing is dropped, and nothing
//! is available that is mounted, held, partitioned or not readable.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use hypercloud_inventory::cleaning::{Meant, find, may_be_cleaned};
use hypercloud_inventory::resolve::resolve;
use hypercloud_inventory::rook::{Selector, choose};
use hypercloud_inventory::snapshot::{
    Look, Mapper, Mount, Number, Probe, Seen, Signature, Snapshot, UdevRecord, Usage,
};
use hypercloud_inventory::{Policy, classify};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "sd[a-d]",
        2 => "sd[ab][12]",
        1 => "dm-[0-2]",
        1 => "(loop|nbd|md|nvme|sr|zram)[0-2]",
        1 => "[a-z/!]{0,4}",
    ]
}

fn number() -> impl Strategy<Value = Number> {
    (0_u32..3, 0_u32..4).prop_map(|(major, minor)| Number { major, minor })
}

fn signature() -> impl Strategy<Value = Signature> {
    (
        prop_oneof![
            Just("ext4".to_owned()),
            Just("gpt".to_owned()),
            "[a-z_]{0,8}"
        ],
        prop_oneof![
            Just(Usage::FileSystem),
            Just(Usage::Raid),
            Just(Usage::PartitionTable),
            Just(Usage::Other)
        ],
    )
        .prop_map(|(kind, usage)| Signature {
            kind,
            usage,
            label: None,
        })
}

fn probe() -> impl Strategy<Value = Probe> {
    prop_oneof![
        Just(Probe::NotMade),
        Just(Probe::Failed("no".into())),
        (
            any::<bool>(),
            option::of(vec(signature(), 0..2)),
            vec(0_u64..2, 0..2)
        )
            .prop_map(|(busy, signatures, bluestore)| Probe::Made(Look {
                busy,
                signatures,
                bluestore,
                backing: None,
            })),
        Just(Probe::Made(Look {
            busy: false,
            signatures: Some(Vec::new()),
            ..Look::default()
        })),
    ]
}

fn link() -> impl Strategy<Value = String> {
    prop_oneof![
        "/dev/disk/by-id/(wwn-|ata-|)[ab]",
        "/dev/mapper/[ab]",
        "/dev/sd[a-d]",
    ]
}

fn record() -> impl Strategy<Value = UdevRecord> {
    let property = (
        prop_oneof![
            Just("ID_FS_TYPE".to_owned()),
            Just("ID_SERIAL".to_owned()),
            Just("ID_PART_TABLE_TYPE".to_owned())
        ],
        "[a-z]{0,3}",
    );
    (any::<bool>(), vec(link(), 0..2), vec(property, 0..3)).prop_map(
        |(initialized, links, properties)| UdevRecord {
            initialized,
            links,
            properties: properties.into_iter().collect::<BTreeMap<_, _>>(),
        },
    )
}

/// Mostly harmless, so that some devices are available.
fn seen() -> impl Strategy<Value = Seen> {
    let whole = (
        name(),
        option::weighted(0.9, number()),
        option::weighted(0.2, name()),
        option::weighted(
            0.95,
            prop_oneof![Just(0_u64), Just(100 << 30), any::<u64>()],
        ),
        option::weighted(0.95, prop::bool::weighted(0.05)),
        option::weighted(0.95, prop::bool::weighted(0.05)),
    );
    let around = (
        option::weighted(0.95, vec(name(), 0..2)),
        option::weighted(0.95, vec(name(), 0..2)),
        option::weighted(0.1, ("[ab]", "(mpath-|LVM-|CRYPT-|)[a-b-]{0,3}")),
        vec(link(), 0..3),
        option::of(record()),
        probe(),
        option::of("[01]{1,2}"),
    );
    (whole, around).prop_map(
        |(
            (name, number, disk, size, read_only, removable),
            (holders, slaves, mapper, links, udev, probe, wwn),
        )| Seen {
            name,
            number,
            partition: disk.as_ref().map(|_| 1),
            disk,
            size,
            read_only,
            removable,
            holders,
            slaves,
            mapper: mapper.map(|(name, uuid)| Mapper {
                name,
                uuid,
                suspended: false,
            }),
            links,
            udev,
            probe,
            wwn,
            ..Seen::default()
        },
    )
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let mount =
        (option::of(number()), link(), "/(boot|var|x)?").prop_map(|(number, source, target)| {
            Mount {
                number,
                source,
                target,
            }
        });
    (
        vec(seen(), 0..7),
        option::weighted(0.95, vec(mount, 0..2)),
        option::weighted(0.95, vec(link(), 0..2)),
    )
        .prop_map(|(devices, mounts, swaps)| Snapshot {
            devices,
            mounts,
            swaps,
            ..Snapshot::default()
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn nothing_in_use_or_unread_is_ever_available(snapshot in snapshot()) {
        let policy = Policy::default().for_named();
        let inventory = classify(&snapshot, &policy);
        prop_assert_eq!(inventory.devices.len(), snapshot.devices.len());
        for (seen, device) in snapshot.devices.iter().zip(&inventory.devices) {
            prop_assert_eq!(&seen.name, &device.name);
            prop_assert_eq!(device.available, device.reasons.is_empty());
            if !device.available {
                continue;
            }
            // Two devices of one name cannot be on a node.
            let mounts = snapshot.mounts.as_ref().expect("the mount table is known");
            prop_assert!(snapshot.swaps.is_some());
            prop_assert!(seen.number.is_some());
            for mount in mounts {
                let unique = snapshot.devices.iter().filter(|other| other.number == seen.number).count() == 1;
                prop_assert!(!unique || mount.number != seen.number, "mounted: {:?}", mount);
                prop_assert!(mount.source != device.path || mount.number.is_some_and(|n| n.major != 0)
                    || snapshot.devices.iter().any(|other| other.links.contains(&mount.source)));
            }
            prop_assert_eq!(seen.holders.as_deref(), Some(&[][..]));
            prop_assert!(seen.size.is_some_and(|size| size >= policy.min_size));
            prop_assert_eq!(seen.read_only, Some(false));
            prop_assert_eq!(seen.removable, Some(false));
            prop_assert!(snapshot.devices.iter().all(|other| other.disk.as_ref() != Some(&seen.name)));
            prop_assert!(snapshot.devices.iter().all(|other| !other.slaves.iter().flatten().any(|s| *s == seen.name)));
            match &seen.probe {
                Probe::Failed(_) => prop_assert!(false, "available though unreadable"),
                Probe::Made(look) => {
                    prop_assert!(!look.busy);
                    prop_assert!(look.signatures.as_ref().is_none_or(Vec::is_empty));
                    prop_assert!(look.bluestore.is_empty());
                    prop_assert!(look.signatures.is_some() || seen.udev.is_some());
                }
                Probe::NotMade => prop_assert!(seen.udev.as_ref().is_some_and(|udev| udev.initialized)),
            }
        }
    }

    #[test]
    fn what_rook_is_given_is_available_and_no_path_is_given_twice(snapshot in snapshot()) {
        let inventory = classify(&snapshot, &Policy::default());
        let choice = choose(&inventory, "node", &Selector::default());
        let paths: std::collections::BTreeSet<_> =
            choice.node.devices.iter().map(|device| &device.name).collect();
        prop_assert_eq!(paths.len(), choice.node.devices.len());
        for device in &choice.node.devices {
            prop_assert!(device.name.starts_with("/dev/disk/by-id/"));
            prop_assert!(resolve(&inventory, &device.name).is_ok_and(|found| found.device.available));
        }
    }

    #[test]
    fn nothing_that_is_used_or_not_known_is_cleaned(snapshot in snapshot()) {
        let inventory = classify(&snapshot, &Policy::default());
        for (seen, device) in snapshot.devices.iter().zip(&inventory.devices) {
            if may_be_cleaned(&inventory, device).is_err() {
                continue;
            }
            prop_assert_eq!(device.read_only, Some(false));
            prop_assert!(device.size > 0);
            prop_assert!(snapshot.swaps.is_some() && snapshot.mounts.is_some());
            let holds = |other: &Seen| other.slaves.iter().flatten().any(|slave| *slave == seen.name);
            prop_assert!(!snapshot.devices.iter().any(holds));
            // The device and what it is divided into.
            let parts = snapshot.devices.iter().zip(&inventory.devices)
                .filter(|(other, _)| other.name == seen.name || other.disk.as_ref() == Some(&seen.name));
            for (part, told) in parts {
                prop_assert_eq!(&told.mounts, &Vec::<String>::new());
                prop_assert_eq!(part.holders.as_deref().unwrap_or_default(), &[] as &[String]);
                let busy = matches!(&part.probe, Probe::Made(look) if look.busy);
                prop_assert!(!busy);
            }
        }
    }

    /// What was pinned is found again, or nothing is; never another device.
    #[test]
    fn only_the_device_that_is_meant_is_found(before in snapshot(), after in snapshot(), same in any::<bool>()) {
        let inventory = |snapshot: &Snapshot, boot: &str| {
            let snapshot = Snapshot { boot_id: Some(boot.into()), ..snapshot.clone() };
            classify(&snapshot, &Policy::default())
        };
        let pinned = inventory(&before, "1");
        let now = inventory(&after, if same { "1" } else { "2" });
        for device in &pinned.devices {
            let meant = Meant::of(&pinned, device);
            let Ok(found) = find(&now, &meant) else { continue };
            prop_assert_eq!(found.size, device.size);
            prop_assert!(device.identity.wwn.is_none() || device.identity.wwn == found.identity.wwn);
            prop_assert!(device.identity.serial.is_none() || device.identity.serial == found.identity.serial);
            if same {
                prop_assert_eq!(&found.path, &device.path);
            }
        }
    }
}
