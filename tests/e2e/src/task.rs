//! Resources that are done once, and then have Succeeded or Failed: how a test
//! watches them.

use std::fmt::Debug;
use std::time::Duration;

use hypercloud_api::{
    ExportPhase, RollbackPhase, VirtualMachineVolumeExport, VirtualMachineVolumeRollback,
    conditions, names,
};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::Scope;
use crate::rollback::snapshots;
use crate::wait::{Seen, until, when};

/// How long a task on a small volume may take on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(180);

/// How a task went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is done.
    Succeeded,
    /// It cannot be done.
    Failed,
}

/// A resource that is done once.
pub trait Task:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
{
    /// Label with the UID of the task on what is made for it.
    const LABEL: &'static str;

    /// The end that it has come to.
    fn end(&self) -> Option<End>;

    /// Its conditions.
    fn conditions(&self) -> &[Condition];
}

impl Task for VirtualMachineVolumeRollback {
    const LABEL: &'static str = names::LABEL_ROLLBACK_UID;

    fn end(&self) -> Option<End> {
        match self.status.as_ref()?.phase? {
            RollbackPhase::Succeeded => Some(End::Succeeded),
            RollbackPhase::Failed => Some(End::Failed),
            _ => None,
        }
    }

    fn conditions(&self) -> &[Condition] {
        let status = self.status.as_ref();
        status.map_or(&[], |status| &status.conditions)
    }
}

impl Task for VirtualMachineVolumeExport {
    const LABEL: &'static str = names::LABEL_EXPORT_UID;

    fn end(&self) -> Option<End> {
        match self.status.as_ref()?.phase? {
            ExportPhase::Succeeded => Some(End::Succeeded),
            ExportPhase::Failed => Some(End::Failed),
            _ => None,
        }
    }

    fn conditions(&self) -> &[Condition] {
        let status = self.status.as_ref();
        status.map_or(&[], |status| &status.conditions)
    }
}

/// Applies a task of the specification `spec`, as it stands in a resource.
pub async fn start<T: Task>(scope: &Scope, name: &str, spec: Value) -> anyhow::Result<T> {
    let task = serde_json::from_value(json!({
        "apiVersion": T::api_version(&()),
        "kind": T::kind(&()),
        "metadata": {"name": name},
        "spec": spec
    }))?;
    Ok(scope
        .api::<T>()
        .create(&PostParams::default(), &task)
        .await?)
}

/// The task, and reason and message of its `Complete` condition.
pub async fn look<T: Task>(scope: &Scope, name: &str) -> anyhow::Result<(T, String, String)> {
    let task = scope.api::<T>().get(name).await?;
    let complete = conditions::find(task.conditions(), "Complete");
    let (reason, message) = complete
        .map(|c| (c.reason.clone(), c.message.clone()))
        .unwrap_or_default();
    Ok((task, reason, message))
}

async fn ended<T: Task>(
    scope: &Scope,
    name: &str,
    limit: Duration,
) -> anyhow::Result<(End, T, String, String)> {
    let what = format!("{} {name} is over", T::kind(&()));
    until(&what, limit, || async {
        let (task, reason, message) = look::<T>(scope, name).await?;
        Ok(match task.end() {
            Some(end) => Seen::Done((end, task, reason, message)),
            None => Seen::NotYet(format!("{reason}: {message}")),
        })
    })
    .await
}

/// Waits until the task has succeeded; an error when it failed.
pub async fn succeeded<T: Task>(scope: &Scope, name: &str, limit: Duration) -> anyhow::Result<T> {
    let (end, task, reason, message) = ended::<T>(scope, name, limit).await?;
    anyhow::ensure!(end == End::Succeeded, "{name} failed: {reason}: {message}");
    Ok(task)
}

/// Waits until the task has failed; reason and message.
pub async fn failed<T: Task>(scope: &Scope, name: &str) -> anyhow::Result<(String, String)> {
    let (end, _, reason, message) = ended::<T>(scope, name, LIMIT).await?;
    anyhow::ensure!(end == End::Failed, "{name} succeeded: {message}");
    Ok((reason, message))
}

/// Waits until the task waits for what `reason` names; the message.
pub async fn waiting<T: Task>(scope: &Scope, name: &str, reason: &str) -> anyhow::Result<String> {
    let what = format!("{} {name} says {reason}", T::kind(&()));
    let seen = until(&what, LIMIT, || async {
        let (task, found, message) = look::<T>(scope, name).await?;
        Ok(if found == reason {
            Seen::Done(Ok(message))
        } else if task.end().is_some() {
            Seen::Done(Err(format!("{found}: {message}")))
        } else {
            Seen::NotYet(format!("{found}: {message}"))
        })
    })
    .await?;
    seen.map_err(|end| anyhow::anyhow!("{name} is over: {end}"))
}

/// Waits until nothing is left of the task with this UID: claims, snapshots,
/// pods, jobs.
pub async fn tidy<T: Task>(scope: &Scope, uid: &str) -> anyhow::Result<()> {
    let ours = ListParams::default().labels(&format!("{}={uid}", T::LABEL));
    let (pods, claims) = (scope.api::<Pod>(), scope.api::<PersistentVolumeClaim>());
    let what = format!("nothing of the {} is left", T::kind(&()));
    until(&what, LIMIT, || async {
        let mut left: Vec<String> = Vec::new();
        left.extend(pods.list(&ours).await?.iter().map(|pod| pod.name_any()));
        left.extend(
            claims
                .list(&ours)
                .await?
                .iter()
                .map(|claim| claim.name_any()),
        );
        let snapshots = snapshots(scope).list(&ours).await?;
        left.extend(snapshots.iter().map(|snapshot| snapshot.name_any()));
        let jobs = crate::agents::jobs(&scope.cluster).await?;
        let jobs = jobs.into_iter().map(|(_, job)| job.id);
        left.extend(jobs.filter(|job| job.starts_with(uid)));
        Ok(when(left.is_empty(), left))
    })
    .await
}

/// Deletes the task and waits until it is gone.
pub async fn delete<T: Task>(scope: &Scope, name: &str, limit: Duration) -> anyhow::Result<()> {
    let api = scope.api::<T>();
    api.delete(name, &DeleteParams::default()).await?;
    let what = format!("{} {name} is gone", T::kind(&()));
    until(&what, limit, || async {
        let found = api.get_opt(name).await?;
        Ok(when(found.is_none(), found))
    })
    .await
}
