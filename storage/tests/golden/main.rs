//! Golden texts: what is made of a specification. `UPDATE_GOLDEN=1` writes
//! them anew, for a person to look at.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::Path;

use hypercloud_api::{HyperCloudStorage, SettledDevice};
use hypercloud_storage::device::Settlement;
use hypercloud_storage::render::{Ingredients, objects};
use hypercloud_storage::stage;
use hypercloud_storage::version::{Running, target};
use serde_json::Value;

fn golden(name: &str, example: &str) {
    let spec = serde_yaml::from_str::<HyperCloudStorage>(example)
        .unwrap()
        .spec;
    let device = |hostname: &str, name: &str, class: &str| SettledDevice {
        hostname: hostname.into(),
        device: name.into(),
        by_id: format!("/dev/disk/by-id/wwn-0x{hostname}0"),
        device_class: Some(class.into()),
    };
    let settlement = Settlement {
        devices: vec![
            device("a", "/dev/sda", "hdd"),
            device("b", "/dev/sda", "ssd"),
            device("c", "/dev/nvme0n1", "nvme"),
        ],
        ..Settlement::default()
    };
    let storage = settlement.storage(&[]);
    let target = target(&spec, Running::default(), None).unwrap();
    let files = BTreeMap::new();
    let of = Ingredients {
        spec: &spec,
        target: &target,
        storage: &storage,
        cluster: None,
        files: &files,
    };
    let rendered: Vec<Value> = stage::wanted(&spec)
        .filter_map(|stage| objects(stage, of).ok())
        .flatten()
        .map(|desired| desired.object)
        .collect();
    let texts: Vec<String> = rendered
        .iter()
        .map(|object| serde_yaml::to_string(object).unwrap())
        .collect();
    let text = texts.join("---\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/files")
        .join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{name} is not as it was:\n{text}");
}

#[test]
fn the_smallest_specification() {
    golden("smallest.yaml", include_str!("../examples/smallest.yaml"));
}

#[test]
fn a_specification_with_everything() {
    golden(
        "everything.yaml",
        include_str!("../examples/everything.yaml"),
    );
}
