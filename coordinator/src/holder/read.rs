//! Reads pods and their Events into what deciding needs. Pure.

use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Resource;

use super::seen::{HolderSeen, HolderState, Problem};

/// Whether the resource with this UID is the object's controller.
pub fn is_controlled_by(meta: &ObjectMeta, uid: &str) -> bool {
    let mut owners = meta.owner_references.iter().flatten();
    owners.any(|owner| owner.uid == uid && owner.controller == Some(true))
}

/// A holder pod.
pub fn holder(pod: &Pod) -> HolderSeen {
    let meta = pod.meta();
    HolderSeen {
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        since: meta.creation_timestamp.as_ref().map(|time| time.0),
        deleting_since: meta.deletion_timestamp.as_ref().map(|time| time.0),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        state: holder_state(pod),
    }
}

fn holder_state(pod: &Pod) -> HolderState {
    let Some(status) = &pod.status else {
        return HolderState::Waiting(None);
    };
    let phase = status.phase.as_deref().unwrap_or_default();
    if matches!(phase, "Failed" | "Succeeded") {
        let words = [&status.reason, &status.message];
        let said: Vec<&str> = words.into_iter().flatten().map(String::as_str).collect();
        let message = if said.is_empty() {
            format!("its phase is {phase}")
        } else {
            said.join(": ")
        };
        return HolderState::Ended { message };
    }
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    if phase == "Running" && containers.iter().any(|container| container.ready) {
        return HolderState::Holding;
    }
    let unschedulable = status.conditions.iter().flatten().find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    });
    if let Some(condition) = unschedulable {
        let said = condition.message.as_deref().unwrap_or("no reason is given");
        return HolderState::Waiting(Some(Problem {
            reason: "HolderUnschedulable".to_owned(),
            message: format!("no node takes the pod that attaches the volume: {said}"),
        }));
    }
    let waiting = containers
        .iter()
        .filter_map(|container| container.state.as_ref()?.waiting.as_ref())
        .find(|waiting| {
            let reason = waiting.reason.as_deref().unwrap_or_default();
            !matches!(reason, "" | "ContainerCreating" | "PodInitializing")
        });
    HolderState::Waiting(waiting.map(|waiting| {
        let reason = waiting.reason.as_deref().unwrap_or_default();
        let said = waiting.message.as_deref().unwrap_or("no message is given");
        let kind = if reason.contains("Image") || reason == "ErrImagePull" {
            "HolderImageFailed"
        } else {
            "HolderNotStarting"
        };
        Problem {
            reason: kind.to_owned(),
            message: format!("the pod that attaches the volume does not start: {reason}: {said}"),
        }
    }))
}

/// How long an object is left in peace before its Events are looked at: a
/// first mount or provisioning that fails and is repeated is no news.
const PEACE: SignedDuration = SignedDuration::from_secs(20);

/// Whether the holder was placed a while ago and yet nothing says why it does
/// not run: then the reason, such as a failed mount, stands in its Events
/// alone.
pub fn is_silent(holder: &HolderSeen, now: Timestamp) -> bool {
    holder.node.is_some() && holder.state == HolderState::Waiting(None) && is_old(holder.since, now)
}

/// Whether it is beyond that age.
pub fn is_old(since: Option<Timestamp>, now: Timestamp) -> bool {
    since.is_some_and(|since| now.duration_since(since) > PEACE)
}

/// The newest warning about an object, as a problem of the kind `reason`.
pub fn warning(events: &[Event], reason: &str) -> Option<Problem> {
    let when = |event: &Event| {
        let series = event
            .series
            .as_ref()
            .and_then(|s| s.last_observed_time.as_ref());
        let micro = series.or(event.event_time.as_ref()).map(|time| time.0);
        event.last_timestamp.as_ref().map(|time| time.0).max(micro)
    };
    let event = events
        .iter()
        .filter(|event| event.type_.as_deref() == Some("Warning"))
        .max_by_key(|event| when(event))?;
    let kind = event.reason.as_deref().unwrap_or("Warning");
    let said = event.message.as_deref().unwrap_or_default();
    Some(Problem {
        reason: reason.to_owned(),
        message: format!("{kind}: {said}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(value: serde_json::Value) -> HolderSeen {
        holder(&serde_json::from_value(value).unwrap())
    }

    fn problem(seen: HolderSeen) -> (String, String) {
        match seen.state {
            HolderState::Waiting(Some(problem)) => (problem.reason, problem.message),
            other => panic!("no problem in {other:?}"),
        }
    }

    #[test]
    fn a_holder_holds_when_its_container_is_ready() {
        let seen = pod(json!({
            "metadata": {"name": "h", "uid": "u"},
            "spec": {"nodeName": "n1", "containers": []},
            "status": {"phase": "Running", "containerStatuses": [
                {"name": "hold", "ready": true, "image": "", "imageID": "", "restartCount": 0}]}
        }));
        assert_eq!(seen.state, HolderState::Holding);
        assert_eq!(seen.node.as_deref(), Some("n1"));
    }

    #[test]
    fn what_is_in_its_way_is_read_out() {
        let seen = pod(json!({
            "metadata": {"name": "h"},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                 "message": "0/3 nodes are available"}]}
        }));
        let (reason, message) = problem(seen);
        assert_eq!(reason, "HolderUnschedulable");
        assert!(message.ends_with("0/3 nodes are available"), "{message}");

        let seen = pod(json!({
            "metadata": {"name": "h"},
            "status": {"phase": "Pending", "containerStatuses": [
                {"name": "hold", "ready": false, "image": "", "imageID": "", "restartCount": 0,
                 "state": {"waiting": {"reason": "ImagePullBackOff", "message": "back-off"}}}]}
        }));
        assert_eq!(problem(seen).0, "HolderImageFailed");
    }

    #[test]
    fn an_evicted_holder_ended() {
        let seen = pod(json!({
            "metadata": {"name": "h"},
            "status": {"phase": "Failed", "reason": "Evicted", "message": "node low on memory"}
        }));
        let message = "Evicted: node low on memory".to_owned();
        assert_eq!(seen.state, HolderState::Ended { message });
    }

    #[test]
    fn the_newest_warning_counts() {
        let event = |kind: &str, reason: &str, at: &str| {
            serde_json::from_value::<Event>(json!({"metadata": {}, "involvedObject": {},
                "type": kind, "reason": reason, "message": "m", "lastTimestamp": at}))
            .unwrap()
        };
        let events = [
            event("Warning", "FailedMount", "2026-01-01T00:00:02Z"),
            event("Warning", "FailedAttachVolume", "2026-01-01T00:00:01Z"),
            event("Normal", "Scheduled", "2026-01-01T00:00:03Z"),
        ];
        let problem = warning(&events, "HolderMountFailed").unwrap();
        assert_eq!(problem.message, "FailedMount: m");
        assert_eq!(warning(&events[2..], "X"), None);
    }
}
