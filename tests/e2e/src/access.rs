//! What lets in at a source, as Secrets and ConfigMaps of a test's namespace.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::cluster::Scope;

/// Makes the Secret `name`, or changes it to hold `values`.
pub async fn secret(scope: &Scope, name: &str, values: &[(&str, &str)]) -> anyhow::Result<()> {
    let values: BTreeMap<_, _> = values.iter().copied().collect();
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name}, "stringData": values});
    let parameters = PatchParams::apply("e2e").force();
    let api = scope.api::<Secret>();
    api.patch(name, &parameters, &Patch::Apply(&secret)).await?;
    Ok(())
}

/// Makes the ConfigMap `name`, or changes it to hold `values`.
pub async fn config_map(scope: &Scope, name: &str, values: &[(&str, &str)]) -> anyhow::Result<()> {
    let values: BTreeMap<_, _> = values.iter().copied().collect();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name}, "data": values});
    let parameters = PatchParams::apply("e2e").force();
    let api = scope.api::<ConfigMap>();
    api.patch(name, &parameters, &Patch::Apply(&map)).await?;
    Ok(())
}
