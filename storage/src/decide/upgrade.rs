//! What an upgrade means for the stages, those that wait for it and those that
//! have it.

use hypercloud_api::StorageComponent;

use super::ground;
use crate::health::cluster_key;
use crate::object::Seen;
use crate::plan::install::{Move, Step};
use crate::stage::{By, Stage};
use crate::version::{Target, Version};

/// Whether an upgrade has begun, so that daemons restart; not one that waits.
pub(super) fn is_under_way(
    steps: &[Step],
    target: &Target,
    components: &[StorageComponent],
) -> bool {
    let is_old = |step: &&Step| {
        let version = ground::version(step.stage, components);
        version.is_some_and(|version| version != step.stage.version(target))
    };
    let is_new =
        |step: &&Step| ground::version(step.stage, components) == Some(step.stage.version(target));
    let is_mixed = |by: By| {
        let of = || steps.iter().filter(|step| step.stage.by == by);
        of().any(|step| is_old(&step)) && of().any(|step| is_new(&step))
    };
    let begins = steps
        .iter()
        .any(|step| step.what == Move::Apply && is_old(&step));
    begins || is_mixed(By::Rook) || is_mixed(By::Ceph)
}

/// With which versions a stage that waits is rendered: those with which it was
/// applied last, so that an upgrade that has begun is not turned round. None
/// for one that has files, or of which that cannot be told.
pub(super) fn as_applied(stage: &Stage, target: &Target, seen: &Seen) -> Option<Target> {
    if !stage.is_rendered() {
        return None;
    }
    let mut applied = *target;
    if stage.by == By::Ceph {
        let image = seen.get(&cluster_key())?["spec"]["cephVersion"]["image"].as_str()?;
        let live: Version = image.rsplit_once(':')?.1.parse().ok()?;
        applied.ceph = live.max(applied.ceph);
    }
    Some(applied)
}
