//! The installation, from top to bottom.
//!
//! Each stage is applied once those above it are ready, and is kept as it is
//! meant from then on. Upgrades go the same way: what is the first here is the
//! first to be of the new version, and each stage of another version waits
//! until Ceph is healthy.

use std::time::Duration;

use hypercloud_api::HyperCloudStorageSpec;

use crate::object::Keep;
use crate::version::table::Project;
use crate::version::{Target, Version};

/// One stage.
#[derive(Debug, PartialEq, Eq)]
pub struct Stage {
    /// Its name, which is its component's.
    pub name: &'static str,
    /// When it is there at all.
    pub wanted: Wanted,
    /// Whose version it has.
    pub by: By,
    /// What is applied, in this order.
    pub sources: &'static [Source],
    /// All of which has to hold for it to be ready.
    pub ready: &'static [Ready],
    /// How long it may take to be installed, or to take up a change.
    pub limit: Duration,
    /// How long it may take to be upgraded.
    pub upgrade_limit: Duration,
}

/// When a stage is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Their names say what they are.
pub enum Wanted {
    Always,
    WithObjectStore,
    WithToolbox,
    WithCdi,
}

/// Whose version a stage has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Their names say what they are.
pub enum By {
    Snapshotter,
    Rook,
    Ceph,
    Cdi,
}

/// Where a stage's objects come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file of a release.
    File(Project, &'static str),
    /// The specification.
    Rendered(Rendered),
}

/// What is made of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Their names say what they are.
pub enum Rendered {
    CephCluster,
    BlockStorage,
    ObjectStore,
    Cdi,
}

/// What has to hold for a stage to be ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Its custom resource definitions are established.
    Established,
    /// A Deployment is available.
    Available(&'static str, &'static str),
    /// A Deployment has a pod that is ready, however short a time.
    Serving(&'static str, &'static str),
    /// A DaemonSet has its pods on every node.
    Everywhere(&'static str, &'static str),
    /// Every daemon of Ceph was taken over by this version of Rook.
    RookEverywhere,
    /// The CephCluster is healthy, with as many devices as are asked for.
    CephHealthy,
    /// Every daemon of Ceph is of this version.
    CephEverywhere,
    /// A resource of Rook's says that it is ready: kind and name.
    Phase(&'static str, &'static str),
    /// The bucket's claim has its bucket.
    BucketBound,
    /// CDI says that it is deployed.
    CdiDeployed,
}

const ROOK_NS: &str = crate::ROOK_NAMESPACE;

/// Every stage, in order.
pub const STAGES: &[Stage] = &[
    Stage {
        name: "snapshot-definitions",
        wanted: Wanted::Always,
        by: By::Snapshotter,
        sources: &[
            snapshotter("client/config/crd/snapshot.storage.k8s.io_volumesnapshotclasses.yaml"),
            snapshotter("client/config/crd/snapshot.storage.k8s.io_volumesnapshotcontents.yaml"),
            snapshotter("client/config/crd/snapshot.storage.k8s.io_volumesnapshots.yaml"),
            snapshotter(
                "client/config/crd/groupsnapshot.storage.k8s.io_volumegroupsnapshotclasses.yaml",
            ),
            snapshotter(
                "client/config/crd/groupsnapshot.storage.k8s.io_volumegroupsnapshotcontents.yaml",
            ),
            snapshotter("client/config/crd/groupsnapshot.storage.k8s.io_volumegroupsnapshots.yaml"),
        ],
        ready: &[Ready::Established],
        limit: minutes(2),
        upgrade_limit: minutes(5),
    },
    Stage {
        name: "snapshot-controller",
        wanted: Wanted::Always,
        by: By::Snapshotter,
        sources: &[
            snapshotter("deploy/kubernetes/snapshot-controller/rbac-snapshot-controller.yaml"),
            snapshotter("deploy/kubernetes/snapshot-controller/setup-snapshot-controller.yaml"),
        ],
        // It counts as available after 35 seconds only, and nothing below
        // takes a snapshot before that.
        ready: &[Ready::Serving("kube-system", "snapshot-controller")],
        limit: minutes(5),
        upgrade_limit: minutes(10),
    },
    Stage {
        name: "rook-definitions",
        wanted: Wanted::Always,
        by: By::Rook,
        sources: &[rook("crds.yaml")],
        ready: &[Ready::Established],
        limit: minutes(2),
        upgrade_limit: minutes(5),
    },
    Stage {
        name: "rook-common",
        wanted: Wanted::Always,
        by: By::Rook,
        sources: &[rook("common.yaml")],
        ready: &[],
        limit: minutes(2),
        upgrade_limit: minutes(5),
    },
    Stage {
        name: "csi-operator",
        wanted: Wanted::Always,
        by: By::Rook,
        sources: &[rook("csi-operator.yaml")],
        ready: &[
            Ready::Established,
            Ready::Available(ROOK_NS, "ceph-csi-controller-manager"),
        ],
        limit: minutes(5),
        upgrade_limit: minutes(10),
    },
    Stage {
        name: "rook-operator",
        wanted: Wanted::Always,
        by: By::Rook,
        sources: &[rook("operator.yaml")],
        ready: &[
            Ready::Available(ROOK_NS, "rook-ceph-operator"),
            Ready::RookEverywhere,
        ],
        limit: minutes(5),
        // Every daemon is restarted, one at a time.
        upgrade_limit: minutes(240),
    },
    Stage {
        name: "ceph-cluster",
        wanted: Wanted::Always,
        by: By::Ceph,
        sources: &[Source::Rendered(Rendered::CephCluster)],
        ready: &[Ready::CephHealthy, Ready::CephEverywhere],
        limit: minutes(30),
        upgrade_limit: minutes(240),
    },
    Stage {
        name: "csi-drivers",
        wanted: Wanted::Always,
        by: By::Rook,
        sources: &[],
        // The resources by which drivers are asked for have no status.
        ready: &[
            Ready::Available(ROOK_NS, "rook-ceph.rbd.csi.ceph.com-ctrlplugin"),
            Ready::Everywhere(ROOK_NS, "rook-ceph.rbd.csi.ceph.com-nodeplugin"),
        ],
        limit: minutes(10),
        upgrade_limit: minutes(30),
    },
    Stage {
        name: "block-storage",
        wanted: Wanted::Always,
        by: By::Rook,
        sources: &[Source::Rendered(Rendered::BlockStorage)],
        ready: &[Ready::Phase("CephBlockPool", crate::BLOCK)],
        limit: minutes(10),
        upgrade_limit: minutes(10),
    },
    Stage {
        name: "object-store",
        wanted: Wanted::WithObjectStore,
        by: By::Rook,
        sources: &[Source::Rendered(Rendered::ObjectStore)],
        ready: &[
            Ready::Phase("CephObjectStore", crate::OBJECT_STORE),
            Ready::Phase("CephObjectStoreUser", crate::OBJECT_STORE),
            // Rook's phase stays as it is when no gateway runs.
            Ready::Serving(ROOK_NS, crate::GATEWAY),
            Ready::BucketBound,
        ],
        limit: minutes(15),
        upgrade_limit: minutes(15),
    },
    Stage {
        name: "toolbox",
        wanted: Wanted::WithToolbox,
        by: By::Ceph,
        sources: &[rook("toolbox.yaml")],
        ready: &[Ready::Available(ROOK_NS, "rook-ceph-tools")],
        limit: minutes(5),
        upgrade_limit: minutes(10),
    },
    Stage {
        name: "cdi-operator",
        wanted: Wanted::WithCdi,
        by: By::Cdi,
        sources: &[Source::File(Project::Cdi, "cdi-operator.yaml")],
        ready: &[Ready::Established, Ready::Available("cdi", "cdi-operator")],
        limit: minutes(5),
        upgrade_limit: minutes(10),
    },
    Stage {
        name: "cdi",
        wanted: Wanted::WithCdi,
        by: By::Cdi,
        sources: &[Source::Rendered(Rendered::Cdi)],
        ready: &[Ready::CdiDeployed],
        limit: minutes(10),
        upgrade_limit: minutes(20),
    },
];

/// Objects of the manifests that are their administrator's once they are
/// there: what they say is how the CSI drivers and the operator are set up,
/// and applying them again would reset that.
pub const SEEDED: &[(&str, &str)] = &[
    ("ConfigMap", "rook-ceph-operator-config"),
    ("OperatorConfig", "ceph-csi-operator-config"),
    ("Driver", crate::RBD_DRIVER),
    ("Driver", crate::CEPHFS_DRIVER),
];

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

const fn rook(file: &'static str) -> Source {
    Source::File(Project::Rook, file)
}

const fn snapshotter(file: &'static str) -> Source {
    Source::File(Project::Snapshotter, file)
}

/// The stage of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Stage> {
    STAGES.iter().find(|stage| stage.name == name)
}

/// The stages that a specification wants, in order.
pub fn wanted(spec: &HyperCloudStorageSpec) -> impl Iterator<Item = &'static Stage> {
    let storage = &spec.storage;
    let objects = storage
        .object_store
        .as_ref()
        .and_then(|store| store.enabled)
        .unwrap_or(true);
    let toolbox = storage.toolbox.unwrap_or(true);
    let cdi = spec.cdi.is_some();
    STAGES.iter().filter(move |stage| match stage.wanted {
        Wanted::Always => true,
        Wanted::WithObjectStore => objects,
        Wanted::WithToolbox => toolbox,
        Wanted::WithCdi => cdi,
    })
}

impl Stage {
    /// Whether all of it is made of the specification.
    #[must_use]
    pub fn is_rendered(&self) -> bool {
        let mut sources = self.sources.iter();
        !self.sources.is_empty() && sources.all(|source| matches!(source, Source::Rendered(_)))
    }

    /// The version that the stage is to have.
    #[must_use]
    pub fn version(&self, target: &Target) -> Version {
        match self.by {
            By::Snapshotter => target.snapshotter,
            By::Rook => target.rook,
            By::Ceph => target.ceph,
            By::Cdi => target.cdi,
        }
    }

    /// The release that a file of the stage is of.
    #[must_use]
    pub fn release(project: Project, target: &Target) -> Version {
        match project {
            Project::Rook => target.rook,
            Project::Snapshotter => target.snapshotter,
            Project::Cdi => target.cdi,
        }
    }
}

/// How an object of a manifest is kept.
#[must_use]
pub fn keep(kind: &str, name: &str) -> Keep {
    if SEEDED.contains(&(kind, name)) {
        Keep::Seeded
    } else {
        Keep::Current
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::table::{ROOK, checksum};
    use std::collections::BTreeSet;

    #[test]
    fn every_file_of_every_release_has_a_checksum() {
        for release in ROOK {
            for stage in STAGES {
                for source in stage.sources {
                    let (project, file, version) = match source {
                        Source::File(Project::Rook, file) => (Project::Rook, file, release.version),
                        Source::File(Project::Snapshotter, file) => {
                            (Project::Snapshotter, file, release.snapshotter)
                        }
                        Source::File(Project::Cdi, _) | Source::Rendered(_) => continue,
                    };
                    let sum = checksum(project, version, file);
                    assert!(sum.is_some_and(|sum| sum.len() == 64), "{version} {file}");
                }
            }
        }
    }

    #[test]
    fn names_differ_and_the_order_is_rooks() {
        let names: Vec<&str> = STAGES.iter().map(|stage| stage.name).collect();
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(distinct.len(), names.len());
        let at = |name| names.iter().position(|other| *other == name).unwrap();
        let order = [
            "snapshot-definitions",
            "snapshot-controller",
            "rook-definitions",
            "rook-common",
            "csi-operator",
            "rook-operator",
            "ceph-cluster",
            "block-storage",
            "toolbox",
        ];
        assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])));
    }

    #[test]
    fn what_is_not_asked_for_is_not_there() {
        let mut spec = HyperCloudStorageSpec::default();
        let has = |spec: &HyperCloudStorageSpec, name| wanted(spec).any(|s| s.name == name);
        assert!(has(&spec, "object-store") && has(&spec, "toolbox") && !has(&spec, "cdi"));
        spec.storage.toolbox = Some(false);
        spec.storage.object_store = Some(hypercloud_api::ObjectStorage {
            enabled: Some(false),
            ..Default::default()
        });
        spec.cdi = Some(hypercloud_api::CdiInstallation::default());
        assert!(!has(&spec, "object-store") && !has(&spec, "toolbox") && has(&spec, "cdi"));
    }
}
