//! The objects that are made for an image. Pure.

use std::collections::BTreeMap;

use hypercloud_api::{VirtualMachineImage, VolumeMode, names, quantity};
use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, Container, PersistentVolumeClaim, PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource, Pod, PodAffinity, PodAffinityTerm, PodSecurityContext,
    PodSpec, ResourceRequirements, SeccompProfile, SecurityContext, Volume, VolumeDevice,
    VolumeMount, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::Resource;

/// Label that the agents' pods carry.
pub const AGENT_LABEL: &str = "app.kubernetes.io/component";
/// Value of [`AGENT_LABEL`].
pub const AGENT_COMPONENT: &str = "node-agent";

/// The program of the holder's image, and the command that holds.
const HOLD: [&str; 2] = ["/usr/local/bin/node-agent", "hold"];
/// User and group `nobody`.
const NOBODY: i64 = 65534;
/// Name of the volume inside the pod.
const VOLUME: &str = "volume";
/// Labels of an image that its claim carries on, for KubeVirt's defaults.
const CARRIED_LABELS: &str = "instancetype.kubevirt.io/default-";

/// What every holder pod has in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderTemplate {
    /// Container image with the `hold` command.
    pub image: String,
    /// Namespace of the agents' pods.
    pub agent_namespace: String,
}

/// The claim of `image`, asking for `size` bytes.
pub fn claim(image: &VirtualMachineImage, size: u64) -> PersistentVolumeClaim {
    let name = image.metadata.name.as_deref().unwrap_or_default();
    let mut metadata = owned(image, names::image_claim(name), names::ROLE_IMAGE);
    let carried = image
        .metadata
        .labels
        .iter()
        .flatten()
        .filter(|(key, _)| key.starts_with(CARRIED_LABELS))
        .map(|(key, value)| (key.clone(), value.clone()));
    metadata.labels.get_or_insert_default().extend(carried);
    let mode = image.spec.volume_mode();
    if mode == VolumeMode::Filesystem {
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(names::ANNOTATION_CONTENT_TYPE.into(), "kubevirt".into());
    }
    let modes = image.spec.access_modes();
    PersistentVolumeClaim {
        metadata,
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(modes.iter().map(|mode| mode.as_str().to_owned()).collect()),
            resources: Some(VolumeResourceRequirements {
                requests: Some(quantities([("storage", quantity::from_bytes(size).0)])),
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
///
/// It meets the `restricted` Pod Security Standard, holds no credentials and
/// does nothing: kubelet mounts the claim for as long as it runs. It has to
/// run where an agent is, because the agent of its node does the work; this
/// is asked as affinity to the agents' pods, so that the scheduler goes by
/// the agents as they are at that time, and a node without one is never
/// picked for a volume that is bound to its first consumer's node.
pub fn holder(image: &VirtualMachineImage, attempt: u32, template: &HolderTemplate) -> Pod {
    let name = image.metadata.name.as_deref().unwrap_or_default();
    let block = image.spec.volume_mode() == VolumeMode::Block;
    let resources = quantities([("cpu", "10m".to_owned()), ("memory", "32Mi".to_owned())]);
    let container = Container {
        name: "hold".to_owned(),
        image: Some(template.image.clone()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: Some(HOLD.map(str::to_owned).to_vec()),
        resources: Some(ResourceRequirements {
            requests: Some(resources.clone()),
            limits: Some(resources),
            claims: None,
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                add: None,
            }),
            read_only_root_filesystem: Some(true),
            ..SecurityContext::default()
        }),
        volume_devices: block.then(|| {
            vec![VolumeDevice {
                name: VOLUME.to_owned(),
                device_path: "/dev/volume".to_owned(),
            }]
        }),
        volume_mounts: (!block).then(|| {
            vec![VolumeMount {
                name: VOLUME.to_owned(),
                mount_path: "/volume".to_owned(),
                ..VolumeMount::default()
            }]
        }),
        ..Container::default()
    };
    Pod {
        metadata: owned(
            image,
            names::image_holder(name, attempt),
            names::ROLE_HOLDER,
        ),
        spec: Some(PodSpec {
            affinity: Some(beside_an_agent(&template.agent_namespace)),
            automount_service_account_token: Some(false),
            containers: vec![container],
            enable_service_links: Some(false),
            // A container that ends is started again: the volume stays.
            restart_policy: Some("Always".to_owned()),
            security_context: Some(PodSecurityContext {
                run_as_non_root: Some(true),
                run_as_user: Some(NOBODY),
                run_as_group: Some(NOBODY),
                seccomp_profile: Some(SeccompProfile {
                    type_: "RuntimeDefault".to_owned(),
                    localhost_profile: None,
                }),
                ..PodSecurityContext::default()
            }),
            termination_grace_period_seconds: Some(2),
            volumes: Some(vec![Volume {
                name: VOLUME.to_owned(),
                persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                    claim_name: names::image_claim(name),
                    read_only: None,
                }),
                ..Volume::default()
            }]),
            ..PodSpec::default()
        }),
        status: None,
    }
}

/// Affinity to any agent's pod, by node.
fn beside_an_agent(namespace: &str) -> Affinity {
    let term = PodAffinityTerm {
        label_selector: Some(LabelSelector {
            match_labels: Some(BTreeMap::from([(
                AGENT_LABEL.to_owned(),
                AGENT_COMPONENT.to_owned(),
            )])),
            match_expressions: None,
        }),
        namespaces: Some(vec![namespace.to_owned()]),
        topology_key: "kubernetes.io/hostname".to_owned(),
        ..PodAffinityTerm::default()
    };
    Affinity {
        pod_affinity: Some(PodAffinity {
            required_during_scheduling_ignored_during_execution: Some(vec![term]),
            preferred_during_scheduling_ignored_during_execution: None,
        }),
        ..Affinity::default()
    }
}

/// Metadata of an object that belongs to `image`.
fn owned(image: &VirtualMachineImage, name: String, role: &str) -> ObjectMeta {
    let uid = image.metadata.uid.clone().unwrap_or_default();
    let image_name = image.metadata.name.clone().unwrap_or_default();
    ObjectMeta {
        name: Some(name),
        namespace: image.metadata.namespace.clone(),
        labels: Some(BTreeMap::from([
            (names::LABEL_MANAGED_BY.into(), names::MANAGED_BY.into()),
            (names::LABEL_IMAGE_UID.into(), uid.clone()),
            (names::LABEL_ROLE.into(), role.into()),
        ])),
        annotations: Some(BTreeMap::from([(
            names::ANNOTATION_IMAGE.into(),
            image_name.clone(),
        )])),
        owner_references: Some(vec![OwnerReference {
            api_version: VirtualMachineImage::api_version(&()).into_owned(),
            kind: VirtualMachineImage::kind(&()).into_owned(),
            name: image_name,
            uid,
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]),
        ..ObjectMeta::default()
    }
}

fn quantities<const N: usize>(list: [(&str, String); N]) -> BTreeMap<String, Quantity> {
    list.into_iter()
        .map(|(name, value)| (name.to_owned(), Quantity(value)))
        .collect()
}
