//! Inventories of nodes: what is concluded, and what is written to an API
//! server in memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod devices;
mod fitting;
#[path = "../own/memory.rs"]
mod memory;
mod written;

use std::sync::Arc;
use std::time::Duration;

use devices::{at, device, large, told};
use hypercloud_api::conditions::find;
use hypercloud_api::{InventoryState, NodeDeviceInventory, NodeDeviceInventoryStatus};
use hypercloud_coordinator::again::Again;
use hypercloud_coordinator::agents::devices::{DeviceLink, DevicesSeen, Told};
use hypercloud_coordinator::inventory::observation::{NodeSeen, Observation};
use hypercloud_coordinator::inventory::plan::plan;
use hypercloud_coordinator::inventory::status;
use hypercloud_coordinator::inventory::verdict::{Action, Verdict};
use proptest::prelude::*;
use serde_json::json;

fn node() -> NodeSeen {
    NodeSeen {
        uid: "node-uid".into(),
        hostname: Some("worker-1".into()),
        created: None,
    }
}

fn inventory(owner: &str, status: Option<NodeDeviceInventoryStatus>) -> NodeDeviceInventory {
    let mut inventory: NodeDeviceInventory = serde_json::from_value(json!({
        "apiVersion": "hypercloud.tmaxanc.com/v1alpha1", "kind": "NodeDeviceInventory",
        "metadata": {"name": "n1", "uid": "ndi", "generation": 1, "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": owner, "controller": true}]},
        "spec": {}
    }))
    .unwrap();
    inventory.status = status;
    inventory
}

fn following(told: Arc<Told>, heard: i64) -> DevicesSeen {
    DevicesSeen {
        link: DeviceLink::Following { since: at(1) },
        told: Some((told, at(heard))),
    }
}

fn seen(status: Option<NodeDeviceInventoryStatus>, devices: DevicesSeen) -> Observation {
    Observation {
        name: "n1".into(),
        node: Some(node()),
        inventory: Some(inventory("node-uid", status)),
        devices,
    }
}

/// The status after a look at `now`, and when the next one is.
fn look(seen: &Observation, now: i64) -> (NodeDeviceInventoryStatus, Again) {
    let plan = plan(seen, at(now));
    assert_eq!(plan.actions, []);
    let inventory = seen.inventory.as_ref().unwrap();
    let status = status::next(inventory, &node(), &plan.verdict, at(now));
    // As the API server gives it back.
    let text = serde_json::to_string(&status).unwrap();
    (serde_json::from_str(&text).unwrap(), plan.again)
}

fn ready(status: &NodeDeviceInventoryStatus) -> (&str, &str, &str) {
    let condition = find(&status.conditions, "Ready").unwrap();
    (&condition.status, &condition.reason, &condition.message)
}

#[test]
fn what_is_told_is_shown() {
    let told = told(
        5,
        vec![
            device("sda", false),
            device("sdb", true),
            device("sdc", true),
        ],
    );
    let (status, again) = look(&seen(None, following(told, 1000)), 1010);
    assert_eq!(status.state, Some(InventoryState::Current));
    assert_eq!(status.hostname.as_deref(), Some("worker-1"));
    assert_eq!(status.boot_id.as_deref(), Some("boot"));
    assert_eq!(status.revision, Some(5));
    assert_eq!(status.heartbeat_time.as_ref().unwrap().0, at(1000));
    assert_eq!(
        (status.device_count, status.available_count),
        (Some(3), Some(2))
    );
    assert_eq!(status.capacity.as_deref(), Some("2Ti"));
    assert_eq!(status.devices.len(), 3);
    assert_eq!(status.omitted_devices, None);
    let said = "3 devices, 2 of them available";
    assert_eq!(ready(&status), ("True", "Current", said));
    // When the agent would have to be heard again.
    assert_eq!(again, Again::After(Duration::from_secs(140)));
}

#[test]
fn nothing_is_written_without_a_change_until_the_heartbeat_is_due() {
    let devices = || told(5, vec![device("sda", false)]);
    let (first, _) = look(&seen(None, following(devices(), 1000)), 1000);
    for now in [1060, 1120, 1299] {
        let (next, again) = look(&seen(Some(first.clone()), following(devices(), now)), now);
        assert_eq!(next, first, "{now}");
        let wait = Duration::from_secs((1300 - now as u64).min(150));
        assert_eq!(again, Again::After(wait));
    }
    let (renewed, _) = look(&seen(Some(first.clone()), following(devices(), 1290)), 1300);
    assert_eq!(renewed.heartbeat_time.as_ref().unwrap().0, at(1290));
    let mut expected = first.clone();
    expected.heartbeat_time = renewed.heartbeat_time.clone();
    assert_eq!(renewed, expected);
    // A change brings its time along.
    let changed = told(6, vec![device("sda", true)]);
    let (next, _) = look(&seen(Some(first), following(changed, 1070)), 1071);
    assert_eq!(next.heartbeat_time.as_ref().unwrap().0, at(1070));
    assert_eq!(next.available_count, Some(1));
}

#[test]
fn what_somebody_wrote_is_put_right() {
    let devices = || told(5, vec![device("sda", false)]);
    let (right, _) = look(&seen(None, following(devices(), 1000)), 1000);
    let mut wrong = right.clone();
    wrong.devices[0].available = true;
    wrong.available_count = Some(1);
    let (next, _) = look(&seen(Some(wrong), following(devices(), 1001)), 1001);
    assert_eq!(next.devices, right.devices);
    assert_eq!(next.available_count, Some(0));
}

#[test]
fn an_agent_that_goes_leaves_a_stale_inventory_that_is_written_once() {
    let devices = || Some((told(5, vec![device("sda", true)]), at(1000)));
    let (current, _) = look(&seen(None, following(devices().unwrap().0, 1000)), 1000);
    let away = |now| {
        let link = DeviceLink::Away { since: at(now) };
        let told = devices();
        DevicesSeen { link, told }
    };
    // Its pod is restarted, which is nothing.
    let (next, again) = look(&seen(Some(current.clone()), away(1010)), 1020);
    assert_eq!(next, current);
    assert_eq!(again, Again::After(Duration::from_secs(20)));

    let (stale, again) = look(&seen(Some(current.clone()), away(1010)), 1040);
    assert_eq!(stale.state, Some(InventoryState::Stale));
    assert_eq!(stale.devices, current.devices);
    assert_eq!(again, Again::OnChange);
    let (holds, reason, message) = ready(&stale);
    assert_eq!((holds, reason), ("False", "AgentUnreachable"));
    assert!(
        message.ends_with("those of 1970-01-01T00:16:40Z"),
        "{message}"
    );
    for now in [1041, 2000, 9000] {
        let (next, _) = look(&seen(Some(stale.clone()), away(1010)), now);
        assert_eq!(next, stale, "{now}");
    }
    // Another coordinator, which has heard nothing, says the same.
    let link = DeviceLink::Away { since: at(9000) };
    let nothing = DevicesSeen { link, told: None };
    let (next, _) = look(&seen(Some(stale.clone()), nothing.clone()), 9010);
    assert_eq!(next, stale);
    let (next, _) = look(&seen(Some(stale.clone()), nothing), 9031);
    assert_eq!(next, stale);
    // And it is back.
    let (back, _) = look(
        &seen(Some(stale), following(devices().unwrap().0, 9100)),
        9100,
    );
    assert_eq!(ready(&back).0, "True");
    assert_eq!(back.heartbeat_time.as_ref().unwrap().0, at(9100));
}

#[test]
fn a_new_leader_lets_the_agents_connect() {
    let told = told(5, vec![device("sda", true)]);
    let (current, _) = look(&seen(None, following(told, 1000)), 1000);
    let nothing = |link| DevicesSeen { link, told: None };
    for link in [
        DeviceLink::NoAgent { since: at(2000) },
        DeviceLink::Away { since: at(2000) },
        DeviceLink::Following { since: at(2000) },
    ] {
        let (next, _) = look(&seen(Some(current.clone()), nothing(link)), 2029);
        assert_eq!(next, current, "{link:?}");
    }
    let gone = nothing(DeviceLink::NoAgent { since: at(2000) });
    let (stale, _) = look(&seen(Some(current), gone), 2030);
    assert_eq!(ready(&stale).1, "NoAgent");
    assert_eq!(stale.state, Some(InventoryState::Stale));
}

#[test]
fn what_a_former_machine_of_the_name_told_is_not_shown() {
    let devices = following(told(5, vec![device("sda", true)]), 1000);
    let mut world = seen(None, devices);
    world.node.as_mut().unwrap().created = Some(at(1001));
    let (status, again) = look(&world, 1010);
    assert_eq!(ready(&status).1, "NotYetTold");
    // The next look of its agent need not bring news.
    assert_eq!(again, Again::After(Duration::from_secs(10)));
    world.node.as_mut().unwrap().created = Some(at(1000));
    let (status, _) = look(&world, 1010);
    assert_eq!(ready(&status).1, "Current");
}

#[test]
fn a_node_that_told_nothing_is_pending_and_says_why() {
    let nothing = |link| DevicesSeen { link, told: None };
    let cases = [
        (DeviceLink::NoAgent { since: at(0) }, "NoAgent"),
        (DeviceLink::Away { since: at(0) }, "AgentUnreachable"),
        (DeviceLink::Away { since: at(990) }, "NotYetTold"),
        (DeviceLink::Following { since: at(990) }, "NotYetTold"),
        (DeviceLink::Following { since: at(0) }, "AgentSilent"),
        (DeviceLink::TooOld, "AgentTooOld"),
    ];
    for (link, expected) in cases {
        let (status, _) = look(&seen(None, nothing(link)), 1000);
        let (holds, reason, message) = ready(&status);
        assert_eq!((holds, reason), ("Unknown", expected));
        assert!(message.contains("n1"), "{message}");
        assert_eq!(status.state, Some(InventoryState::Pending));
        assert_eq!(status.heartbeat_time, None);
        let (again, _) = look(&seen(Some(status.clone()), nothing(link)), 1001);
        assert_eq!(again, status);
    }
}

#[test]
fn a_node_that_is_larger_than_an_object_says_what_it_leaves_out() {
    let devices: Vec<_> = (0..3000)
        .map(|n| large(&format!("sd{n}"), n % 2 == 0))
        .collect();
    let (status, _) = look(&seen(None, following(told(5, devices), 1000)), 1000);
    assert_eq!(status.device_count, Some(3000));
    assert_eq!(status.available_count, Some(1500));
    let omitted = status.omitted_devices.unwrap();
    assert_eq!(status.devices.len() as i64 + omitted, 3000);
    assert!(
        ready(&status)
            .2
            .contains(&format!("{omitted} devices are not shown"))
    );
    let text = serde_json::to_string(&status).unwrap();
    assert!(text.len() < (1 << 20) + 4096, "{}", text.len());
}

fn any_devices() -> impl Strategy<Value = DevicesSeen> {
    let link = (0..4, 0i64..2000).prop_map(|(kind, second)| {
        let since = at(second);
        match kind {
            0 => DeviceLink::NoAgent { since },
            1 => DeviceLink::Away { since },
            2 => DeviceLink::TooOld,
            _ => DeviceLink::Following { since },
        }
    });
    let told = prop::option::of((
        0u64..3,
        prop::collection::vec(any::<bool>(), 0..4),
        0i64..2000,
    ));
    (link, told).prop_map(|(link, told)| {
        let told = told.map(|(revision, kinds, heard)| {
            let named = kinds.iter().enumerate();
            let devices = named.map(|(n, available)| device(&format!("sd{n}"), *available));
            (devices::told(revision, devices.collect()), at(heard))
        });
        DevicesSeen { link, told }
    })
}

proptest! {
    /// Whatever was seen before: what is concluded twice is written once, and
    /// an inventory that says it is current is.
    #[test]
    fn the_same_conclusion_is_written_once(
        worlds in prop::collection::vec((any_devices(), 2000i64..2400), 1..5),
    ) {
        let mut status = None;
        for (devices, now) in worlds {
            let (next, _) = look(&seen(status, devices.clone()), now);
            let (again, _) = look(&seen(Some(next.clone()), devices.clone()), now);
            prop_assert_eq!(&again, &next);
            if let Some((told, _)) = &devices.told {
                prop_assert_eq!(&next.devices, &told.inventory.devices);
            }
            match next.state.unwrap() {
                InventoryState::Pending => prop_assert!(next.devices.is_empty()),
                InventoryState::Current => prop_assert_eq!(ready(&next).0, "True"),
                InventoryState::Stale => prop_assert_eq!(ready(&next).0, "False"),
            }
            status = Some(next);
        }
    }
}

#[test]
fn an_inventory_is_of_one_node_only() {
    let devices = || following(told(5, vec![]), 1000);
    let mut world = seen(None, devices());
    world.inventory = None;
    assert_eq!(plan(&world, at(1000)).actions, [Action::Create]);
    world.node = None;
    assert_eq!(plan(&world, at(1000)).actions, []);
    // Its node is gone, or another one has the name.
    let deletion = [Action::Delete { uid: "ndi".into() }];
    world.inventory = Some(inventory("node-uid", None));
    assert_eq!(plan(&world, at(1000)).actions, deletion);
    world.node = Some(node());
    world.inventory = Some(inventory("former-uid", None));
    assert_eq!(plan(&world, at(1000)).actions, deletion);
    let mut deleted = inventory("former-uid", None);
    deleted.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    world.inventory = Some(deleted);
    let plan = plan(&world, at(1000));
    assert_eq!((plan.actions.len(), plan.verdict), (0, Verdict::Keep));
}
