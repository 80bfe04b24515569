//! What is supported: releases with their files and the SHA-256 of each.
//!
//! A new release is one more entry here. The checksums are those of the files
//! as the projects tagged them.

use super::{KubernetesVersion, Version};

/// Whose files they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Project {
    /// Rook, with the CSI operator's manifests.
    Rook,
    /// The snapshot controller of the Kubernetes project.
    Snapshotter,
    /// The Containerized Data Importer.
    Cdi,
}

impl Project {
    /// Where a release publishes a file.
    #[must_use]
    pub fn address(self, version: Version, file: &str) -> String {
        match self {
            Self::Rook => format!(
                "https://raw.githubusercontent.com/rook/rook/v{version}/deploy/examples/{file}"
            ),
            Self::Snapshotter => format!(
                "https://raw.githubusercontent.com/kubernetes-csi/external-snapshotter/v{version}/{file}"
            ),
            Self::Cdi => format!(
                "https://github.com/kubevirt/containerized-data-importer/releases/download/v{version}/{file}"
            ),
        }
    }

    /// Where a mirror has it, below its root.
    #[must_use]
    pub fn path(self, version: Version, file: &str) -> String {
        let folder = match self {
            Self::Rook => "rook",
            Self::Snapshotter => "external-snapshotter",
            Self::Cdi => "cdi",
        };
        format!("{folder}/v{version}/{file}")
    }
}

/// A release of Rook, and what goes with it.
#[derive(Debug)]
pub struct RookRelease {
    /// Its version.
    pub version: Version,
    /// The oldest and the newest Kubernetes that it is for.
    pub kubernetes: (KubernetesVersion, KubernetesVersion),
    /// Versions of Ceph; the first is installed where none is named, and none
    /// of them runs.
    pub ceph: &'static [Version],
    /// The snapshot controller.
    pub snapshotter: Version,
    /// Who says which images the CSI drivers have.
    pub csi_images: CsiImages,
}

/// Who says which images the CSI drivers have.
#[derive(Debug)]
pub enum CsiImages {
    /// The operator itself; its ConfigMap can say otherwise, key by key.
    Operator(&'static [(&'static str, &'static str)]),
    /// A ConfigMap of the manifests.
    Manifest,
}

/// Supported releases of Rook, the newest first.
pub const ROOK: &[RookRelease] = &[
    RookRelease {
        version: Version::new(1, 20, 6),
        kubernetes: (KubernetesVersion(1, 31), KubernetesVersion(1, 36)),
        ceph: &[Version::new(20, 2, 4), Version::new(19, 2, 6)],
        snapshotter: Version::new(8, 6, 0),
        csi_images: CsiImages::Manifest,
    },
    RookRelease {
        version: Version::new(1, 19, 10),
        kubernetes: (KubernetesVersion(1, 30), KubernetesVersion(1, 35)),
        ceph: &[Version::new(19, 2, 6)],
        snapshotter: Version::new(8, 6, 0),
        csi_images: CsiImages::Operator(&[
            ("ROOK_CSI_CEPH_IMAGE", "quay.io/cephcsi/cephcsi:v3.16.2"),
            (
                "ROOK_CSI_REGISTRAR_IMAGE",
                "registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.16.0",
            ),
            (
                "ROOK_CSI_RESIZER_IMAGE",
                "registry.k8s.io/sig-storage/csi-resizer:v2.1.0",
            ),
            (
                "ROOK_CSI_PROVISIONER_IMAGE",
                "registry.k8s.io/sig-storage/csi-provisioner:v6.1.1",
            ),
            (
                "ROOK_CSI_SNAPSHOTTER_IMAGE",
                "registry.k8s.io/sig-storage/csi-snapshotter:v8.5.0",
            ),
            (
                "ROOK_CSI_ATTACHER_IMAGE",
                "registry.k8s.io/sig-storage/csi-attacher:v4.11.0",
            ),
            (
                "ROOK_CSIADDONS_IMAGE",
                "quay.io/csiaddons/k8s-sidecar:v0.14.0",
            ),
        ]),
    },
];

/// The supported release of CDI.
pub const CDI: Version = Version::new(1, 66, 0);

/// The release of this version.
#[must_use]
pub fn rook(version: Version) -> Option<&'static RookRelease> {
    ROOK.iter().find(|release| release.version == version)
}

/// A file of a release.
#[derive(Debug)]
pub struct ReleaseFile {
    /// Whose it is.
    pub project: Project,
    /// Of which release.
    pub version: Version,
    /// Its path in the release.
    pub file: &'static str,
    /// Its SHA-256, in hexadecimal.
    pub sha256: &'static str,
}

/// The SHA-256 of a file; none of one that is not supported, or whose
/// checksum only its user can tell.
#[must_use]
pub fn checksum(project: Project, version: Version, file: &str) -> Option<&'static str> {
    FILES
        .iter()
        .find(|known| known.project == project && known.version == version && known.file == file)
        .map(|known| known.sha256)
}

const fn file(
    project: Project,
    version: Version,
    file: &'static str,
    sha256: &'static str,
) -> ReleaseFile {
    ReleaseFile {
        project,
        version,
        file,
        sha256,
    }
}

const R20: Version = Version::new(1, 20, 6);
const R19: Version = Version::new(1, 19, 10);
const S8: Version = Version::new(8, 6, 0);

/// Every file that is known.
#[rustfmt::skip]
pub const FILES: &[ReleaseFile] = &[
    file(Project::Rook, R20, "crds.yaml", "7fa7462d44b35d636703a03a88120030692a06a05ac91ec253200cb4ae8c37cf"),
    file(Project::Rook, R20, "common.yaml", "2d59b3093446dcf7dd69c73ebaef2d41e8cdfd14af564c2e885d49ab8d190457"),
    file(Project::Rook, R20, "csi-operator.yaml", "de0bf9160c8370220353d7140a4b60ee6d4b8eda5e260f395fd00cbdc1059ffb"),
    file(Project::Rook, R20, "operator.yaml", "c69bb7309b6dfc34a1eeab658a1f9c825c7d156fb26dc1a6a824f6a9735761a4"),
    file(Project::Rook, R20, "toolbox.yaml", "f0e7581f8eee656b0815e0aa93a93ef851811b4e2da7bb28a8e070e52062c6f3"),
    file(Project::Rook, R19, "crds.yaml", "10e754b7c6f1e4a228ae794594ae0af8d33f3d6620ab392df68b2171a97b2263"),
    file(Project::Rook, R19, "common.yaml", "116a76f01d2e4078dc132756d021c1610a3c6814601b4b83a3faf3962bff8a04"),
    file(Project::Rook, R19, "csi-operator.yaml", "9a20dfab3c036e73a6edcc8f335321bb9c3c283194766f677f1442c64406cb24"),
    file(Project::Rook, R19, "operator.yaml", "13d3aa95c9d4635a213e95baff5d9d7822f2a325a0702acb17c77bb6f53d7579"),
    file(Project::Rook, R19, "toolbox.yaml", "d12550636f74d66bfe02307ae981725f0841f0c3d0152fe480d26200acf5ad62"),
    file(Project::Snapshotter, S8, "client/config/crd/snapshot.storage.k8s.io_volumesnapshotclasses.yaml", "75e6565aac2c0f2949ed13ea884bbaa388cb7be576b558b709cf1168e011828d"),
    file(Project::Snapshotter, S8, "client/config/crd/snapshot.storage.k8s.io_volumesnapshotcontents.yaml", "895a3c1e73b60f06a0deb566dd123d01bdf1b2efc5d5ff5231ff8bbcf42dafc7"),
    file(Project::Snapshotter, S8, "client/config/crd/snapshot.storage.k8s.io_volumesnapshots.yaml", "b032116e987fb1d7d93cec7d942833adeb9d95c9bdc7e00c10b280c2fe4a6c33"),
    file(Project::Snapshotter, S8, "client/config/crd/groupsnapshot.storage.k8s.io_volumegroupsnapshotclasses.yaml", "0ac1b24c628e73fbe3352c21c7929707453252a64072184727a82d2f3c42fc51"),
    file(Project::Snapshotter, S8, "client/config/crd/groupsnapshot.storage.k8s.io_volumegroupsnapshotcontents.yaml", "dc148b9798e4aa080ab3e2dc0681e029ef75ca31adfdf96cf0a14ec309ea9c79"),
    file(Project::Snapshotter, S8, "client/config/crd/groupsnapshot.storage.k8s.io_volumegroupsnapshots.yaml", "59abaccbe9e85a611848489da53d855db4ab606894b0c4cab109a574b4a95b10"),
    file(Project::Snapshotter, S8, "deploy/kubernetes/snapshot-controller/rbac-snapshot-controller.yaml", "99c4ac480b6c9563be0d85599e29cc7b68b25a82d250b0e789726727551e8d38"),
    file(Project::Snapshotter, S8, "deploy/kubernetes/snapshot-controller/setup-snapshot-controller.yaml", "920166ff9001203e9def2504903eb196cd1da55d520f022807cc6ac82ef8eeba"),
];
