//! Whole rollbacks in a simulated world, with a coordinator that dies before
//! any one of its effects.
//!
//! Every scenario runs once undisturbed, and then once for each effect of
//! that run with the coordinator dying before it; each time it has to come to
//! the same end. The world itself fails when something is written while a
//! pod uses the volume, or when half a volume is opened to pods.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../drive/mod.rs"]
mod drive;
mod golden;
mod world;

use drive::{LIMIT, Simulated};
use hypercloud_api::RollbackPhase;
use proptest::prelude::*;
use world::{Held, NODES, World, failure};

/// What happens to the world at a second.
type Script = fn(&mut World, u32);
/// Whether the world is as it has to end.
type End = fn(&World) -> bool;

struct Scenario {
    name: &'static str,
    script: Script,
    end: End,
}

fn succeeded(world: &World) -> bool {
    world.phase() == Some(RollbackPhase::Succeeded)
        && world.held == Held::Snapshot
        && world.is_tidy()
}

fn failed(world: &World, reason: &str) -> bool {
    world.phase() == Some(RollbackPhase::Failed) && world.reason() == reason && world.is_tidy()
}

fn untouched(world: &World, reason: &str) -> bool {
    failed(world, reason) && world.held == Held::Former
}

fn attempt(world: &World) -> Option<i64> {
    world.rollback.as_ref()?.status.as_ref()?.attempt
}

const SCENARIOS: [Scenario; 24] = [
    Scenario {
        name: "nothing happens",
        script: |_, _| {},
        end: |world| succeeded(world) && attempt(world) == Some(0),
    },
    Scenario {
        name: "tries fail in the middle, one of them for good",
        script: |world, second| {
            if second == 0 {
                world.failures = vec![
                    (50, failure("Stalled", true)),
                    (25, failure("Corrupt", false)),
                    (75, failure("Stalled", true)),
                ];
            }
        },
        end: |world| succeeded(world) && attempt(world) == Some(3),
    },
    Scenario {
        name: "far more tries fail than an untouched volume would be given",
        script: |world, second| {
            if second == 0 {
                world.failures = vec![(50, failure("Stalled", true)); 14];
            }
        },
        end: |world| succeeded(world) && attempt(world) == Some(14),
    },
    Scenario {
        name: "the volumes cannot be opened",
        script: |world, second| {
            if second == 0 {
                world.failures = vec![(0, failure("TargetTooSmall", false))];
            }
        },
        end: |world| untouched(world, "TargetTooSmall"),
    },
    Scenario {
        name: "the volumes cannot be opened after they were written to",
        script: |world, second| {
            if second == 0 {
                world.failures = vec![
                    (50, failure("Stalled", true)),
                    (0, failure("VolumeNotFound", false)),
                ];
            }
        },
        end: succeeded,
    },
    Scenario {
        name: "the volumes cannot be opened for a while",
        script: |world, second| {
            if second == 0 {
                world.failures = vec![(0, failure("VolumeNotFound", true)); 5];
            }
        },
        end: |world| succeeded(world) && attempt(world) == Some(5),
    },
    Scenario {
        name: "the agents refuse",
        script: |world, second| world.refusals = second < 30,
        end: succeeded,
    },
    Scenario {
        name: "the agents refuse for good",
        script: |world, _| world.refusals = true,
        end: |world| untouched(world, "RetriesExhausted"),
    },
    Scenario {
        name: "a pod uses the volume for two minutes",
        script: |world, second| match second {
            0 => world.use_volume("vm"),
            120 => world.leave_volume(),
            _ => {}
        },
        end: |world| succeeded(world) && attempt(world) == Some(0),
    },
    Scenario {
        name: "a pod uses the volume for good",
        script: |world, second| {
            if second == 0 {
                world.use_volume("vm");
            }
        },
        end: |world| untouched(world, "VolumeInUse"),
    },
    Scenario {
        name: "pods want the volume all the time",
        script: |world, second| {
            if second % 3 == 0 {
                world.use_volume("vm");
            }
            if second < 200 && second % 40 == 1 {
                world.leave_volume();
            }
            if second == 400 {
                world.leave_volume();
            }
        },
        end: |world| {
            let phase = world.phase();
            succeeded(world) || (phase == Some(RollbackPhase::Failed) && world.held == Held::Former)
        },
    },
    Scenario {
        name: "the snapshot comes late and is ready later",
        script: |world, second| match second {
            0 => world.snapshot = None,
            20 => {
                let mut snapshot = world::snapshot();
                snapshot.ready = false;
                world.snapshot = Some(snapshot);
            }
            40 => world.snapshot = Some(world::snapshot()),
            _ => {}
        },
        end: succeeded,
    },
    Scenario {
        name: "the snapshot is of another claim",
        script: |world, second| {
            if second == 0 {
                world.snapshot.as_mut().unwrap().claim = Some("other".into());
            }
        },
        end: |world| untouched(world, "SnapshotOfOtherVolume"),
    },
    Scenario {
        name: "the claim is not the system's own to put back",
        script: |world, second| {
            if second == 0 {
                world.rollback.as_mut().unwrap().spec.pvc_name = "vmim-ubuntu".into();
            }
        },
        end: |world| untouched(world, "ClaimReserved"),
    },
    Scenario {
        name: "another rollback goes first",
        script: |world, second| match second {
            0 => world.before = Some("older".into()),
            60 => world.before = None,
            _ => {}
        },
        end: |world| succeeded(world) && attempt(world) == Some(0),
    },
    Scenario {
        name: "the holder is deleted",
        script: |world, second| {
            if second == 6 {
                world.delete_pods();
            }
        },
        end: succeeded,
    },
    Scenario {
        name: "the agent loses its journal",
        script: |world, second| {
            if second == 6 {
                for node in NODES {
                    world.switch(node, true, false);
                }
            }
        },
        end: succeeded,
    },
    Scenario {
        name: "the node is away for ten minutes",
        script: |world, second| {
            if second == 6
                && let Some(node) = world.job_node()
            {
                world.switch(node, false, true);
            }
            if second == 606 {
                for node in NODES {
                    world.switch(node, true, true);
                }
            }
        },
        end: succeeded,
    },
    Scenario {
        name: "the rollback is deleted while it waits for a pod",
        script: |world, second| match second {
            0 => world.use_volume("vm"),
            30 => world.delete_rollback(),
            _ => {}
        },
        end: |world| world.rollback.is_none() && world.is_tidy() && world.held == Held::Former,
    },
    Scenario {
        name: "the rollback is deleted meanwhile, and its agent goes for a while",
        script: |world, second| {
            if second == 6 {
                world.delete_rollback();
                if let Some(node) = world.job_node() {
                    world.switch(node, false, true);
                }
            }
            if second == 700 {
                for node in NODES {
                    world.switch(node, true, true);
                }
            }
        },
        end: |world| world.rollback.is_none() && world.is_tidy() && world.held != Held::Both,
    },
    Scenario {
        name: "the snapshot is deleted meanwhile",
        script: |world, second| {
            if second == 6 {
                world.snapshot = None;
            }
        },
        end: |world| succeeded(world) || untouched(world, "SnapshotGone"),
    },
    Scenario {
        name: "another snapshot takes the name before anything is written",
        script: |world, second| {
            if second == 1 {
                let mut snapshot = world::snapshot();
                snapshot.uid = "another".into();
                world.snapshot = Some(snapshot);
            }
        },
        end: |world| untouched(world, "SnapshotGone") || succeeded(world),
    },
    Scenario {
        name: "the restored claim is deleted meanwhile",
        script: |world, second| {
            if second == 6 {
                world.delete_restored();
                world.delete_pods();
            }
        },
        end: succeeded,
    },
    Scenario {
        name: "the claim is deleted meanwhile, and the rollback after it",
        script: |world, second| match second {
            6 => world.delete_target(),
            100 => world.delete_rollback(),
            _ => {}
        },
        end: |world| world.rollback.is_none() && world.is_tidy() && world.target.is_none(),
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
            "{:?}: {:?}, holds {:?}, restored {:?}, pods {:?}",
            self.phase(),
            self.rollback.as_ref().map(|rollback| &rollback.status),
            self.held,
            self.restored,
            self.pods,
        )
    }
}

/// Runs a scenario with a coordinator that dies before effect `death`.
/// Answers with the number of effects.
fn run(scenario: &Scenario, death: Option<u32>) -> u32 {
    let Scenario { name, script, end } = *scenario;
    drive::run(name, World::new(), script, end, death)
}

#[test]
fn every_scenario_survives_a_death_before_any_effect() {
    for scenario in &SCENARIOS {
        drive::everywhere(scenario.name, |death| run(scenario, death));
    }
}

#[test]
fn an_undisturbed_rollback_takes_few_effects() {
    // Finalizer, claim, holder, job, all of that gone, and the statuses.
    let effects = run(&SCENARIOS[0], None);
    assert!(effects <= 22, "{effects} effects");
}

/// One mishap.
fn mishap(world: &mut World, kind: u8) {
    match kind {
        0 => world.use_volume("vm"),
        1 => world.leave_volume(),
        2 => world.delete_pods(),
        3 => {
            for node in NODES {
                world.switch(node, false, true);
            }
        }
        4 => {
            for node in NODES {
                world.switch(node, true, true);
            }
        }
        5 => {
            if let Some(node) = world.job_node() {
                world.switch(node, true, false);
            }
        }
        6 => world.failures.push((50, failure("Stalled", true))),
        7 => world.failures.push((25, failure("Corrupt", false))),
        8 => world.before = Some("older".into()),
        9 => world.before = None,
        10 => world.delete_restored(),
        11 => world.delete_rollback(),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Whatever happens, and however often the coordinator dies: what began
    /// ends right, and nothing is left over.
    #[test]
    fn any_sequence_of_mishaps_ends(
        mishaps in prop::collection::btree_map(0u32..120, 0u8..12, 0..8),
        deaths in prop::collection::btree_set(0u32..60, 0..6),
    ) {
        let mut world = World::new();
        for second in 0..LIMIT {
            if let Some(kind) = mishaps.get(&second) {
                mishap(&mut world, *kind);
            }
            if second == 200 {
                world.leave_volume();
                world.before = None;
                for node in NODES {
                    world.switch(node, true, true);
                }
            }
            let next = deaths.iter().find(|death| **death >= world.effects);
            world.fuse = next.map(|death| death - world.effects);
            if world.reconcile().is_err() {
                // Only once for each.
                world.effects += 1;
            }
            world.tick();
        }
        prop_assert!(world.is_tidy(), "left over: {:?} {:?}", world.restored, world.pods);
        prop_assert_ne!(world.held, Held::Both);
        match world.phase() {
            None => prop_assert!(world.rollback.is_none()),
            Some(RollbackPhase::Succeeded) => prop_assert_eq!(world.held, Held::Snapshot),
            Some(RollbackPhase::Failed) => prop_assert_eq!(world.held, Held::Former),
            Some(phase) => prop_assert!(false, "ends as {phase:?}"),
        }
    }
}
