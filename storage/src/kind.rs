//! Kinds of objects that the storage is made of: where those that matter are,
//! and how much of each is looked at.

use crate::ROOK_NAMESPACE;
use crate::object::Key;

/// One kind.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// Group and version.
    pub api_version: &'static str,
    /// Its name.
    pub kind: &'static str,
    /// Its name in addresses.
    pub plural: &'static str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Which objects matter.
    pub which: &'static [Which],
    /// How much of them.
    pub part: Part,
}

/// Which objects of a kind matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those with the label of a stage, in every namespace.
    Staged,
    /// All of Rook's namespace.
    Rooks,
    /// Those of Rook's namespace with this label.
    Labelled(&'static str),
    /// All.
    All,
    /// Those with these names, in Rook's namespace where the kind has any:
    /// what may hold anything is not listed.
    Named(&'static [&'static str]),
}

/// How much of an object is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// Its metadata: nothing is judged by the rest.
    Metadata,
    /// Metadata and status of a definition, whose schema is large.
    Definition,
}

use Part::{Definition, Metadata, Whole};
use Which::{All, Labelled, Named, Rooks, Staged};

/// Every kind.
pub const KINDS: &[Kind] = &[
    // Its status says why it does not go.
    cluster("v1", "Namespace", "namespaces", &[Staged], Whole),
    cluster(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        &[Staged],
        Definition,
    ),
    cluster(RBAC, "ClusterRole", "clusterroles", &[Staged], Metadata),
    cluster(
        RBAC,
        "ClusterRoleBinding",
        "clusterrolebindings",
        &[Staged],
        Metadata,
    ),
    namespaced(RBAC, "Role", "roles", &[Staged], Metadata),
    namespaced(RBAC, "RoleBinding", "rolebindings", &[Staged], Metadata),
    namespaced(
        "v1",
        "ServiceAccount",
        "serviceaccounts",
        &[Staged],
        Metadata,
    ),
    namespaced(
        "v1",
        "ConfigMap",
        "configmaps",
        &[Named(&[
            "rook-ceph-operator-config",
            "rook-csi-operator-image-set-configmap",
        ])],
        Metadata,
    ),
    namespaced(
        "apps/v1",
        "Deployment",
        "deployments",
        &[Staged, Rooks],
        Whole,
    ),
    namespaced("apps/v1", "DaemonSet", "daemonsets", &[Rooks], Whole),
    namespaced(
        "batch/v1",
        "Job",
        "jobs",
        &[Labelled("app=rook-ceph-cleanup")],
        Whole,
    ),
    // Also those of others, which are not taken over.
    namespaced(ROOK, "CephCluster", "cephclusters", &[All], Whole),
    namespaced(ROOK, "CephBlockPool", "cephblockpools", &[Rooks], Whole),
    namespaced(ROOK, "CephObjectStore", "cephobjectstores", &[Rooks], Whole),
    namespaced(
        ROOK,
        "CephObjectStoreUser",
        "cephobjectstoreusers",
        &[Rooks],
        Whole,
    ),
    namespaced(
        "objectbucket.io/v1alpha1",
        "ObjectBucketClaim",
        "objectbucketclaims",
        &[Staged],
        Whole,
    ),
    namespaced(CSI, "OperatorConfig", "operatorconfigs", &[Rooks], Metadata),
    namespaced(CSI, "Driver", "drivers", &[Rooks], Metadata),
    namespaced(CSI, "CephConnection", "cephconnections", &[Rooks], Metadata),
    namespaced(CSI, "ClientProfile", "clientprofiles", &[Rooks], Metadata),
    namespaced(
        CSI,
        "ClientProfileMapping",
        "clientprofilemappings",
        &[Rooks],
        Metadata,
    ),
    cluster(
        "storage.k8s.io/v1",
        "StorageClass",
        "storageclasses",
        &[Staged],
        Metadata,
    ),
    cluster(
        "storage.k8s.io/v1",
        "CSIDriver",
        "csidrivers",
        &[Named(&[crate::RBD_DRIVER, crate::CEPHFS_DRIVER])],
        Metadata,
    ),
    cluster(
        "snapshot.storage.k8s.io/v1",
        "VolumeSnapshotClass",
        "volumesnapshotclasses",
        &[Staged],
        Metadata,
    ),
    cluster("cdi.kubevirt.io/v1beta1", "CDI", "cdis", &[All], Whole),
];

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const ROOK: &str = "ceph.rook.io/v1";
const CSI: &str = "csi.ceph.io/v1";

const fn cluster(
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    which: &'static [Which],
    part: Part,
) -> Kind {
    Kind {
        api_version,
        kind,
        plural,
        namespaced: false,
        which,
        part,
    }
}

const fn namespaced(
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    which: &'static [Which],
    part: Part,
) -> Kind {
    Kind {
        namespaced: true,
        ..cluster(api_version, kind, plural, which, part)
    }
}

impl Kind {
    /// The kind of an object.
    #[must_use]
    pub fn of(key: &Key) -> Option<&'static Self> {
        let mut kinds = KINDS.iter();
        kinds.find(|kind| kind.kind == key.kind && kind.api_version == key.api_version)
    }

    /// Group and version apart.
    #[must_use]
    pub fn group_version(&self) -> (&'static str, &'static str) {
        self.api_version
            .split_once('/')
            .unwrap_or(("", self.api_version))
    }

    /// The namespace that these of its objects are in, where that is one.
    #[must_use]
    pub fn place(&self, which: Which) -> Option<&'static str> {
        match which {
            Rooks | Labelled(_) | Named(_) => self.namespaced.then_some(ROOK_NAMESPACE),
            Staged | All => None,
        }
    }

    /// Whether the status of its objects says something, so that a change of
    /// one is worth a look at once.
    #[must_use]
    pub fn is_telling(&self) -> bool {
        self.part != Part::Metadata
    }
}

impl Which {
    /// The labels that the objects have.
    #[must_use]
    pub fn labels(self) -> Option<&'static str> {
        match self {
            Self::Staged => Some(crate::object::LABEL_STAGE),
            Self::Labelled(labels) => Some(labels),
            Self::Rooks | Self::Named(_) | Self::All => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn kinds_differ_and_are_found_by_their_objects() {
        let names: BTreeSet<_> = KINDS.iter().map(|k| (k.api_version, k.kind)).collect();
        assert_eq!(names.len(), KINDS.len());
        let key = Key::namespaced("apps/v1", "Deployment", "n", "d");
        let kind = Kind::of(&key).unwrap();
        assert_eq!(kind.group_version(), ("apps", "v1"));
        assert_eq!(KINDS[0].group_version(), ("", "v1"));
        let other = Key::namespaced("apps/v1beta1", "Deployment", "n", "d");
        assert_eq!(Kind::of(&other), None);
    }

    #[test]
    fn what_has_no_namespace_is_not_looked_for_in_one() {
        for kind in KINDS.iter().filter(|kind| !kind.namespaced) {
            assert!(kind.which.iter().all(|which| kind.place(*which).is_none()));
        }
        let pools = Kind::of(&Key::namespaced(ROOK, "CephBlockPool", "n", "p")).unwrap();
        assert_eq!(pools.place(Rooks), Some(ROOK_NAMESPACE));
    }
}
