//! How a disk comes to its data, and what its claim is to be. Pure.

use std::collections::BTreeMap;

use hypercloud_api::{DiskMethod, DiskSourceStatus, VolumeMode, quantity};

use super::observation::{Class, ClassSeen, ImageSeen, Observation, OriginSeen, SnapshotOrigin};
use super::read;
use super::size::{self, Needs, Request};
use super::validate::{Wanted, WantedSource};
use crate::image::size::Overhead;

/// A source that a disk can be made from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A claim, of an image where there is one.
    Claim {
        /// The claim.
        origin: &'a OriginSeen,
        /// The image that it holds.
        image: Option<&'a ImageSeen>,
    },
    /// A snapshot.
    Snapshot(&'a SnapshotOrigin),
}

/// What the disk's claim is to be, and how it is filled.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// How, unless something else turned out to be needed.
    pub method: DiskMethod,
    /// The source.
    pub source: DiskSourceStatus,
    /// Storage class.
    pub class: Class,
    /// Volume mode.
    pub mode: VolumeMode,
    /// Access modes, as Kubernetes spells them; never empty.
    pub access_modes: Vec<String>,
    /// Size.
    pub size: Request,
    /// Labels of the source that the claim carries on.
    pub carried: BTreeMap<String, String>,
}

/// Why there is no recipe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRecipe {
    /// The storage class is not there.
    #[error("the StorageClass {0} does not exist: create it, and the disk is made")]
    ClassMissing(String),
    /// There is no default class.
    #[error(
        "no StorageClass is named and the cluster has no default one: mark one as default, and the disk is made"
    )]
    NoDefaultClass,
    /// Another driver cannot restore the snapshot.
    #[error(
        "the snapshot {snapshot} is of the driver {driver}, but the StorageClass {class} is of {provisioner}: make a disk of it with a class of {driver} first, and then one of that claim with {class}"
    )]
    SnapshotClass {
        /// The snapshot.
        snapshot: String,
        /// The driver that made it.
        driver: String,
        /// The class.
        class: String,
        /// The driver of the class.
        provisioner: String,
    },
    /// Kubernetes changes no volume mode of a snapshot.
    #[error(
        "the snapshot {snapshot} is of a {from} volume and cannot be restored as {to}: make a disk of it as {from} first, and then one of that claim as {to}"
    )]
    SnapshotMode {
        /// The snapshot.
        snapshot: String,
        /// Mode of its volume.
        from: &'static str,
        /// Mode asked for.
        to: &'static str,
    },
    /// There is no size to ask for.
    #[error("{1}")]
    Size(&'static str, String),
}

impl NoRecipe {
    /// The kind of problem in one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::ClassMissing(_) | Self::NoDefaultClass => "StorageClassNotFound",
            Self::SnapshotClass { .. } => "SnapshotClassMismatch",
            Self::SnapshotMode { .. } => "SnapshotModeMismatch",
            Self::Size(reason, _) => reason,
        }
    }

    /// Whether it can pass by itself.
    pub fn is_waiting(&self) -> bool {
        matches!(self, Self::ClassMissing(_) | Self::NoDefaultClass)
    }
}

/// What the claim of the disk that was `seen` is to be, made from `found`.
pub fn recipe(
    seen: &Observation,
    wanted: &Wanted,
    found: Found<'_>,
    overhead: Overhead,
) -> Result<Recipe, NoRecipe> {
    let class = match &seen.class {
        ClassSeen::Found(class) => class.clone(),
        ClassSeen::Missing(name) => return Err(NoRecipe::ClassMissing(name.clone())),
        ClassSeen::NoDefault | ClassSeen::Unseen => return Err(NoRecipe::NoDefaultClass),
    };
    let source = source(seen, wanted, found);
    let (method, from, to) = match found {
        Found::Claim { origin, .. } => {
            let mode = wanted.mode.unwrap_or(origin.mode);
            let method = of_claim(wanted, origin, &class, mode);
            (method, origin.mode, mode)
        }
        Found::Snapshot(origin) => {
            let content = origin.snapshot.content.as_ref();
            let told = content.and_then(|content| content.volume_mode.as_deref());
            let told = told.map(|mode| read::mode(Some(mode)));
            let known = told.or(origin.claim.as_ref().map(|claim| claim.mode));
            let to = wanted.mode.or(known).unwrap_or(VolumeMode::Filesystem);
            let from = known.unwrap_or(to);
            of_snapshot(&source.name, origin, &class, from, to)?;
            (DiskMethod::Restore, from, to)
        }
    };
    let (capacity, claim) = match found {
        Found::Claim { origin, .. } => (origin.capacity, Some(origin)),
        Found::Snapshot(origin) => {
            let least = origin.snapshot.restore_size.unwrap_or(0);
            (least, origin.claim.as_ref())
        }
    };
    let modes = claim.map_or(&[][..], |claim| &claim.access_modes);
    let carried = claim.map(|claim| claim.carried.clone());
    let needs = Needs {
        source: capacity,
        from,
        to,
        asked: wanted.at_least,
        overhead,
    };
    let size = size::request(&needs).map_err(|error| {
        let said = "nobody says how large the source is: set pvc.resources.requests.storage, in another disk";
        match error.reason() {
            reason @ "SizeUnknown" => NoRecipe::Size(reason, said.to_owned()),
            reason => NoRecipe::Size(reason, error.to_string()),
        }
    })?;
    Ok(Recipe {
        method,
        source,
        class,
        mode: to,
        access_modes: access_modes(wanted, modes),
        size,
        carried: carried.unwrap_or_default(),
    })
}

/// How a disk is made from a claim. Cloned is what CSI has: other provisioners
/// may ignore what a claim is to be made of, and bind an empty volume.
fn of_claim(wanted: &Wanted, origin: &OriginSeen, class: &Class, mode: VolumeMode) -> DiskMethod {
    let alike = origin.class.as_ref() == Some(&class.name) && origin.mode == mode;
    let elsewhere = matches!(
        wanted.source,
        WantedSource::Image {
            namespace: Some(_),
            ..
        }
    );
    match (alike && origin.csi && !class.copies, elsewhere) {
        (true, false) => DiskMethod::Clone,
        (true, true) => DiskMethod::CloneAndHandOver,
        (false, _) => DiskMethod::Copy,
    }
}

/// Whether a snapshot can be restored like this.
fn of_snapshot(
    name: &str,
    origin: &SnapshotOrigin,
    class: &Class,
    from: VolumeMode,
    to: VolumeMode,
) -> Result<(), NoRecipe> {
    if let Some(content) = &origin.snapshot.content
        && content.driver != class.provisioner
    {
        return Err(NoRecipe::SnapshotClass {
            snapshot: name.to_owned(),
            driver: content.driver.clone(),
            class: class.name.clone(),
            provisioner: class.provisioner.clone(),
        });
    }
    if from != to {
        return Err(NoRecipe::SnapshotMode {
            snapshot: name.to_owned(),
            from: from.as_str(),
            to: to.as_str(),
        });
    }
    Ok(())
}

/// The source as the status names it.
fn source(seen: &Observation, wanted: &Wanted, found: Found<'_>) -> DiskSourceStatus {
    let (kind, name) = match &wanted.source {
        WantedSource::Image { name, .. } => ("VirtualMachineImage", name),
        WantedSource::Claim(name) => ("PersistentVolumeClaim", name),
        WantedSource::Snapshot(name) => ("VolumeSnapshot", name),
    };
    let (uid, claim_uid) = match found {
        Found::Claim { origin, image } => {
            let uid = image.map_or(&origin.uid, |image| &image.uid);
            (uid.clone(), Some(origin.uid.clone()))
        }
        Found::Snapshot(origin) => (origin.snapshot.uid.clone(), None),
    };
    DiskSourceStatus {
        kind: kind.to_owned(),
        namespace: seen.source_namespace().to_owned(),
        name: name.clone(),
        uid,
        claim_uid,
    }
}

/// The access modes that are asked for, or else those of the source.
fn access_modes(wanted: &Wanted, source: &[String]) -> Vec<String> {
    if !wanted.access_modes.is_empty() {
        let modes = wanted.access_modes.iter();
        return modes.map(|mode| mode.as_str().to_owned()).collect();
    }
    if source.is_empty() {
        return vec!["ReadWriteOnce".to_owned()];
    }
    source.to_vec()
}

/// What people are told where the claim asks for more than the disk does.
pub fn raised(size: &Request) -> Option<String> {
    let asked = size.raised_from?;
    Some(format!(
        "{} was asked for, which the source does not fit in: the claim asks for {}",
        quantity::from_bytes(asked).0,
        quantity::from_bytes(size.bytes).0
    ))
}
