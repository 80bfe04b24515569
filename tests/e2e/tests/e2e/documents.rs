//! Every manifest in the documents is one that the API server takes, and the
//! commands for devices do what is said of them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::cluster::Cluster;
use e2e::wait::{until, when};
use e2e::{devices, download, system};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::Scope;
use serde::Deserialize;

/// The documents whose manifests are tried.
const DOCUMENTS: &[(&str, &str)] = &[
    ("README.md", include_str!("../../../../README.md")),
    (
        "docs/operations.md",
        include_str!("../../../../docs/operations.md"),
    ),
    (
        "docs/storage.md",
        include_str!("../../../../docs/storage.md"),
    ),
];

/// The YAML blocks of a document in Markdown.
fn yaml_blocks(text: &str) -> impl Iterator<Item = &str> {
    blocks(text, "yaml")
}

/// The blocks in one language of a document in Markdown.
fn blocks<'a>(text: &'a str, language: &str) -> impl Iterator<Item = &'a str> {
    text.split(&format!("```{language}\n"))
        .skip(1)
        .filter_map(|rest| rest.split("\n```").next())
        .collect::<Vec<_>>()
        .into_iter()
}

/// The section of a document below a heading.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let below = text.split_once(&format!("\n{heading}\n"));
    let below = below.map(|(_, rest)| rest).unwrap_or_default();
    below.split("\n#").next().unwrap_or_default()
}

/// Runs a command of the documents as a shell does, in `folder`.
fn shell(command: &str, folder: &Path) -> anyhow::Result<(Option<i32>, String)> {
    // kubectl finds its plug-in there.
    let programs = download::program("kubectl-hcs")?;
    let programs = programs.parent().unwrap_or(Path::new("/"));
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("bash")
        .args(["-euc", command])
        .env("PATH", format!("{}:{path}", programs.display()))
        .current_dir(folder)
        .output()?;
    let (code, out, said) = devices::ended(&output);
    Ok((code, format!("{out}{said}")))
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
                let taken = api.patch(&name, &parameters, &Patch::Apply(&object)).await;
                match taken {
                    Ok(_) => {}
                    // A storage that is well made, of nodes that are not here.
                    Err(kube::Error::Api(answer))
                        if kind.kind == "HyperCloudStorage"
                            && answer.message.contains("kubernetes.io/hostname=node-1") => {}
                    Err(error) => anyhow::bail!("{document}: {name}: {error}"),
                }
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

#[tokio::test]
async fn the_commands_for_devices_work_as_written() -> anyhow::Result<()> {
    let _undisturbed = system::disturb().await;
    let _alone = devices::alone().await;
    let cluster = Cluster::connect().await?;
    system::all_ready(&cluster, "node-agent").await?;
    let all = devices::all_current(&cluster).await?;
    let names: Vec<String> = all.iter().map(kube::ResourceExt::name_any).collect();
    let (one, other) = (&names[0], names.last().unwrap_or(&names[0]));
    let (_, readme) = DOCUMENTS[0];
    let folder = tempfile::tempdir()?;
    let mut run = 0;
    let shown = section(readme, "### kubectl hcs devices");
    for line in blocks(shown, "sh").flat_map(str::lines) {
        // It has no end.
        if line.contains("--watch") {
            continue;
        }
        let line = line.replace("node-1", one).replace("node-2", other);
        let (code, said) = shell(&line, folder.path())?;
        assert_eq!(code, Some(0), "{line}: {said}");
        run += 1;
    }
    assert!(run >= 4, "the document shows commands: {run} found");

    // What lets in at an agent, but for the last line, which stays.
    let asking = section(readme, "### Asking an agent");
    let mut lines: Vec<&str> = blocks(asking, "sh")
        .next()
        .unwrap_or_default()
        .lines()
        .collect();
    let forward = lines.pop().unwrap_or_default();
    assert!(
        forward.contains("port-forward \"$agent\" 7443"),
        "{forward}"
    );
    let command = lines.join("\n").replace("node-1", one) + "\necho $agent";
    let (code, said) = shell(&command, folder.path())?;
    assert_eq!(code, Some(0), "{said}");
    let pod = system::agent_on(&cluster, one).await?;
    let name = format!("pod/{}", kube::ResourceExt::name_any(&pod));
    assert_eq!(said.trim(), name);
    // The forwarding goes on until it is stopped.
    let mut forwarding = Command::new("kubectl")
        .args(["-n", "hypercloud-storage", "port-forward", &name, "7443"])
        .stdout(std::process::Stdio::null())
        .spawn()?;
    let ask = blocks(asking, "sh").nth(1).unwrap_or_default();
    let ask = ask.replace(" --watch", "");
    let asked = until("the agent answers", Duration::from_secs(30), || async {
        let (code, said) = shell(&ask, folder.path())?;
        Ok(when(code == Some(0), said))
    })
    .await;
    forwarding.kill()?;
    forwarding.wait()?;
    asked
}
