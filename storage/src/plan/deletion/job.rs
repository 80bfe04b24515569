//! The jobs by which Rook cleans the nodes that Ceph ran on.

use serde_json::Value;

use crate::ROOK_NAMESPACE;
use crate::object::{Key, Seen};

/// Annotation by which a person says that the node of a job is clean; on the
/// HyperCloudStorage, that nodes are.
pub const ANNOTATION_CLEANED: &str = "hypercloud.tmaxanc.com/cleaned";

/// What the annotation on the HyperCloudStorage says: `true`, or nodes with
/// commas between them. Rook makes its jobs by what runs when it gets to it, so
/// there may be none for a node that was written down.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cleaned<'a>(pub Option<&'a str>);

impl Cleaned<'_> {
    /// Whether a node is said to be clean.
    #[must_use]
    pub fn has(self, hostname: &str) -> bool {
        let Some(text) = self.0 else {
            return false;
        };
        text == "true" || text.split(',').any(|name| name.trim() == hostname)
    }
}

/// A job of Rook's that cleans a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanupJob {
    /// The node's label `kubernetes.io/hostname`.
    pub hostname: String,
    /// How it is.
    pub state: JobState,
}

/// How a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Their names say what they are.
pub enum JobState {
    Running,
    Complete,
    Failed,
}

/// Every such job.
#[must_use]
pub fn cleanup_jobs(seen: &Seen) -> Vec<CleanupJob> {
    jobs(seen).filter_map(read).collect()
}

/// The keys of every such job.
#[must_use]
pub fn job_keys(seen: &Seen) -> Vec<Key> {
    jobs(seen).filter_map(Key::of).collect()
}

fn jobs(seen: &Seen) -> impl Iterator<Item = &Value> {
    seen.of_kind("batch", "Job")
        .filter(|job| job["metadata"]["namespace"] == ROOK_NAMESPACE)
        .filter(|job| job["metadata"]["labels"]["app"] == "rook-ceph-cleanup")
}

fn read(job: &Value) -> Option<CleanupJob> {
    let selector = &job["spec"]["template"]["spec"]["nodeSelector"];
    let hostname = selector["kubernetes.io/hostname"].as_str()?.to_owned();
    let is = |type_: &str| {
        let conditions = job["status"]["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == type_ && condition["status"] == "True")
    };
    let cleaned = job["metadata"]["annotations"][ANNOTATION_CLEANED] == "true";
    let state = if is("Complete") || cleaned {
        JobState::Complete
    } else if is("Failed") {
        JobState::Failed
    } else {
        JobState::Running
    };
    Some(CleanupJob { hostname, state })
}
