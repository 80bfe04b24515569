//! Who may do what: the agent may open devices and nothing in the API, the
//! coordinator may read Secrets that it is told the name of.

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

/// Whether an account of the system may do `verb` to a kind in a namespace.
async fn may(
    cluster: &Cluster,
    account: &str,
    verb: &str,
    (group, kind): (&str, &str),
    namespace: &str,
) -> anyhow::Result<bool> {
    let reviews: Api<SubjectAccessReview> = Api::all(cluster.client.clone());
    let review = serde_json::from_value(json!({"spec": {
        "user": format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{account}"),
        "groups": [
            "system:serviceaccounts",
            format!("system:serviceaccounts:{SYSTEM_NAMESPACE}"),
            "system:authenticated"
        ],
        "resourceAttributes": {
            "namespace": namespace, "group": group, "resource": kind, "verb": verb
        }
    }}))?;
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

#[tokio::test]
async fn the_agents_account_may_read_nothing() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    for kind in KINDS {
        for verb in ["get", "list", "watch"] {
            let allowed = may(&cluster, "node-agent", verb, *kind, SYSTEM_NAMESPACE).await?;
            assert!(!allowed, "the agent may {verb} {kind:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_coordinator_reads_secrets_by_their_names_and_collects_none() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    for kind in [("", "secrets"), ("", "configmaps")] {
        for (verb, wanted) in [
            ("get", true),
            ("list", false),
            ("watch", false),
            // For the addresses by which exports are fetched, and for the
            // settings of Rook in its manifests.
            ("create", true),
            ("update", false),
            ("patch", false),
            ("delete", false),
        ] {
            let allowed = may(&cluster, "coordinator", verb, kind, "default").await?;
            assert_eq!(allowed, wanted, "{verb} {kind:?}");
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
