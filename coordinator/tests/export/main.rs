//! Whole exports in a simulated world, with a coordinator that dies before any
//! one of its effects.
//!
//! Every scenario runs once undisturbed, and then once for each effect of that
//! run with the coordinator dying before it; each time it has to come to the
//! same end. The world itself fails when a job starts under a pod or beside a
//! former upload's parts, or when an export succeeds with an object that is of
//! more than one state of the disk.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../drive/mod.rs"]
mod drive;
mod golden;
mod scenarios;
mod world;

use drive::{LIMIT, Simulated};
use hypercloud_api::ExportPhase;
use proptest::prelude::*;
use scenarios::{SCENARIOS, Scenario};
use world::{NODES, World, failure};

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
            "{:?}: {:?}, object {:?}, uploads {:?}, snapshot {:?}, restored {:?}, pods {:?}",
            self.phase(),
            self.export.as_ref().map(|export| &export.status),
            self.store.object,
            self.store.uploads,
            self.snapshot,
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
fn an_undisturbed_export_takes_few_effects() {
    // Finalizer, holder, job, both gone, and the statuses.
    let effects = run(&SCENARIOS[0], None);
    assert!(effects <= 18, "{effects} effects");
}

/// One mishap.
fn mishap(world: &mut World, kind: u8) {
    match kind {
        0 => world.use_volume("vm"),
        1 => world.leave_volume(),
        2 => world.delete_pods(),
        3 => NODES.into_iter().for_each(|node| world.power(node, false)),
        4 => NODES.into_iter().for_each(|node| world.power(node, true)),
        5 => NODES
            .into_iter()
            .for_each(|node| world.reach_agent(node, false)),
        6 => world.failures.push((50, failure("Stalled", true))),
        7 => world.store.down = true,
        8 => world.store.down = false,
        9 => world.rollback = Some("back".into()),
        10 => world.rollback = None,
        11 => world.delete_restored(),
        12 => world.delete_snapshot(),
        13 => world.delete_export(),
        14 => world.snapshots_fail = true,
        15 => world.classes.clear(),
        16 => world.secret = None,
        17 => world.secret = Some(2),
        18 => world.failures.push((25, failure("Corrupt", false))),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Whatever happens, and however often the coordinator dies: the object is
    /// right where it is said to be, and nothing is left over.
    #[test]
    fn any_sequence_of_mishaps_ends(
        mishaps in prop::collection::btree_map(0u32..120, 0u8..19, 0..8),
        deaths in prop::collection::btree_set(0u32..60, 0..6),
    ) {
        let mut world = World::new();
        for second in 0..LIMIT {
            if let Some(kind) = mishaps.get(&second) {
                mishap(&mut world, *kind);
            }
            if second == 200 {
                world.leave_volume();
                world.rollback = None;
                world.snapshots_fail = false;
                world.store.down = false;
                world.secret = world.secret.or(Some(3));
                NODES.into_iter().for_each(|node| world.power(node, true));
            }
            let next = deaths.iter().find(|death| **death >= world.effects);
            world.fuse = next.map(|death| death - world.effects);
            if world.reconcile().is_err() {
                // Only once for each.
                world.effects += 1;
            }
            world.tick();
        }
        let left = world.left && world.export.is_none();
        prop_assert!(left || world.is_tidy(), "left over: {:?} {:?} {:?} {:?}",
            world.snapshot, world.restored, world.pods, world.store.uploads);
        match world.phase() {
            None => prop_assert!(world.export.is_none()),
            Some(ExportPhase::Succeeded) => prop_assert_eq!(world.store.object, Some(true)),
            Some(ExportPhase::Failed) => {}
            Some(phase) => prop_assert!(false, "ends as {phase:?}"),
        }
    }
}
