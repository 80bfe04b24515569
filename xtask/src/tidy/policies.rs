//! The admission policies are text: they must name what the code and the
//! other manifests name.

use std::fs;
use std::path::Path;

use anyhow::Context;
use hypercloud_api::names::RESERVED_CLAIM_PREFIXES;
use serde_json::Value;

/// Where the policies stand, and the account that they except.
const POLICIES: &str = "manifests/base/admission.yaml";
const COORDINATOR: &str = "manifests/base/coordinator.yaml";

/// Policies that go by the beginnings of claims' names.
const BY_NAME: &[&str] = &["hypercloud-storage-mounts", "hypercloud-storage-claims"];

/// What the policies below `root` have wrong.
pub fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let read = |path| fs::read_to_string(root.join(path)).with_context(|| format!("read {path}"));
    breaches(&read(POLICIES)?, &read(COORDINATOR)?)
}

fn breaches(policies: &str, coordinator: &str) -> anyhow::Result<Vec<String>> {
    let account = account(coordinator)?;
    let quoted = RESERVED_CLAIM_PREFIXES.map(|prefix| format!("'{prefix}'"));
    let prefixes = format!("[{}]", quoted.join(", "));
    let mut found = Vec::new();
    let mut by_name = 0;
    for policy in documents(policies, "ValidatingAdmissionPolicy")? {
        let name = policy["metadata"]["name"].as_str().unwrap_or_default();
        let says = |text: &str| {
            let parts = [&policy["spec"]["validations"], &policy["spec"]["variables"]];
            let mut expressions = parts.into_iter().flat_map(|part| part.as_array());
            expressions.any(|list| {
                list.iter()
                    .filter_map(|entry| entry["expression"].as_str())
                    .any(|expression| expression.contains(text))
            })
        };
        if !says(&format!("'{account}'")) {
            found.push(format!("{POLICIES}: {name} does not except {account}"));
        }
        if BY_NAME.contains(&name) {
            by_name += 1;
            if !says(&prefixes) {
                found.push(format!("{POLICIES}: {name} does not go by {prefixes}"));
            }
        }
    }
    if by_name != BY_NAME.len() {
        found.push(format!("{POLICIES}: not every one of {BY_NAME:?} is there"));
    }
    Ok(found)
}

/// The user name of the coordinator's pods.
fn account(coordinator: &str) -> anyhow::Result<String> {
    let deployments = documents(coordinator, "Deployment")?;
    let deployment = deployments.first().context("no Deployment")?;
    let namespace = deployment["metadata"]["namespace"].as_str();
    let account = deployment["spec"]["template"]["spec"]["serviceAccountName"].as_str();
    Ok(format!(
        "system:serviceaccount:{}:{}",
        namespace.context("the coordinator has no namespace")?,
        account.context("the coordinator has no account")?
    ))
}

fn documents(text: &str, kind: &str) -> anyhow::Result<Vec<Value>> {
    use serde::Deserialize;
    serde_yaml::Deserializer::from_str(text)
        .map(|document| Ok(Value::deserialize(document)?))
        .filter(|document: &anyhow::Result<Value>| {
            document
                .as_ref()
                .map_or(true, |value| value["kind"] == kind)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COORDINATOR: &str = "
kind: Deployment
metadata: {namespace: here}
spec: {template: {spec: {serviceAccountName: it}}}
";

    fn policy(name: &str, expression: &str) -> String {
        format!(
            "kind: ValidatingAdmissionPolicy\nmetadata: {{name: {name}}}\nspec:\n  validations:\n  - expression: {expression:?}\n---\n"
        )
    }

    #[test]
    fn policies_that_name_the_account_and_the_prefixes_pass() {
        let right =
            "['vmim-', 'vmprime-', 'vmrollback-', 'vmexport-'] 'system:serviceaccount:here:it'";
        let text: String = BY_NAME.iter().map(|name| policy(name, right)).collect();
        assert_eq!(breaches(&text, COORDINATOR).unwrap(), [""; 0]);
        let other = policy("other", "'system:serviceaccount:here:it'");
        assert_eq!(breaches(&(text + &other), COORDINATOR).unwrap(), [""; 0]);
    }

    #[test]
    fn what_is_not_named_is_found() {
        let text = policy(BY_NAME[0], "['vmim-'] 'system:serviceaccount:there:it'");
        let found = breaches(&text, COORDINATOR).unwrap();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].ends_with("does not except system:serviceaccount:here:it"));
        assert!(found[1].contains("does not go by") && found[2].contains("not every one"));
    }
}
