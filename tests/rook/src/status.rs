//! What Rook writes into the status of a CephCluster, and how.
//!
//! The quirks are Rook's own. The condition `Ready` is kept through later
//! failures. A failed reconcile is the condition `Progressing=False` and the
//! state `Error`, and the next look at Ceph puts phase and state back to
//! `Ready` and `Created`, so that only the condition still tells.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::orders::Orders;

/// A condition that is set.
#[derive(Clone, Copy, Debug)]
pub struct Condition<'a> {
    /// Its type, which becomes the phase.
    pub type_: &'a str,
    /// Whether it is `True`.
    pub is: bool,
    /// One CamelCase word.
    pub reason: &'a str,
    /// For people.
    pub message: &'a str,
}

/// That Rook works on the cluster.
pub fn progressing(status: &mut Value, message: &str, now: Timestamp) {
    let condition = Condition {
        type_: "Progressing",
        is: true,
        reason: "ClusterProgressing",
        message,
    };
    set(status, condition, false, now);
}

/// That a reconcile failed.
pub fn failed(status: &mut Value, message: &str, now: Timestamp) {
    let condition = Condition {
        type_: "Progressing",
        is: false,
        reason: "ClusterProgressing",
        message,
    };
    set(status, condition, false, now);
}

/// That a reconcile came to its end.
pub fn ready(status: &mut Value, generation: Option<i64>, now: Timestamp) {
    set(status, created(true), false, now);
    if let Some(generation) = generation {
        status["observedGeneration"] = json!(generation);
    }
}

/// That the cluster goes.
pub fn deleting(status: &mut Value, blocked: Option<&str>, now: Timestamp) {
    let going = Condition {
        type_: "Deleting",
        is: true,
        reason: "ClusterDeleting",
        message: "Deleting the CephCluster",
    };
    set(status, going, true, now);
    let condition = Condition {
        type_: "DeletionIsBlocked",
        is: blocked.is_some(),
        reason: match blocked {
            Some(_) => "ObjectHasDependents",
            None => "ObjectHasNoDependents",
        },
        message: blocked.unwrap_or("the CephCluster can be deleted"),
    };
    put(status, condition, true, now);
}

fn created(is: bool) -> Condition<'static> {
    Condition {
        type_: "Ready",
        is,
        reason: "ClusterCreated",
        message: match is {
            true => "Cluster created successfully",
            false => "Failed to configure ceph cluster",
        },
    }
}

/// That Rook looked at Ceph.
pub fn looked(status: &mut Value, orders: &Orders, now: Timestamp) {
    let checked = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let health = match orders.answers {
        true => orders.health.as_str(),
        false => "HEALTH_ERR",
    };
    let former = status["ceph"]["health"].as_str().unwrap_or_default();
    let mut ceph = json!({
        "health": health,
        "lastChecked": checked,
        "details": details(orders),
        "capacity": {
            "bytesTotal": 64_i64 << 30, "bytesUsed": 1_i64 << 30, "bytesAvailable": 63_i64 << 30,
            "lastUpdated": checked,
        },
        "fsid": FSID,
    });
    if former != health {
        ceph["previousHealth"] = json!(former);
        ceph["lastChanged"] = json!(checked);
    } else {
        for key in ["previousHealth", "lastChanged"] {
            if let Some(text) = status["ceph"][key].as_str() {
                ceph[key] = json!(text);
            }
        }
    }
    status["ceph"] = ceph;
    set(status, created(orders.answers), true, now);
}

/// The identity of the cluster, which is always the same one.
pub const FSID: &str = "00000000-0000-4000-8000-000000000001";

fn details(orders: &Orders) -> Value {
    if !orders.answers {
        return json!({"error": {
            "severity": "Urgent",
            "message": "failed to get status. . timed out: exit status 1",
        }});
    }
    let (severity, usual) = match orders.health.as_str() {
        "HEALTH_OK" => return json!({}),
        "HEALTH_WARN" => ("HEALTH_WARN", "MON_DISK_LOW"),
        other => (other, "OSD_FULL"),
    };
    let usual = || vec![usual.to_owned()];
    let checks = orders.checks.clone().unwrap_or_else(usual);
    checks
        .into_iter()
        .map(|check| {
            let message = format!("{check} as it was ordered");
            (check, json!({"severity": severity, "message": message}))
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Sets a condition, and phase, state and message by it.
fn set(status: &mut Value, condition: Condition<'_>, keeps_all: bool, now: Timestamp) {
    put(status, condition, keeps_all, now);
    if status["phase"] == "Deleting" {
        return;
    }
    status["phase"] = json!(condition.type_);
    status["message"] = json!(condition.message);
    let state = match (condition.is, condition.type_) {
        (false, _) => "Error",
        (true, "Progressing") => "Creating",
        (true, "Ready") => "Created",
        (true, other) => other,
    };
    status["state"] = json!(state);
}

/// Sets a condition. Those that tell of the moment only go, unless all are
/// kept.
fn put(status: &mut Value, condition: Condition<'_>, keeps_all: bool, now: Timestamp) {
    if !status.is_object() {
        *status = json!({});
    }
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let value = if condition.is { "True" } else { "False" };
    let mut entry = json!({
        "type": condition.type_, "status": value,
        "reason": condition.reason, "message": condition.message,
        "lastTransitionTime": time, "lastHeartbeatTime": time,
    });
    let mut kept = Vec::new();
    for former in status["conditions"].as_array().into_iter().flatten() {
        if former["type"] == condition.type_ {
            if former["status"] == value && former["message"] == condition.message {
                entry["lastTransitionTime"] = former["lastTransitionTime"].clone();
            }
            continue;
        }
        let lasts = former["reason"] == "ClusterCreated"
            || former["type"] == "Deleting"
            || former["type"] == "DeletionIsBlocked";
        if keeps_all || lasts {
            kept.push(former.clone());
        }
    }
    kept.push(entry);
    status["conditions"] = json!(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn condition<'a>(status: &'a Value, type_: &str) -> &'a Value {
        let all = status["conditions"].as_array().unwrap();
        let found = all.iter().find(|condition| condition["type"] == type_);
        found.map_or(&Value::Null, |condition| &condition["status"])
    }

    #[test]
    fn a_cluster_comes_up() {
        let mut status = Value::Null;
        progressing(&mut status, "Configuring Ceph Mons", now());
        assert_eq!(
            (&status["phase"], &status["state"]),
            (&json!("Progressing"), &json!("Creating"))
        );
        looked(&mut status, &Orders::default(), now());
        ready(&mut status, Some(4), now());
        assert_eq!(
            (&status["phase"], &status["state"]),
            (&json!("Ready"), &json!("Created"))
        );
        assert_eq!(status["observedGeneration"], 4);
        assert_eq!(status["ceph"]["health"], "HEALTH_OK");
        assert_eq!(condition(&status, "Progressing"), &Value::Null);
    }

    #[test]
    fn ready_outlives_a_failure_and_a_look_hides_it() {
        let mut status = Value::Null;
        ready(&mut status, Some(1), now());
        failed(&mut status, "no", now());
        assert_eq!(
            (&status["phase"], &status["state"]),
            (&json!("Progressing"), &json!("Error"))
        );
        assert_eq!(condition(&status, "Ready"), "True");
        looked(&mut status, &Orders::default(), now());
        assert_eq!(
            (&status["phase"], &status["state"]),
            (&json!("Ready"), &json!("Created"))
        );
        assert_eq!(condition(&status, "Progressing"), "False");
    }

    #[test]
    fn a_silent_ceph_is_an_error_of_its_own() {
        let mut status = Value::Null;
        let silent = Orders {
            answers: false,
            ..Orders::default()
        };
        looked(&mut status, &silent, now());
        assert_eq!(status["ceph"]["health"], "HEALTH_ERR");
        assert!(status["ceph"]["details"]["error"]["message"].is_string());
        assert_eq!(status["state"], "Error");
    }

    #[test]
    fn checks_have_the_names_that_were_ordered() {
        let mut status = Value::Null;
        let mut orders = Orders {
            health: "HEALTH_WARN".to_owned(),
            ..Orders::default()
        };
        looked(&mut status, &orders, now());
        assert!(status["ceph"]["details"]["MON_DISK_LOW"].is_object());
        orders.checks = Some(Vec::new());
        looked(&mut status, &orders, now());
        assert_eq!(status["ceph"]["details"], json!({}));
    }

    #[test]
    fn what_goes_does_not_come_back() {
        let mut status = Value::Null;
        ready(&mut status, Some(1), now());
        deleting(&mut status, Some("CephBlockPool: x"), now());
        looked(&mut status, &Orders::default(), now());
        assert_eq!(status["phase"], "Deleting");
        assert_eq!(condition(&status, "DeletionIsBlocked"), "True");
        deleting(&mut status, None, now());
        assert_eq!(condition(&status, "DeletionIsBlocked"), "False");
    }
}
