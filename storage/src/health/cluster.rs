//! Whether Ceph is well, by its CephCluster.
//!
//! The condition `Ready` says nothing: it stays `True` when Ceph fails later,
//! and Rook sets it without a single device. What counts is the phase, the
//! state, what Ceph said of itself at the last look, that there was one a
//! moment ago, and that every device has an OSD that serves. Rook's next look
//! at Ceph puts phase and state back after a reconcile that failed, so the
//! condition `Progressing=False` counts as well: it stays until a reconcile
//! comes to its end.

use std::collections::BTreeMap;

use hypercloud_api::{HealthPolicy, WarningsPolicy};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Judgement, changing, hopeless, is_observed, lacking, unhealthy, warned};
use crate::device;
use crate::object::Seen;
use crate::{CEPH_CLUSTER, ROOK_CONFIRMATION, ROOK_NAMESPACE};

/// How old Rook's last look at Ceph may be, or how far ahead by clocks that
/// differ. It looks every 15 seconds, and a look may take as long.
const FRESH: SignedDuration = SignedDuration::from_secs(60);

/// What no policy lets through: data is not read or written.
const LOST: &[&str] = &["PG_AVAILABILITY"];

/// What is not let through where daemons are taken away: data of which a copy
/// is missing or bad, daemons that are down, and no room to make copies anew.
const HARD: &[&str] = &[
    "MON_DOWN",
    "OSD_BACKFILLFULL",
    "OSD_DOWN",
    "OSD_FULL",
    "OSD_HOST_DOWN",
    "OSD_NEARFULL",
    "PG_AVAILABILITY",
    "PG_DAMAGED",
    "PG_DEGRADED",
    "POOL_FULL",
    "SLOW_OPS",
];

/// What is seen of Ceph.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The CephCluster.
    pub object: Option<&'a Value>,
    /// Names of other CephClusters in the namespace.
    pub others: Vec<String>,
    /// OSDs that serve, by the hostname of their node.
    pub serving: BTreeMap<String, usize>,
    /// Devices that Ceph was given.
    pub devices: usize,
    /// What HEALTH_WARN means.
    pub policy: &'a HealthPolicy,
    /// Now.
    pub now: Timestamp,
}

/// Names of CephClusters beside ours.
#[must_use]
pub fn others(seen: &Seen) -> Vec<String> {
    seen.of_kind("ceph.rook.io", "CephCluster")
        .filter(|object| object["metadata"]["namespace"] == ROOK_NAMESPACE)
        .filter_map(|object| object["metadata"]["name"].as_str())
        .filter(|name| *name != CEPH_CLUSTER)
        .map(str::to_owned)
        .collect()
}

/// How Ceph is.
#[must_use]
pub fn judge(view: &View<'_>) -> Judgement {
    by(view, LOST)
}

/// How Ceph is for an upgrade or for a device that is given up, which take
/// daemons away: some warnings are not for the policy then.
#[must_use]
pub fn gate(view: &View<'_>) -> Judgement {
    by(view, HARD)
}

/// How Ceph is, where no policy lets these checks through.
fn by(view: &View<'_>, hard: &[&str]) -> Judgement {
    let Some(object) = view.object else {
        let message = "the CephCluster is gone, and the data of Ceph still on its devices (status.devices): it is not made anew, which would begin an empty Ceph; restore it as Rook's documentation on disaster recovery says";
        return hopeless("CephClusterMissing", message);
    };
    spoilt(object, view)
        .or_else(|| reconciled(object))
        .or_else(|| fresh(object, view.now))
        .unwrap_or_else(|| said(object, view, hard).or_worse(devices(object, view)))
}

/// What keeps Rook from doing anything for the cluster while its status goes
/// on saying what it said.
fn spoilt(object: &Value, view: &View<'_>) -> Option<Judgement> {
    if !object["metadata"]["deletionTimestamp"].is_null() {
        let message = "somebody deleted the CephCluster: it goes as soon as nothing depends on it";
        return Some(hopeless("CephClusterDeleted", message));
    }
    if !view.others.is_empty() {
        let names = view.others.join(", ");
        let message = format!(
            "Rook takes one CephCluster in a namespace, and there is {names} beside ours in {ROOK_NAMESPACE}: remove it"
        );
        return Some(hopeless("SecondCephCluster", message));
    }
    if object["spec"]["cleanupPolicy"]["confirmation"] == ROOK_CONFIRMATION {
        let message = "somebody confirmed in the CephCluster that its data may be destroyed, and Rook does nothing for it any more: remove cleanupPolicy.confirmation";
        return Some(hopeless("CleanupConfirmed", message));
    }
    None
}

/// Whether Rook did what it was told.
fn reconciled(object: &Value) -> Option<Judgement> {
    let status = &object["status"];
    let text = |name: &str| status[name].as_str().unwrap_or_default();
    let (phase, state) = (text("phase"), text("state"));
    let failure = failure(status);
    let why = match failure.unwrap_or_else(|| text("message")) {
        "" => String::new(),
        message => format!(": {message}"),
    };
    if phase.is_empty() && state.is_empty() {
        let message =
            "Rook has said nothing of the CephCluster: if that lasts, its operator's log says why";
        return Some(unhealthy("CephClusterUntouched", message));
    }
    // A look at Ceph that failed is an error as well, of which the details
    // say more.
    if failure.is_none()
        && let Some(unreachable) = unreachable(&checks(&status["ceph"]["details"]))
    {
        return Some(unreachable);
    }
    if state == "Error" || phase == "Failure" || failure.is_some() {
        let message = format!("Rook failed{why}");
        return Some(unhealthy("CephClusterFailed", message));
    }
    if !is_observed(object) {
        let message = "Rook has not taken up the last change of the CephCluster yet";
        return Some(changing("CephClusterChanging", message));
    }
    match (phase, state) {
        ("Ready", "Created") => None,
        ("Progressing" | "Connecting", _) | ("Ready", "Creating" | "Updating") => {
            let message = format!("Rook works on the CephCluster{why}");
            Some(changing("CephClusterChanging", message))
        }
        _ => {
            let message = format!("the CephCluster is {phase} ({state}){why}");
            Some(unhealthy("CephClusterNotReady", message))
        }
    }
}

/// What the last reconcile failed of, if it failed.
fn failure(status: &Value) -> Option<&str> {
    let conditions = status["conditions"].as_array()?;
    let failed = conditions
        .iter()
        .find(|condition| condition["type"] == "Progressing" && condition["status"] == "False")?;
    failed["message"].as_str()
}

/// Whether Rook looked at Ceph a moment ago.
fn fresh(object: &Value, now: Timestamp) -> Option<Judgement> {
    let ceph = &object["status"]["ceph"];
    if ceph["health"].as_str().unwrap_or_default().is_empty() {
        let message = "Rook has not looked at Ceph yet";
        return Some(unhealthy("CephUnseen", message));
    }
    let checked = ceph["lastChecked"].as_str().unwrap_or_default();
    let age = checked
        .parse::<Timestamp>()
        .map(|checked| now.duration_since(checked));
    match age {
        // A look to come would be fresh for as long as it is one, whatever
        // becomes of Rook.
        Ok(age) if age < -FRESH => {
            let message = format!(
                "Rook looked at Ceph {} seconds from now: the clock of the coordinator's node is slow, or that of the node of rook-ceph-operator is fast; put it right",
                age.as_secs().saturating_neg()
            );
            Some(unhealthy("ClockSkewed", message))
        }
        Ok(age) if age <= FRESH => None,
        Ok(age) => {
            let message = format!(
                "Rook looked at Ceph {} seconds ago and not since: see to its operator",
                age.as_secs()
            );
            Some(unhealthy("CephStatusStale", message))
        }
        Err(_) => {
            let message = format!("when Rook looked at Ceph cannot be told ({checked:?})");
            Some(unhealthy("CephStatusStale", message))
        }
    }
}

/// What Ceph said.
fn said(object: &Value, view: &View<'_>, hard: &[&str]) -> Judgement {
    let ceph = &object["status"]["ceph"];
    let health = ceph["health"].as_str().unwrap_or_default();
    let checks = checks(&ceph["details"]);
    match health {
        "HEALTH_OK" => Judgement::healthy(),
        "HEALTH_WARN" => {
            let is_hard = |name: &str| hard.contains(&name);
            let matters: Vec<&(String, String)> = checks
                .iter()
                .filter(|(name, _)| is_hard(name) || !view.policy.ignore.contains(name))
                .collect();
            // A warning that names no check is one all the same.
            if matters.is_empty() && !checks.is_empty() {
                return Judgement::healthy();
            }
            let message = format!("Ceph warns: {}", listed(&matters));
            match view.policy.warnings.unwrap_or_default() {
                _ if matters.iter().any(|(name, _)| is_hard(name)) => lacking("CephWarns", message),
                WarningsPolicy::Tolerate => warned("CephWarns", message),
                WarningsPolicy::Refuse => lacking("CephWarns", message),
            }
        }
        "HEALTH_ERR" => {
            let all: Vec<&(String, String)> = checks.iter().collect();
            unhealthy("CephFails", format!("Ceph fails: {}", listed(&all)))
        }
        other => {
            let message = format!("Ceph's health is {other:?}, which means nothing here");
            unhealthy("CephHealthUnknown", message)
        }
    }
}

/// That Ceph does not answer. Rook gives it the health of one that fails, and
/// what it met instead of a check.
fn unreachable(checks: &[(String, String)]) -> Option<Judgement> {
    let (_, message) = checks.iter().find(|(name, _)| name == "error")?;
    let message = format!("Ceph does not answer: {message}");
    Some(unhealthy("CephUnreachable", message))
}

/// Checks by name, with what they say.
fn checks(details: &Value) -> Vec<(String, String)> {
    let map = details.as_object();
    map.into_iter()
        .flatten()
        .map(|(name, check)| {
            let message = check["message"].as_str().unwrap_or_default();
            (name.clone(), message.to_owned())
        })
        .collect()
}

fn listed(checks: &[&(String, String)]) -> String {
    let texts: Vec<String> = checks
        .iter()
        .map(|(name, message)| format!("{name} ({message})"))
        .collect();
    if texts.is_empty() {
        return "it does not say of what".to_owned();
    }
    texts.join("; ")
}

/// Whether every device has an OSD that serves. Rook says Ready without one.
fn devices(object: &Value, view: &View<'_>) -> Judgement {
    if view.devices == 0 {
        return hopeless("NoDevices", "Ceph was given no device at all");
    }
    let serving: usize = view.serving.values().sum();
    let hosts = hosts_lacking(object, view);
    if serving >= view.devices && hosts.is_empty() {
        return Judgement::healthy();
    }
    let names = match hosts.as_slice() {
        [] => String::new(),
        hosts => format!(" ({})", hosts.join(", ")),
    };
    let message = format!(
        "{serving} of {} devices serve{names}: the logs of the pods rook-ceph-osd-prepare-* and rook-ceph-osd-* in {ROOK_NAMESPACE} say what became of the others",
        view.devices
    );
    lacking("OsdsMissing", message)
}

/// Nodes of which fewer OSDs serve than the CephCluster has devices there: one
/// too many elsewhere makes up for none.
fn hosts_lacking(object: &Value, view: &View<'_>) -> Vec<String> {
    let mut given: BTreeMap<String, usize> = BTreeMap::new();
    for (host, _) in device::in_cluster(object) {
        *given.entry(host).or_default() += 1;
    }
    let of = |host: &str| view.serving.get(host).copied().unwrap_or(0);
    let lacking = given.iter().filter(|(host, devices)| of(host) < **devices);
    lacking
        .map(|(host, devices)| format!("{} of {devices} on {host}", of(host)))
        .collect()
}
