//! The next step of a copy. Pure: no client, no runtime, no clock.

use hypercloud_api::CopyStatus;
use k8s_openapi::jiff::Timestamp;

use crate::agents::{AgentsSeen, CopyJob};
use crate::holder::HolderSeen;
pub use crate::work::VolumeSeen;
use crate::work::{self, Begin, Chosen};

/// One thing to do.
pub type Action = work::Action<CopyJob>;
/// What comes next.
pub type Step = work::Step<CopyJob>;

/// What deciding about one copy needs.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// UID of the resource that the copy is for.
    pub uid: &'a str,
    /// Number of the present try.
    pub attempt: u32,
    /// Name of the present try's holder.
    pub holder_name: &'a str,
    /// Every holder of the resource, of any try.
    pub holders: &'a [HolderSeen],
    /// The agents, and what they do for the resource.
    pub agents: &'a AgentsSeen,
    /// What is written down of the copy, of any try.
    pub status: Option<&'a CopyStatus>,
    /// Volume that is read.
    pub source: VolumeSeen<'a>,
    /// Volume that is written.
    pub target: VolumeSeen<'a>,
    /// Whether the target may be attached to several nodes at once: then
    /// nothing but its end keeps a former holder's agent from writing.
    pub many_nodes: bool,
    /// Whether the target holds another state of the same disk.
    pub only_differences: bool,
}

/// The next step of the copy that `task` describes.
pub fn step(task: &Task<'_>, now: Timestamp) -> Step {
    let chosen = task.status.map(|status| Chosen {
        job_id: &status.job_id,
        node: &status.node_name,
        holder_uid: status.holder_uid.as_deref(),
        ended: status.completion_time.is_some(),
    });
    let job = |begin: Begin<2>| {
        let [source, target] = begin.volumes;
        CopyJob {
            id: begin.id,
            pod_uid: begin.pod_uid,
            source,
            target,
            only_differences: task.only_differences,
        }
    };
    let work = work::Task {
        uid: task.uid,
        attempt: task.attempt,
        holder_name: task.holder_name,
        holders: task.holders,
        agents: task.agents,
        chosen,
        volumes: [task.source, task.target],
        many_nodes: task.many_nodes,
    };
    work::step(&work, now, job)
}
