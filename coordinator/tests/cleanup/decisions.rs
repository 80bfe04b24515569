//! What is said of a cleanup, and to whom.

use hypercloud_api::{
    CleanupDevice, CleanupPhase, NodeDeviceCleanup, NodeDeviceCleanupStatus, RetryStatus,
};
use hypercloud_coordinator::agents::devices::Cleaned;
use hypercloud_coordinator::cleanup::choose::choose;
use hypercloud_coordinator::cleanup::notices::{notices, on_node};
use hypercloud_coordinator::cleanup::status;
use hypercloud_coordinator::cleanup::verdict::{Verdict, failed, waiting};
use hypercloud_inventory::{Inventory, Kind};
use serde_json::json;

use super::devices::{at, device};
use super::drive::Simulated;
use super::world::{World, failure};

fn cleanup(status: Option<NodeDeviceCleanupStatus>) -> NodeDeviceCleanup {
    let mut cleanup: NodeDeviceCleanup = serde_json::from_value(json!({
        "apiVersion": "hypercloud.tmaxanc.com/v1alpha1", "kind": "NodeDeviceCleanup",
        "metadata": {"name": "a", "uid": "uid", "generation": 1},
        "spec": {"nodeName": "n1", "device": "sdb", "confirmation": "yes-really-destroy-data"}
    }))
    .unwrap();
    cleanup.status = status;
    cleanup
}

fn disk() -> CleanupDevice {
    CleanupDevice {
        path: "/dev/sdb".into(),
        by_id: Some("/dev/disk/by-id/ata-sdb".into()),
        serial: Some("S-sdb".into()),
        size: 1 << 40,
        ..CleanupDevice::default()
    }
}

/// The statuses after each verdict, and the Events of the last change.
fn after(verdicts: &[Verdict]) -> (NodeDeviceCleanupStatus, Vec<(bool, String)>) {
    let mut status: Option<NodeDeviceCleanupStatus> = None;
    let mut told = vec![];
    for (second, verdict) in verdicts.iter().enumerate() {
        let resource = cleanup(status.clone());
        let next = status::next(&resource, verdict, at(second as i64));
        let again = status::next(&cleanup(Some(next.clone())), &Verdict::Keep, at(99));
        assert_eq!(again, next);
        told = notices(status.as_ref(), &next)
            .into_iter()
            .map(|notice| (notice.warning, notice.reason))
            .collect();
        status = Some(next);
    }
    (status.unwrap(), told)
}

fn message(status: &NodeDeviceCleanupStatus) -> &str {
    &status.conditions[0].message
}

#[test]
fn a_cleaning_is_told_from_its_beginning_to_its_end() {
    let (status, told) = after(&[waiting("NotYetTold", "soon"), Verdict::Chosen(disk())]);
    assert_eq!(status.phase, Some(CleanupPhase::Cleaning));
    assert_eq!(told, [(false, "Cleaning".to_owned())]);
    for word in ["/dev/sdb", "n1", "S-sdb", "/dev/disk/by-id/ata-sdb"] {
        assert!(message(&status).contains(word), "{}", message(&status));
    }
    let done = Verdict::Cleaned(Cleaned {
        removed: vec!["ext4 at byte 1080".into(), "gpt at byte 512".into()],
        discarded: false,
    });
    let (status, told) = after(&[Verdict::Chosen(disk()), done]);
    assert_eq!(status.phase, Some(CleanupPhase::Succeeded));
    assert_eq!(told, [(false, "Cleaned".to_owned())]);
    assert_eq!((status.removed.len(), status.discarded), (2, Some(false)));
    assert_eq!(status.completion_time.as_ref().unwrap().0, at(1));
    assert!(message(&status).contains("removed ext4 at byte 1080, gpt at byte 512; it takes no"));
    let nothing = Verdict::Cleaned(Cleaned {
        removed: vec![],
        discarded: true,
    });
    let (status, _) = after(&[Verdict::Chosen(disk()), nothing]);
    assert!(message(&status).contains("nothing was left on it"));
}

#[test]
fn a_name_of_the_kernel_s_is_good_for_a_moment() {
    for (name, reason) in [("sdb", "Expired"), ("/dev/disk/by-id/ata-sdb", "Cleaning")] {
        let mut world = World::new();
        world.ask("a", name);
        // Nobody led meanwhile.
        world.now += 120;
        assert!(world.look());
        assert_eq!(world.reason("a"), reason);
        assert_eq!(world.work.is_empty(), reason == "Expired");
    }
}

#[test]
fn an_order_of_yesterday_is_not_gone_on_with() {
    let mut world = World::new();
    world.ask("a", "sdb");
    assert!(world.look());
    assert_eq!(world.phase("a"), Some(CleanupPhase::Cleaning));
    // The agent ended it, everything was off, and somebody uses the device.
    for _ in 0..20 {
        world.pass();
    }
    assert_eq!(world.cleaned.len(), 1);
    world.answers.clear();
    world.used.push("sdb".into());
    world.now += 25 * 3600;
    assert!(world.look());
    assert_eq!(world.phase("a"), Some(CleanupPhase::Failed));
    assert_eq!(world.reason("a"), "Expired");
    assert!(world.work.is_empty());
}

#[test]
fn a_refusal_is_told_from_a_failure() {
    let refused = (true, "CleaningRefused".to_owned());
    let broken = (true, "CleaningFailed".to_owned());
    let (status, told) = after(&[failed("Mounted", "mounted at /")]);
    assert_eq!(told[..], [(true, "CleaningRefused".to_owned())]);
    assert_eq!(status.device, None);
    assert!(status.completion_time.is_some());
    let (_, told) = after(&[
        Verdict::Chosen(disk()),
        failed("Held", "dm-0 is made of it"),
    ]);
    assert_eq!(told, [refused]);
    let (_, told) = after(&[Verdict::Chosen(disk()), failed("LeftoversRemain", "ext4")]);
    assert_eq!(told[..], [(true, "CleaningFailed".to_owned())]);
    let tried = Verdict::TryFailed(failure("CleaningFailed", true));
    let (status, told) = after(&[Verdict::Chosen(disk()), tried.clone()]);
    assert_eq!(told, [(true, "Retrying".to_owned())]);
    assert_eq!(status.phase, Some(CleanupPhase::Pending));
    assert_eq!(status.device, Some(disk()));
    let retry = status.retry.unwrap();
    assert!(
        matches!(retry, RetryStatus { failures: 1, .. }),
        "{retry:?}"
    );
    let (_, told) = after(&[Verdict::Chosen(disk()), tried, failed("Held", "by now")]);
    assert_eq!(told, [broken]);
}

#[test]
fn the_node_s_events_name_the_cleanup() {
    let next = status::next(&cleanup(None), &failed("Mounted", "mounted at /"), at(0));
    let told = on_node("a", &notices(None, &next));
    assert_eq!(told.len(), 1);
    assert_eq!(
        told[0].message,
        "NodeDeviceCleanup a: Mounted: mounted at /"
    );
}

#[test]
fn what_is_written_down_is_never_another_device() {
    let other = CleanupDevice {
        path: "/dev/sdc".into(),
        ..CleanupDevice::default()
    };
    let (status, _) = after(&[Verdict::Chosen(disk()), Verdict::Chosen(other)]);
    assert_eq!(status.device, Some(disk()));
}

#[test]
fn a_device_is_chosen_by_name_or_link() {
    let mut leg = device("sdc", false);
    leg.identity = device("sdb", false).identity;
    leg.identity.by_id = None;
    let mut inventory = Inventory {
        hostname: None,
        boot_id: Some("boot".into()),
        devices: vec![device("sda", false), device("sdb", false), leg],
    };
    let path = |inventory: &Inventory, name: &str| {
        choose(inventory, "n1", name)
            .map(|chosen| chosen.path)
            .map_err(|(reason, _)| reason)
    };
    for name in ["sda", "/dev/sda", "/dev/disk/by-path/pci-0000:00:1f.2-sda"] {
        assert_eq!(path(&inventory, name), Ok("/dev/sda".to_owned()), "{name}");
    }
    let chosen = choose(&inventory, "n1", "sda").unwrap();
    assert_eq!(chosen.boot_id.as_deref(), Some("boot"));
    assert_eq!(chosen.disk_sequence, Some(7));
    assert_eq!(chosen.serial.as_deref(), Some("S-sda"));
    let shared = "/dev/disk/by-path/pci-0000:00:1f.2-sdb";
    assert_eq!(path(&inventory, shared), Err("AmbiguousDevice".to_owned()));
    assert_eq!(path(&inventory, "sd"), Err("DeviceNotThere".to_owned()));
    assert_eq!(path(&inventory, ""), Err("DeviceNotThere".to_owned()));
    // Nothing tells it from another one.
    inventory.devices[0].identity = Default::default();
    assert_eq!(
        path(&inventory, "sda"),
        Err("DeviceNotIdentified".to_owned())
    );
    inventory.devices[0] = device("sda", false);
    inventory.devices[0].kind = Kind::Optical;
    inventory.devices[0].reasons[0].reason = "OpticalDrive".into();
    assert_eq!(path(&inventory, "sda"), Err("OpticalDrive".to_owned()));
}
