//! Devices over the links: followed beside the jobs, and cleaned.

use hypercloud_api::CleanupDevice;
use hypercloud_coordinator::agents::devices::{CleaningOrder, DeviceLink};
use hypercloud_coordinator::agents::pool::Pool;
use hypercloud_coordinator::agents::{AgentError, Agents};
use hypercloud_proto::agent::v1 as proto;
use hypercloud_proto::agent::v1::watch_devices_response::Event;

use super::simulated::Simulated;
use super::{Links, certificates};

fn device(name: &str, size: u64) -> proto::Device {
    proto::Device {
        name: name.into(),
        path: format!("/dev/{name}"),
        kind: proto::DeviceKind::Disk.into(),
        available: true,
        size,
        ..proto::Device::default()
    }
}

/// Names and sizes of the devices of n1, and the revision.
fn told(pool: &Pool) -> Option<(u64, Vec<(String, u64)>)> {
    let (told, _) = pool.devices("n1").told?;
    let devices = told.inventory.devices.iter();
    let devices = devices.map(|device| (device.name.clone(), device.size));
    Some((told.revision, devices.collect()))
}

fn is(pool: &Pool, revision: u64, devices: &[(&str, u64)]) -> bool {
    let devices = devices
        .iter()
        .map(|(name, size)| ((*name).to_owned(), *size));
    told(pool) == Some((revision, devices.collect()))
}

#[tokio::test]
async fn devices_are_followed_look_by_look() {
    let keys = certificates();
    let agent = Simulated::named("n1");
    agent.plug(device("sdb", 2));
    agent.plug(device("sda", 1));
    let address = agent.serve(&keys.authority, &keys.server).await;
    let mut links = Links::to([("n1".into(), address)].into(), keys.client);
    let both = |pool: &Pool| is(pool, 1, &[("sda", 1), ("sdb", 2)]);
    links.until("the first look", both).await;
    let followed = links.pool.devices("n1").link;
    assert!(matches!(followed, DeviceLink::Following { .. }));

    agent.plug(device("sdc", 3));
    agent.unplug("sda");
    agent.look(2);
    let changed = |pool: &Pool| is(pool, 2, &[("sdb", 2), ("sdc", 3)]);
    links.until("the change", changed).await;

    // What is told of a node stays known when its agent goes.
    agent.stop();
    let away = |pool: &Pool| matches!(pool.devices("n1").link, DeviceLink::Away { .. });
    links.until("the loss", away).await;
    assert!(changed(&links.pool));
    links.endpoints.send_replace([].into());
    let none = |pool: &Pool| matches!(pool.devices("n1").link, DeviceLink::NoAgent { .. });
    links.until("the end of its pod", none).await;
    links.close().await;
}

#[tokio::test]
async fn a_stream_that_lost_something_begins_anew() {
    let keys = certificates();
    let agent = Simulated::named("n1");
    agent.plug(device("sda", 1));
    let address = agent.serve(&keys.authority, &keys.server).await;
    let mut links = Links::to([("n1".into(), address)].into(), keys.client);
    links
        .until("the first look", |pool| is(pool, 1, &[("sda", 1)]))
        .await;
    agent.say(Event::Look(proto::Look {
        revision: 7,
        devices: 2,
        ..proto::Look::default()
    }));
    links
        .until("the second stream", |pool| {
            matches!(pool.devices("n1").link, DeviceLink::Following { .. })
                && agent.device_streams() == 2
                && is(pool, 1, &[("sda", 1)])
        })
        .await;
    // A device without a name is no device.
    agent.say(Event::Changed(proto::Device::default()));
    links
        .until("the third stream", |pool| {
            agent.device_streams() == 3 && is(pool, 1, &[("sda", 1)])
        })
        .await;
    // The jobs were followed all the while.
    assert_eq!(links.pool.synced(), ["n1"]);
    links.close().await;
}

#[tokio::test]
async fn an_agent_that_knows_no_devices_does_its_jobs() {
    let keys = certificates();
    let agent = Simulated::too_old("n1");
    let address = agent.serve(&keys.authority, &keys.server).await;
    let mut links = Links::to([("n1".into(), address)].into(), keys.client);
    links
        .until("the word", |pool| {
            pool.devices("n1").link == DeviceLink::TooOld && pool.synced() == ["n1"]
        })
        .await;
    links.close().await;
}

fn order(path: &str) -> CleaningOrder {
    CleaningOrder {
        device: CleanupDevice {
            path: path.into(),
            by_id: Some("/dev/disk/by-id/wwn-0x5".into()),
            wwn: Some("5".into()),
            serial: Some("S1".into()),
            size: 7,
            boot_id: Some("boot".into()),
            disk_sequence: Some(12),
        },
        reference: "NodeDeviceCleanup it (uid)".into(),
    }
}

#[tokio::test]
async fn a_device_is_cleaned_by_all_that_is_known_of_it() {
    let keys = certificates();
    let agent = Simulated::named("n1");
    let address = agent.serve(&keys.authority, &keys.server).await;
    let mut links = Links::to([("n1".into(), address)].into(), keys.client);
    links
        .until("the snapshot", |pool| pool.synced() == ["n1"])
        .await;
    let cleaned = links.pool.clean("n1", &order("/dev/sda")).await.unwrap();
    assert_eq!(cleaned.unwrap().removed, ["ext4 at byte 1080"]);
    let asked = proto::CleanDeviceRequest {
        path: "/dev/sda".into(),
        identity: Some(proto::DeviceIdentity {
            by_id: Some("/dev/disk/by-id/wwn-0x5".into()),
            links: vec![],
            wwn: Some("5".into()),
            serial: Some("S1".into()),
            disk_sequence: Some(12),
        }),
        size: 7,
        boot_id: Some("boot".into()),
        reference: "NodeDeviceCleanup it (uid)".into(),
    };
    assert_eq!(agent.cleaned(), [asked]);
    let refused = links.pool.clean("n1", &order("/dev/used")).await.unwrap();
    assert_eq!(refused.unwrap_err().reason, "Mounted");
    let away = links.pool.clean("n2", &order("/dev/sda")).await;
    assert_eq!(away.unwrap_err(), AgentError::Away { node: "n2".into() });
    links.close().await;
}
