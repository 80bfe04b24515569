//! The pods that use a claim.

use hypercloud_api::names;
use k8s_openapi::api::core::v1::{Pod, Volume};
use kube::api::{Api, ListParams};
use kube::{Client, Error as KubeError, ResourceExt};

/// Names of the pods in `namespace` that use the claim `claim` and have not
/// ended, sorted, but for those that `except` picks.
///
/// A pod counts as long as it has not ended, scheduled or not: kubelet may
/// set its volumes up at any time. One that is being deleted counts too.
pub async fn users(
    client: &Client,
    namespace: &str,
    claim: &str,
    except: impl Fn(&Pod) -> bool,
) -> Result<Vec<String>, KubeError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let running = ListParams::default().fields("status.phase!=Succeeded,status.phase!=Failed");
    let list = pods.list(&running).await?;
    let mut names: Vec<String> = list
        .iter()
        .filter(|pod| uses(pod, claim) && !except(pod))
        .map(|pod| pod.name_any())
        .collect();
    names.sort();
    Ok(names)
}

/// The pods in `namespace` that have the claim `claim` as a volume, whether they
/// ended or not, sorted by name.
pub async fn mounting(
    client: &Client,
    namespace: &str,
    claim: &str,
) -> Result<Vec<Pod>, KubeError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut pods = pods.list(&ListParams::default()).await?.items;
    pods.retain(|pod| has(pod, claim));
    pods.sort_by_key(ResourceExt::name_any);
    Ok(pods)
}

/// Whether `pod` has not ended and has a volume that is the claim `claim`.
pub fn uses(pod: &Pod, claim: &str) -> bool {
    !has_ended(pod) && has(pod, claim)
}

/// Whether nothing of `pod` runs any more, nor will.
pub fn has_ended(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether `pod` has a volume that is the claim `claim`, ended or not.
fn has(pod: &Pod, claim: &str) -> bool {
    // The claim of a generic ephemeral volume is called after both.
    let is_ephemeral = |volume: &Volume| {
        volume.ephemeral.is_some() && format!("{}-{}", pod.name_any(), volume.name) == claim
    };
    mounts(pod, claim) || volumes(pod).any(is_ephemeral)
}

/// Whether `pod` names the claim `claim` in a volume, ended or not. Where the
/// claim has a reserved name, the API server takes such a pod from the
/// coordinator alone.
pub fn mounts(pod: &Pod, claim: &str) -> bool {
    volumes(pod).any(|volume| {
        let named = volume.persistent_volume_claim.as_ref();
        named.is_some_and(|named| named.claim_name == claim)
    })
}

/// Whether `pod` is a holder that reads the claim `claim`, for whichever
/// resource. One that only looks like a holder writes no more than one.
pub fn only_reads(pod: &Pod, claim: &str) -> bool {
    let role = pod.labels().get(names::LABEL_ROLE);
    role.is_some_and(|role| role == names::ROLE_HOLDER) && mounts(pod, claim) && !writes(pod, claim)
}

/// Whether `pod` names the claim `claim` in a volume that it may write to.
pub fn writes(pod: &Pod, claim: &str) -> bool {
    volumes(pod).any(|volume| {
        let named = volume.persistent_volume_claim.as_ref();
        named.is_some_and(|named| named.claim_name == claim && named.read_only != Some(true))
    })
}

/// Names of pods, in words.
pub fn in_words(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let kind = if names.len() == 1 { "pod" } else { "pods" };
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>();
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("the {kind} {}{more}", shown.join(", "))
}

fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.volumes.as_ref())
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(phase: &str, volume: serde_json::Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "vm"},
            "spec": {"containers": [], "volumes": [volume]},
            "status": {"phase": phase}
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_uses_what_it_names_until_it_ends() {
        let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "disk"}});
        for phase in ["Pending", "Running", "Unknown"] {
            assert!(uses(&pod(phase, volume.clone()), "disk"), "{phase}");
        }
        assert!(!uses(&pod("Succeeded", volume.clone()), "disk"));
        assert!(!uses(&pod("Failed", volume.clone()), "disk"));
        assert!(mounts(&pod("Failed", volume.clone()), "disk"));
        assert!(!uses(&pod("Running", volume.clone()), "disk2"));
        assert!(!mounts(&pod("Running", volume), "disk2"));
    }

    #[test]
    fn a_holder_that_reads_changes_nothing() {
        let volume = |read_only: bool| {
            json!({"name": "v", "persistentVolumeClaim":
                {"claimName": "disk", "readOnly": read_only}})
        };
        let holder = |read_only| {
            let mut holder = pod("Running", volume(read_only));
            let role = (names::LABEL_ROLE.into(), names::ROLE_HOLDER.into());
            holder.metadata.labels = Some([role].into());
            holder
        };
        assert!(only_reads(&holder(true), "disk"));
        assert!(!only_reads(&holder(false), "disk"));
        assert!(!only_reads(&holder(true), "data"));
        assert!(!only_reads(&pod("Running", volume(true)), "disk"));
    }

    #[test]
    fn an_ephemeral_volume_is_a_claim_too() {
        let volume = json!({"name": "scratch", "ephemeral": {}});
        assert!(uses(&pod("Running", volume.clone()), "vm-scratch"));
        assert!(!uses(&pod("Running", volume.clone()), "scratch"));
        assert!(!mounts(&pod("Running", volume), "vm-scratch"));
    }
}
