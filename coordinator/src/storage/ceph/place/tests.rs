//! Which OSD has which device, with whatever is said of them.

use hypercloud_api::InventoryState;
use hypercloud_inventory::Inventory;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn disk(name: &str, serial: &str, links: &[&str]) -> Value {
    json!({"name": name, "path": format!("/dev/{name}"), "kind": "disk",
           "available": false, "size": 1000,
           "identity": {"byId": links.first(), "links": links, "serial": serial}})
}

fn node(devices: Vec<Value>) -> NodeDevices {
    let devices = devices
        .into_iter()
        .map(|device| serde_json::from_value(device).unwrap());
    NodeDevices {
        state: InventoryState::Current,
        inventory: Inventory {
            hostname: None,
            boot_id: None,
            devices: devices.collect(),
        },
    }
}

/// Two disks of a maker on node a, one on node b.
fn inventories() -> BTreeMap<String, NodeDevices> {
    let a = node(vec![
        disk(
            "sda",
            "SER0001",
            &[
                "/dev/disk/by-id/wwn-0xa1",
                "/dev/disk/by-id/ata-MODEL_X_SER0001",
                "/dev/disk/by-path/pci-1",
            ],
        ),
        disk(
            "sdb",
            "SER0002",
            &[
                "/dev/disk/by-id/wwn-0xa2",
                "/dev/disk/by-id/ata-MODEL_X_SER0002",
                "/dev/disk/by-path/pci-2",
            ],
        ),
    ]);
    let b = node(vec![disk("sda", "SER0003", &["/dev/disk/by-id/wwn-0xb1"])]);
    [("a".to_owned(), a), ("b".to_owned(), b)].into()
}

fn given_up(link: &str) -> Vec<SettledDevice> {
    vec![SettledDevice {
        hostname: "a".into(),
        device: "/dev/sda".into(),
        by_id: format!("/dev/disk/by-id/{link}"),
        device_class: None,
    }]
}

fn osd(id: u32, hostname: &str, ids: &[&str]) -> Evidence {
    Evidence {
        id,
        hostname: Some(hostname.into()),
        block: Some("/dev/sda".into()),
        ids: ids.iter().map(|&id| id.into()).collect(),
        ..Evidence::default()
    }
}

fn placed(link: &str, osds: &[Evidence]) -> Result<BTreeMap<u32, String>, Unclear> {
    place(&given_up(link), &inventories(), osds)
}

fn only(id: u32, link: &str) -> Result<BTreeMap<u32, String>, Unclear> {
    Ok([(id, format!("/dev/disk/by-id/{link}"))].into())
}

#[test]
fn a_device_is_told_by_its_serial_number() {
    let osds = [
        osd(0, "a", &["MODEL_X_SER0001"]),
        osd(1, "a", &["MODEL_X_SER0002"]),
        // The kernel's name and the node's are no evidence.
        osd(2, "b", &["MODEL_X_SER0003"]),
    ];
    assert_eq!(placed("wwn-0xa1", &osds), only(0, "wwn-0xa1"));
    assert_eq!(placed("wwn-0xa2", &osds), only(1, "wwn-0xa2"));
}

#[test]
fn udev_and_ceph_write_spaces_alike() {
    let mut inventories = inventories();
    let disk = disk("sdc", "S  C 1 ", &["/dev/disk/by-id/scsi-3a3"]);
    inventories.insert("a".into(), node(vec![disk]));
    let osds = [osd(4, "a", &["MODEL_S_C_1"])];
    let placed = place(&given_up("scsi-3a3"), &inventories, &osds);
    assert_eq!(placed, only(4, "scsi-3a3"));
}

#[test]
fn a_device_that_was_pulled_is_told_by_its_link() {
    let mut inventories = inventories();
    inventories.insert("a".into(), node(Vec::new()));
    let osds = [osd(0, "a", &["MODEL_X_SER0001"])];
    let link = "ata-MODEL_X_SER0001";
    assert_eq!(place(&given_up(link), &inventories, &osds), only(0, link));
    // By a world wide name alone it is not.
    let unclear = place(&given_up("wwn-0xa1"), &inventories, &osds);
    assert!(matches!(unclear, Err(Unclear::Untold { osd: 0, .. })));
}

#[test]
fn the_path_that_rook_has_counts_where_it_lasts() {
    let with = |path: &str| Evidence {
        block: Some(path.into()),
        ..osd(3, "a", &[])
    };
    let told = |path: &str| placed("wwn-0xa1", &[with(path)]);
    assert_eq!(told("/dev/disk/by-id/wwn-0xa1"), only(3, "wwn-0xa1"));
    assert_eq!(
        told("/dev/disk/by-id/ata-MODEL_X_SER0001"),
        only(3, "wwn-0xa1")
    );
    assert_eq!(told("/dev/disk/by-id/wwn-0xa2"), Ok(BTreeMap::new()));
    assert!(told("/dev/sda").is_err());
}

#[test]
fn what_contradicts_itself_tells_nothing() {
    let mut osd = osd(3, "a", &["MODEL_X_SER0002"]);
    osd.block = Some("/dev/disk/by-id/wwn-0xa1".into());
    assert!(matches!(
        placed("wwn-0xa1", &[osd.clone()]),
        Err(Unclear::Untold { osd: 3, .. })
    ));
    osd.ids = vec!["MODEL_X_SER0001".into()];
    osd.paths = vec!["/dev/disk/by-path/pci-2".into()];
    assert!(placed("wwn-0xa1", &[osd.clone()]).is_err());
    osd.paths = vec!["/dev/disk/by-path/pci-1".into()];
    assert_eq!(placed("wwn-0xa1", &[osd]), only(3, "wwn-0xa1"));
}

#[test]
fn two_osds_on_one_device_are_left_alone() {
    let osds = [
        osd(5, "a", &["MODEL_X_SER0001"]),
        osd(6, "a", &["MODEL_X_SER0001"]),
    ];
    let unclear = placed("wwn-0xa1", &osds).unwrap_err();
    assert_eq!(
        unclear.to_string(),
        "/dev/disk/by-id/wwn-0xa1 of a is said to be the device of the OSDs 5, 6"
    );
}

#[test]
fn a_serial_number_that_two_devices_have_tells_neither() {
    let mut inventories = inventories();
    let twins = vec![
        disk("sda", "SER0001", &["/dev/disk/by-id/wwn-0xa1"]),
        disk("sdb", "SER0001", &["/dev/disk/by-id/wwn-0xa2"]),
    ];
    inventories.insert("a".into(), node(twins));
    let osds = [osd(0, "a", &["MODEL_X_SER0001"])];
    let unclear = place(&given_up("wwn-0xa1"), &inventories, &osds);
    assert!(matches!(unclear, Err(Unclear::Ambiguous { osd: 0, .. })));
}

#[test]
fn a_short_end_of_a_name_is_no_serial_number() {
    let mut inventories = inventories();
    let disks = vec![
        disk("sda", "1", &["/dev/disk/by-id/virtio-1"]),
        disk("sdb", "SER_1", &["/dev/disk/by-id/wwn-0xa2"]),
    ];
    inventories.insert("a".into(), node(disks));
    let osds = [osd(0, "a", &["MODEL_SER_1"])];
    let placed = place(&given_up("virtio-1"), &inventories, &osds);
    assert_eq!(placed, Ok(BTreeMap::new()));
    // As a whole it is one.
    let osds = [osd(0, "a", &["1"])];
    let placed = place(&given_up("virtio-1"), &inventories, &osds);
    assert_eq!(placed, only(0, "virtio-1"));
}

#[test]
fn one_that_is_not_told_keeps_a_device_from_being_forgotten() {
    let osds = [
        osd(0, "a", &["MODEL_X_SER0002"]),
        Evidence {
            id: 7,
            ..Evidence::default()
        },
    ];
    let unclear = placed("wwn-0xa1", &osds).unwrap_err();
    assert!(matches!(unclear, Unclear::Untold { osd: 7, .. }));
    // But not one that is told from being given up.
    assert_eq!(placed("wwn-0xa2", &osds), only(0, "wwn-0xa2"));
    // Of another node it does not matter.
    let osds = [osd(0, "b", &[])];
    assert_eq!(placed("wwn-0xa1", &osds), Ok(BTreeMap::new()));
}

#[test]
fn a_person_may_say_which_it_is() {
    let mut osd = osd(7, "a", &["WHATEVER"]);
    osd.annotated = Some("/dev/disk/by-id/wwn-0xa1".into());
    assert_eq!(placed("wwn-0xa1", &[osd.clone()]), only(7, "wwn-0xa1"));
    assert_eq!(placed("wwn-0xa2", &[osd]), Ok(BTreeMap::new()));
}

#[test]
fn the_paths_of_a_multipath_device_are_not_devices_beside_it() {
    let mut inventories = inventories();
    let mut leg = disk("sda", "SER0001", &["/dev/disk/by-id/wwn-0xa1"]);
    leg["holders"] = json!(["dm-0"]);
    let mut whole = disk("dm-0", "SER0001", &["/dev/disk/by-id/dm-uuid-mpath-1"]);
    whole["kind"] = json!("multipath");
    inventories.insert("a".into(), node(vec![leg, whole]));
    let osds = [osd(0, "a", &["MODEL_X_SER0001"])];
    let placed = place(&given_up("dm-uuid-mpath-1"), &inventories, &osds);
    assert_eq!(placed, only(0, "dm-uuid-mpath-1"));
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("MODEL_X_SER0001".to_owned()),
        Just("MODEL_X_SER0002".to_owned()),
        Just("SER0001".to_owned()),
        Just("/dev/disk/by-id/wwn-0xa1".to_owned()),
        Just("/dev/disk/by-id/wwn-0xa2".to_owned()),
        Just("/dev/sda".to_owned()),
        "[ _/a-zA-Z0-9-]{0,12}",
    ]
}

prop_compose! {
    fn any_osd()(
        id in 0u32..8,
        hostname in prop::option::of("[ab]"),
        block in prop::option::of(any_text()),
        ids in prop::collection::vec(any_text(), 0..3),
        paths in prop::collection::vec(any_text(), 0..2),
    ) -> Evidence {
        Evidence { id, hostname, annotated: None, block, ids, paths }
    }
}

proptest! {
    /// Whatever is said: what is placed is an OSD of that node for which
    /// something spoke, and no device has two.
    #[test]
    fn nothing_is_guessed(osds in prop::collection::vec(any_osd(), 0..6)) {
        if let Ok(placed) = placed("wwn-0xa1", &osds) {
            prop_assert!(placed.len() <= 1);
            for id in placed.keys() {
                let mut of_id = osds.iter().filter(|osd| osd.id == *id);
                let spoken = |osd: &Evidence| {
                    let all = osd.block.iter().chain(&osd.ids);
                    let mut texts = all.chain(&osd.paths);
                    texts.any(|text| text.contains("SER0001") || text.contains("wwn-0xa1"))
                };
                let found = of_id.any(|osd| {
                    osd.hostname.as_deref().is_none_or(|host| host == "a") && spoken(osd)
                });
                prop_assert!(found);
            }
        }
    }
}
