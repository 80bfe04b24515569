//! Jobs that belong to no resource any more.
//!
//! A job can outlive its resource: its agent was away while the resource was
//! deleted. The decision is pure; who owns what is asked afresh of the API
//! server each time, because a watch may not have heard of a resource whose
//! job runs already.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use hypercloud_api::{
    VirtualMachineImage, VirtualMachinePvc, VirtualMachineVolumeExport,
    VirtualMachineVolumeRollback, names,
};
use kube::api::{Api, ListParams};
use kube::{Client, Error as KubeError, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use super::{Agents, JobSeen};

/// How often it is looked for jobs without an owner.
const INTERVAL: Duration = Duration::from_secs(30);

/// The jobs whose resource is not among `owners`. A job of an identity that
/// no coordinator gives is left alone.
pub fn unowned<'a>(jobs: &'a [JobSeen], owners: &BTreeSet<String>) -> Vec<&'a JobSeen> {
    jobs.iter()
        .filter(|seen| {
            names::parse_job_id(&seen.job.id).is_some_and(|(uid, _)| !owners.contains(uid))
        })
        .collect()
}

/// Cancels jobs without an owner until `stop`.
pub async fn collect(client: Client, agents: Arc<dyn Agents>, stop: CancellationToken) {
    // The agents have a moment to connect before the first look.
    let mut ticks = interval_at(Instant::now() + INTERVAL / 6, INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        if let Err(error) = collect_once(&client, agents.as_ref()).await {
            tracing::warn!(%error, "looking for jobs without an owner");
        }
    }
}

/// One look.
pub async fn collect_once(client: &Client, agents: &dyn Agents) -> Result<(), KubeError> {
    let synced = agents.synced();
    // Before the owners: a job that starts meanwhile is not judged.
    let mut jobs = agents.jobs();
    jobs.retain(|seen| synced.contains(&seen.node));
    if jobs.is_empty() {
        return Ok(());
    }
    // All or none: a kind that cannot be read may own any of the jobs.
    let mut owners = uids::<VirtualMachineImage>(client).await?;
    owners.extend(uids::<VirtualMachinePvc>(client).await?);
    owners.extend(uids::<VirtualMachineVolumeRollback>(client).await?);
    owners.extend(uids::<VirtualMachineVolumeExport>(client).await?);
    for seen in unowned(&jobs, &owners) {
        let (node, job) = (&seen.node, &seen.job.id);
        match agents.cancel(node, job).await {
            Ok(()) => tracing::info!(%node, %job, "job without an owner cancelled"),
            Err(error) => tracing::warn!(%node, %job, %error, "job without an owner stays"),
        }
    }
    Ok(())
}

/// UIDs of every resource of a kind.
async fn uids<K>(client: &Client) -> Result<BTreeSet<String>, KubeError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let objects: Api<K> = Api::all(client.clone());
    let list = objects.list_metadata(&ListParams::default()).await?;
    let uids = list
        .items
        .into_iter()
        .filter_map(|object| object.metadata.uid);
    Ok(uids.collect())
}

#[cfg(test)]
mod tests {
    use super::super::{Job, JobState};
    use super::*;

    #[test]
    fn only_jobs_of_a_resource_that_is_gone_are_picked() {
        let seen = |id: &str| JobSeen {
            node: "n1".into(),
            job: Job {
                id: id.into(),
                state: JobState::Transferring,
                ..Job::default()
            },
        };
        let jobs = [seen("a-0"), seen("b-3"), seen("strange")];
        let owners = BTreeSet::from(["a".to_owned()]);
        assert_eq!(unowned(&jobs, &owners), [&jobs[1]]);
    }
}
