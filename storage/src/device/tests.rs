//! From names to devices, before and after Ceph has them.

use hypercloud_api::DeviceName;
use hypercloud_inventory::{Explanation, Identity, Kind};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn disk(name: &str, links: &[&str], reasons: &[(&str, &str)]) -> Device {
    let reasons: Vec<Explanation> = reasons
        .iter()
        .map(|(code, message)| {
            serde_json::from_value(json!({"reason": code, "message": message})).unwrap()
        })
        .collect();
    let by_id = links
        .iter()
        .find(|link| link.starts_with("/dev/disk/by-id/"));
    let mut device: Device = serde_json::from_value(json!({
        "name": name, "path": format!("/dev/{name}"), "kind": Kind::Disk,
        "available": reasons.is_empty(), "size": 1_u64 << 40,
    }))
    .unwrap();
    device.reasons = reasons;
    device.device_class = Some(DeviceClass::Ssd);
    device.identity = Identity {
        by_id: by_id.map(|link| (*link).to_owned()),
        links: links.iter().map(|link| (*link).to_owned()).collect(),
        ..Identity::default()
    };
    device
}

const A: &str = "/dev/disk/by-id/wwn-a";
const B: &str = "/dev/disk/by-id/wwn-b";
const IN_USE: &[(&str, &str)] = &[("BlueStore", "a label of BlueStore at byte 0")];

fn known(devices: Vec<Device>, in_cluster: &[&str], settled: &[(&str, &str)]) -> Known {
    let inventory = Inventory {
        hostname: None,
        boot_id: None,
        devices,
    };
    Known {
        hostnames: BTreeSet::from(["n".to_owned()]),
        inventories: BTreeMap::from([(
            "n".to_owned(),
            NodeDevices {
                state: InventoryState::Current,
                inventory,
            },
        )]),
        settled: settled
            .iter()
            .map(|(device, by_id)| SettledDevice {
                hostname: "n".into(),
                device: (*device).to_owned(),
                by_id: (*by_id).to_owned(),
                device_class: Some("ssd".into()),
            })
            .collect(),
        in_cluster: in_cluster
            .iter()
            .map(|by_id| ("n".to_owned(), (*by_id).to_owned()))
            .collect(),
        removing: Vec::new(),
    }
}

fn asked(names: &[&str]) -> Vec<StorageNode> {
    vec![StorageNode {
        hostname: "n".into(),
        devices: names.iter().map(|name| DeviceName::from(*name)).collect(),
    }]
}

fn by_ids(settlement: &Settlement) -> Vec<&str> {
    settlement
        .devices
        .iter()
        .map(|d| d.by_id.as_str())
        .collect()
}

fn reasons(settlement: &Settlement) -> Vec<&'static str> {
    settlement
        .problems
        .iter()
        .map(DeviceProblem::reason)
        .collect()
}

#[test]
fn a_free_device_is_given_by_its_stable_path() {
    let known = known(
        vec![disk("sda", &[A], &[]), disk("sdb", &[B], &[])],
        &[],
        &[],
    );
    let settlement = settle(&asked(&["/dev/sdb", "sda"]), &known);
    assert_eq!(by_ids(&settlement), [B, A]);
    assert!(settlement.problems.is_empty() && settlement.dropped.is_empty());
    let storage = serde_json::to_value(settlement.storage(&[])).unwrap();
    assert_eq!(
        storage,
        json!({"useAllNodes": false, "useAllDevices": false, "nodes": [{"name": "n", "devices": [
            {"name": B, "config": {"deviceClass": "ssd"}},
            {"name": A, "config": {"deviceClass": "ssd"}}]}]})
    );
}

#[test]
fn a_device_in_use_is_refused_with_its_reasons() {
    let known = known(vec![disk("sda", &[A], IN_USE)], &[], &[]);
    let settlement = settle(&asked(&["/dev/sda"]), &known);
    assert!(settlement.devices.is_empty());
    assert_eq!(reasons(&settlement), ["DeviceNotAvailable"]);
    let message = settlement.problems[0].to_string();
    assert!(
        message.contains("on n, /dev/sda is not available"),
        "{message}"
    );
}

#[test]
fn what_ceph_has_is_in_use_and_stays() {
    // sda was meant when the storage was made, and is called sdb by now.
    let devices = vec![disk("sda", &[B], &[]), disk("sdb", &[A], IN_USE)];
    let known = known(devices, &[A], &[("/dev/sda", A)]);
    let settlement = settle(&asked(&["/dev/sda"]), &known);
    assert_eq!(by_ids(&settlement), [A]);
    assert!(settlement.problems.is_empty() && settlement.dropped.is_empty());
}

#[test]
fn a_storage_that_was_let_go_is_taken_up_without_its_status() {
    let known = known(vec![disk("sdb", &[A], IN_USE)], &[A], &[]);
    for name in ["/dev/sdb", "sdb", A] {
        let settlement = settle(&asked(&[name]), &known);
        assert_eq!(by_ids(&settlement), [A], "{name}");
        assert!(settlement.problems.is_empty());
    }
}

#[test]
fn one_device_by_two_names_is_refused() {
    let link = "/dev/disk/by-path/pci-1";
    let free = known(vec![disk("sda", &[A, link], &[])], &[], &[]);
    assert_eq!(
        reasons(&settle(&asked(&["sda", link]), &free)),
        ["DeviceDuplicate"]
    );
    let held = known(vec![disk("sda", &[A, link], IN_USE)], &[A], &[("sda", A)]);
    assert_eq!(
        reasons(&settle(&asked(&["sda", link]), &held)),
        ["DeviceDuplicate"]
    );
}

#[test]
fn nodes_that_are_not_there_are_named() {
    let mut nodes = asked(&["sda"]);
    nodes[0].hostname = "other".into();
    let settlement = settle(&nodes, &known(Vec::new(), &[], &[]));
    assert_eq!(reasons(&settlement), ["HostnameUnknown"]);
}

#[test]
fn nothing_new_is_taken_from_an_inventory_that_may_be_wrong() {
    let mut known = known(
        vec![disk("sda", &[A], IN_USE), disk("sdb", &[B], &[])],
        &[A],
        &[("sda", A)],
    );
    let node = known.inventories.get_mut("n").unwrap();
    node.state = InventoryState::Stale;
    let settlement = settle(&asked(&["sda", "sdb"]), &known);
    assert_eq!(by_ids(&settlement), [A]);
    assert_eq!(reasons(&settlement), ["InventoryStale"]);
    known.inventories.clear();
    let settlement = settle(&asked(&["sda", "sdb"]), &known);
    assert_eq!(by_ids(&settlement), [A]);
    assert_eq!(reasons(&settlement), ["InventoryPending"]);
    assert!(settlement.problems[0].is_waiting());
}

#[test]
fn what_is_asked_for_no_more_is_told() {
    let known = known(vec![disk("sda", &[A], IN_USE)], &[A, B], &[("sda", A)]);
    let settlement = settle(&asked(&["sda"]), &known);
    assert_eq!(settlement.dropped.len(), 1);
    assert_eq!(settlement.dropped[0].by_id, B);
    let kept = settlement.storage(&settlement.dropped);
    assert_eq!(kept.nodes[0].devices.len(), 2);
}

#[test]
fn what_cannot_be_told_is_not_dropped() {
    // The status is lost, and the agent has not told its devices.
    let mut known = known(vec![disk("sda", &[A], IN_USE)], &[A, B], &[]);
    known.inventories.clear();
    let settlement = settle(&asked(&["sda"]), &known);
    assert_eq!(reasons(&settlement), ["InventoryPending"]);
    assert!(settlement.dropped.is_empty() && settlement.devices.is_empty());
    assert_eq!(settlement.unclear.len(), 2);
    assert_eq!(settlement.storage(&[]).nodes[0].devices.len(), 2);
}

#[test]
fn devices_of_a_cluster_are_read() {
    let cluster = json!({"spec": {"storage": {"nodes": [
        {"name": "n", "devices": [{"name": A}, {"name": B}]}, {"name": "m"}]}}});
    let expected = [A, B].map(|by_id| ("n".to_owned(), by_id.to_owned()));
    assert_eq!(in_cluster(&cluster), BTreeSet::from(expected));
    assert!(in_cluster(&json!({})).is_empty());
}

proptest! {
    /// Whatever is asked for, and whatever is known: a device in use comes
    /// into the cluster only if it is there, and none comes twice.
    #[test]
    fn no_device_in_use_is_taken(
        used in prop::collection::vec(any::<bool>(), 6),
        held in prop::collection::vec(any::<bool>(), 6),
        names in prop::collection::vec((0usize..8, any::<bool>()), 0..8),
        memory in prop::collection::vec((0usize..8, 0usize..8), 0..4),
    ) {
        let link = |n: usize| format!("/dev/disk/by-id/wwn-{n}");
        let devices = used.iter().enumerate().map(|(n, used)| {
            disk(&format!("sd{n}"), &[&link(n)], if *used { IN_USE } else { &[] })
        });
        let cluster: Vec<String> = (0..6).filter(|n| held[*n]).map(link).collect();
        let cluster: Vec<&str> = cluster.iter().map(String::as_str).collect();
        let mut known = known(devices.collect(), &cluster, &[]);
        known.settled = memory.iter().map(|(name, to)| SettledDevice {
            hostname: "n".into(),
            device: format!("/dev/sd{name}"),
            by_id: link(*to),
            device_class: None,
        }).collect();
        let names: Vec<String> = names.iter().map(|(n, by_link)| {
            if *by_link { link(*n) } else { format!("/dev/sd{n}") }
        }).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let settlement = settle(&asked(&names), &known);
        let found = by_ids(&settlement);
        let distinct: BTreeSet<&str> = found.iter().copied().collect();
        prop_assert_eq!(distinct.len(), found.len());
        for by_id in found {
            let n = (0..6).find(|n| link(*n) == by_id);
            prop_assert!(n.is_some_and(|n| held[n] || !used[n]), "{}", by_id);
        }
        // Nothing is dropped of a node of which a name came to nothing.
        prop_assert!(settlement.problems.is_empty() || settlement.dropped.is_empty());
        // Nothing that Ceph has is forgotten.
        let storage = settlement.storage(&settlement.dropped);
        for by_id in cluster {
            prop_assert!(storage.nodes[0].devices.iter().any(|d| d.name == by_id));
        }
    }
}

#[test]
fn what_is_being_given_up_is_cephs_until_it_is_gone() {
    let device = disk("sdb", &[B], IN_USE);
    let mut known = known(vec![device], &[], &[]);
    let names = |known: &Known| {
        let settlement = settle(&asked(&["sdb", B]), known);
        let devices = settlement.devices.iter().map(|device| device.by_id.clone());
        (devices.collect::<Vec<_>>(), settlement.problems.len())
    };
    assert_eq!(names(&known), (vec![], 2));
    known.removing.push(SettledDevice {
        hostname: "n".into(),
        device: "sdq".into(),
        by_id: B.into(),
        device_class: None,
    });
    // By either name, and the second is the first again.
    assert_eq!(names(&known), (vec![B.to_owned()], 1));
    known.removing[0].hostname = "m".into();
    assert_eq!(names(&known), (vec![], 2));
}
