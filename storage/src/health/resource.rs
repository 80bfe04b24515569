//! Whether resources of Rook and CDI are well, by what they say themselves.

use serde_json::Value;

use super::{Judgement, changing, unhealthy};
use crate::object::Key;
use crate::{OBJECT_STORE, SYSTEM_NAMESPACE};

/// The key of the bucket's claim.
#[must_use]
pub fn bucket_claim() -> Key {
    let version = "objectbucket.io/v1alpha1";
    Key::namespaced(version, "ObjectBucketClaim", SYSTEM_NAMESPACE, OBJECT_STORE)
}

fn missing(key: &Key) -> Judgement {
    unhealthy("ResourceMissing", format!("there is no {key}"))
}

fn leaving(key: &Key, object: &Value) -> Option<Judgement> {
    if object["metadata"]["deletionTimestamp"].is_null() {
        return None;
    }
    let message = format!("somebody deleted {key}");
    Some(unhealthy("ResourceDeleted", message))
}

/// How a resource of Rook's is, by its phase.
#[must_use]
pub fn phase(key: &Key, object: Option<&Value>) -> Judgement {
    let Some(object) = object else {
        return missing(key);
    };
    if let Some(leaving) = leaving(key, object) {
        return leaving;
    }
    let status = &object["status"];
    let generation = object["metadata"]["generation"].as_i64();
    let behind = status["observedGeneration"]
        .as_i64()
        .is_some_and(|observed| Some(observed) < generation);
    let why = why(status);
    match status["phase"].as_str().unwrap_or_default() {
        "" => unhealthy(
            "ResourceUntouched",
            format!("Rook has said nothing of {key}"),
        ),
        "Ready" | "Connected" if behind => {
            changing("ResourceChanging", format!("{key} takes up a change"))
        }
        "Ready" | "Connected" => Judgement::healthy(),
        "Progressing" | "Created" | "Connecting" => {
            changing("ResourceChanging", format!("Rook works on {key}{why}"))
        }
        other => unhealthy("ResourceFailed", format!("{key} is {other}{why}")),
    }
}

/// What a status says beside its phase.
fn why(status: &Value) -> String {
    let own = status["message"].as_str();
    let conditions = status["conditions"].as_array();
    let of_condition = conditions
        .into_iter()
        .flatten()
        .filter(|condition| condition["status"] == "False" || condition["type"] == "Failure")
        .find_map(|condition| condition["message"].as_str());
    match own.or(of_condition).filter(|text| !text.is_empty()) {
        Some(text) => format!(": {text}"),
        None => String::new(),
    }
}

/// Whether a bucket's claim has its bucket.
#[must_use]
pub fn bound(key: &Key, object: Option<&Value>) -> Judgement {
    let Some(object) = object else {
        return missing(key);
    };
    if let Some(leaving) = leaving(key, object) {
        return leaving;
    }
    match object["status"]["phase"].as_str().unwrap_or_default() {
        "Bound" => Judgement::healthy(),
        "Failed" => unhealthy("ResourceFailed", format!("{key} got no bucket")),
        _ => unhealthy("ResourceUntouched", format!("{key} has no bucket yet")),
    }
}

/// How CDI is.
#[must_use]
pub fn cdi(key: &Key, object: Option<&Value>) -> Judgement {
    let Some(object) = object else {
        return missing(key);
    };
    if let Some(leaving) = leaving(key, object) {
        return leaving;
    }
    let status = &object["status"];
    let condition = |type_: &str| {
        let conditions = status["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == type_)
    };
    let is = |type_: &str, value: &str| condition(type_).is_some_and(|c| c["status"] == value);
    let says = |type_: &str| {
        let text = condition(type_).and_then(|c| c["message"].as_str());
        text.filter(|text| !text.is_empty())
            .map_or_else(String::new, |text| format!(": {text}"))
    };
    match status["phase"].as_str().unwrap_or_default() {
        "Deployed" if is("Degraded", "True") => unhealthy(
            "ResourceFailed",
            format!("{key} is degraded{}", says("Degraded")),
        ),
        "Deployed" if is("Available", "True") => Judgement::healthy(),
        "Deployed" => unhealthy(
            "ResourceFailed",
            format!("{key} is not available{}", says("Available")),
        ),
        "Deploying" | "Upgrading" => {
            changing("ResourceChanging", format!("CDI's operator works on {key}"))
        }
        "" => unhealthy(
            "ResourceUntouched",
            format!("CDI's operator has said nothing of {key}"),
        ),
        other => unhealthy("ResourceFailed", format!("{key} is {other}")),
    }
}
