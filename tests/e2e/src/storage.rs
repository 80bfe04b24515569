//! The platform's storage: the cluster's one `HyperCloudStorage`, what it is
//! installed from and on, and the simulated Rook and Ceph that stand in for
//! the images which cannot run here.

pub mod coordinator;
pub mod disks;
pub mod ground;
pub mod history;
#[path = "../../mirror.rs"]
pub mod manifests;
pub mod mirror;
pub mod objects;
pub mod orders;
pub mod reset;

use std::time::Duration;

use anyhow::Context;
use hypercloud_api::{
    ComponentState, HYPERCLOUD_STORAGE_NAME, HyperCloudStorage, HyperCloudStorageStatus,
    StorageComponent, StorageState,
};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::devices::tool;
use crate::wait::{Seen, until, when};

/// From `kubectl apply` to OK, at most, on a busy machine.
pub const INSTALLATION: Duration = Duration::from_secs(240);
/// How soon a failure has to show.
pub const NOTICED: Duration = Duration::from_secs(30);
/// How long anything else may take on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(180);

/// The resources of this kind, of which there is one.
pub fn api(cluster: &Cluster) -> Api<HyperCloudStorage> {
    Api::all(cluster.client.clone())
}

/// The storage, where there is one.
pub async fn look(cluster: &Cluster) -> anyhow::Result<Option<HyperCloudStorage>> {
    Ok(api(cluster).get_opt(HYPERCLOUD_STORAGE_NAME).await?)
}

/// Its status; an empty one where there is none.
pub async fn status(cluster: &Cluster) -> anyhow::Result<HyperCloudStorageStatus> {
    let found = look(cluster).await?;
    Ok(found.and_then(|found| found.status).unwrap_or_default())
}

/// The resource of this specification, as people write it.
pub fn resource(spec: &Value) -> Value {
    json!({
        "apiVersion": "hypercloud.tmaxanc.com/v1alpha1",
        "kind": "HyperCloudStorage",
        "metadata": {"name": HYPERCLOUD_STORAGE_NAME},
        "spec": spec,
    })
}

/// Makes the storage of this specification, or changes it to it. What other
/// writers bring in between is tried again; a refusal is not.
pub async fn set(cluster: &Cluster, spec: &Value) -> anyhow::Result<()> {
    for _ in 0..60 {
        let mut wanted: HyperCloudStorage = serde_json::from_value(resource(spec))?;
        let write = PostParams::default();
        let written = match look(cluster).await? {
            None => api(cluster).create(&write, &wanted).await,
            Some(found) => {
                wanted.metadata = found.metadata;
                api(cluster)
                    .replace(HYPERCLOUD_STORAGE_NAME, &write, &wanted)
                    .await
            }
        };
        match written {
            Err(kube::Error::Api(answer)) if answer.code == 409 => {}
            // The replica that was to judge it has just gone.
            Err(kube::Error::Api(answer)) if answer.message.contains("failed calling webhook") => {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            other => return other.map(drop).context("the storage is not taken"),
        }
    }
    anyhow::bail!("the storage was written by others each time")
}

/// What the API server says to this specification; an error where it takes it.
/// Nothing is changed.
pub async fn refused(cluster: &Cluster, spec: &Value) -> anyhow::Result<String> {
    let mut wanted: HyperCloudStorage = serde_json::from_value(resource(spec))?;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let written = match look(cluster).await? {
        None => api(cluster).create(&dry, &wanted).await,
        Some(found) => {
            wanted.metadata = found.metadata;
            let name = HYPERCLOUD_STORAGE_NAME;
            api(cluster).replace(name, &dry, &wanted).await
        }
    };
    match written {
        Ok(_) => anyhow::bail!("it was taken"),
        Err(kube::Error::Api(answer)) => Ok(answer.message.clone()),
        Err(error) => Err(error.into()),
    }
}

/// Asks for the storage to be deleted; it goes in its own time.
pub async fn delete(cluster: &Cluster) -> anyhow::Result<()> {
    let how = DeleteParams::default();
    match api(cluster).delete(HYPERCLOUD_STORAGE_NAME, &how).await {
        Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

/// Waits until there is none.
pub async fn gone(cluster: &Cluster, limit: Duration) -> anyhow::Result<()> {
    until("the storage is gone", limit, || async {
        Ok(match look(cluster).await? {
            None => Seen::Done(()),
            Some(found) => Seen::NotYet(said(&found.status.unwrap_or_default())),
        })
    })
    .await
}

/// A component of a status.
pub fn component<'a>(
    status: &'a HyperCloudStorageStatus,
    name: &str,
) -> Option<&'a StorageComponent> {
    status.components.iter().find(|found| found.name == name)
}

/// A status in one line.
pub fn said(status: &HyperCloudStorageStatus) -> String {
    let state = status.state.map_or("-", StorageState::as_str);
    let ready = status.ready.as_deref().unwrap_or("-");
    let message = status.message.as_deref().unwrap_or_default();
    let unwell: Vec<String> = status
        .components
        .iter()
        .filter(|component| component.state != ComponentState::Ready)
        .map(|component| {
            let reason = component.reason.as_deref().unwrap_or("-");
            format!("{} {} {reason}", component.name, component.state.as_str())
        })
        .collect();
    format!("{state} {ready} {message} [{}]", unwell.join(", "))
}

/// Waits until the status, of what is asked for now, is as wanted.
pub async fn becomes(
    cluster: &Cluster,
    what: &str,
    limit: Duration,
    wanted: impl Fn(&HyperCloudStorageStatus) -> bool,
) -> anyhow::Result<HyperCloudStorageStatus> {
    let what = format!("the storage {what}");
    until(&what, limit, || async {
        let found = look(cluster).await?.context("there is no storage")?;
        let status = found.status.unwrap_or_default();
        let is_of_now = status.observed_generation == found.metadata.generation;
        Ok(if is_of_now && wanted(&status) {
            Seen::Done(status)
        } else {
            Seen::NotYet(format!("of now: {is_of_now}; {}", said(&status)))
        })
    })
    .await
}

/// Waits until every component is ready.
pub async fn is_ok(cluster: &Cluster, limit: Duration) -> anyhow::Result<HyperCloudStorageStatus> {
    becomes(cluster, "is OK", limit, |status| {
        status.state == Some(StorageState::Ok)
    })
    .await
}

/// Waits until the storage fails for this reason.
pub async fn fails(
    cluster: &Cluster,
    reason: &str,
    limit: Duration,
) -> anyhow::Result<HyperCloudStorageStatus> {
    let what = format!("says ERROR for {reason}");
    becomes(cluster, &what, limit, |status| {
        status.state == Some(StorageState::Error) && degraded(status) == Some(reason)
    })
    .await
}

/// The reason of the condition `Degraded`, while it holds.
pub fn degraded(status: &HyperCloudStorageStatus) -> Option<&str> {
    let found = hypercloud_api::conditions::find(&status.conditions, "Degraded");
    let holds = found.filter(|condition| condition.status == "True");
    holds.map(|condition| condition.reason.as_str())
}

/// Waits until an Event of this reason was told of this storage; one of its
/// name that was there before it does not count.
pub async fn event(cluster: &Cluster, reason: &str, about: &str) -> anyhow::Result<String> {
    let found = look(cluster).await?.context("there is no storage")?;
    let uid = found.metadata.uid;
    let events: Api<Event> = Api::all(cluster.client.clone());
    let what = format!("an Event {reason} of the storage");
    until(&what, NOTICED, || async {
        let mut told = Vec::new();
        for event in events.list(&ListParams::default()).await? {
            let of_it = event.regarding.and_then(|object| object.uid) == uid;
            let note = event.note.unwrap_or_default();
            if of_it && event.reason.as_deref() == Some(reason) && note.contains(about) {
                return Ok(Seen::Done(note));
            }
            if of_it {
                told.extend(event.reason);
            }
        }
        Ok(Seen::NotYet(format!("{told:?}")))
    })
    .await
}

/// Waits until an object of the cluster is as wanted.
pub async fn object(
    cluster: &Cluster,
    object: &objects::Object<'_>,
    what: &str,
    limit: Duration,
    wanted: impl Fn(Option<&Value>) -> bool,
) -> anyhow::Result<()> {
    let what = format!("{} {} {what}", object.kind, object.name);
    until(&what, limit, || async {
        let found = object.get(cluster).await?;
        Ok(when(wanted(found.as_ref()), &found))
    })
    .await
}

/// `kubectl` with these words and this input; what it printed.
pub fn kubectl(words: &[&str], input: &str) -> anyhow::Result<String> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("input.yaml");
    std::fs::write(&file, input)?;
    let file = file.display().to_string();
    let words: Vec<&str> = words
        .iter()
        .map(|word| if *word == "-" { file.as_str() } else { *word })
        .collect();
    tool("kubectl", &words)
}
