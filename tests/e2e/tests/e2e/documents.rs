//! Every manifest in the documents is one that the API server takes.

use e2e::cluster::Cluster;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::Scope;
use serde::Deserialize;

/// The documents whose manifests are tried.
const DOCUMENTS: &[(&str, &str)] = &[("README.md", include_str!("../../../../README.md"))];

/// The YAML blocks of a document in Markdown.
fn yaml_blocks(text: &str) -> impl Iterator<Item = &str> {
    text.split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("\n```").next())
}

#[tokio::test]
async fn the_manifests_of_the_documents_apply_as_written() -> anyhow::Result<()> {
    let scope = Cluster::connect().await?.scope("documents").await?;
    let mut applied = 0;
    for (document, text) in DOCUMENTS {
        for block in yaml_blocks(text) {
            for part in serde_yaml::Deserializer::from_str(block) {
                let object = DynamicObject::deserialize(part)?;
                let types = object.types.clone().unwrap_or_default();
                // kustomize reads these, not the API server.
                if types.api_version.starts_with("kustomize.") {
                    continue;
                }
                let kind = GroupVersionKind::try_from(&types)?;
                let (resource, capabilities) =
                    kube::discovery::pinned_kind(&scope.cluster.client, &kind).await?;
                let client = scope.cluster.client.clone();
                let api: kube::Api<DynamicObject> = match capabilities.scope {
                    Scope::Cluster => kube::Api::all_with(client, &resource),
                    Scope::Namespaced => {
                        kube::Api::namespaced_with(client, &scope.namespace, &resource)
                    }
                };
                let name = object.metadata.name.clone().unwrap_or_default();
                let parameters = PatchParams::apply("e2e").dry_run();
                api.patch(&name, &parameters, &Patch::Apply(&object))
                    .await
                    .map_err(|error| anyhow::anyhow!("{document}: {name}: {error}"))?;
                applied += 1;
            }
        }
    }
    assert!(
        applied >= 7,
        "the documents hold manifests: {applied} found"
    );
    scope.close().await
}
