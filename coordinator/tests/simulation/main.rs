//! Whole imports in a simulated world, with a coordinator that dies before
//! any one of its effects.
//!
//! Every scenario runs once undisturbed, and then once for each effect of
//! that run with the coordinator dying before it; each time it has to come to
//! the same end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../drive/mod.rs"]
mod drive;
mod world;

use drive::{LIMIT, Simulated};
use hypercloud_api::ImagePhase;
use proptest::prelude::*;
use world::{NODES, World, failure};

/// What happens to the world at a second.
type Script = fn(&mut World, u32);
/// Whether the world is as it has to end.
type End = fn(&World) -> bool;

struct Scenario {
    name: &'static str,
    script: Script,
    end: End,
}

fn ready(world: &World) -> bool {
    world.phase() == Some(ImagePhase::Ready) && world.is_tidy() && world.claim.is_some()
}

fn failed(world: &World) -> bool {
    world.phase() == Some(ImagePhase::Failed) && world.is_tidy() && world.claim.is_none()
}

fn attempt(world: &World) -> Option<i64> {
    world.image.as_ref()?.status.as_ref()?.attempt
}

fn gone(world: &World) -> bool {
    world.image.is_none() && world.is_tidy() && world.claim.is_none()
}

const SCENARIOS: [Scenario; 17] = [
    Scenario {
        name: "nothing happens",
        script: |_, _| {},
        end: ready,
    },
    Scenario {
        name: "two tries fail",
        script: |world, second| {
            if second == 0 {
                world.failures = vec![failure("Reset", true), failure("Stalled", true)];
            }
        },
        end: ready,
    },
    Scenario {
        name: "a probe fails",
        script: |world, second| {
            if second == 0 {
                world.probe_failures = vec![failure("Unavailable", true)];
            }
        },
        end: ready,
    },
    Scenario {
        name: "the source is no image",
        script: |world, second| {
            if second == 0 {
                world.probe_failures = vec![failure("NotAnImage", false)];
            }
        },
        end: failed,
    },
    Scenario {
        name: "the image is broken",
        script: |world, second| {
            if second == 0 {
                world.failures = vec![failure("Corrupt", false)];
            }
        },
        end: failed,
    },
    Scenario {
        name: "every try fails",
        script: |world, second| {
            if second == 0 {
                world.failures = vec![failure("Reset", true); 40];
            }
        },
        end: failed,
    },
    Scenario {
        name: "the holder is deleted",
        script: |world, second| {
            if second == 3 {
                world.delete_pods();
            }
        },
        end: ready,
    },
    Scenario {
        name: "the agent loses its journal",
        script: |world, second| {
            if second == 3 {
                for node in NODES {
                    world.switch(node, true, false);
                }
            }
        },
        end: ready,
    },
    Scenario {
        name: "the node is away for ten minutes",
        script: |world, second| {
            if second == 3
                && let Some(node) = world.job_node()
            {
                world.switch(node, false, true);
            }
            if second == 603 {
                for node in NODES {
                    world.switch(node, true, true);
                }
            }
        },
        end: ready,
    },
    Scenario {
        name: "the agent starts again and has lost what lets in",
        script: |world, second| {
            if second == 3 {
                for node in NODES {
                    world.switch(node, false, true);
                }
            }
            if second == 5 {
                for node in NODES {
                    world.switch(node, true, true);
                }
            }
        },
        end: |world| ready(world) && attempt(world) == Some(0),
    },
    Scenario {
        name: "the Secret comes late, and goes and comes again meanwhile",
        script: |world, second| {
            world.secret = match second {
                0..=20 | 26..=29 => None,
                21..=25 => Some((1, true)),
                _ => Some((2, true)),
            };
            if second == 24 {
                for node in NODES {
                    world.switch(node, false, true);
                }
            }
            if second == 26 {
                for node in NODES {
                    world.switch(node, true, true);
                }
            }
        },
        end: |world| ready(world) && attempt(world) == Some(0),
    },
    Scenario {
        name: "the Secret is wrong at first",
        script: |world, second| {
            world.secret = match second {
                0..=40 => Some((1, false)),
                _ => Some((2, true)),
            };
        },
        // Once for each coordinator that died before it could write it down.
        end: |world| ready(world) && attempt(world) == Some(0) && world.rejections <= 2,
    },
    Scenario {
        name: "the image is deleted while it waits for a Secret",
        script: |world, second| {
            world.secret = None;
            if second == 30 {
                world.delete_image();
            }
        },
        end: gone,
    },
    Scenario {
        name: "the claim is deleted once it is ready",
        script: |world, second| {
            if second == 30 {
                world.delete_claim();
            }
        },
        end: |world| ready(world) && world.claim.as_ref().is_some_and(|c| c.uid != "claim-1"),
    },
    Scenario {
        name: "the image is deleted meanwhile",
        script: |world, second| {
            if second == 3 {
                world.delete_image();
            }
        },
        end: gone,
    },
    Scenario {
        name: "the image is deleted while it is cloned",
        script: |world, second| {
            world.clones = match second {
                30..=49 => vec!["root".into(), "data".into()],
                50..=400 => vec!["data".into()],
                _ => Vec::new(),
            };
            if second == 40 {
                world.delete_image();
            }
        },
        end: gone,
    },
    Scenario {
        name: "the image is deleted while its node is gone",
        script: |world, second| {
            if second == 3
                && let Some(node) = world.job_node()
            {
                world.switch(node, false, false);
            }
            if second == 4 {
                world.delete_image();
            }
            // What holder and claim are left is Kubernetes' to end.
            if second == 2000 {
                world.delete_claim();
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
            "{:?} {:?}, claim {:?}, pods {:?}",
            self.phase(),
            self.image.as_ref().map(|image| &image.status),
            self.claim,
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
fn an_undisturbed_import_takes_few_effects() {
    // Finalizer, claim, holder, job, holder gone, job gone, and the statuses.
    let effects = run(&SCENARIOS[0], None);
    assert!(effects <= 24, "{effects} effects");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever happens, and however often the coordinator dies, in the end
    /// the image is ready or has failed, and a deleted one is gone.
    #[test]
    fn any_sequence_of_mishaps_ends(
        mishaps in prop::collection::vec((0u32..40, 0u8..11), 0..6),
        deaths in prop::collection::vec(0u32..12, 0..6),
        delete in any::<bool>(),
    ) {
        let mut world = World::new();
        let mut deaths = deaths.into_iter();
        world.fuse = deaths.next();
        let mut ended = false;
        for second in 0..LIMIT {
            for (_, kind) in mishaps.iter().filter(|(at, _)| *at == second) {
                match kind {
                    0 => world.failures.push(failure("Reset", true)),
                    1 => world.probe_failures.push(failure("Unavailable", true)),
                    2 => world.delete_pods(),
                    3 => world.delete_claim(),
                    4 => for node in NODES { world.switch(node, true, false); }
                    5 => world.switch("n1", false, true),
                    6 => world.switch("n2", false, false),
                    7 => world.secret = None,
                    8 => world.secret = Some((2, false)),
                    9 => world.clones.push("root".into()),
                    _ => world.failures.push(failure("Corrupt", false)),
                }
            }
            if second == 400 {
                world.secret = Some((3, true));
                world.clones.clear();
                for node in NODES { world.switch(node, true, true); }
            }
            if second == 50 && delete {
                world.delete_image();
            }
            if world.reconcile().is_err() {
                world.fuse = deaths.next();
            }
            world.tick();
            if world.image.is_none() || (second > 500 && (ready(&world) || failed(&world))) {
                ended = true;
                break;
            }
        }
        prop_assert!(ended, "{:?} {:?}", world.image.as_ref().map(|i| &i.status), world.claim);
        prop_assert_eq!(delete, world.image.is_none());
    }
}
