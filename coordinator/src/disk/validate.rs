//! What a specification asks for, once it is known to make sense. Pure.
//!
//! The API server refuses most nonsense by the schema; what is refused here
//! can never work with nothing changed, so it ends the disk.

use hypercloud_api::{AccessMode, VirtualMachinePvcSpec, VolumeMode, names, quantity};

/// A specification that can be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The source.
    pub source: WantedSource,
    /// Storage class of the claim, where one is named.
    pub class: Option<String>,
    /// Volume mode of the claim, where one is asked for.
    pub mode: Option<VolumeMode>,
    /// Access modes of the claim; none where the source's will do.
    pub access_modes: Vec<AccessMode>,
    /// Bytes that the claim is to have at least.
    pub at_least: u64,
}

/// The source that is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedSource {
    /// An image.
    Image {
        /// Its namespace, where that is not the disk's own.
        namespace: Option<String>,
        /// Its name.
        name: String,
    },
    /// A claim in the disk's namespace.
    Claim(String),
    /// A snapshot in the disk's namespace.
    Snapshot(String),
}

/// Why a specification cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// No source is set, or several are.
    #[error("exactly one of virtualMachineImageName, pvcName and volumeSnapshotName has to be set")]
    Source,
    /// The claim is the system's.
    #[error(
        "pvcName: the claim {name} is the system's own: name the image itself in virtualMachineImageName"
    )]
    ReservedSource {
        /// Name of the claim.
        name: String,
    },
    /// The disk would be made from itself.
    #[error("pvcName is the disk's own name, {name}, by which its claim will be called")]
    Itself {
        /// Name of both.
        name: String,
    },
    /// The claim's name would be one of the system's.
    #[error(
        "a disk cannot be called {name}: claims whose names begin with {prefix} are the system's; create it under another name"
    )]
    ReservedName {
        /// Name of the disk.
        name: String,
        /// The beginning that is reserved.
        prefix: &'static str,
    },
    /// The size is not one.
    #[error("pvc.resources.requests.storage: {problem}")]
    Storage {
        /// What is wrong with it.
        problem: String,
    },
}

impl Invalid {
    /// The kind of problem in one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Source | Self::ReservedSource { .. } | Self::Itself { .. } => "SourceInvalid",
            Self::ReservedName { .. } => "NameReserved",
            Self::Storage { .. } => "StorageInvalid",
        }
    }
}

/// What the disk called `name` in `namespace` asks for.
pub fn validate(
    namespace: &str,
    name: &str,
    spec: &VirtualMachinePvcSpec,
) -> Result<Wanted, Invalid> {
    if let Some(prefix) = reserved(name) {
        let name = name.to_owned();
        return Err(Invalid::ReservedName { name, prefix });
    }
    let source = source(namespace, name, spec)?;
    let pvc = spec.pvc.as_ref();
    let at_least = match spec.storage() {
        None => 0,
        Some(storage) => quantity::bytes(storage).map_err(|error| Invalid::Storage {
            problem: error.to_string(),
        })?,
    };
    Ok(Wanted {
        source,
        class: pvc.and_then(|pvc| pvc.storage_class_name.clone()),
        mode: pvc.and_then(|pvc| pvc.volume_mode),
        access_modes: pvc.map(|pvc| pvc.access_modes.clone()).unwrap_or_default(),
        at_least,
    })
}

fn source(
    namespace: &str,
    disk: &str,
    spec: &VirtualMachinePvcSpec,
) -> Result<WantedSource, Invalid> {
    let named = (
        &spec.virtual_machine_image_name,
        &spec.pvc_name,
        &spec.volume_snapshot_name,
    );
    match named {
        (Some(image), None, None) => {
            let other = spec.virtual_machine_image_namespace.as_ref();
            Ok(WantedSource::Image {
                namespace: other.filter(|other| *other != namespace).cloned(),
                name: image.clone(),
            })
        }
        (None, Some(claim), None) if reserved(claim).is_some() => Err(Invalid::ReservedSource {
            name: claim.clone(),
        }),
        (None, Some(claim), None) if claim == disk => Err(Invalid::Itself {
            name: claim.clone(),
        }),
        (None, Some(claim), None) => Ok(WantedSource::Claim(claim.clone())),
        (None, None, Some(snapshot)) => Ok(WantedSource::Snapshot(snapshot.clone())),
        _ => Err(Invalid::Source),
    }
}

/// The reserved beginning of a claim's name, if it has one.
fn reserved(claim: &str) -> Option<&'static str> {
    names::RESERVED_CLAIM_PREFIXES
        .into_iter()
        .find(|prefix| claim.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypercloud_api::{DiskClaim, DiskRequests, DiskResources};
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

    fn sized(storage: &str) -> Option<DiskClaim> {
        let storage = Some(Quantity(storage.into()));
        Some(DiskClaim {
            resources: Some(DiskResources {
                requests: Some(DiskRequests { storage }),
            }),
            volume_mode: Some(VolumeMode::Filesystem),
            storage_class_name: Some("fast".into()),
            access_modes: vec![AccessMode::ReadWriteMany],
            ..DiskClaim::default()
        })
    }

    fn of_claim(name: &str) -> VirtualMachinePvcSpec {
        VirtualMachinePvcSpec {
            pvc_name: Some(name.into()),
            ..VirtualMachinePvcSpec::default()
        }
    }

    #[test]
    fn what_is_asked_for_is_read() {
        let mut spec = VirtualMachinePvcSpec {
            virtual_machine_image_name: Some("ubuntu".into()),
            virtual_machine_image_namespace: Some("images".into()),
            pvc: sized("2Gi"),
            ..VirtualMachinePvcSpec::default()
        };
        let mut wanted = Wanted {
            source: WantedSource::Image {
                namespace: Some("images".into()),
                name: "ubuntu".into(),
            },
            class: Some("fast".into()),
            mode: Some(VolumeMode::Filesystem),
            access_modes: vec![AccessMode::ReadWriteMany],
            at_least: 2 << 30,
        };
        assert_eq!(validate("team", "disk", &spec).as_ref(), Ok(&wanted));
        // The own namespace is no other one, even where it is named.
        spec.virtual_machine_image_namespace = Some("team".into());
        wanted.source = WantedSource::Image {
            namespace: None,
            name: "ubuntu".into(),
        };
        assert_eq!(validate("team", "disk", &spec), Ok(wanted));
    }

    #[test]
    fn the_least_is_a_source() {
        let wanted = validate("team", "disk", &of_claim("root")).unwrap();
        assert_eq!(wanted.source, WantedSource::Claim("root".into()));
        assert_eq!(
            (wanted.class, wanted.mode, wanted.at_least),
            (None, None, 0)
        );
    }

    #[test]
    fn what_cannot_work_is_said() {
        let reason = |name: &str, spec: &VirtualMachinePvcSpec| {
            validate("team", name, spec).unwrap_err().reason()
        };
        let mut both = of_claim("root");
        both.volume_snapshot_name = Some("snapshot".into());
        assert_eq!(reason("disk", &both), "SourceInvalid");
        assert_eq!(
            reason("disk", &VirtualMachinePvcSpec::default()),
            "SourceInvalid"
        );
        assert_eq!(reason("disk", &of_claim("disk")), "SourceInvalid");
        assert_eq!(reason("disk", &of_claim("vmim-ubuntu")), "SourceInvalid");
        assert_eq!(reason("vmim-ubuntu", &of_claim("root")), "NameReserved");
        let mut ten = of_claim("root");
        ten.pvc = sized("ten");
        assert_eq!(reason("disk", &ten), "StorageInvalid");
    }
}
