//! What is read: the volume itself, or what a snapshot of it is restored to.

use hypercloud_api::conditions::find;
use hypercloud_api::{ExportPhase, ExportReadFrom, VolumeMode, names};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::super::COMPLETE;
use super::super::observation::{Observation, OwnSnapshot};
use super::super::verdict::{Action, Plan, Verdict, waiting};
use super::{SOON, present, start_over};
use crate::again::{Again, RECHECK, SLOW_RECHECK};
use crate::agents::VolumeKind;
use crate::holder::Problem;
use crate::volume::claim::RestoredSeen;
use crate::volume::users::in_words;
use crate::work::{VolumeSeen, leftovers};

/// For how long nobody may look whether a pod uses a volume that is read
/// itself: one can come, write and be gone in little more.
const UNWATCHED: SignedDuration = SignedDuration::from_secs(15);

/// A volume that is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Readable<'a> {
    /// The volume.
    pub seen: VolumeSeen<'a>,
    /// Its size, in bytes.
    pub capacity: u64,
}

/// The volume that is read, or what has to be done first.
pub(super) fn readable(seen: &Observation, now: Timestamp) -> Result<Readable<'_>, Box<Plan>> {
    if seen.has_read() {
        // Nothing is read any more, whatever became of the volume.
        return Ok(volume(None, VolumeKind::Block, None, 0));
    }
    match seen.read_from() {
        Some(ExportReadFrom::Volume) => directly(seen, now),
        Some(ExportReadFrom::Snapshot) => restored(seen),
        None => {
            let message = "it is not known any more what is read".to_owned();
            Err(Box::new(start_over(seen, "StartedOver", message)))
        }
    }
}

fn volume<'a>(
    name: Option<&'a str>,
    kind: VolumeKind,
    problem: Option<&'a Problem>,
    capacity: u64,
) -> Readable<'a> {
    Readable {
        seen: VolumeSeen {
            name,
            kind,
            problem,
        },
        capacity,
    }
}

/// The claim's own volume, as long as nobody else uses it.
fn directly(seen: &Observation, now: Timestamp) -> Result<Readable<'_>, Box<Plan>> {
    let users = users(seen);
    if !users.is_empty() {
        let message = format!(
            "{} came to use the claim {} before all of it was read: the export begins anew",
            in_words(&users),
            seen.pvc()
        );
        return Err(Box::new(start_over(seen, "VolumeInUse", message)));
    }
    if let Some(plan) = unwatched(seen, now) {
        return Err(Box::new(plan));
    }
    let Some(target) = &seen.target else {
        return Err(Box::new(Plan::say(Verdict::Keep, Again::After(SOON))));
    };
    let name = target.volume_name.as_deref();
    Ok(volume(name, target.mode.into(), None, target.capacity))
}

/// Nobody looked for so long that a pod may have come, written and gone. What
/// is written to a file system, the agent itself notices.
pub(super) fn unwatched(seen: &Observation, now: Timestamp) -> Option<Plan> {
    let since = seen.present_upload()?.watched_time.as_ref()?.0;
    let target = seen.target.as_ref();
    let device = target.is_none_or(|target| target.mode == VolumeMode::Block);
    if !device || now.duration_since(since) <= UNWATCHED {
        return None;
    }
    let message = format!(
        "nobody looked for {} s whether something uses the claim {}, as no coordinator led: the export begins anew",
        now.duration_since(since).as_secs(),
        seen.pvc()
    );
    Some(start_over(seen, "VolumeUnwatched", message))
}

/// Pods that use the volume that is read itself, or did since.
pub(super) fn users(seen: &Observation) -> Vec<String> {
    seen.users.iter().chain(&seen.passed).cloned().collect()
}

/// What the snapshot is restored to.
fn restored(seen: &Observation) -> Result<Readable<'_>, Box<Plan>> {
    let name = names::exported_claim(seen.uid());
    let phase = phase(seen);
    let Some(restored) = &seen.restored else {
        return Err(Box::new(snapshot(seen)));
    };
    if restored.deleting_since.is_some() {
        let message = format!("waiting for the deletion of the former claim {name}");
        // What holds it keeps it from going.
        let holders = leftovers::release(&seen.holders, |_| true);
        return Err(Box::new(Plan {
            actions: holders.into_iter().map(Action::Work).collect(),
            verdict: waiting(phase, "ClaimTerminating", message),
            again: Again::After(RECHECK),
        }));
    }
    if restored.lost {
        let message = format!("replacing the claim {name}, which lost its volume");
        let uid = restored.uid.clone();
        let verdict = waiting(phase, "ClaimTerminating", message);
        let plan = Plan::act([Action::DeleteRestored { uid }], verdict);
        return Err(Box::new(plan));
    }
    if restored.volume_name.is_none() {
        // What cannot be made from the snapshot any more, or never could.
        let lost = seen.own_snapshot().is_none_or(|own| !own.is_usable());
        if lost {
            let message = "the snapshot went away before it was restored: the export begins anew";
            return Err(Box::new(start_over(
                seen,
                "SnapshotGone",
                message.to_owned(),
            )));
        }
        if let Some(plan) = no_help(seen, restored.problem.as_ref()) {
            return Err(Box::new(plan));
        }
    }
    let name = restored.volume_name.as_deref();
    let kind = restored.mode.into();
    let problem = restored.problem.as_ref();
    Ok(volume(name, kind, problem, restored.capacity))
}

/// The snapshot, and the claim that it is restored to.
fn snapshot(seen: &Observation) -> Plan {
    let phase = phase(seen);
    let name = names::exported_claim(seen.uid());
    let Some(own) = &seen.snapshot else {
        return take(seen);
    };
    if !own.ours {
        let message = format!(
            "the VolumeSnapshot {name} exists and is not this export's: delete it, and the export goes on"
        );
        let verdict = waiting(phase, "SnapshotConflict", message);
        return Plan::say(verdict, Again::After(SLOW_RECHECK));
    }
    if own.deleting_since.is_some() {
        let message = "the snapshot was deleted before it was restored: the export begins anew";
        return start_over(seen, "SnapshotGone", message.to_owned());
    }
    if !own.seen.ready {
        if let Some(rollback) = &seen.rollback {
            return rolled_back(seen, rollback);
        }
        let told = own.seen.problem.as_ref().map(|problem| Problem {
            reason: "SnapshotNotReady".to_owned(),
            message: format!(
                "the snapshot of the claim is not ready: {problem}{}",
                way_out(seen)
            ),
        });
        if let Some(plan) = no_help(seen, told.as_ref()) {
            return plan;
        }
        let verdict = match told {
            Some(Problem { reason, message }) => waiting(phase, &reason, message),
            None => waiting(
                phase,
                "SnapshotNotReady",
                "a snapshot of the claim is taken",
            ),
        };
        return Plan::say(verdict, Again::After(SOON));
    }
    let Some(target) = &seen.target else {
        let message = "the claim is gone, and with it how its snapshot is restored";
        return start_over(seen, "SnapshotGone", message.to_owned());
    };
    let least = own.seen.restore_size.unwrap_or(0);
    let size = least.max(target.capacity);
    let status = seen.status();
    let known = status.and_then(|status| status.taken_at.as_ref());
    match (own.seen.taken, known) {
        (Some(at), None) => Plan::say(Verdict::Taken { at }, Again::Now),
        _ => {
            let message = "the snapshot of the claim is being restored";
            let verdict = waiting(phase, "Restoring", message);
            Plan::act([Action::CreateRestored { size }], verdict)
        }
    }
}

/// What can be done where the storage takes or restores no snapshot.
pub(super) fn way_out(seen: &Observation) -> String {
    if seen.users.is_empty() {
        return String::new();
    }
    format!(
        "; the claim {} is in use by {}: stop what uses it, and it is read itself",
        seen.pvc(),
        in_words(&seen.users)
    )
}

/// Whether the status says this of the export.
pub(super) fn told_of(seen: &Observation, reason: &str) -> bool {
    let conditions = seen.status().map(|status| status.conditions.as_slice());
    let told = find(conditions.unwrap_or_default(), COMPLETE);
    told.is_some_and(|told| told.reason == reason)
}

/// Makes the snapshot.
fn take(seen: &Observation) -> Plan {
    if told_of(seen, "SnapshotRefused") && seen.users.is_empty() && seen.target.is_some() {
        let message = format!(
            "nothing uses the claim {} any more, so it is read itself",
            seen.pvc()
        );
        return start_over(seen, "VolumeFree", message);
    }
    if let Some(rollback) = &seen.rollback {
        return rolled_back(seen, rollback);
    }
    match class(seen) {
        Ok(class) => {
            let class = class.to_owned();
            let message = "a snapshot of the claim is taken";
            let verdict = waiting(phase(seen), "SnapshotNotReady", message);
            Plan::act([Action::CreateSnapshot { class }], verdict)
        }
        // It was there before.
        Err(why) => start_over(
            seen,
            "SnapshotGone",
            format!("{why}: the export begins anew"),
        ),
    }
}

/// A snapshot of a volume that is being put back holds parts of both states.
fn rolled_back(seen: &Observation, rollback: &str) -> Plan {
    let message = format!(
        "the VirtualMachineVolumeRollback {rollback} came before the snapshot was taken: the export begins anew after it"
    );
    start_over(seen, "RollbackUnderWay", message)
}

/// Something is in the way of the snapshot, and the volume itself can be read:
/// nobody uses it any more.
fn no_help(seen: &Observation, problem: Option<&Problem>) -> Option<Plan> {
    let problem = problem?;
    if !seen.users.is_empty() || seen.target.is_none() {
        return None;
    }
    let message = format!(
        "{}; nothing uses the claim {} any more, so it is read itself",
        problem.message,
        seen.pvc()
    );
    Some(start_over(seen, "VolumeFree", message))
}

/// The class that snapshots of the claim are made with, or why there is none.
pub(super) fn class(seen: &Observation) -> Result<&str, String> {
    let driver = seen
        .target
        .as_ref()
        .and_then(|target| target.driver.as_ref());
    let Some(driver) = driver else {
        return Err("its volume is of no CSI driver, which could take a snapshot of it with a VolumeSnapshotClass".to_owned());
    };
    let of: Vec<_> = seen
        .classes
        .iter()
        .filter(|class| class.driver == *driver)
        .collect();
    if of.is_empty() {
        return Err(format!(
            "there is no VolumeSnapshotClass of its driver {driver}"
        ));
    }
    // What one that retains leaves could not be cleaned up.
    let usable: Vec<_> = of.iter().filter(|class| !class.retains).collect();
    let default = usable.iter().find(|class| class.is_default);
    match (default, usable.as_slice()) {
        (Some(class), _) => Ok(&class.name),
        (None, [class]) => Ok(&class.name),
        (None, []) => Err(format!(
            "no VolumeSnapshotClass of its driver {driver} has the deletionPolicy Delete"
        )),
        (None, _) => Err(format!(
            "none of the VolumeSnapshotClasses of its driver {driver} is marked as default"
        )),
    }
}

/// Removes the snapshot, and first what it was restored to.
pub(super) fn remove(seen: &Observation) -> Vec<Action> {
    let kept = |restored: &&RestoredSeen| restored.deleting_since.is_none();
    let restored = seen.restored.as_ref().filter(kept).map(|restored| {
        let uid = restored.uid.clone();
        Action::DeleteRestored { uid }
    });
    let kept = |own: &&OwnSnapshot| own.deleting_since.is_none();
    let snapshot = seen.own_snapshot().filter(kept).map(|own| {
        let uid = own.seen.uid.clone();
        Action::DeleteSnapshot { uid }
    });
    restored.into_iter().chain(snapshot).collect()
}

fn phase(seen: &Observation) -> ExportPhase {
    match present(seen) {
        ExportPhase::Pending => ExportPhase::Preparing,
        phase => phase,
    }
}
