//! The source: whether it is there, whether it is ready, and whether it still
//! is the one that the disk was begun with.

use std::time::Duration;

use hypercloud_api::{DiskMethod, DiskPhase, ImagePhase};
use k8s_openapi::jiff::Timestamp;

use super::super::method::Found;
use super::super::observation::{ImageSeen, Observation, OriginSeen, SnapshotOrigin, SourceSeen};
use super::super::validate::{Wanted, WantedSource};
use super::super::verdict::{Plan, Verdict, waiting};
use super::leftovers;
use crate::again::{Again, RECHECK};

/// What a disk waits for at its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    reason: &'static str,
    message: String,
}

impl Missing {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { reason, message }
    }

    /// To wait for it. Watches tell of it; the look beside them is a guard.
    pub(super) fn plan(self) -> Plan {
        let verdict = waiting(DiskPhase::Pending, self.reason, self.message);
        Plan::say(verdict, Again::After(RECHECK.max(Duration::from_secs(30))))
    }
}

/// The source, where a disk can be made from it.
pub(super) fn find<'a>(seen: &'a Observation, wanted: &Wanted) -> Result<Found<'a>, Missing> {
    match (&seen.source, &wanted.source) {
        (SourceSeen::Image { image, claim }, WantedSource::Image { namespace, name }) => {
            let image = shared(seen, image.as_ref(), namespace.as_deref(), name)?;
            let origin = ready(seen, image, claim.as_ref(), name)?;
            let image = Some(image);
            Ok(Found::Claim { origin, image })
        }
        (SourceSeen::Claim(claim), WantedSource::Claim(name)) => {
            let origin = bound(claim.as_ref(), name)?;
            let image = None;
            Ok(Found::Claim { origin, image })
        }
        (SourceSeen::Snapshot(snapshot), WantedSource::Snapshot(name)) => {
            usable(snapshot.as_ref(), name).map(Found::Snapshot)
        }
        // Looked at only where it is needed.
        _ => Err(Missing::new("Looking", "looking at the source")),
    }
}

/// The image, where it may be used. Whether the image of another namespace
/// exists is only said where it is shared.
fn shared<'a>(
    seen: &Observation,
    image: Option<&'a ImageSeen>,
    namespace: Option<&str>,
    name: &str,
) -> Result<&'a ImageSeen, Missing> {
    let Some(namespace) = namespace else {
        let create = || format!("waiting for the image {name}: create it, and the disk is made");
        return image.ok_or_else(|| Missing::new("ImageNotFound", create()));
    };
    // What was shared when the copy began is not taken back in mid-copy.
    let begun = seen.own_prime().is_some();
    image.filter(|image| image.shared || begun).ok_or_else(|| {
        let own = seen.namespace();
        let message = format!(
            "the image {name} of the namespace {namespace} is not there, or is not shared with the namespace {own}: have {own} added to its sharedWith.namespaces"
        );
        Missing::new("ImageNotShared", message)
    })
}

/// The claim of an image that is Ready, or was when the disk was begun.
fn ready<'a>(
    seen: &Observation,
    image: &ImageSeen,
    claim: Option<&'a OriginSeen>,
    name: &str,
) -> Result<&'a OriginSeen, Missing> {
    let phase = image.phase.unwrap_or_default();
    let said = match &image.ready {
        Some((reason, message)) if phase != ImagePhase::Importing => {
            format!(": {reason}: {message}")
        }
        _ => String::new(),
    };
    let begun = seen.method().is_some() && seen.own_claim().is_some();
    match phase {
        ImagePhase::Ready => {}
        // Its deletion waits for what was begun.
        ImagePhase::Deleting if begun => {}
        ImagePhase::Deleting => {
            return Err(Missing::new("ImageDeleting", deleting("image", name)));
        }
        _ => {
            let message = format!("the image {name} is {}{said}", phase.as_str());
            return Err(Missing::new("ImageNotReady", message));
        }
    }
    claim
        .filter(|claim| claim.volume_name.is_some())
        .ok_or_else(|| {
            Missing::new(
                "ImageNotReady",
                format!("the claim of the image {name} is not there"),
            )
        })
}

/// A claim that has a volume.
fn bound<'a>(claim: Option<&'a OriginSeen>, name: &str) -> Result<&'a OriginSeen, Missing> {
    let claim = claim.ok_or_else(|| {
        let message = format!("waiting for the claim {name}: create it, and the disk is made");
        Missing::new("PvcNotFound", message)
    })?;
    if claim.volume_name.is_none() {
        let message = format!("the claim {name} has no volume: it is {}", claim.phase);
        return Err(Missing::new("PvcNotBound", message));
    }
    Ok(claim)
}

/// A snapshot that can be restored.
fn usable<'a>(
    origin: Option<&'a SnapshotOrigin>,
    name: &str,
) -> Result<&'a SnapshotOrigin, Missing> {
    let origin = origin.ok_or_else(|| {
        let message =
            format!("waiting for the VolumeSnapshot {name}: create it, and the disk is made");
        Missing::new("SnapshotNotFound", message)
    })?;
    let snapshot = &origin.snapshot;
    if !snapshot.ready || snapshot.content.is_none() {
        let said = snapshot.problem.as_ref();
        let said = said.map_or_else(String::new, |problem| format!(": {problem}"));
        let message = format!("the VolumeSnapshot {name} is not ready to use{said}");
        return Err(Missing::new("SnapshotNotReady", message));
    }
    Ok(origin)
}

/// Nothing new is begun with what is being deleted.
pub(super) fn leaving(found: Found<'_>, name: &str) -> Option<Plan> {
    let (reason, kind) = match found {
        Found::Claim {
            image: Some(image), ..
        } if image.deleting => ("ImageDeleting", "image"),
        Found::Claim {
            origin,
            image: None,
        } if origin.deleting => ("PvcDeleting", "claim"),
        Found::Snapshot(origin) if origin.snapshot.deleting => {
            ("SnapshotDeleting", "VolumeSnapshot")
        }
        Found::Claim { origin, .. } => return rolled_back(origin),
        Found::Snapshot(_) => return None,
    };
    Some(Missing::new(reason, deleting(kind, name)).plan())
}

/// A claim that is being put back holds parts of two states.
pub(super) fn rolled_back(origin: &OriginSeen) -> Option<Plan> {
    let rollback = origin.rolled_back_by.as_ref()?;
    let message = format!(
        "the claim {} is being put back by the VirtualMachineVolumeRollback {rollback}: waiting for its end",
        origin.name
    );
    Some(Missing::new("SourceRollingBack", message).plan())
}

fn deleting(kind: &str, name: &str) -> String {
    format!("the {kind} {name} is being deleted: no disk is made from it any more")
}

/// Where the source that the disk was begun with is not there any more, what
/// was begun is taken away; and the same where something is there that no
/// status tells of.
pub(super) fn renew(seen: &Observation, wanted: &Wanted, now: Timestamp) -> Option<Plan> {
    let begun = seen.disk.status.as_ref().and_then(|s| s.source.as_ref());
    let begun = begun.filter(|_| seen.method().is_some());
    let Some(begun) = begun else {
        return leftovers::clear(seen, now);
    };
    let present = match &seen.source {
        SourceSeen::Unseen => return None,
        SourceSeen::Image { image, claim } => {
            let uid = image.as_ref().map(|image| &image.uid);
            let claim = claim.as_ref().map(|claim| &claim.uid);
            uid == Some(&begun.uid) && claim == begun.claim_uid.as_ref()
        }
        SourceSeen::Claim(claim) => claim.as_ref().is_some_and(|c| c.uid == begun.uid),
        SourceSeen::Snapshot(origin) => {
            let snapshot = origin.as_ref().map(|origin| &origin.snapshot.uid);
            snapshot == Some(&begun.uid)
        }
    };
    if present {
        return None;
    }
    // The storage's part is done: what is left needs no source.
    let whole = seen.method() == Some(DiskMethod::CloneAndHandOver) || seen.is_copied();
    if whole && seen.own_claim().is_some() && seen.own_prime().is_some_and(|prime| prime.bound) {
        return None;
    }
    leftovers::clear(seen, now).or_else(|| {
        let kind = match wanted.source {
            WantedSource::Image { .. } => "image",
            WantedSource::Claim(_) => "claim",
            WantedSource::Snapshot(_) => "VolumeSnapshot",
        };
        let message = format!(
            "the {kind} {} that the disk was begun with is gone or was replaced: the disk is begun anew",
            begun.name
        );
        Some(Plan::say(Verdict::SourceLost { message }, Again::Now))
    })
}
