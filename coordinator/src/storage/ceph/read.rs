//! Jobs, their pods and what they printed, read from the API server and
//! written to it (client required).

use std::time::Duration;

use hypercloud_api::names::{LABEL_MANAGED_BY, MANAGED_BY};
use hypercloud_storage::ROOK_NAMESPACE;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use kube::api::{Api, DeleteParams, ListParams, LogParams, PostParams, Preconditions};
use kube::{Client, Error as KubeError, ResourceExt};
use serde_json::Value;

use super::answer::Printed;
use super::course::JobSeen;
use super::task::{DUMP, LABEL_TASK, METADATA, SAFE};

/// The most that is read of what a command printed, in bytes.
const ANSWER: i64 = 32 << 20;
/// How many lines of a log people are told.
const LINES: i64 = 4;
/// The longest end of a log that people are told, in characters.
const SHOWN: usize = 300;
/// How long a log is waited for.
const PATIENCE: Duration = Duration::from_secs(8);
/// Label with the name of a pod's Job.
const LABEL_JOB: &str = "batch.kubernetes.io/job-name";

fn jobs_of(client: &Client) -> Api<Job> {
    Api::namespaced(client.clone(), ROOK_NAMESPACE)
}

fn pods_of(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), ROOK_NAMESPACE)
}

/// The Jobs that are about OSDs.
pub async fn jobs(client: &Client) -> Result<Vec<JobSeen>, KubeError> {
    let ours = format!("{LABEL_MANAGED_BY}={MANAGED_BY},{LABEL_TASK}");
    let ours = ListParams::default().labels(&ours);
    let list = jobs_of(client).list(&ours).await?;
    Ok(list.iter().filter_map(JobSeen::read).collect())
}

/// Makes a Job; one of that name that is there is left to the next look.
pub async fn make(client: &Client, job: Value) -> Result<(), KubeError> {
    let job: Job = serde_json::from_value(job).map_err(KubeError::SerdeError)?;
    match jobs_of(client).create(&PostParams::default(), &job).await {
        Err(KubeError::Api(status)) if status.is_already_exists() => Ok(()),
        made => made.map(|_| ()),
    }
}

/// Takes a Job away, with its pods.
pub async fn remove(client: &Client, job: &JobSeen) -> Result<(), KubeError> {
    let this = DeleteParams::background().preconditions(Preconditions {
        uid: Some(job.uid.clone()),
        resource_version: None,
    });
    match jobs_of(client).delete(&job.name, &this).await {
        Err(KubeError::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        removed => removed.map(|_| ()),
    }
}

/// What the commands of a Job that looked printed; none where its pod is gone.
pub async fn printed(client: &Client, job: &JobSeen) -> Result<Option<Printed>, KubeError> {
    let Some(pod) = newest(client, job).await? else {
        return Ok(None);
    };
    let name = pod.name_any();
    let of = async |container: &str| log(client, &name, container, None).await;
    let (Some(dump), Some(metadata), Some(safe)) =
        (of(DUMP).await?, of(METADATA).await?, of(SAFE).await?)
    else {
        return Ok(None);
    };
    Ok(Some(Printed {
        dump,
        metadata,
        safe,
    }))
}

/// What people are told of a Job that does not succeed: what its pod waits
/// for, or the end of its log.
pub async fn trouble(client: &Client, job: &JobSeen) -> Result<Option<String>, KubeError> {
    let Some(pod) = newest(client, job).await? else {
        return Ok(None);
    };
    if let Some(waiting) = waiting(&pod) {
        return Ok(Some(waiting));
    }
    let Some(container) = failed(&pod) else {
        return Ok(None);
    };
    let log = log(client, &pod.name_any(), container, Some(LINES)).await?;
    Ok(log.and_then(|log| end(&log)))
}

async fn newest(client: &Client, job: &JobSeen) -> Result<Option<Pod>, KubeError> {
    let of_job = ListParams::default().labels(&format!("{LABEL_JOB}={}", job.name));
    let mut pods = pods_of(client).list(&of_job).await?.items;
    pods.sort_by_key(ResourceExt::creation_timestamp);
    Ok(pods.pop())
}

/// The log of a container; none where there is none (any more), or none is to
/// be had: logs are the kubelet's, and a node may be away.
async fn log(
    client: &Client,
    pod: &str,
    container: &str,
    lines: Option<i64>,
) -> Result<Option<String>, KubeError> {
    let params = LogParams {
        container: Some(container.to_owned()),
        limit_bytes: Some(ANSWER),
        tail_lines: lines,
        ..LogParams::default()
    };
    let pods = pods_of(client);
    let Ok(log) = tokio::time::timeout(PATIENCE, pods.logs(pod, &params)).await else {
        return Ok(None);
    };
    match log {
        Err(KubeError::Api(status)) if !status.is_forbidden() => Ok(None),
        log => log.map(Some),
    }
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    status
        .and_then(|status| status.container_statuses.as_ref())
        .into_iter()
        .flatten()
}

fn state(container: &ContainerStatus) -> ContainerState {
    container.state.clone().unwrap_or_default()
}

/// What a pod waits for, where it is not only about to start.
fn waiting(pod: &Pod) -> Option<String> {
    let unplaced = || {
        let status = pod.status.as_ref()?;
        let conditions = status.conditions.iter().flatten();
        let mut unplaced = conditions.filter(|condition| condition.status == "False");
        let condition = unplaced.find(|condition| condition.type_ == "PodScheduled")?;
        condition.message.clone()
    };
    statuses(pod)
        .filter_map(|container| state(container).waiting)
        .find_map(|waiting| {
            let reason = waiting.reason?;
            match waiting.message {
                Some(message) => Some(format!("{reason}: {message}")),
                None if reason != "ContainerCreating" => Some(reason),
                None => None,
            }
        })
        .or_else(unplaced)
}

fn failed(pod: &Pod) -> Option<&str> {
    let has_failed = |container: &&ContainerStatus| {
        let ended = state(container).terminated;
        ended.is_some_and(|ended| ended.exit_code != 0)
    };
    let mut containers = statuses(pod);
    let failed = containers.find(has_failed);
    let any = || statuses(pod).next();
    Some(failed.or_else(any)?.name.as_str())
}

/// The end of a log, on one line.
fn end(log: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().map(str::trim).collect();
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    let text = lines.join("; ");
    let skipped = text.chars().count().saturating_sub(SHOWN);
    let end: String = text.chars().skip(skipped).collect();
    (!end.is_empty()).then_some(end)
}
