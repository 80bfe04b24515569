//! Whole rollbacks against an API server that says what the test says.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::cluster::Failure;
use crate::cluster::carry_out;
use crate::cluster::mock::{
    Exchange, Heard, TO_THE_END, create, event, failed, get, refusal, server, status, watch,
};

const NAME: &str = "disk-x7k2p";

/// A rollback of `disk` as the API server has it.
pub(super) fn object(version: &str, status: Value) -> Value {
    json!({"apiVersion": "hypercloud.tmaxanc.com/v1alpha1",
        "kind": "VirtualMachineVolumeRollback",
        "metadata": {"name": NAME, "namespace": "team", "uid": "u1",
            "resourceVersion": version},
        "spec": {"pvcName": "disk", "volumeSnapshotName": "before"},
        "status": status})
}

fn asked() -> VirtualMachineVolumeRollback {
    resource("disk".into(), "before".into())
}

async fn played(
    script: Vec<Exchange>,
) -> (Result<(), Failure>, Heard<VirtualMachineVolumeRollback>) {
    crate::cluster::mock::played(NAME, asked(), script).await
}

#[tokio::test]
async fn a_rollback_is_made_and_followed_to_its_end() {
    let working = json!({"phase": "RollingBack", "progress": "42%", "copy": {"jobId": "u1-0",
        "nodeName": "n1", "bytesTotal": 1000, "bytesDone": 420, "bytesWritten": 7}});
    let mut done = status("Succeeded", "RolledBack", "9 bytes written");
    done["copy"] = json!({"jobId": "u1-0", "nodeName": "n1", "bytesDone": 1000, "bytesWritten": 9});
    let (api, made) = server(
        NAME,
        vec![
            create(201, object("1", json!({}))),
            watch(vec![
                event(
                    "MODIFIED",
                    object("2", status("Preparing", "Restoring", "soon")),
                ),
                event("MODIFIED", object("3", working)),
                event("MODIFIED", object("4", done)),
            ]),
        ],
    );
    let mut heard = Heard::default();
    let never = std::future::pending();
    let result = carry_out(&api, asked(), &TO_THE_END, &mut heard, never).await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(heard.created, ["team/disk-x7k2p"]);
    let phases: Vec<_> = heard.steps.iter().map(|step| step.phase).collect();
    assert_eq!(phases, ["Pending", "Preparing", "RollingBack"]);
    assert_eq!(heard.steps[2].percent, Some(42));
    assert_eq!(heard.done[0].bytes_written, 9);
    let asked = made.lock().unwrap().1[0].clone();
    assert_eq!(asked["metadata"]["generateName"], "disk-");
    assert!(asked["metadata"].get("name").is_none(), "{asked}");
    let spec = json!({"pvcName": "disk", "volumeSnapshotName": "before"});
    assert_eq!(asked["spec"], spec);
}

#[tokio::test]
async fn a_disk_in_use_is_a_refusal_that_says_by_whom() {
    let in_use = |phase| {
        status(
            phase,
            "VolumeInUse",
            "the pod virt-launcher-vm uses the disk",
        )
    };
    let (result, heard) = played(vec![
        create(201, object("1", json!({}))),
        watch(vec![
            event("MODIFIED", object("2", in_use("Pending"))),
            event("MODIFIED", object("3", in_use("Failed"))),
        ]),
    ])
    .await;
    assert_eq!(heard.steps[1].said.reason, "VolumeInUse");
    let (code, reason, message) = failed(result);
    assert_eq!((code, reason.as_str()), (3, "VolumeInUse"));
    assert_eq!(message, "the pod virt-launcher-vm uses the disk");
    assert!(heard.done.is_empty());
}

#[tokio::test]
async fn a_rollback_that_failed_is_no_refusal() {
    let (result, _) = played(vec![
        create(201, object("1", json!({}))),
        watch(vec![event(
            "MODIFIED",
            object("2", status("Failed", "RetriesExhausted", "given up")),
        )]),
    ])
    .await;
    let expected = (4, "RetriesExhausted".to_owned(), "given up".to_owned());
    assert_eq!(failed(result), expected);
}

#[tokio::test]
async fn what_the_server_does_not_take_is_said_in_its_words() {
    let quota = "exceeded quota: rollbacks";
    let table = [
        (403, "Forbidden", quota, 3, "NotTaken", quota),
        (
            422,
            "Invalid",
            "spec.pvcName: too long",
            3,
            "NotTaken",
            "too long",
        ),
        (
            404,
            "NotFound",
            "namespaces \"team\" not found",
            3,
            "NotTaken",
            "\"team\" not found",
        ),
        (
            404,
            "NotFound",
            "the server could not find the requested resource",
            3,
            "NotInstalled",
            "install HyperCloud Storage",
        ),
        (
            500,
            "InternalError",
            "etcd is away",
            4,
            "ClusterUnreachable",
            "etcd is away",
        ),
    ];
    for (code, kind, said, exit, reason, told) in table {
        let (result, heard) = played(vec![create(code, refusal(code, kind, said))]).await;
        let (found, word, message) = failed(result);
        assert_eq!((found, word.as_str()), (exit, reason), "{message}");
        assert!(message.contains(told), "{message}");
        assert!(heard.created.is_empty());
    }
}

#[tokio::test]
async fn one_that_vanishes_is_told_of() {
    let deleted = watch(vec![event(
        "DELETED",
        object("3", json!({"phase": "Deleting"})),
    )]);
    let mut successor = object("9", json!({}));
    successor["metadata"]["uid"] = json!("u2");
    let seen = || watch(vec![event("MODIFIED", object("2", json!({})))]);
    for rest in [
        vec![deleted],
        vec![seen(), get(404, refusal(404, "NotFound", "gone"))],
        vec![seen(), get(200, successor)],
    ] {
        let mut script = vec![create(201, object("1", json!({})))];
        script.extend(rest);
        let (result, _) = played(script).await;
        let (code, reason, message) = failed(result);
        assert_eq!((code, reason.as_str()), (4, "Vanished"));
        assert!(message.contains("disk-x7k2p"), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_for_a_while_ends_nothing() {
    let away = || get(503, refusal(503, "ServiceUnavailable", "later"));
    let expired = event("ERROR", refusal(410, "Expired", "too old resource version"));
    let (result, heard) = played(vec![
        create(201, object("1", json!({}))),
        watch(vec![expired]),
        away(),
        away(),
        get(200, object("5", status("Preparing", "Restoring", "soon"))),
        watch(vec![event(
            "MODIFIED",
            object("6", json!({"phase": "Succeeded"})),
        )]),
    ])
    .await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(heard.steps.len(), 2);

    // One that stays away is given up, and so is one that does not allow it.
    let mut script = vec![create(201, object("1", json!({}))), watch(vec![])];
    script.extend((0..9).map(|_| away()));
    let (code, reason, message) = failed(played(script).await.0);
    assert_eq!((code, reason.as_str()), (4, "Unseen"));
    assert!(message.contains("it goes on in the cluster"), "{message}");
    let forbidden = Exchange {
        code: 403,
        ..watch(vec![refusal(403, "Forbidden", "no watch for you")])
    };
    let script = vec![create(201, object("1", json!({}))), forbidden];
    let (code, reason, message) = failed(played(script).await.0);
    assert_eq!((code, reason.as_str()), (4, "Unseen"));
    assert!(message.contains("no watch for you"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn who_stops_waiting_is_told_that_it_goes_on() {
    let script = || vec![create(201, object("1", json!({})))];
    let (api, _) = server(NAME, script());
    let mut heard = Heard::default();
    let minute = Waiting {
        wait: true,
        timeout: Some(Duration::from_secs(60)),
    };
    let never = std::future::pending();
    let result = carry_out(&api, asked(), &minute, &mut heard, never).await;
    let (code, reason, message) = failed(result);
    assert_eq!((code, reason.as_str()), (4, "Timeout"));
    assert!(message.contains("not done within 60s; it goes on in the cluster"));

    let (api, _) = server(NAME, script());
    let soon = tokio::time::sleep(Duration::from_secs(5));
    let result = carry_out(&api, asked(), &minute, &mut heard, soon).await;
    let (code, reason, message) = failed(result);
    assert_eq!((code, reason.as_str()), (1, "Stopped"));
    let command = "kubectl get --namespace team virtualmachinevolumerollback disk-x7k2p --watch";
    assert!(message.contains(command), "{message}");

    let (api, made) = server(NAME, script());
    let none = Waiting {
        wait: false,
        timeout: None,
    };
    let never = std::future::pending();
    let result = carry_out(&api, asked(), &none, &mut heard, never).await;
    assert!(result.is_ok() && made.lock().unwrap().0.is_empty());
}

#[test]
fn a_generated_name_is_of_the_disks() {
    let generated = |disk: &str| resource(disk.into(), "s".into()).metadata.generate_name;
    assert_eq!(generated("disk").as_deref(), Some("disk-"));
    let long = "a.".repeat(120) + "a";
    let name = generated(&long).unwrap();
    assert!(name.len() < 210 && name.ends_with("a-"), "{name}");
}
