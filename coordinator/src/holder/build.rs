//! The holder pod. Pure.

use std::collections::BTreeMap;

use hypercloud_api::names;
use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, Container, NodeAffinity, NodeSelector, NodeSelectorRequirement,
    NodeSelectorTerm, PersistentVolumeClaimVolumeSource, Pod, PodAffinity, PodAffinityTerm,
    PodSecurityContext, PodSpec, ResourceRequirements, SeccompProfile, SecurityContext, Volume,
    VolumeDevice, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};

use crate::agents::VolumeKind;

/// Label that the agents' pods carry.
pub const AGENT_LABEL: &str = "app.kubernetes.io/component";
/// Value of [`AGENT_LABEL`].
pub const AGENT_COMPONENT: &str = "node-agent";

/// The program of the holder's image, and the command that holds.
const HOLD: [&str; 2] = ["/usr/local/bin/node-agent", "hold"];
/// User and group `nobody`.
const NOBODY: i64 = 65534;

/// What every holder pod has in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderTemplate {
    /// Container image with the `hold` command.
    pub image: String,
    /// Namespace of the agents' pods.
    pub agent_namespace: String,
}

/// One holder pod.
#[derive(Clone, Debug, PartialEq)]
pub struct HolderPod {
    /// Name of the pod.
    pub name: String,
    /// Namespace of the pod and of its claims.
    pub namespace: Option<String>,
    /// Labels that say whose it is, beside those of every holder.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its owner; none where that is in another namespace.
    pub owner: Option<OwnerReference>,
    /// The volumes that it holds.
    pub volumes: Vec<HeldVolume>,
    /// The one node that it may run on; any with an agent without one.
    pub node: Option<String>,
}

/// A volume that a holder holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldVolume {
    /// Name inside the pod, which nothing goes by.
    pub name: &'static str,
    /// Name of the claim.
    pub claim: String,
    /// How the volume is presented.
    pub kind: VolumeKind,
    /// Whether it is mounted read-only.
    pub read_only: bool,
}

/// The pod that `holder` describes.
///
/// It meets the `restricted` Pod Security Standard, holds no credentials and
/// does nothing: kubelet mounts the claims for as long as it runs. It has to
/// run where an agent is, because the agent of its node does the work; this
/// is asked as affinity to the agents' pods, so that the scheduler goes by
/// the agents as they are at that time, and a node without one is never
/// picked for a volume that is bound to its first consumer's node.
pub fn pod(holder: &HolderPod, template: &HolderTemplate) -> Pod {
    let mut labels = holder.labels.clone();
    labels.insert(names::LABEL_MANAGED_BY.into(), names::MANAGED_BY.into());
    labels.insert(names::LABEL_ROLE.into(), names::ROLE_HOLDER.into());
    let annotations = Some(holder.annotations.clone()).filter(|list| !list.is_empty());
    Pod {
        metadata: ObjectMeta {
            name: Some(holder.name.clone()),
            namespace: holder.namespace.clone(),
            labels: Some(labels),
            annotations,
            owner_references: holder.owner.clone().map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            affinity: Some(Affinity {
                pod_affinity: Some(beside_an_agent(&template.agent_namespace)),
                node_affinity: holder.node.as_deref().map(on_node),
                ..Affinity::default()
            }),
            automount_service_account_token: Some(false),
            containers: vec![container(holder, template)],
            enable_service_links: Some(false),
            // A container that ends is started again: the volumes stay.
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
            volumes: Some(holder.volumes.iter().map(volume).collect()),
            ..PodSpec::default()
        }),
        status: None,
    }
}

fn container(holder: &HolderPod, template: &HolderTemplate) -> Container {
    let resources = quantities([("cpu", "10m".to_owned()), ("memory", "32Mi".to_owned())]);
    let of = |kind| holder.volumes.iter().filter(move |held| held.kind == kind);
    let devices: Vec<VolumeDevice> = of(VolumeKind::Block)
        .map(|held| VolumeDevice {
            name: held.name.to_owned(),
            device_path: format!("/dev/{}", held.name),
        })
        .collect();
    let mounts: Vec<VolumeMount> = of(VolumeKind::Filesystem)
        .map(|held| VolumeMount {
            name: held.name.to_owned(),
            mount_path: format!("/{}", held.name),
            read_only: held.read_only.then_some(true),
            ..VolumeMount::default()
        })
        .collect();
    Container {
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
        volume_devices: Some(devices).filter(|list| !list.is_empty()),
        volume_mounts: Some(mounts).filter(|list| !list.is_empty()),
        ..Container::default()
    }
}

fn volume(held: &HeldVolume) -> Volume {
    Volume {
        name: held.name.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: held.claim.clone(),
            read_only: held.read_only.then_some(true),
        }),
        ..Volume::default()
    }
}

/// Affinity to any agent's pod, by node.
fn beside_an_agent(namespace: &str) -> PodAffinity {
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
    PodAffinity {
        required_during_scheduling_ignored_during_execution: Some(vec![term]),
        preferred_during_scheduling_ignored_during_execution: None,
    }
}

/// Affinity to the node of this name, whatever its labels say.
fn on_node(node: &str) -> NodeAffinity {
    let term = NodeSelectorTerm {
        match_fields: Some(vec![NodeSelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![node.to_owned()]),
        }]),
        match_expressions: None,
    };
    NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(NodeSelector {
            node_selector_terms: vec![term],
        }),
        preferred_during_scheduling_ignored_during_execution: None,
    }
}

fn quantities<const N: usize>(list: [(&str, String); N]) -> BTreeMap<String, Quantity> {
    list.into_iter()
        .map(|(name, value)| (name.to_owned(), Quantity(value)))
        .collect()
}
