//! Whole cleanups in a simulated world, with a coordinator that dies before
//! any one of its effects. The world itself fails when an agent is asked for a
//! device that is not written down, for two at once, or for one that somebody
//! uses again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod decisions;
#[path = "../inventory/devices.rs"]
#[allow(dead_code)] // A part of it is used here.
mod devices;
#[path = "../drive/mod.rs"]
mod drive;
mod world;

use hypercloud_api::CleanupPhase;
use world::{World, failure, written};

/// What happens to the world at a second.
type Script = fn(&mut World, u32);
/// Whether the world is as it has to end.
type End = fn(&World) -> bool;

struct Scenario {
    name: &'static str,
    script: Script,
    end: End,
}

fn succeeded(world: &World, name: &str) -> bool {
    world.phase(name) == Some(CleanupPhase::Succeeded) && world.reason(name) == "Cleaned"
}

fn failed(world: &World, name: &str, reason: &str) -> bool {
    world.phase(name) == Some(CleanupPhase::Failed)
        && world.reason(name) == reason
        && world.work.is_empty()
}

fn untouched(world: &World, reason: &str) -> bool {
    failed(world, "a", reason) && world.cleaned.is_empty()
}

/// A link that stays with the device.
const LASTING: &str = "/dev/disk/by-id/ata-sdb";

const SCENARIOS: [Scenario; 21] = [
    Scenario {
        name: "nothing happens",
        script: |world, second| {
            if second == 0 {
                world.ask("a", "/dev/sdb");
            }
        },
        end: |world| succeeded(world, "a") && world.paths() == ["/dev/sdb"],
    },
    Scenario {
        name: "it is the storage's, by another of its names",
        script: |world, second| {
            if second == 0 {
                world.storage.insert(LASTING.to_owned());
                world.ask("a", "/dev/sdb");
            }
        },
        end: |world| untouched(world, "DeviceOfStorage"),
    },
    Scenario {
        name: "it is named by a link",
        script: |world, second| {
            if second == 0 {
                world.ask("a", "/dev/disk/by-path/pci-0000:00:1f.2-sdc");
            }
        },
        end: |world| succeeded(world, "a") && world.paths() == ["/dev/sdc"],
    },
    Scenario {
        name: "somebody uses the device as soon as it is clean",
        script: |world, second| {
            if second == 0 {
                world.ask("a", "sdb");
            }
            if !world.cleaned.is_empty() && world.used.is_empty() {
                world.used.push("sdb".into());
            }
        },
        end: |world| succeeded(world, "a") && world.cleaned.len() == 1,
    },
    Scenario {
        name: "two are made at once for one device",
        script: |world, second| {
            if second == 0 {
                world.ask("b", LASTING);
                world.ask("a", "sdb");
            }
        },
        end: |world| {
            succeeded(world, "a")
                && succeeded(world, "b")
                && world.paths() == ["/dev/sdb", "/dev/sdb"]
        },
    },
    Scenario {
        name: "two are made at once for two devices of an agent that is away",
        script: |world, second| match second {
            0 => {
                world.away = Some(world.now - 40);
                world.ask("a", LASTING);
            }
            50 => world.away = None,
            51 => world.ask("b", "sdc"),
            _ => {}
        },
        end: |world| succeeded(world, "a") && succeeded(world, "b") && world.cleaned.len() == 2,
    },
    Scenario {
        name: "the agent stays away",
        script: |world, second| {
            if second == 0 {
                world.away = Some(world.now - 40);
                world.ask("a", LASTING);
            }
        },
        end: |world| untouched(world, "Expired"),
    },
    Scenario {
        name: "the agent is away, and the name may be another device's when it comes back",
        script: |world, second| match second {
            0 => {
                world.away = Some(world.now - 40);
                world.ask("a", "sdb");
            }
            50 => world.away = None,
            _ => {}
        },
        end: |world| untouched(world, "AgentUnreachable"),
    },
    Scenario {
        name: "the agent is away, and another machine comes in the node's place",
        script: |world, second| match second {
            0 => {
                world.away = Some(world.now - 40);
                world.ask("a", LASTING);
            }
            50 => {
                world.node_made = Some(world.now);
                world.away = None;
            }
            _ => {}
        },
        end: |world| untouched(world, "NodeNotFound"),
    },
    Scenario {
        name: "the agent goes in the middle, and comes back",
        script: |world, second| match second {
            0 => world.ask("a", "sdb"),
            3 => world.away = Some(world.now),
            200 => world.away = None,
            _ => {}
        },
        end: |world| succeeded(world, "a") && world.cleaned.len() == 1,
    },
    Scenario {
        name: "the agent goes in the middle for good",
        script: |world, second| match second {
            0 => world.ask("a", "sdb"),
            3 => {
                world.away = Some(world.now);
                world.work.clear();
            }
            _ => {}
        },
        end: |world| failed(world, "a", "AgentUnreachable"),
    },
    Scenario {
        name: "tries fail",
        script: |world, second| {
            if second == 0 {
                world.ask("a", "sdb");
                world.failures = vec![failure("CleaningFailed", true); 3];
            }
        },
        end: |world| succeeded(world, "a") && world.cleaned.len() == 1,
    },
    Scenario {
        name: "tries fail without an end",
        script: |world, second| {
            if second == 0 {
                world.ask("a", "sdb");
                world.failures = vec![failure("CleaningFailed", true); 40];
            }
        },
        end: |world| untouched(world, "RetriesExhausted"),
    },
    Scenario {
        name: "the agent refuses it",
        script: |world, second| {
            if second == 0 {
                world.ask("a", "sdb");
                world.failures = vec![failure("Held", false)];
            }
        },
        end: |world| untouched(world, "Held") && written(world, "a").is_some(),
    },
    Scenario {
        name: "the node needs it",
        script: |world, second| {
            if second == 0 {
                world.ask("a", "sda");
            }
        },
        end: |world| untouched(world, "BacksSystem") && written(world, "a").is_none(),
    },
    Scenario {
        name: "it is mounted",
        script: |world, second| {
            if second == 0 {
                world.ask("a", "sdd");
            }
        },
        end: |world| untouched(world, "Mounted") && written(world, "a").is_some(),
    },
    Scenario {
        name: "it was mounted when the agent looked last",
        script: |world, second| {
            if second == 0 {
                world.ask("a", "sdd");
            }
            if written(world, "a").is_some() {
                world.inventory.devices[3].reasons.clear();
            }
        },
        end: |world| succeeded(world, "a"),
    },
    Scenario {
        name: "the machine is started anew while the order waits, and its disks change places",
        script: |world, second| match second {
            0 => {
                world.away = Some(world.now - 40);
                world.ask("a", LASTING);
                world.ask("b", "sdc");
            }
            60 => {
                world.inventory.boot_id = Some("next boot".into());
                let devices = &mut world.inventory.devices;
                for (at, name) in [(1, "sdc"), (2, "sdb")] {
                    devices[at].name = name.into();
                    devices[at].path = format!("/dev/{name}");
                }
                world.away = None;
            }
            _ => {}
        },
        end: |world| {
            succeeded(world, "a")
                && failed(world, "b", "AgentUnreachable")
                && world.cleaned.len() == 1
                && world.cleaned[0].device.serial.as_deref() == Some("S-sdb")
        },
    },
    Scenario {
        name: "there is no such device",
        script: |world, second| {
            if second == 0 {
                world.ask("a", "sdz");
            }
        },
        end: |world| untouched(world, "DeviceNotThere"),
    },
    Scenario {
        name: "there is no such node",
        script: |world, second| {
            if second == 0 {
                world.node = false;
                world.ask("a", "sdb");
            }
        },
        end: |world| untouched(world, "NodeNotFound"),
    },
    Scenario {
        name: "the resource is deleted in the middle",
        script: |world, second| match second {
            0 => world.ask("a", "sdb"),
            3 => {
                world.cleanups.clear();
            }
            _ => {}
        },
        // What the agent began it ends.
        end: |world| world.cleanups.is_empty() && world.work.is_empty(),
    },
];

#[test]
fn every_cleanup_ends_as_it_has_to_wherever_the_coordinator_dies() {
    for Scenario { name, script, end } in SCENARIOS {
        drive::everywhere(name, |death| {
            drive::run(name, World::new(), script, end, death)
        });
    }
}

#[test]
fn the_name_may_become_another_device_s() {
    let script: Script = |world, second| {
        if second == 0 {
            world.ask("a", "sdb");
        }
        // The disks change places as soon as one is written down.
        if written(world, "a").is_some() && world.inventory.devices[1].name == "sdb" {
            let mut other = world.inventory.devices[2].clone();
            other.name = "sdb".into();
            other.path = "/dev/sdb".into();
            world.inventory.devices[1].name = "sdc".into();
            world.inventory.devices[1].path = "/dev/sdc".into();
            world.inventory.devices[2] = other;
        }
    };
    let end: End = |world| {
        succeeded(world, "a")
            && world
                .cleaned
                .iter()
                .all(|order| order.device.serial.as_deref() == Some("S-sdb"))
    };
    drive::everywhere("the disks change places", |death| {
        drive::run("the disks change places", World::new(), script, end, death)
    });
}
