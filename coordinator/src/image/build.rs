//! The objects that are made for an image. Pure.

use std::collections::BTreeMap;

use hypercloud_api::{VirtualMachineImage, VolumeMode, names, quantity};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, Pod, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;

use crate::holder::build::pod;
use crate::holder::{HeldVolume, HolderPod, HolderTemplate};

/// Name of the volume inside the holder pod.
const VOLUME: &str = "volume";
/// Labels of an image that its claim carries on, for KubeVirt's defaults.
const CARRIED_LABELS: &str = "instancetype.kubevirt.io/default-";

/// The claim of `image`, asking for `size` bytes.
pub fn claim(image: &VirtualMachineImage, size: u64) -> PersistentVolumeClaim {
    let name = image.metadata.name.as_deref().unwrap_or_default();
    let mut labels = labels(image);
    labels.insert(names::LABEL_MANAGED_BY.into(), names::MANAGED_BY.into());
    labels.insert(names::LABEL_ROLE.into(), names::ROLE_IMAGE.into());
    let carried = image
        .metadata
        .labels
        .iter()
        .flatten()
        .filter(|(key, _)| key.starts_with(CARRIED_LABELS))
        .map(|(key, value)| (key.clone(), value.clone()));
    labels.extend(carried);
    let mut annotations = annotations(name);
    let mode = image.spec.volume_mode();
    if mode == VolumeMode::Filesystem {
        annotations.insert(names::ANNOTATION_CONTENT_TYPE.into(), "kubevirt".into());
    }
    let modes = image.spec.access_modes();
    let size = quantity::from_bytes(size);
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(names::image_claim(name)),
            namespace: image.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![owner(image)]),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(modes.iter().map(|mode| mode.as_str().to_owned()).collect()),
            resources: Some(VolumeResourceRequirements {
                requests: Some([("storage".to_owned(), size)].into()),
                limits: None,
            }),
            storage_class_name: image.spec.storage_class_name.clone(),
            volume_mode: Some(mode.as_str().to_owned()),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    }
}

/// The holder pod of `image` for try `attempt`.
pub fn holder(image: &VirtualMachineImage, attempt: u32, template: &HolderTemplate) -> Pod {
    let name = image.metadata.name.as_deref().unwrap_or_default();
    let holder = HolderPod {
        name: names::image_holder(name, attempt),
        namespace: image.metadata.namespace.clone(),
        labels: labels(image),
        annotations: annotations(name),
        owner: Some(owner(image)),
        volumes: vec![HeldVolume {
            name: VOLUME,
            claim: names::image_claim(name),
            kind: image.spec.volume_mode().into(),
            read_only: false,
        }],
        node: None,
    };
    pod(&holder, template)
}

/// Labels that say whose an object is.
fn labels(image: &VirtualMachineImage) -> BTreeMap<String, String> {
    let uid = image.metadata.uid.clone().unwrap_or_default();
    [(names::LABEL_IMAGE_UID.to_owned(), uid)].into()
}

/// The same for people.
fn annotations(image: &str) -> BTreeMap<String, String> {
    [(names::ANNOTATION_IMAGE.to_owned(), image.to_owned())].into()
}

/// `image` as the owner of an object.
fn owner(image: &VirtualMachineImage) -> OwnerReference {
    OwnerReference {
        api_version: VirtualMachineImage::api_version(&()).into_owned(),
        kind: VirtualMachineImage::kind(&()).into_owned(),
        name: image.metadata.name.clone().unwrap_or_default(),
        uid: image.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
