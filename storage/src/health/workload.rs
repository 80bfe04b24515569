//! Whether Deployments and DaemonSets run.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Judgement, changing, is_observed, lacking, unhealthy};
use crate::object::Key;

/// What a Deployment has to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Least {
    /// The condition `Available`.
    Available,
    /// A pod that is ready, however short a time.
    Serving,
}

fn missing(key: &Key) -> Judgement {
    unhealthy("WorkloadMissing", format!("there is no {key}"))
}

fn count(object: &Value, name: &str) -> i64 {
    object["status"][name].as_i64().unwrap_or_default()
}

/// How a Deployment is.
#[must_use]
pub fn deployment(key: &Key, object: Option<&Value>, least: Least) -> Judgement {
    let Some(object) = object else {
        return missing(key);
    };
    if !is_observed(object) {
        return changing("WorkloadChanging", format!("{key} takes up a change"));
    }
    let condition = |type_: &str| {
        let conditions = object["status"]["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == type_)
    };
    let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
    if wanted == 0 {
        let message = format!("{key} was scaled to nothing: scale it up");
        return unhealthy("WorkloadScaledDown", message);
    }
    let serves = match least {
        Least::Available => condition("Available").is_some_and(|c| c["status"] == "True"),
        Least::Serving => count(object, "readyReplicas") >= 1,
    };
    let updated = count(object, "updatedReplicas");
    let progress = condition("Progressing").and_then(|c| c["reason"].as_str());
    let stuck = progress == Some("ProgressDeadlineExceeded");
    // Kubernetes says when it is done with a change, and that stays so
    // whatever becomes of the pods afterwards.
    let under_way = matches!(
        progress,
        Some("NewReplicaSetCreated" | "FoundNewReplicaSet" | "ReplicaSetUpdated")
    );
    if stuck || (!serves && !under_way && updated >= wanted) {
        let message = format!(
            "{key} has {} of {wanted} pods that are ready: their events and logs say why",
            count(object, "readyReplicas")
        );
        return match stuck {
            true => unhealthy("WorkloadStuck", message),
            false => lacking("WorkloadUnavailable", message),
        };
    }
    if updated < wanted || !serves {
        let message = format!("{key} has {updated} of {wanted} pods of its last change");
        return changing("WorkloadChanging", message);
    }
    Judgement::healthy()
}

/// How a DaemonSet is.
#[must_use]
pub fn daemon_set(key: &Key, object: Option<&Value>) -> Judgement {
    let Some(object) = object else {
        return missing(key);
    };
    if !is_observed(object) {
        return changing("WorkloadChanging", format!("{key} takes up a change"));
    }
    let wanted = count(object, "desiredNumberScheduled");
    if wanted == 0 {
        let message = format!("{key} is for no node: see to its selector and tolerations");
        return unhealthy("WorkloadNowhere", message);
    }
    let updated = count(object, "updatedNumberScheduled");
    if updated < wanted {
        let message = format!("{key} has {updated} of {wanted} pods of its last change");
        return changing("WorkloadChanging", message);
    }
    let available = count(object, "numberAvailable");
    if available < wanted {
        let message = format!("{key} is available on {available} of {wanted} nodes");
        return lacking("WorkloadUnavailable", message);
    }
    Judgement::healthy()
}

/// Whether every daemon that says its version says this one.
#[must_use]
pub fn labelled<'a>(
    daemons: impl Iterator<Item = &'a Value>,
    label: &str,
    version: &str,
    is: impl Fn(&str) -> bool,
) -> Judgement {
    let others: BTreeSet<&str> = daemons
        .filter_map(|object| object["metadata"]["labels"][label].as_str())
        .filter(|value| !is(value))
        .collect();
    if others.is_empty() {
        return Judgement::healthy();
    }
    let others: Vec<&str> = others.into_iter().collect();
    let message = format!(
        "daemons of Ceph have {label} {} and become {version}, one after another",
        others.join(", ")
    );
    changing("DaemonsUpgrading", message)
}
