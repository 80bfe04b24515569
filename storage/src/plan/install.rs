//! Which stages are applied now.
//!
//! Invariants: a stage is installed only once those above it are ready; one
//! that is upgraded waits until Ceph is healthy; one that is installed and of
//! the right version is kept as it is meant, whatever becomes of the others. A
//! CephCluster that is lost is not made anew.

use hypercloud_api::{HyperCloudStorageSpec, StorageComponent};

use crate::health::Judgement;
use crate::stage::{self, Stage};
use crate::version::{Target, Version};

/// What becomes of a stage at this look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// Its objects are applied, and it is judged.
    Apply,
    /// It is left as it is, and judged: those above it are upgraded first, or
    /// Ceph has to be healthy before.
    Leave(String),
    /// It is not installed yet: those above it come first.
    Wait(String),
}

/// A stage and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The stage.
    pub stage: &'static Stage,
    /// What becomes of it.
    pub what: Move,
}

/// What the look says beside the components.
#[derive(Clone, Copy, Debug)]
pub struct Gate<'a> {
    /// How Ceph is for what takes daemons away.
    pub ceph: &'a Judgement,
    /// What keeps a CephCluster from being made: devices that are not
    /// settled.
    pub devices: Option<&'a str>,
    /// Whether there was a CephCluster, and is none.
    pub lost: bool,
}

/// What becomes of every stage that is wanted, in order.
#[must_use]
pub fn course(
    spec: &HyperCloudStorageSpec,
    target: &Target,
    components: &[StorageComponent],
    gate: Gate<'_>,
) -> Vec<Step> {
    let mut open = true;
    let mut before: Option<&'static Stage> = None;
    let mut steps = Vec::new();
    for stage in stage::wanted(spec) {
        let version = stage.version(target);
        let running = running(stage, components);
        let what = if gate.lost && stage.name == "ceph-cluster" {
            // Another one would be a new and empty Ceph beside the old data.
            Move::Leave(gate.ceph.message.clone())
        } else if running == Some(version) {
            Move::Apply
        } else if !open {
            let after = before.map_or("the stages above", |stage| stage.name);
            match running {
                Some(_) => Move::Leave(format!("{after} is upgraded first")),
                None => Move::Wait(format!("{after} comes first")),
            }
        } else {
            begin(stage, running, gate)
        };
        if running != Some(version) && open {
            open = false;
            before = Some(stage);
        }
        steps.push(Step { stage, what });
    }
    steps
}

/// What becomes of the first stage that is not there yet, or not of the right
/// version.
fn begin(stage: &Stage, running: Option<Version>, gate: Gate<'_>) -> Move {
    if running.is_some() && !gate.ceph.is_healthy() {
        let why = format!(
            "the upgrade waits until Ceph is healthy: {}",
            gate.ceph.message
        );
        return Move::Leave(why);
    }
    match gate.devices {
        Some(why) if stage.name == "ceph-cluster" && running.is_none() => {
            Move::Wait(why.to_owned())
        }
        _ => Move::Apply,
    }
}

/// The version with which a stage was ready last.
fn running(stage: &Stage, components: &[StorageComponent]) -> Option<Version> {
    let component = components.iter().find(|c| c.name == stage.name)?;
    component.version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests;
