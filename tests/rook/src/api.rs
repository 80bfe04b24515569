//! Objects of the API server as plain values.

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

/// A kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

const fn kind(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
) -> Kind {
    Kind {
        group,
        version,
        kind,
        plural,
    }
}

const ROOK: &str = "ceph.rook.io";
pub const CLUSTER: Kind = kind(ROOK, "v1", "CephCluster", "cephclusters");
pub const POOL: Kind = kind(ROOK, "v1", "CephBlockPool", "cephblockpools");
pub const STORE: Kind = kind(ROOK, "v1", "CephObjectStore", "cephobjectstores");
pub const USER: Kind = kind(ROOK, "v1", "CephObjectStoreUser", "cephobjectstoreusers");
pub const FILESYSTEM: Kind = kind(ROOK, "v1", "CephFilesystem", "cephfilesystems");
const BUCKETS: &str = "objectbucket.io";
pub const CLAIM: Kind = kind(
    BUCKETS,
    "v1alpha1",
    "ObjectBucketClaim",
    "objectbucketclaims",
);
pub const BUCKET: Kind = kind(BUCKETS, "v1alpha1", "ObjectBucket", "objectbuckets");
const CSI: &str = "csi.ceph.io";
pub const DRIVER: Kind = kind(CSI, "v1", "Driver", "drivers");
pub const OPERATOR_CONFIG: Kind = kind(CSI, "v1", "OperatorConfig", "operatorconfigs");
pub const CONNECTION: Kind = kind(CSI, "v1", "CephConnection", "cephconnections");
pub const PROFILE: Kind = kind(CSI, "v1", "ClientProfile", "clientprofiles");
pub const CSI_DRIVER: Kind = kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers");
pub const CLASS: Kind = kind("storage.k8s.io", "v1", "StorageClass", "storageclasses");
pub const DEPLOYMENT: Kind = kind("apps", "v1", "Deployment", "deployments");
pub const DAEMON_SET: Kind = kind("apps", "v1", "DaemonSet", "daemonsets");
pub const JOB: Kind = kind("batch", "v1", "Job", "jobs");
pub const POD: Kind = kind("", "v1", "Pod", "pods");
pub const NODE: Kind = kind("", "v1", "Node", "nodes");
pub const SECRET: Kind = kind("", "v1", "Secret", "secrets");
pub const CONFIG_MAP: Kind = kind("", "v1", "ConfigMap", "configmaps");
pub const CDI: Kind = kind("cdi.kubevirt.io", "v1beta1", "CDI", "cdis");

/// The objects of a kind, in a namespace or in all.
pub fn of(client: &Client, kind: Kind, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(kind.group, kind.version, kind.kind),
        kind.plural,
    );
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Whether the API server says that a thing is not there.
pub fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether somebody was faster.
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn value(object: DynamicObject, kind: Kind) -> kube::Result<Value> {
    let mut value = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
    value["apiVersion"] = json!(match kind.group {
        "" => kind.version.to_owned(),
        group => format!("{group}/{}", kind.version),
    });
    value["kind"] = json!(kind.kind);
    Ok(value)
}

fn object(value: &Value) -> kube::Result<DynamicObject> {
    serde_json::from_value(value.clone()).map_err(kube::Error::SerdeError)
}

/// A text of an object's metadata.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Whether somebody deletes an object.
pub fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// All of a kind; none where the kind is not known.
pub async fn list(
    client: &Client,
    kind: Kind,
    namespace: Option<&str>,
    labels: &str,
) -> kube::Result<Vec<Value>> {
    let parameters = ListParams::default().labels(labels);
    match of(client, kind, namespace).list(&parameters).await {
        Ok(list) => list.items.into_iter().map(|o| value(o, kind)).collect(),
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// One object, if it is there.
pub async fn get(
    client: &Client,
    kind: Kind,
    namespace: Option<&str>,
    name: &str,
) -> kube::Result<Option<Value>> {
    match of(client, kind, namespace).get(name).await {
        Ok(found) => value(found, kind).map(Some),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes an object, unless one of its name is there.
pub async fn make(client: &Client, kind: Kind, new: &Value) -> kube::Result<()> {
    let namespace = new["metadata"]["namespace"].as_str();
    let api = of(client, kind, namespace);
    match api.create(&PostParams::default(), &object(new)?).await {
        Err(error) if !is_conflict(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Replaces an object that was read before.
pub async fn replace(client: &Client, kind: Kind, new: &Value) -> kube::Result<()> {
    let api = of(client, kind, new["metadata"]["namespace"].as_str());
    let name = text(new, "name");
    let replaced = api
        .replace(name, &PostParams::default(), &object(new)?)
        .await;
    replaced.map(drop)
}

/// Replaces the status of an object that was read before.
pub async fn replace_status(client: &Client, kind: Kind, new: &Value) -> kube::Result<()> {
    let api = of(client, kind, new["metadata"]["namespace"].as_str());
    let object = object(new)?;
    let parameters = PostParams::default();
    let replaced = api.replace_status(text(new, "name"), &parameters, &object);
    replaced.await.map(drop)
}

/// Deletes an object, if it is there.
pub async fn delete(
    client: &Client,
    kind: Kind,
    namespace: Option<&str>,
    name: &str,
) -> kube::Result<()> {
    let api = of(client, kind, namespace);
    match api.delete(name, &DeleteParams::background()).await {
        Err(error) if !is_absent(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Changes the data of a ConfigMap, which is made where there is none.
pub async fn remember(client: &Client, data: Value) -> kube::Result<()> {
    let api = of(client, CONFIG_MAP, Some(crate::NAMESPACE));
    let patch = json!({"data": data});
    let parameters = PatchParams::default();
    match api
        .patch(crate::MEMORY, &parameters, &Patch::Merge(&patch))
        .await
    {
        Err(error) if is_absent(&error) => {
            let new = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": crate::MEMORY, "namespace": crate::NAMESPACE},
                "data": data,
            });
            make(client, CONFIG_MAP, &new).await
        }
        other => other.map(drop),
    }
}

/// Whether an object has a finalizer.
pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    let all = object["metadata"]["finalizers"].as_array();
    all.into_iter().flatten().any(|other| other == finalizer)
}

/// Puts a finalizer on an object; true if that was to be done.
pub async fn hold(
    client: &Client,
    kind: Kind,
    object: &Value,
    finalizer: &str,
) -> kube::Result<bool> {
    if has_finalizer(object, finalizer) || is_going(object) {
        return Ok(false);
    }
    let mut held = object.clone();
    let mut all = object["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    all.push(json!(finalizer));
    held["metadata"]["finalizers"] = json!(all);
    replace(client, kind, &held).await.map(|()| true)
}

/// Takes a finalizer off an object.
pub async fn release(
    client: &Client,
    kind: Kind,
    object: &Value,
    finalizer: &str,
) -> kube::Result<()> {
    if !has_finalizer(object, finalizer) {
        return Ok(());
    }
    let mut released = object.clone();
    let all = object["metadata"]["finalizers"].as_array();
    let left: Vec<&Value> = all
        .into_iter()
        .flatten()
        .filter(|other| *other != finalizer)
        .collect();
    released["metadata"]["finalizers"] = json!(left);
    match replace(client, kind, &released).await {
        Err(error) if !is_absent(&error) => Err(error),
        _ => Ok(()),
    }
}
