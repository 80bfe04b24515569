//! The holder, the job, and its end.

use hypercloud_api::ExportReadFrom;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::super::observation::Observation;
use super::super::retry::judge;
use super::super::validate::Wanted;
use super::super::verdict::{Action, Plan, Upload, Verdict, waiting};
use super::source::{Readable, unwatched, users, way_out};
use super::{WATCH, present, start_over};
use crate::again::{Again, RECHECK};
use crate::agents::{ExportJob, Failure};
use crate::volume::users::in_words;
use crate::work::{self, Begin, Chosen, Step, Task};

/// What it takes at least from a pod's making to its first write.
const PODS_START: SignedDuration = SignedDuration::from_secs(2);

/// The step of the upload that comes next.
pub(super) fn plan(
    seen: &Observation,
    wanted: &Wanted,
    volume: Readable<'_>,
    now: Timestamp,
) -> Plan {
    let holder_name = seen.holder_name();
    let task = Task {
        uid: seen.uid(),
        attempt: seen.attempt(),
        holder_name: &holder_name,
        holders: &seen.holders,
        agents: &seen.agents,
        chosen: seen.upload().map(|upload| Chosen {
            job_id: &upload.job_id,
            node: &upload.node_name,
            holder_uid: upload.holder_uid.as_deref(),
            ended: upload.completion_time.is_some(),
        }),
        volumes: [volume.seen],
        // It is only read.
        many_nodes: false,
    };
    let upload = |begin: Begin<1>| {
        let [held] = begin.volumes;
        Upload {
            job: ExportJob {
                id: begin.id,
                pod_uid: begin.pod_uid,
                volume: held,
                format: wanted.format,
                compression: wanted.compression,
                overwrite: wanted.overwrite,
                digest: wanted.digest(volume.capacity),
            },
            object: wanted.object.clone(),
        }
    };
    let phase = present(seen);
    match work::step(&task, now, upload) {
        Step::Clear(actions) => Plan::act(actions.into_iter().map(Action::Work), Verdict::Keep),
        Step::CreateHolder => {
            let message = "the pod that attaches the volume is being made";
            let action = Action::Work(work::Action::CreateHolder);
            Plan::act([action], waiting(phase, "CreatingHolder", message))
        }
        Step::Wait {
            reason,
            mut message,
        } => {
            if reason == "ProvisioningFailed" {
                message += &way_out(seen);
            }
            Plan::say(waiting(phase, &reason, message), look(seen))
        }
        Step::Pause => Plan::say(Verdict::Watched, look(seen)),
        Step::Choose {
            job_id,
            node,
            holder_uid,
        } => {
            let verdict = Verdict::Chosen {
                job_id,
                node,
                holder_uid,
            };
            Plan::say(verdict, Again::Now)
        }
        Step::Start { node, job } => start(seen, node, job),
        Step::Working { node, job } => {
            let verdict = Verdict::Exporting {
                node,
                job,
                secrets: None,
            };
            Plan::say(verdict, watch(seen))
        }
        Step::Completed(job) if job.object.is_some() => match torn(seen, now) {
            Some(plan) => plan,
            None => Plan::say(Verdict::Completed(job), Again::Now),
        },
        Step::Completed(_) => {
            let message = "the agent says that the export succeeded, and not what it made";
            let failure = Failure {
                reason: "ObjectMissing".to_owned(),
                message: message.to_owned(),
                retryable: true,
            };
            Plan::say(judge(seen, failure), Again::Now)
        }
        // Not before the job completed.
        Step::Release(_) | Step::Done => Plan::say(Verdict::Keep, Again::After(RECHECK)),
        Step::Failed(failure) => Plan::say(judge(seen, failure), Again::Now),
    }
}

/// A pod used the volume before its job was seen to succeed, or nobody looked
/// whether one did: it may have written to what was read. One that just came is
/// not so quick. What was made is replaced, as it bears the export's mark.
fn torn(seen: &Observation, now: Timestamp) -> Option<Plan> {
    if seen.read_from() != Some(ExportReadFrom::Volume) {
        return None;
    }
    let early = |since: Timestamp| now.duration_since(since) > PODS_START;
    if seen.used_since.is_some_and(early) {
        let message = format!(
            "{} came to use the claim {} before all of it was read: the object is made anew",
            in_words(&users(seen)),
            seen.pvc()
        );
        return Some(start_over(seen, "VolumeInUse", message));
    }
    unwatched(seen, now)
}

/// The job is started, or given what it waits for; one that had begun and is
/// not known any more is another try, so that its parts are not forgotten.
fn start(seen: &Observation, node: String, job: Upload) -> Plan {
    let known = seen.agents.job(&node, &job.job.id).is_some();
    let begun = seen
        .present_upload()
        .is_some_and(|upload| upload.upload_id.is_some());
    if begun && !known {
        let failure = Failure {
            reason: "JobLost".to_owned(),
            message: format!("the agent of node {node} does not know of the upload any more"),
            retryable: true,
        };
        return Plan::say(judge(seen, failure), Again::Now);
    }
    Plan {
        actions: vec![Action::Work(work::Action::StartJob { node, job })],
        verdict: Verdict::Keep,
        again: watch(seen),
    }
}

/// When to look again at what is waited for, while the volume is held.
fn look(seen: &Observation) -> Again {
    match watch(seen) {
        Again::OnChange => Again::After(RECHECK),
        watch => watch,
    }
}

/// When to look again while the job is at work.
fn watch(seen: &Observation) -> Again {
    match seen.read_from() {
        Some(ExportReadFrom::Volume) => Again::After(WATCH),
        _ => Again::OnChange,
    }
}
