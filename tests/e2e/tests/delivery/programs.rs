//! Helm and kubectl, as people call them, and what they print.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};

/// The release, and the namespace that it has to be in.
pub const NAME: &str = "hypercloud-storage";

/// The folder of the manifests.
pub fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests")
}

/// The chart.
pub fn chart() -> String {
    let folder = manifests().join("helm/hypercloud-storage");
    folder.display().to_string()
}

/// Runs Helm with these words; what it printed, or an error with what it said.
pub fn helm(words: &[&str]) -> anyhow::Result<String> {
    let program = std::env::var_os("HCS_E2E_HELM")
        .context("HCS_E2E_HELM names no Helm; tests/delivery.sh builds it and sets it")?;
    let home = tempfile::tempdir()?;
    let mut command = Command::new(program);
    for (name, folder) in [
        ("HELM_CACHE_HOME", "cache"),
        ("HELM_CONFIG_HOME", "config"),
        ("HELM_DATA_HOME", "data"),
    ] {
        command.env(name, home.path().join(folder));
    }
    let output = command.args(words).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "helm {words:?}: {said}");
    Ok(String::from_utf8(output.stdout)?)
}

/// The value that the chart cannot do without: images as the base names them.
pub const IMAGES: &str = r#"image.repository="hypercloud-storage""#;

/// Has the chart make the namespace, in a release that is kept in another.
pub const NAMESPACE: &str = "namespace.create=true";

/// What the chart is with these values, each as `--set-json` takes it, and
/// images of its own.
pub fn rendered(values: &[&str]) -> anyhow::Result<Objects> {
    let chart = chart();
    let place = match values.contains(&NAMESPACE) {
        true => "default",
        false => NAME,
    };
    let mut words = vec!["template", NAME, &chart, "--namespace", place];
    words.extend(["--set-json", IMAGES]);
    for value in values {
        words.extend(["--set-json", value]);
    }
    objects(&helm(&words)?)
}

/// What kustomize makes of a folder.
pub fn kustomized(folder: &Path) -> anyhow::Result<Objects> {
    let folder = folder.display().to_string();
    objects(&e2e::devices::tool("kubectl", &["kustomize", &folder])?)
}

/// What kustomize makes of the folders `resources` with `components`, all of
/// them in the folder of the manifests.
pub fn combined(resources: &[&str], components: &[&str]) -> anyhow::Result<Objects> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path().canonicalize()?;
    // kustomize takes no absolute paths.
    let up = "../".repeat(folder.components().count() - 1);
    let manifests = manifests().canonicalize()?;
    let name = |one: &&str| format!("{up}{}/{one}", manifests.display());
    let names = |list: &[&str]| list.iter().map(name).collect::<Vec<_>>();
    let text = json!({"resources": names(resources), "components": names(components)});
    std::fs::write(folder.join("kustomization.yaml"), text.to_string())?;
    kustomized(&folder)
}

/// Objects by kind and name.
pub type Objects = BTreeMap<(String, String), Value>;

/// The objects of a stream of YAML.
pub fn objects(text: &str) -> anyhow::Result<Objects> {
    let mut found = Objects::new();
    for part in serde_yaml::Deserializer::from_str(text) {
        let object = Value::deserialize(part)?;
        if object.is_null() {
            continue;
        }
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = (word(&object["kind"]), word(&object["metadata"]["name"]));
        anyhow::ensure!(!found.contains_key(&key), "{key:?} is there twice");
        found.insert(key, object);
    }
    Ok(found)
}

/// An object that has to be there.
pub fn object<'a>(objects: &'a Objects, kind: &str, name: &str) -> anyhow::Result<&'a Value> {
    let key = (kind.to_owned(), name.to_owned());
    objects
        .get(&key)
        .with_context(|| format!("no {kind} {name}"))
}

/// The one container of a Deployment or DaemonSet.
pub fn container<'a>(objects: &'a Objects, kind: &str, name: &str) -> anyhow::Result<&'a Value> {
    let object = object(objects, kind, name)?;
    Ok(&object["spec"]["template"]["spec"]["containers"][0])
}

/// A variable of a container's environment.
pub fn variable<'a>(container: &'a Value, name: &str) -> Option<&'a str> {
    let list = container["env"].as_array()?;
    list.iter().find(|entry| entry["name"] == name)?["value"].as_str()
}
