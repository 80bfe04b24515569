//! Who may do what: the agent may open devices and nothing in the API.

use e2e::cluster::{Cluster, SYSTEM_NAMESPACE};
use e2e::system;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use serde_json::json;

/// Kinds whose reading would tell an agent something, by group.
const KINDS: &[(&str, &str)] = &[
    ("", "configmaps"),
    ("", "events"),
    ("", "namespaces"),
    ("", "nodes"),
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "pods"),
    ("", "secrets"),
    ("coordination.k8s.io", "leases"),
    ("hypercloud.tmaxanc.com", "virtualmachineimages"),
    ("storage.k8s.io", "storageclasses"),
    ("*", "*"),
];

#[tokio::test]
async fn the_agents_account_may_read_nothing() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    let reviews: Api<SubjectAccessReview> = Api::all(cluster.client.clone());
    for (group, kind) in KINDS {
        for verb in ["get", "list", "watch"] {
            let review = serde_json::from_value(json!({"spec": {
                "user": format!("system:serviceaccount:{SYSTEM_NAMESPACE}:node-agent"),
                "groups": [
                    "system:serviceaccounts",
                    format!("system:serviceaccounts:{SYSTEM_NAMESPACE}"),
                    "system:authenticated"
                ],
                "resourceAttributes": {
                    "namespace": SYSTEM_NAMESPACE, "group": group, "resource": kind, "verb": verb
                }
            }}))?;
            let answer = reviews.create(&PostParams::default(), &review).await?;
            let allowed = answer.status.is_some_and(|status| status.allowed);
            assert!(!allowed, "the agent may {verb} {kind} of group {group:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_agents_pods_hold_no_token() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    let pods = system::pods(&cluster, "node-agent").await?;
    assert!(!pods.is_empty(), "agents run");
    for pod in pods {
        let name = pod.name_any();
        for volume in pod.spec.and_then(|spec| spec.volumes).unwrap_or_default() {
            let tokens = volume.projected.and_then(|projected| projected.sources);
            let token = tokens
                .iter()
                .flatten()
                .any(|source| source.service_account_token.is_some());
            assert!(!token, "{name} mounts a token in {}", volume.name);
        }
    }
    Ok(())
}
