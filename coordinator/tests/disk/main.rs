//! Whole disks in a simulated world, with a coordinator that dies before any
//! one of its effects; and golden texts of what is made and told.
//!
//! Every scenario runs once undisturbed, and then once for each effect of
//! that run with the coordinator dying before it; each time it has to come to
//! the same end. At every instant the disk's claim is Bound only with all of
//! its data, and what is somebody else's is left alone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../drive/mod.rs"]
mod drive;
mod golden;
mod world;

use drive::{LIMIT, Simulated};
use hypercloud_api::{DiskMethod, DiskPhase};
use proptest::prelude::*;
use world::{NODES, ORIGIN, UID, Way, World, failure};

/// What happens to the world at a second.
type Script = fn(&mut World, u32);
/// Whether the world is as it has to end.
type End = fn(&World) -> bool;

struct Scenario {
    name: &'static str,
    ways: &'static [Way],
    script: Script,
    end: End,
}

const ALL: &[Way] = &[Way::Clone, Way::HandOver, Way::Copy];
const HANDED: &[Way] = &[Way::HandOver, Way::Copy];
const COPY: &[Way] = &[Way::Copy];

fn ready(world: &World) -> bool {
    world.phase() == Some(DiskPhase::Ready) && world.is_tidy() && world.bound().is_some()
}

fn failed(world: &World) -> bool {
    world.phase() == Some(DiskPhase::Failed) && world.is_tidy() && world.bound().is_none()
}

fn gone(world: &World) -> bool {
    let source = usize::from(world.claims.contains_key(ORIGIN));
    world.disk.is_none() && world.is_tidy() && world.claims.len() == source
}

fn method(world: &World) -> Option<DiskMethod> {
    world.disk.as_ref()?.status.as_ref()?.method
}

const SCENARIOS: [Scenario; 22] = [
    Scenario {
        name: "nothing happens",
        ways: ALL,
        script: |_, _| {},
        end: ready,
    },
    Scenario {
        name: "volumes wait for their consumer",
        ways: ALL,
        script: |world, _| world.waits = true,
        end: ready,
    },
    Scenario {
        name: "the image comes late",
        ways: ALL,
        script: |world, second| match second {
            0 => world.delete_image(),
            20 => world.make_image(),
            _ => {}
        },
        end: ready,
    },
    Scenario {
        name: "the storage does not clone",
        ways: &[Way::Clone, Way::HandOver],
        script: |world, _| world.clones = false,
        end: |world| ready(world) && method(world) == Some(DiskMethod::Copy),
    },
    Scenario {
        name: "the storage makes an empty volume where it is to clone",
        ways: ALL,
        script: |world, _| world.csi = false,
        end: |world| ready(world) && method(world) == Some(DiskMethod::Copy),
    },
    Scenario {
        name: "the image is replaced meanwhile",
        ways: ALL,
        script: |world, second| match second {
            0..=1 => world.waits = true,
            2 => world.delete_image(),
            9 => world.make_image(),
            _ => {}
        },
        end: ready,
    },
    Scenario {
        name: "the image goes in mid-copy and another comes",
        ways: HANDED,
        script: |world, second| match second {
            4 => world.delete_image(),
            40 => world.make_image(),
            _ => {}
        },
        end: ready,
    },
    Scenario {
        name: "the image is no longer shared, and then again",
        ways: HANDED,
        script: |world, second| world.shared = !(1..30).contains(&second),
        end: ready,
    },
    Scenario {
        name: "two copies fail",
        ways: COPY,
        script: |world, second| {
            if second == 0 {
                world.failures = vec![failure("Reset", true), failure("Stalled", true)];
            }
        },
        end: ready,
    },
    Scenario {
        name: "no copy can succeed",
        ways: COPY,
        script: |world, second| {
            if second == 0 {
                world.failures = vec![failure("TooSmall", false)];
            }
        },
        end: failed,
    },
    Scenario {
        name: "every copy fails",
        ways: COPY,
        script: |world, second| {
            if second == 0 {
                world.failures = vec![failure("Reset", true); 40];
            }
        },
        end: failed,
    },
    Scenario {
        name: "the holder is deleted",
        ways: COPY,
        script: |world, second| {
            if second == 4 {
                world.delete_pods();
            }
        },
        end: ready,
    },
    Scenario {
        name: "the volume that is copied to is deleted",
        ways: HANDED,
        script: |world, second| {
            if second == 4 {
                world.delete_claim(&hypercloud_api::names::prime_claim(UID));
            }
        },
        end: ready,
    },
    Scenario {
        name: "the agent loses its journal",
        ways: COPY,
        script: |world, second| {
            if second == 5 {
                for node in NODES {
                    world.switch(node, true, false);
                }
            }
        },
        end: ready,
    },
    Scenario {
        name: "the node is away for ten minutes",
        ways: COPY,
        script: |world, second| {
            if second == 4
                && let Some(node) = world.job_node()
            {
                world.switch(node, false, true);
            }
            if second == 604 {
                for node in NODES {
                    world.switch(node, true, true);
                }
            }
        },
        end: ready,
    },
    Scenario {
        name: "the claim is deleted before it is bound",
        ways: ALL,
        script: |world, second| {
            world.waits = true;
            world.consumed = second > 30;
            if second == 20 {
                world.delete_claim("disk");
            }
        },
        end: ready,
    },
    Scenario {
        name: "the claim is deleted once it is ready",
        ways: ALL,
        script: |world, second| {
            if second == 40 {
                world.delete_claim("disk");
            }
        },
        end: failed,
    },
    Scenario {
        name: "somebody else has the claim's name",
        ways: ALL,
        script: |world, second| {
            if second == 0 {
                world.make_foreign_claim();
            }
        },
        end: |world| world.phase() == Some(DiskPhase::Pending) && world.claims.len() == 2,
    },
    Scenario {
        name: "the disk is deleted while it waits",
        ways: ALL,
        script: |world, second| match second {
            0 => world.delete_image(),
            10 => world.delete_disk(),
            _ => {}
        },
        end: gone,
    },
    Scenario {
        name: "the disk is deleted meanwhile",
        ways: ALL,
        script: |world, second| {
            if second == 3 {
                world.delete_disk();
            }
        },
        end: gone,
    },
    Scenario {
        name: "the disk is orphaned once it is ready",
        ways: ALL,
        script: |world, second| {
            world.orphan = true;
            if second == 40 {
                world.delete_disk();
            }
        },
        end: |world| world.disk.is_none() && world.is_tidy() && world.bound().is_some(),
    },
    Scenario {
        name: "the disk is deleted while its node is gone",
        ways: COPY,
        script: |world, second| {
            if second == 4
                && let Some(node) = world.job_node()
            {
                world.switch(node, false, false);
            }
            if second == 5 {
                world.delete_disk();
            }
        },
        end: gone,
    },
];

impl Simulated for World {
    fn fuse(&mut self) -> &mut Option<u32> {
        &mut self.fuse
    }

    fn effects(&self) -> u32 {
        self.effects
    }

    fn look(&mut self) -> bool {
        self.reconcile().is_ok()
    }

    fn pass(&mut self) {
        self.tick();
    }

    fn told(&self) -> String {
        format!(
            "{:?}, claims {:?}, volumes {:?}, pods {:?}",
            self.disk.as_ref().map(|disk| &disk.status),
            self.claims,
            self.volumes,
            self.pods,
        )
    }
}

/// Runs a scenario with a coordinator that dies before effect `death`.
/// Answers with the number of effects.
fn run(scenario: &Scenario, way: Way, death: Option<u32>) -> u32 {
    let name = format!("{} ({way:?})", scenario.name);
    drive::run(&name, World::new(way), scenario.script, scenario.end, death)
}

#[test]
fn every_scenario_survives_a_death_before_any_effect() {
    for scenario in &SCENARIOS {
        for way in scenario.ways {
            drive::everywhere(scenario.name, |death| run(scenario, *way, death));
        }
    }
}

#[test]
fn an_undisturbed_disk_takes_few_effects() {
    let [clone, handed, copy] =
        [Way::Clone, Way::HandOver, Way::Copy].map(|way| run(&SCENARIOS[0], way, None));
    // Finalizer, claim, and the statuses.
    assert!(clone <= 6, "{clone} effects");
    // And the prime claim made, handed over and deleted.
    assert!(handed <= 10, "{handed} effects");
    // And the holder and the job.
    assert!(copy <= 24, "{copy} effects");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever happens, and however often the coordinator dies, in the end
    /// the disk is ready or has failed, and a deleted one is gone.
    #[test]
    fn any_sequence_of_mishaps_ends(
        way in prop::sample::select(ALL),
        waits in any::<bool>(),
        clones in any::<bool>(),
        csi in any::<bool>(),
        mishaps in prop::collection::vec((0u32..40, 0u8..11), 0..6),
        deaths in prop::collection::vec(0u32..12, 0..6),
        delete in prop::option::of(0u32..60),
        orphan in any::<bool>(),
    ) {
        let mut world = World::new(way);
        (world.waits, world.clones, world.orphan) = (waits, clones, orphan);
        world.csi = csi;
        let mut deaths = deaths.into_iter();
        world.fuse = deaths.next();
        let mut ended = false;
        for second in 0..LIMIT {
            for (_, kind) in mishaps.iter().filter(|(at, _)| *at == second) {
                match kind {
                    0 => world.failures.push(failure("Reset", true)),
                    1 => world.delete_pods(),
                    2 => world.delete_claim("disk"),
                    3 => world.delete_claim(&hypercloud_api::names::prime_claim(UID)),
                    4 => for node in NODES { world.switch(node, true, false); }
                    5 => world.switch("n1", false, true),
                    6 => world.switch("n2", false, false),
                    7 => world.delete_image(),
                    8 => world.make_image(),
                    9 => world.shared = false,
                    _ => world.failures.push(failure("Corrupt", false)),
                }
            }
            if second == 400 {
                world.shared = true;
                world.make_image();
                for node in NODES { world.switch(node, true, true); }
            }
            if delete == Some(second) {
                world.delete_disk();
            }
            if world.reconcile().is_err() {
                world.fuse = deaths.next();
            }
            world.tick();
            let over = match delete {
                None => second > 500 && (ready(&world) || failed(&world)),
                Some(_) if orphan => world.disk.is_none() && world.is_tidy(),
                Some(_) => gone(&world),
            };
            if over {
                ended = true;
                break;
            }
        }
        prop_assert!(
            ended,
            "{:?} {:?} {:?}",
            world.disk.as_ref().map(|disk| &disk.status), world.claims, world.volumes
        );
    }
}
