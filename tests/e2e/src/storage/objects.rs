//! Objects of any kind: of Rook, of CDI, of Kubernetes.

use std::time::Duration;

use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, PostParams,
};
use kube::discovery::{Discovery, Scope, verbs};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::wait::{until, when};

/// An object by what it is called.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    /// Group and version, as `apps/v1`.
    pub api_version: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// Its namespace; empty where it has none.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// A Deployment.
#[must_use]
pub const fn deployment<'a>(namespace: &'a str, name: &'a str) -> Object<'a> {
    Object {
        api_version: "apps/v1",
        kind: "Deployment",
        namespace,
        name,
    }
}

/// A resource of Rook's in its namespace.
#[must_use]
pub const fn rook<'a>(kind: &'a str, name: &'a str) -> Object<'a> {
    Object {
        api_version: "ceph.rook.io/v1",
        kind,
        namespace: hypercloud_storage::ROOK_NAMESPACE,
        name,
    }
}

/// The CephCluster.
pub const CEPH_CLUSTER: Object<'static> = rook("CephCluster", hypercloud_storage::CEPH_CLUSTER);

impl Object<'_> {
    /// The objects of its kind in its namespace.
    pub fn api(&self, cluster: &Cluster) -> Api<DynamicObject> {
        let (group, version) = self
            .api_version
            .split_once('/')
            .unwrap_or(("", self.api_version));
        let kind = GroupVersionKind::gvk(group, version, self.kind);
        let resource = ApiResource::from_gvk(&kind);
        match self.namespace {
            "" => Api::all_with(cluster.client.clone(), &resource),
            namespace => Api::namespaced_with(cluster.client.clone(), namespace, &resource),
        }
    }

    /// The object, where it is there.
    pub async fn get(&self, cluster: &Cluster) -> anyhow::Result<Option<Value>> {
        // A kind without a definition is answered without a word that kube
        // would know.
        match self.api(cluster).get(self.name).await {
            Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(None),
            found => Ok(Some(serde_json::to_value(found?)?)),
        }
    }

    /// Changes it as somebody else would.
    pub async fn merge(&self, cluster: &Cluster, patch: Value) -> anyhow::Result<()> {
        let by = PatchParams::apply("somebody");
        let by = PatchParams { force: false, ..by };
        let patch = Patch::Merge(patch);
        self.api(cluster).patch(self.name, &by, &patch).await?;
        Ok(())
    }

    /// Makes it of the rest of what it is.
    pub async fn create(&self, cluster: &Cluster, mut rest: Value) -> anyhow::Result<()> {
        rest["apiVersion"] = self.api_version.into();
        rest["kind"] = self.kind.into();
        rest["metadata"]["name"] = self.name.into();
        let object: DynamicObject = serde_json::from_value(rest)?;
        let write = PostParams::default();
        self.api(cluster).create(&write, &object).await?;
        Ok(())
    }

    /// Deletes it, where it is there.
    pub async fn delete(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let how = DeleteParams::default();
        match self.api(cluster).delete(self.name, &how).await {
            Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }

    /// Waits until it is not there.
    pub async fn gone(&self, cluster: &Cluster, limit: Duration) -> anyhow::Result<()> {
        let what = format!("{} {} is gone", self.kind, self.name);
        until(&what, limit, || async {
            let found = self.get(cluster).await?;
            Ok(when(found.is_none(), "it is there"))
        })
        .await
    }
}

/// What is listed of an object.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty where it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The rest.
    pub object: Value,
}

impl Listed {
    /// When it was made.
    #[must_use]
    pub fn created(&self) -> &str {
        let created = &self.object["metadata"]["creationTimestamp"];
        created.as_str().unwrap_or_default()
    }

    /// A label of it.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.object["metadata"]["labels"][name].as_str()
    }
}

/// Objects of every kind that the API server knows, in all namespaces: those
/// with the label, or all in the namespace.
pub async fn all(
    cluster: &Cluster,
    label: Option<&str>,
    namespace: Option<&str>,
) -> anyhow::Result<Vec<Listed>> {
    let client = &cluster.client;
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    let mut found = Vec::new();
    let mut which = ListParams::default();
    if let Some(label) = label {
        which = which.labels(label);
    }
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            let is_in = capabilities.scope == Scope::Namespaced;
            // Events come and go by themselves; metrics are no objects.
            if !capabilities.supports_operation(verbs::LIST)
                || resource.kind == "Event"
                || namespace.is_some() && !is_in
            {
                continue;
            }
            let api: Api<DynamicObject> = match namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
                None => Api::all_with(client.clone(), &resource),
            };
            let listed = match api.list(&which).await {
                // Its definition has just gone.
                Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 405) => continue,
                other => other?,
            };
            for object in listed {
                let mut whole = serde_json::to_value(&object)?;
                // Items of a list do not say what they are.
                whole["apiVersion"] = resource.api_version.as_str().into();
                whole["kind"] = resource.kind.as_str().into();
                found.push(Listed {
                    kind: resource.kind.clone(),
                    namespace: object.metadata.namespace.clone().unwrap_or_default(),
                    name: object.metadata.name.clone().unwrap_or_default(),
                    object: whole,
                });
            }
        }
    }
    Ok(found)
}
