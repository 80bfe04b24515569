//! What every test of the storage stands on: the cluster, the mirror, the
//! disks, and one installation that is carried from test to test.

use anyhow::Context;
use hypercloud_api::StorageState;
use hypercloud_storage::version::{KubernetesVersion, Running, Target, target};
use kube::api::{Api, LogParams, PostParams};
use serde_json::{Value, json};

use super::disks::Disks;
use super::mirror::{self, Mirror};
use super::objects::{Listed, all, deployment};
use super::{INSTALLATION, LIMIT, manifests, orders, reset};
use crate::cluster::Cluster;
use crate::devices::{nodes_here, tool};
use crate::system;
use crate::wait::Seen;

/// The newest Rook, which is installed where none is named.
pub const NEWEST: &str = "1.20.6";
/// The Ceph that goes with it.
pub const NEWEST_CEPH: &str = "20.2.4";
/// The one before.
pub const FORMER: &str = "1.19.10";
/// The Ceph that goes with that.
pub const FORMER_CEPH: &str = "19.2.6";

/// Names of the disks; the first letter says on which node they are used.
const DISKS: [&str; 5] = ["a1", "a2", "a3", "b1", "b2"];

/// What the tests stand on.
pub struct Ground {
    /// The cluster.
    pub cluster: Cluster,
    /// The mirror of the manifests.
    pub mirror: Mirror,
    /// The disks.
    pub disks: Disks,
    /// Two nodes that have them.
    pub nodes: [String; 2],
    /// Definitions of snapshots, which a removal of all definitions may take.
    snapshots: Vec<Listed>,
}

impl Ground {
    /// Makes it; nothing where that cannot be here, with a word on why.
    pub async fn make() -> anyhow::Result<Option<Self>> {
        let Some(folder) = manifests::folder() else {
            return Ok(None);
        };
        let cluster = Cluster::connect().await?;
        system::all_ready(&cluster, "node-agent").await?;
        system::all_ready(&cluster, "coordinator").await?;
        let here = nodes_here(&cluster).await?;
        let [first, second, ..] = here.as_slice() else {
            println!("skipped: two nodes with this machine's devices are needed");
            return Ok(None);
        };
        let nodes = [first.clone(), second.clone()];
        let disks = Disks::attach(&DISKS)?;
        let mirror = Mirror::start(cluster.address_for_pods().await?, folder).await?;
        let mut snapshots = all(&cluster, None, None).await?;
        snapshots.retain(|listed| {
            listed.kind == "CustomResourceDefinition"
                && listed.name.ends_with("snapshot.storage.k8s.io")
        });
        let ground = Self {
            cluster,
            mirror,
            disks,
            nodes,
            snapshots,
        };
        ground.clear().await?;
        ground.disks.shown(&ground.cluster, &ground.nodes).await?;
        Ok(Some(ground))
    }

    /// A small storage on disks of the first node.
    #[must_use]
    pub fn spec(&self) -> Value {
        json!({
            "storage": {
                "replicas": 2,
                "failureDomain": "OSD",
                "nodes": [{
                    "hostname": self.nodes[0],
                    "devices": [self.disks.link("a1"), self.disks.link("a2")],
                }],
            },
            "manifests": self.mirror.spec(),
        })
    }

    /// Clears the cluster by force, and takes every order back.
    pub async fn clear(&self) -> anyhow::Result<()> {
        self.mirror.mend()?;
        // A test may have left nobody to judge what is applied.
        let two = json!({"spec": {"replicas": 2}});
        deployment(hypercloud_storage::SYSTEM_NAMESPACE, "coordinator")
            .merge(&self.cluster, two)
            .await?;
        system::all_ready(&self.cluster, "coordinator").await?;
        orders::prepare(&self.cluster).await?;
        reset::reset(&self.cluster).await?;
        mirror::forget_config_maps(&self.cluster).await?;
        self.restore().await
    }

    /// Puts definitions of snapshots back that were removed with an
    /// installation, since the cluster had them before.
    pub async fn restore(&self) -> anyhow::Result<()> {
        for listed in &self.snapshots {
            let object = super::objects::Object {
                api_version: "apiextensions.k8s.io/v1",
                kind: "CustomResourceDefinition",
                namespace: "",
                name: &listed.name,
            };
            if object.get(&self.cluster).await?.is_some() {
                continue;
            }
            let mut again = listed.object.clone();
            for field in [
                "uid",
                "resourceVersion",
                "creationTimestamp",
                "managedFields",
                "labels",
            ] {
                again["metadata"][field] = Value::Null;
            }
            again["status"] = Value::Null;
            object.create(&self.cluster, again).await?;
        }
        Ok(())
    }

    /// Sees to it that nothing is installed.
    pub async fn none(&self) -> anyhow::Result<()> {
        if super::look(&self.cluster).await?.is_some() {
            self.remove().await?;
        }
        orders::clear(&self.cluster).await
    }

    /// Removes what is installed, as a person would who wants to be rid of it.
    pub async fn remove(&self) -> anyhow::Result<()> {
        orders::clear(&self.cluster).await?;
        if let Some(found) = super::look(&self.cluster).await?
            && found.metadata.deletion_timestamp.is_none()
        {
            let mut spec = serde_json::to_value(&found.spec)?;
            spec["cleanup"] = json!({
                "confirmation": "yes-really-destroy-data",
                "definitions": "Remove",
            });
            super::set(&self.cluster, &spec).await?;
        }
        super::delete(&self.cluster).await?;
        super::gone(&self.cluster, LIMIT).await?;
        self.restore().await
    }

    /// Sees to it that a storage of the newest versions is installed and well;
    /// its specification.
    pub async fn installed(&self) -> anyhow::Result<Value> {
        orders::clear(&self.cluster).await?;
        if let Some(found) = super::look(&self.cluster).await? {
            let status = found.status.unwrap_or_default();
            let running = status.versions.unwrap_or_default();
            let is_newest = running.rook.as_deref() == Some(NEWEST);
            if is_newest
                && found.metadata.deletion_timestamp.is_none()
                && matches!(status.state, Some(StorageState::Ok | StorageState::Error))
            {
                super::is_ok(&self.cluster, LIMIT).await?;
                return Ok(serde_json::to_value(&found.spec)?);
            }
            self.remove().await?;
        }
        let spec = self.spec();
        super::set(&self.cluster, &spec).await?;
        super::is_ok(&self.cluster, INSTALLATION).await?;
        Ok(spec)
    }

    /// What is to run, of a specification on an empty cluster.
    pub async fn target(&self, spec: &Value) -> anyhow::Result<Target> {
        let info = self.cluster.client.apiserver_version().await?;
        let kubernetes = KubernetesVersion::parse(&info.major, &info.minor);
        let spec = serde_json::from_value(spec.clone())?;
        Ok(target(&spec, Running::default(), kubernetes)?)
    }

    /// A namespace for a test's own objects; it is waited for until an earlier
    /// one of that name is gone.
    pub async fn namespace(&self, name: &str) -> anyhow::Result<()> {
        use k8s_openapi::api::core::v1::Namespace;
        let api: Api<Namespace> = Api::all(self.cluster.client.clone());
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        crate::wait::until("the namespace is made", LIMIT, || async {
            api.create(&PostParams::default(), &namespace).await?;
            Ok(Seen::Done(()))
        })
        .await
    }

    /// Prints what there is to be known of a failure.
    pub async fn explain(&self) {
        let words: [&[&str]; 4] = [
            &["get", "hypercloudstorage", "--output", "yaml"],
            &[
                "get",
                "deployments,daemonsets,pods,jobs",
                "--namespace",
                "rook-ceph",
            ],
            &[
                "get",
                "cephclusters,cephblockpools,cephobjectstores,objectbucketclaims",
                "--all-namespaces",
            ],
            &[
                "get",
                "events",
                "--all-namespaces",
                "--sort-by=.metadata.creationTimestamp",
            ],
        ];
        for words in words {
            let said = tool("kubectl", words).unwrap_or_else(|error| format!("{error:#}"));
            println!("--- kubectl {}\n{}", words.join(" "), tail(&said, 120));
        }
        match self
            .log(
                "hypercloud-storage",
                "app.kubernetes.io/component=coordinator",
            )
            .await
        {
            Ok(log) => println!("--- coordinators\n{}", tail(&log, 80)),
            Err(error) => println!("--- coordinators: {error:#}"),
        }
        match self.log("rook-ceph", "app=rook-ceph-operator").await {
            Ok(log) => println!("--- Rook\n{}", tail(&log, 40)),
            Err(error) => println!("--- Rook: {error:#}"),
        }
    }

    async fn log(&self, namespace: &str, label: &str) -> anyhow::Result<String> {
        use k8s_openapi::api::core::v1::Pod;
        let api: Api<Pod> = Api::namespaced(self.cluster.client.clone(), namespace);
        let which = kube::api::ListParams::default().labels(label);
        let mut logs = String::new();
        for pod in api.list(&which).await? {
            let name = pod.metadata.name.context("a pod without a name")?;
            let log = api.logs(&name, &LogParams::default()).await;
            logs += &format!("{name}:\n{}", log.unwrap_or_default());
        }
        Ok(logs)
    }
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
