//! The pods that use a claim.

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
    let pods = list(client, namespace, claim, except).await?;
    Ok(pods.iter().map(ResourceExt::name_any).collect())
}

/// The same pods themselves, sorted by name.
pub async fn list(
    client: &Client,
    namespace: &str,
    claim: &str,
    except: impl Fn(&Pod) -> bool,
) -> Result<Vec<Pod>, KubeError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let running = ListParams::default().fields("status.phase!=Succeeded,status.phase!=Failed");
    let mut pods = pods.list(&running).await?.items;
    pods.retain(|pod| uses(pod, claim) && !except(pod));
    pods.sort_by_key(ResourceExt::name_any);
    Ok(pods)
}

/// Whether `pod` has not ended and has a volume that is the claim `claim`.
pub fn uses(pod: &Pod, claim: &str) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return false;
    }
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
    fn an_ephemeral_volume_is_a_claim_too() {
        let volume = json!({"name": "scratch", "ephemeral": {}});
        assert!(uses(&pod("Running", volume.clone()), "vm-scratch"));
        assert!(!uses(&pod("Running", volume.clone()), "scratch"));
        assert!(!mounts(&pod("Running", volume), "vm-scratch"));
    }
}
