//! Which crate of the workspace may know which.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// A crate's folder, the siblings it may depend on, and the outside crates
/// that it must not name because they would break what it is.
struct Rule {
    folder: &'static str,
    siblings: &'static [&'static str],
    never: &'static [&'static str],
}

const RULES: &[Rule] = &[
    Rule {
        folder: "api",
        siblings: &["hypercloud-inventory"],
        never: &["tokio", "tonic", "reqwest"],
    },
    Rule {
        folder: "proto",
        siblings: &[],
        never: &["kube", "tokio", "reqwest"],
    },
    Rule {
        folder: "disk",
        siblings: &[],
        never: &["kube", "tokio", "tonic", "reqwest"],
    },
    Rule {
        folder: "transfer",
        siblings: &["hypercloud-disk", "hypercloud-trust"],
        never: &["kube", "tonic"],
    },
    Rule {
        folder: "trust",
        siblings: &[],
        never: &["kube", "tokio", "tonic", "reqwest"],
    },
    Rule {
        folder: "inventory",
        siblings: &[],
        never: &["kube", "tokio", "tonic", "reqwest"],
    },
    Rule {
        folder: "storage",
        siblings: &["hypercloud-api", "hypercloud-inventory"],
        never: &["kube", "tokio", "tonic", "reqwest"],
    },
    Rule {
        folder: "node-agent",
        siblings: &[
            "hypercloud-proto",
            "hypercloud-disk",
            "hypercloud-inventory",
            "hypercloud-transfer",
        ],
        never: &["kube", "k8s-openapi"],
    },
    Rule {
        folder: "coordinator",
        siblings: &[
            "hypercloud-api",
            "hypercloud-inventory",
            "hypercloud-proto",
            "hypercloud-storage",
            "hypercloud-trust",
        ],
        never: &["reqwest"],
    },
    Rule {
        folder: "cli",
        siblings: &[
            "hypercloud-api",
            "hypercloud-disk",
            "hypercloud-inventory",
            "hypercloud-proto",
            "hypercloud-transfer",
        ],
        never: &[],
    },
    Rule {
        folder: "tests/machine",
        siblings: &[],
        never: &["kube", "tokio"],
    },
    Rule {
        folder: "tests/rook",
        siblings: &["hypercloud-storage"],
        never: &["tonic", "reqwest"],
    },
    Rule {
        folder: "tests/store",
        siblings: &[],
        never: &["kube", "aws-sdk-s3"],
    },
    Rule {
        folder: "bench",
        siblings: &["hypercloud-disk", "hypercloud-inventory"],
        never: &["tokio"],
    },
];

/// Crates of the workspace, by the names that a manifest gives them.
const SIBLINGS: &[&str] = &[
    "hypercloud-api",
    "hypercloud-proto",
    "hypercloud-disk",
    "hypercloud-transfer",
    "hypercloud-inventory",
    "hypercloud-storage",
    "hypercloud-trust",
    "hypercloud-coordinator",
    "node-agent",
    "hypercloud-cli",
];

/// Dependencies that are named against the rules.
pub fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for rule in RULES {
        let path = root.join(rule.folder).join("Cargo.toml");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        found.extend(breaches(rule, &dependencies(&text)));
    }
    Ok(found)
}

/// Names in the `[dependencies]` table of a manifest.
fn dependencies(manifest: &str) -> Vec<&str> {
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['=', '.', ' ']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .collect()
}

fn breaches(rule: &Rule, named: &[&str]) -> Vec<String> {
    named
        .iter()
        .filter(|name| {
            rule.never.contains(*name)
                || (SIBLINGS.contains(*name) && !rule.siblings.contains(*name))
        })
        .map(|name| format!("{}/Cargo.toml: must not depend on {name}", rule.folder))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_dependency_is_seen() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\nkube = \"1\"\ntokio.workspace = true\nserde = { workspace = true }\n\n[dev-dependencies]\ntonic = \"1\"\n";
        assert_eq!(dependencies(manifest), ["kube", "tokio", "serde"]);
    }

    #[test]
    fn a_forbidden_sibling_is_reported() {
        let rule = Rule {
            folder: "disk",
            siblings: &[],
            never: &["tokio"],
        };
        let found = breaches(&rule, &["tokio", "serde", "hypercloud-api"]);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
