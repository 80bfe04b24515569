//! OSDs whose devices are given up: what is known of them, and what is done
//! about them.
//!
//! Ceph is asked, and told, by Jobs in Rook's namespace, in the image of Ceph
//! that runs there:
//!
//! - [`task`] (no client) is the Jobs as they are made.
//! - [`course`] (no client) says what the Jobs that are there come to.
//! - [`answer`] (no client) reads what Ceph said, and Rook's Deployments.
//! - [`heard`] (no client) remembers what Ceph answered last.
//! - [`place`] (no client) says which OSD has which device.
//! - [`read`] (client required) reads and writes Jobs.
//!
//! What Rook does with its OSDs meanwhile, by its sources (1.19 and 1.20):
//!
//! - A device that is out of the CephCluster keeps its OSD, which runs on.
//! - Each reconcile of the CephCluster writes the Deployments of OSDs anew,
//!   one replica each, but for those on nodes that are out of the CephCluster
//!   and those with the label `ceph.rook.io/do-not-reconcile`. So an OSD that
//!   is stopped gets that label, and loses it when it is wanted again.
//! - `rook ceph osd remove` leaves an OSD that is up as it is; one that is down
//!   it marks out, waits until Ceph needs it no more, deletes its Deployment
//!   and purges it. It says that it succeeded whatever came of it. So the
//!   end of its Job says nothing here, and the next answer of Ceph's does.
//! - The job that looks for devices on a node finds an OSD by its label on the
//!   device, whatever the CephCluster names, and Rook makes its Deployment
//!   again, which cannot run. So a device has to be cleaned once its OSD is
//!   purged: with a NodeDeviceCleanup, or by hand.
//!
//! Invariants: all that is needed is remembered in Jobs, so a coordinator that
//! dies goes on where it was; an OSD that cannot be told from others is not touched.

pub mod answer;
pub mod course;
pub mod heard;
pub mod place;
pub mod read;
pub mod task;

use std::collections::BTreeMap;
use std::sync::Arc;

use hypercloud_api::{HyperCloudStorage, SettledDevice};
use hypercloud_storage::ROOK_NAMESPACE;
use hypercloud_storage::object::Seen;
use hypercloud_storage::plan::removal::{Action, Osd, Osds};
use hypercloud_storage::state::Problem;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Error as KubeError};
use serde_json::{Value, json};

use self::answer::{Deployed, Told};
use self::course::{Course, JobSeen, JobState, Next, course};
use self::heard::Heard;
use self::task::{ANNOTATION_FRESH, Setup, Task};
use super::nodes::Nodes;
use super::users::hosts;
use crate::shell::error::{ExecuteError, ObserveError};

/// Label of Rook's by which it leaves the Deployment of a daemon alone.
const LABEL_FENCED: &str = "ceph.rook.io/do-not-reconcile";
/// Annotation by which a Deployment that was stopped here is known.
const ANNOTATION_STOPPED: &str = "hypercloud.tmaxanc.com/osd-stopped";
/// How long a Job may run before people are told what it waits for.
const SLOW: SignedDuration = SignedDuration::from_secs(60);

/// What is known of the OSDs. Where devices are given up, Ceph is asked for
/// them, and asked again once the answer is too old.
pub async fn osds(
    client: &Client,
    heard: &Heard,
    resource: &HyperCloudStorage,
    seen: &Seen,
    nodes: &Nodes,
) -> Result<Osds, ObserveError> {
    let status = resource.status.as_ref();
    let Some(given_up) = status
        .map(|status| &status.removing)
        .filter(|list| !list.is_empty())
    else {
        return Ok(Osds::none());
    };
    let jobs = read::jobs(client).await;
    let jobs = jobs.map_err(reading("the jobs that ask Ceph"))?;
    let now = Timestamp::now();
    let course = course(&jobs, now);
    let mut problems = troubles(client, &jobs, &course, now).await?;
    for job in &course.done {
        clear(client, job).await?;
    }
    let known = match course.answer {
        Some(job) => match told(client, heard, job).await? {
            Ok(told) => tell(client, &told, given_up, seen, nodes).await?,
            Err(problem) => Err(problem),
        },
        None => Err(waiting("Ceph is asked which OSD has the device".to_owned())),
    };
    let is_outdated = course.asking.is_none() && known.as_ref().is_ok_and(|l| outdated(l, seen));
    if (course.ask || is_outdated)
        && let Some(problem) = ask(client, seen, course.fresh).await
    {
        problems.push(problem);
    }
    match known {
        Ok(list) => {
            for job in &jobs {
                problems.extend(purged(client, job, &list).await?);
            }
            let list = Some(list);
            Ok(Osds { list, problems })
        }
        Err(problem) => {
            // What is wrong says more than that it is waited for.
            if problems.is_empty() || !problem.waiting {
                problems.push(problem);
            }
            let list = None;
            Ok(Osds { list, problems })
        }
    }
}

/// Whether Ceph is to have noticed meanwhile that an OSD was stopped whose
/// device is given up.
fn outdated(list: &[Osd], seen: &Seen) -> bool {
    let deployed = answer::deployed(seen);
    let is_stopped = |osd: &Osd| deployed.get(&osd.id).is_some_and(|own| !own.runs);
    list.iter()
        .any(|osd| !osd.device.is_empty() && osd.runs && is_stopped(osd))
}

/// Has Ceph asked, for an answer that is good for `fresh` seconds; answers
/// with why it cannot be.
async fn ask(client: &Client, seen: &Seen, fresh: i64) -> Option<Problem> {
    let Some(setup) = Setup::of(seen) else {
        let message = "there is no CephCluster, or no operator, to ask for its OSDs";
        return Some(waiting(message.to_owned()));
    };
    let mut job = setup.job(Task::Look);
    job["metadata"]["annotations"] = json!({ANNOTATION_FRESH: fresh.to_string()});
    let made = read::make(client, job).await;
    made.err().map(|error| Problem {
        reason: Task::Look.failure(),
        message: format!("the job that asks Ceph for its OSDs cannot be made: {error}"),
        waiting: false,
    })
}

/// What Ceph answered, or why that is not known.
async fn told(
    client: &Client,
    heard: &Heard,
    job: &JobSeen,
) -> Result<Result<Arc<[Told]>, Problem>, ObserveError> {
    if let Some(told) = heard.of(&job.uid) {
        return Ok(Ok(told));
    }
    let printed = read::printed(client, job).await;
    let Some(printed) = printed.map_err(reading("what Ceph answered"))? else {
        // Its pod is gone.
        clear(client, job).await?;
        return Ok(Err(waiting("Ceph is asked for its OSDs again".to_owned())));
    };
    Ok(match answer::read(&printed) {
        Ok(told) => Ok(heard.keep(&job.uid, told)),
        Err(no_answer) => Err(Problem {
            reason: Task::Look.failure(),
            message: format!("{no_answer}: see the job {} in {ROOK_NAMESPACE}", job.name),
            waiting: false,
        }),
    })
}

/// The OSDs by what Ceph answered, or why they are not known.
async fn tell(
    client: &Client,
    told: &[Told],
    given_up: &[SettledDevice],
    seen: &Seen,
    nodes: &Nodes,
) -> Result<Result<Vec<Osd>, Problem>, ObserveError> {
    let hostnames = hosts::by_name(client).await?;
    let deployed: BTreeMap<u32, Deployed> = answer::deployed(seen);
    let evidence = answer::evidence(told, &deployed, &hostnames);
    Ok(
        match place::place(given_up, &nodes.inventories, &evidence) {
            Ok(placed) => Ok(answer::osds(told, &deployed, &evidence, &placed)),
            Err(unclear) => Err(Problem {
                reason: "OsdUnknown",
                message: format!(
                    "{unclear}: set the annotation {} of that OSD's Deployment in {ROOK_NAMESPACE} to the link in /dev/disk/by-id of its device, or put the device back in storage.nodes",
                    place::ANNOTATION_DEVICE
                ),
                waiting: false,
            }),
        },
    )
}

/// What is told of Jobs that do not succeed.
async fn troubles(
    client: &Client,
    jobs: &[JobSeen],
    course: &Course<'_>,
    now: Timestamp,
) -> Result<Vec<Problem>, ObserveError> {
    let mut problems = Vec::new();
    let acts = jobs.iter().filter(|job| job.task != Task::Look);
    for job in acts.chain(course.failed).chain(course.asking) {
        let is_slow = now.duration_since(job.created) > SLOW;
        let (verb, waits) = match &job.state {
            JobState::Failed(_, reason) => (format!("failed ({reason})"), false),
            JobState::Running if job.failed_pods > 0 => ("failed and is tried again".into(), false),
            JobState::Running if is_slow => ("has not ended yet".into(), true),
            JobState::Running | JobState::Complete(_) => continue,
        };
        let why = read::trouble(client, job).await;
        let why = why.map_err(reading("the log of a job"))?;
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        problems.push(Problem {
            reason: job.task.failure(),
            message: format!(
                "the job {} in {ROOK_NAMESPACE}, which {}, {verb}{why}",
                job.name,
                job.task.phrase()
            ),
            waiting: waits,
        });
    }
    Ok(problems)
}

/// A purge that ended and left its OSD is told of; one that did what it was
/// made for is taken away.
async fn purged(
    client: &Client,
    job: &JobSeen,
    osds: &[Osd],
) -> Result<Option<Problem>, ObserveError> {
    let (Task::Purge(id), JobState::Complete(_)) = (job.task, &job.state) else {
        return Ok(None);
    };
    if !osds.iter().any(|osd| osd.id == id) {
        clear(client, job).await?;
        return Ok(None);
    }
    let why = read::trouble(client, job).await;
    let why = why.map_err(reading("the log of a job"))?;
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    Ok(Some(Problem {
        reason: job.task.failure(),
        message: format!(
            "the job {} in {ROOK_NAMESPACE} ended and OSD {id} is there still; it is purged again{why}",
            job.name
        ),
        waiting: false,
    }))
}

/// Does what is to be done about an OSD, as far as it goes at once. What comes
/// of it the next looks say.
pub async fn act(
    client: &Client,
    _resource: &HyperCloudStorage,
    seen: &Seen,
    action: &Action,
) -> Result<Option<Problem>, ExecuteError> {
    match action {
        Action::MarkOut(id) => run(client, seen, Task::Out(*id)).await?,
        Action::MarkIn(id) => {
            scale(client, seen, *id, Wanted::Running).await?;
            run(client, seen, Task::In(*id)).await?;
        }
        Action::Stop(id) => scale(client, seen, *id, Wanted::Stopped).await?,
        Action::Purge(id) => run(client, seen, Task::Purge(*id)).await?,
        // These are the status's.
        Action::WriteDown(_) | Action::Forget(_) => {}
    }
    Ok(None)
}

/// Has a Job do `task`.
async fn run(client: &Client, seen: &Seen, task: Task) -> Result<(), ExecuteError> {
    let what = "run a job of Ceph's";
    let write = |source| ExecuteError::Write { what, source };
    let jobs = read::jobs(client).await.map_err(write)?;
    match course::next(task, &jobs, Timestamp::now()) {
        Next::Wait => {}
        Next::Clear(others) => {
            for job in others {
                read::remove(client, job).await.map_err(write)?;
            }
        }
        Next::Make => {
            if let Some(setup) = Setup::of(seen) {
                let phrase = task.phrase();
                tracing::info!(phrase, "a job is made that acts on Ceph");
                read::make(client, setup.job(task)).await.map_err(write)?;
            }
        }
    }
    Ok(())
}

/// Whether an OSD is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Running,
    Stopped,
}

/// Stops an OSD, or lets one run that was stopped here.
async fn scale(client: &Client, seen: &Seen, id: u32, wanted: Wanted) -> Result<(), ExecuteError> {
    let name = format!("rook-ceph-osd-{id}");
    let mut all = seen.of_kind("apps", "Deployment");
    let is_it = |object: &&Value| {
        object["metadata"]["name"] == name.as_str()
            && object["metadata"]["namespace"] == ROOK_NAMESPACE
    };
    let Some(live) = all.find(is_it) else {
        return Ok(());
    };
    let metadata = &live["metadata"];
    let is_stopped = !metadata["annotations"][ANNOTATION_STOPPED].is_null();
    let is_fenced = metadata["labels"][LABEL_FENCED] == "true";
    let patch = match wanted {
        Wanted::Running if !is_stopped => return Ok(()),
        Wanted::Stopped if is_stopped && is_fenced && live["spec"]["replicas"] == 0 => {
            return Ok(());
        }
        Wanted::Running => fenced(Value::Null, Value::Null, 1),
        Wanted::Stopped => fenced(json!("true"), json!("true"), 0),
    };
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), ROOK_NAMESPACE);
    let params = PatchParams::default();
    match deployments
        .patch(&name, &params, &Patch::Merge(patch))
        .await
    {
        Err(KubeError::Api(status)) if status.is_not_found() => Ok(()),
        Err(source) => {
            let what = "stop or start an OSD";
            Err(ExecuteError::Write { what, source })
        }
        Ok(_) => Ok(()),
    }
}

fn fenced(label: Value, annotation: Value, replicas: i32) -> Value {
    json!({
        "metadata": {
            "labels": {LABEL_FENCED: label},
            "annotations": {ANNOTATION_STOPPED: annotation},
        },
        "spec": {"replicas": replicas},
    })
}

fn waiting(message: String) -> Problem {
    Problem {
        reason: "OsdsAsked",
        message,
        waiting: true,
    }
}

async fn clear(client: &Client, job: &JobSeen) -> Result<(), ObserveError> {
    let removed = read::remove(client, job).await;
    removed.map_err(reading("the jobs that ask Ceph"))
}

fn reading(what: &'static str) -> impl FnOnce(KubeError) -> ObserveError {
    move |source| ObserveError::Read { what, source }
}
