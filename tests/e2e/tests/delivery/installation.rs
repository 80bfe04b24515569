//! The chart on a cluster: over what kubectl installed, on an empty one, with
//! a storage, changed, put back, gone and there again.

use std::time::{Duration, Instant};

use anyhow::Context;
use e2e::cluster::{Cluster, SYSTEM_NAMESPACE};
use e2e::devices::tool;
use e2e::storage::ground::Ground;
use e2e::storage::{self, LIMIT};
use e2e::wait::{until, when};
use e2e::{devices, system};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};

use crate::overlays::{OVERLAYS, overlay};
use crate::programs::{NAME, chart, helm};

/// Set where the cluster is the tests' own: what is in it may be destroyed.
const OWN: &str = "HCS_E2E_OWN_CLUSTER";

/// How long everything may take to be ready on a busy machine.
const READY: &str = "240s";

#[tokio::test]
async fn the_chart_carries_the_system_through_its_life() -> anyhow::Result<()> {
    if std::env::var_os(OWN).is_none() {
        println!("skipped: the system is taken away only on a cluster of the tests' own");
        return Ok(());
    }
    let cluster = Cluster::connect().await?;
    let ground = Ground::make().await?;
    step("the API server takes the overlays", overlays_are_taken)?;
    step("nothing is left of what was done before", cleared)?;
    let release = Release::new(ground.as_ref().map(Ground::spec))?;
    let before = inventories(&cluster).await?;
    step("Helm takes over what kubectl installed", || {
        release.install(&[
            "--take-ownership",
            "--force-conflicts",
            "--set",
            "storage.enabled=false",
        ])
    })?;
    system::all_ready(&cluster, "coordinator").await?;
    step("it goes, and what it managed stays", || release.uninstall())?;
    gone(&cluster).await?;
    assert_eq!(inventories(&cluster).await?, before);

    empty(&cluster).await?;
    step("one command installs all on an empty cluster", || {
        release.install(&["--create-namespace"])
    })?;
    let Some(ground) = ground else {
        devices::all_current(&cluster).await?;
        return release.uninstall();
    };
    let done = with_storage(&ground, &release).await;
    if done.is_err() {
        ground.explain().await;
    }
    done
}

/// What becomes of the storage that a release made.
async fn with_storage(ground: &Ground, release: &Release) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    storage::is_ok(cluster, LIMIT).await?;
    let made = identity(cluster).await?;
    assert!(made.is_hook, "it was made when its kind was there");

    step("it is changed", || {
        release.upgrade(&[
            "coordinator.replicas=1",
            "storage.spec.storage.health.warnings=Tolerate",
        ])
    })?;
    let changed = identity(cluster).await?;
    assert_eq!(changed.uid, made.uid, "it is the same one");
    assert!(!changed.is_hook, "it is a part of the release by now");
    assert_eq!(changed.spec["storage"]["health"]["warnings"], "Tolerate");
    storage::is_ok(cluster, LIMIT).await?;
    until("one coordinator is left", LIMIT, || async {
        let pods = system::pods(cluster, "coordinator").await?.len();
        Ok(when(pods == 1, pods))
    })
    .await?;

    step("it is put back", || {
        helm(&[
            "rollback",
            NAME,
            "1",
            "--namespace",
            NAME,
            "--wait",
            "--timeout",
            READY,
        ])
    })?;
    assert_eq!(identity(cluster).await?.uid, made.uid);

    step("it goes, and the storage stays", || release.uninstall())?;
    gone(cluster).await?;
    assert_eq!(identity(cluster).await?.uid, made.uid);

    step("it is there again", || release.install(&[]))?;
    let again = identity(cluster).await?;
    assert_eq!(again.uid, made.uid);
    storage::is_ok(cluster, LIMIT).await?;
    ground.remove().await?;
    step("it goes for good", || release.uninstall())?;
    gone(cluster).await?;
    without_rights(cluster, release).await
}

/// Without the rights over the whole cluster, all but the storage is there, and
/// nothing is tried that they were needed for.
async fn without_rights(cluster: &Cluster, release: &Release) -> anyhow::Result<()> {
    let values = "storage.enabled=false,storage.allowed=false";
    step("it does without the rights for a storage", || {
        release.install(&["--set", values])
    })?;
    devices::all_current(cluster).await?;
    let logs = system::logs(cluster).await?;
    let refused = logs.lines().find(|line| line.contains("forbidden"));
    anyhow::ensure!(refused.is_none(), "{refused:?}");
    release.uninstall()
}

/// Does something, and says how long it took.
fn step<T>(what: &str, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let begun = Instant::now();
    let done = work().with_context(|| what.to_owned())?;
    println!("{what}: {:.1} s", begun.elapsed().as_secs_f64());
    Ok(done)
}

/// A release of the chart, with the images that the cluster has.
struct Release {
    /// Where the values are.
    _folder: tempfile::TempDir,
    values: String,
}

impl Release {
    /// With a storage, where there is a specification.
    fn new(spec: Option<Value>) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let values = json!({
            "image": {"repository": NAME, "tag": "dev"},
            "storage": {"enabled": spec.is_some(), "spec": spec.unwrap_or_else(|| json!({}))},
        });
        let file = folder.path().join("values.yaml");
        std::fs::write(&file, values.to_string())?;
        Ok(Self {
            values: file.display().to_string(),
            _folder: folder,
        })
    }

    fn install(&self, more: &[&str]) -> anyhow::Result<String> {
        let chart = chart();
        let mut words = vec!["install", NAME, &chart, "--namespace", NAME];
        words.extend(["--wait", "--timeout", READY, "--values", &self.values]);
        words.extend(more);
        helm(&words)
    }

    fn upgrade(&self, values: &[&str]) -> anyhow::Result<String> {
        let chart = chart();
        let mut words = vec!["upgrade", NAME, &chart, "--namespace", NAME];
        words.extend(["--wait", "--timeout", READY, "--reuse-values"]);
        for value in values {
            words.extend(["--set", value]);
        }
        helm(&words)
    }

    fn uninstall(&self) -> anyhow::Result<()> {
        let words = ["uninstall", NAME, "--namespace", NAME, "--wait"];
        helm(&words).map(drop)
    }
}

/// Each overlay is one that the API server takes, but for its storage, whose
/// nodes are nobody's here: that is refused for just this.
fn overlays_are_taken() -> anyhow::Result<()> {
    for name in OVERLAYS {
        let mut objects = overlay(name)?;
        let storage = objects.remove(&("HyperCloudStorage".into(), "hypercloud".into()));
        let texts: Result<Vec<String>, _> = objects.values().map(serde_yaml::to_string).collect();
        let dry = ["apply", "--dry-run=server", "--filename", "-"];
        storage::kubectl(&dry, &texts?.join("---\n")).with_context(|| name.to_owned())?;
        if let Some(storage) = storage {
            let said = storage::kubectl(&dry, &storage.to_string());
            let said = said.map_or_else(|error| error.to_string(), |_| "it was taken".into());
            anyhow::ensure!(said.contains("node-1"), "{name}: {said}");
        }
    }
    Ok(())
}

/// The storage that is there.
struct Identity {
    uid: Option<String>,
    spec: Value,
    /// Whether Helm has it as a hook.
    is_hook: bool,
}

async fn identity(cluster: &Cluster) -> anyhow::Result<Identity> {
    let found = storage::look(cluster)
        .await?
        .context("there is no storage")?;
    anyhow::ensure!(
        found.metadata.deletion_timestamp.is_none(),
        "the storage is being deleted"
    );
    Ok(Identity {
        uid: found.uid(),
        is_hook: found.annotations().contains_key("helm.sh/hook"),
        spec: serde_json::to_value(&found.spec)?,
    })
}

/// Inventories by name and identity: objects that stand for all others.
async fn inventories(cluster: &Cluster) -> anyhow::Result<Vec<(String, Option<String>)>> {
    let all = devices::inventories(cluster)
        .list(&Default::default())
        .await?;
    Ok(all.iter().map(|one| (one.name_any(), one.uid())).collect())
}

/// Waits until nothing of the system is there but definitions and what is of
/// them.
async fn gone(cluster: &Cluster) -> anyhow::Result<()> {
    let kinds = "deployments,daemonsets,poddisruptionbudgets,services,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingwebhookconfigurations";
    let words = ["get", kinds, "--all-namespaces", "--output", "name"];
    let label = ["--selector", "app.kubernetes.io/part-of=hypercloud-storage"];
    until("the system is gone", LIMIT, || async {
        let left = tool("kubectl", &[&words[..], &label[..]].concat())?;
        let pods = system::pods(cluster, "coordinator").await?.len();
        Ok(when(left.trim().is_empty() && pods == 0, (left, pods)))
    })
    .await?;
    let definitions = tool(
        "kubectl",
        &[&["get", "crds", "--output", "name"], &label[..]].concat(),
    )?;
    anyhow::ensure!(definitions.lines().count() == 7, "{definitions}");
    Ok(())
}

/// Deletes all images, disks and the like, while there is somebody to do it:
/// their finalizers would keep their definitions.
fn cleared() -> anyhow::Result<()> {
    let kinds = "virtualmachinevolumeexports,virtualmachinevolumerollbacks,virtualmachinepvcs,virtualmachineimages";
    let words = ["delete", kinds, "--all", "--all-namespaces", "--timeout"];
    tool("kubectl", &[&words[..], &[READY]].concat()).map(drop)
}

/// Leaves nothing of the system, so that the cluster is as a fresh one.
async fn empty(cluster: &Cluster) -> anyhow::Result<()> {
    let label = "app.kubernetes.io/part-of=hypercloud-storage";
    tool(
        "kubectl",
        &["delete", "crds", "--selector", label, "--timeout", READY],
    )?;
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let _ = namespaces
        .delete(SYSTEM_NAMESPACE, &DeleteParams::background())
        .await?;
    until(
        "the namespace is gone",
        Duration::from_secs(120),
        || async {
            let found = namespaces.get_opt(SYSTEM_NAMESPACE).await?;
            Ok(when(found.is_none(), found.map(|found| found.status)))
        },
    )
    .await
}
