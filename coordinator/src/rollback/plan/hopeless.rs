//! What cannot come to its end any more, or never could.

use hypercloud_api::names;

use super::super::observation::{Observation, RestoredSeen};
use super::super::verdict::{Plan, failed};
use super::{is_begun, pvc};
use crate::again::Again;
use crate::volume::snapshot::SnapshotSeen;

/// What cannot come to its end any more, or never could.
pub(super) fn plan(seen: &Observation) -> Option<Plan> {
    let name = pvc(seen);
    let mut reserved = names::RESERVED_CLAIM_PREFIXES.iter();
    if reserved.any(|prefix| name.starts_with(prefix)) {
        let message = format!(
            "the claim {name} is the storage system's own, which nobody rolls back: name the claim of a disk"
        );
        return fail("ClaimReserved", message);
    }
    let status = seen.status()?;
    // Nothing was accepted yet, so nothing can have gone away.
    let accepted = status.pvc_uid.as_deref()?;
    let after = if is_begun(seen) {
        "; the volume was being written to, and is gone with it"
    } else {
        "; nothing was written"
    };
    match &seen.target {
        None => return fail("PvcGone", format!("the claim {name} is gone{after}")),
        Some(target) if target.uid != accepted => {
            let message = format!("the claim {name} is another one of the same name{after}");
            return fail("PvcGone", message);
        }
        Some(target) if target.deleting => {
            let message = format!("the claim {name} is being deleted{after}");
            return fail("PvcGone", message);
        }
        Some(target) if target.lost => {
            let message = format!("the claim {name} has lost its volume{after}");
            return fail("PvcGone", message);
        }
        Some(_) => {}
    }
    lost_snapshot(seen)
}

/// The snapshot that was accepted is gone before it was put to use.
fn lost_snapshot(seen: &Observation) -> Option<Plan> {
    let status = seen.status()?;
    // What was restored while the snapshot was there is of that snapshot; one
    // of its name may have come since.
    let usable = seen.restored.as_ref().is_some_and(RestoredSeen::is_usable);
    if is_begun(seen) && usable {
        return None;
    }
    let same = |snapshot: &&SnapshotSeen| {
        !snapshot.deleting && Some(&snapshot.uid) == status.volume_snapshot_uid.as_ref()
    };
    if seen.snapshot.as_ref().filter(same).is_some() {
        return None;
    }
    let snapshot = &seen.rollback.spec.volume_snapshot_name;
    let after = if is_begun(seen) {
        format!(
            "the volume of {} holds parts of both states: roll it back to another snapshot",
            pvc(seen)
        )
    } else {
        "nothing was written".to_owned()
    };
    let message = format!("the snapshot {snapshot} went away meanwhile; {after}");
    fail("SnapshotGone", message)
}

fn fail(reason: &str, message: String) -> Option<Plan> {
    Some(Plan::say(failed(reason, message), Again::Now))
}
