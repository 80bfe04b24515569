//! Names, labels and annotations of everything the coordinator makes.
//!
//! Invariant: a name is a pure function of the resource it is made for, so a
//! coordinator that lost its memory finds what it made before; and it stays
//! within Kubernetes' 253 characters however long the resource's name is.

use sha2::{Digest, Sha256};

/// Finalizer on every resource that owns something outside the API server.
pub const FINALIZER: &str = "hypercloud.tmaxanc.com/cleanup";
/// Field manager of server-side apply.
pub const FIELD_MANAGER: &str = "hypercloud-storage-coordinator";
/// Label that names the part of the system that made an object.
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`LABEL_MANAGED_BY`] on what the coordinator makes.
pub const MANAGED_BY: &str = "hypercloud-storage";
/// Label with the UID of the `VirtualMachineImage` that an object belongs to.
pub const LABEL_IMAGE_UID: &str = "hypercloud.tmaxanc.com/image-uid";
/// Label with the role of an object: see [`ROLE_IMAGE`], [`ROLE_HOLDER`].
pub const LABEL_ROLE: &str = "hypercloud.tmaxanc.com/role";
/// Role of a claim that holds an image.
pub const ROLE_IMAGE: &str = "image";
/// Role of a pod that keeps a claim attached to a node.
pub const ROLE_HOLDER: &str = "holder";
/// Role of a disk's claim.
pub const ROLE_DISK: &str = "disk";
/// Role of a claim that is filled before its volume changes hands.
pub const ROLE_PRIME: &str = "prime";
/// Role of a claim or snapshot that is made for an export.
pub const ROLE_EXPORTED: &str = "exported";
/// Role of a claim that a snapshot is restored to for a rollback.
pub const ROLE_RESTORED: &str = "restored";
/// Label with the UID of the `VirtualMachinePvc` that an object belongs to.
pub const LABEL_DISK_UID: &str = "hypercloud.tmaxanc.com/disk-uid";
/// Label with the UID of the `VirtualMachineVolumeRollback` that an object
/// belongs to.
pub const LABEL_ROLLBACK_UID: &str = "hypercloud.tmaxanc.com/rollback-uid";
/// Label with the UID of the `VirtualMachineVolumeExport` that an object
/// belongs to.
pub const LABEL_EXPORT_UID: &str = "hypercloud.tmaxanc.com/export-uid";
/// Label with the UID of the image that a claim is made from.
pub const LABEL_SOURCE_IMAGE_UID: &str = "hypercloud.tmaxanc.com/source-image-uid";
/// Beginnings of the names of claims that nobody but the coordinator makes
/// and mounts; the admission policies go by them.
pub const RESERVED_CLAIM_PREFIXES: [&str; 4] = ["vmim-", "vmprime-", "vmrollback-", "vmexport-"];
/// Annotation with the name of the image that an object belongs to.
pub const ANNOTATION_IMAGE: &str = "hypercloud.tmaxanc.com/image";
/// Annotation with namespace and name of the disk that an object belongs to,
/// which may be in another namespace.
pub const ANNOTATION_DISK: &str = "hypercloud.tmaxanc.com/disk";
/// Annotation by which KubeVirt's export knows a disk.
pub const ANNOTATION_CONTENT_TYPE: &str = "cdi.kubevirt.io/storage.contentType";

/// Annotation with the time until which the address in a Secret is good.
pub const ANNOTATION_EXPIRES: &str = "hypercloud.tmaxanc.com/expires";

/// Longest name of a Kubernetes object.
const MAX_NAME: usize = 253;

/// Name of the claim that holds the image called `image`.
pub fn image_claim(image: &str) -> String {
    bounded("vmim-", image, "")
}

/// Name of the holder pod of the image called `image`, for try `attempt`.
pub fn image_holder(image: &str, attempt: u32) -> String {
    bounded("vmim-", image, &format!("-holder-{attempt}"))
}

/// Name of the claim that is filled for the disk with this UID, before its
/// volume changes hands.
pub fn prime_claim(disk_uid: &str) -> String {
    format!("vmprime-{disk_uid}")
}

/// Name of the holder pod of the copy for the disk with this UID, for try
/// `attempt`.
pub fn prime_holder(disk_uid: &str, attempt: u32) -> String {
    format!("vmprime-{disk_uid}-holder-{attempt}")
}

/// Name of the claim that the snapshot is restored to for the rollback with
/// this UID.
pub fn restored_claim(rollback_uid: &str) -> String {
    format!("vmrollback-{rollback_uid}")
}

/// Name of the holder pod of the rollback with this UID, for try `attempt`.
pub fn rollback_holder(rollback_uid: &str, attempt: u32) -> String {
    format!("vmrollback-{rollback_uid}-holder-{attempt}")
}

/// Name of the snapshot that the export with this UID is made from, and of
/// the claim that it is restored to.
pub fn exported_claim(export_uid: &str) -> String {
    format!("vmexport-{export_uid}")
}

/// Name of the holder pod of the export with this UID, for try `attempt`.
pub fn export_holder(export_uid: &str, attempt: u32) -> String {
    format!("vmexport-{export_uid}-holder-{attempt}")
}

/// Name of the Secret with the address by which the object of the export
/// called `export` is fetched.
pub fn download_secret(export: &str) -> String {
    bounded("", export, "-download")
}

/// Identity of the job that fills an image's claim: the same for every
/// coordinator that asks for the same try of the same resource.
pub fn job_id(uid: &str, attempt: u32) -> String {
    format!("{uid}-{attempt}")
}

/// The resource's UID and the try out of a job's identity.
pub fn parse_job_id(id: &str) -> Option<(&str, u32)> {
    let (uid, attempt) = id.rsplit_once('-')?;
    Some((uid, attempt.parse().ok()?))
}

/// `prefix + name + suffix`, with the middle of an overlong name replaced by
/// a digest of the whole, so that two long names never meet.
fn bounded(prefix: &str, name: &str, suffix: &str) -> String {
    let whole = format!("{prefix}{name}{suffix}");
    if whole.len() <= MAX_NAME {
        return whole;
    }
    let digest: String = Sha256::digest(name.as_bytes())
        .iter()
        .take(5)
        .map(|b| format!("{b:02x}"))
        .collect();
    let keep = MAX_NAME - prefix.len() - suffix.len() - digest.len() - 1;
    let head = name[..keep].trim_end_matches(['.', '-']);
    format!("{prefix}{head}-{digest}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_stay_readable() {
        assert_eq!(image_claim("ubuntu18.04"), "vmim-ubuntu18.04");
        assert_eq!(image_holder("ubuntu18.04", 3), "vmim-ubuntu18.04-holder-3");
    }

    #[test]
    fn overlong_names_are_bounded_and_differ() {
        let (a, b) = ("a".repeat(253), format!("{}b", "a".repeat(252)));
        for name in [
            image_claim(&a),
            image_holder(&a, u32::MAX),
            download_secret(&a),
        ] {
            assert!(name.len() <= MAX_NAME, "{} is too long", name.len());
        }
        assert_ne!(image_claim(&a), image_claim(&b));
    }

    #[test]
    fn a_dot_never_stands_before_the_digest() {
        let name = format!("{}.{}", "a".repeat(236), "b".repeat(16));
        assert!(!image_claim(&name).contains(".-"), "{}", image_claim(&name));
    }

    #[test]
    fn job_ids_are_read_back() {
        let uid = "5f0c6e0e-8a3f-4f2e-9d42-0b1a4c6c7d11";
        assert_eq!(parse_job_id(&job_id(uid, 7)), Some((uid, 7)));
        assert_eq!(parse_job_id("nothing"), None);
    }
}
