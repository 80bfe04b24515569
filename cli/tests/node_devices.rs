//! `kubectl-hcs devices` as a process, against an API server that says what
//! the test says: what is printed, and the exit codes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod cluster;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use self::cluster::{Answer, ended, modified, serving, status};

fn disk(name: &str, reason: Option<&str>) -> Value {
    let link = format!("/dev/disk/by-id/wwn-{name}");
    let reasons: Vec<Value> = reason
        .into_iter()
        .map(|reason| json!({"reason": reason, "message": "an old file system"}))
        .collect();
    json!({"name": name, "path": format!("/dev/{name}"), "kind": "disk", "size": 1_u64 << 40,
        "available": reason.is_none(), "reasons": reasons, "model": "DISK-1",
        "identity": {"byId": link, "links": [link], "serial": "S1"}})
}

fn inventory(node: &str, devices: &[Value]) -> Value {
    json!({"apiVersion": "hypercloud.tmaxanc.com/v1alpha1", "kind": "NodeDeviceInventory",
        "metadata": {"name": node, "uid": "u1", "resourceVersion": "7"}, "spec": {},
        "status": {"state": "Current", "hostname": node, "devices": devices}})
}

fn cleanup(status: Value) -> Value {
    json!({"apiVersion": "hypercloud.tmaxanc.com/v1alpha1", "kind": "NodeDeviceCleanup",
        "metadata": {"name": "n1-x7k2p", "uid": "u2", "resourceVersion": "1"},
        "spec": {"nodeName": "n1", "device": "/dev/sdb",
            "confirmation": "yes-really-destroy-data"},
        "status": status})
}

fn not_found(name: &str) -> Answer {
    let message = format!("nodedeviceinventories.hypercloud.tmaxanc.com \"{name}\" not found");
    Answer::Object(
        404,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "reason": "NotFound", "message": message, "code": 404}),
    )
}

/// A cluster with two nodes, the first of which loses a disk, and in which
/// cleanings go like this.
fn nodes(folder: &Path, cleanings: Vec<Value>) -> PathBuf {
    serving(folder, move |request| {
        let both = [disk("sda", None), disk("sdb", Some("FileSystem"))];
        let watched = request.contains("watch=true");
        if request.contains("/nodedevicecleanups") {
            return if watched {
                let events = cleanings.iter().cloned().map(cleanup);
                Answer::Events(events.map(modified).collect())
            } else {
                assert!(request.starts_with("POST "), "{request}");
                Answer::Object(201, cleanup(json!({})))
            };
        }
        assert!(request.starts_with("GET "), "only read: {request}");
        if watched {
            return Answer::Events(vec![modified(inventory("n1", &both[1..]))]);
        }
        let path = request.split(['?', ' ']).nth(1).unwrap();
        match path.rsplit('/').next().unwrap() {
            "n1" => Answer::Object(200, inventory("n1", &both)),
            "nodedeviceinventories" => Answer::Object(
                200,
                json!({"apiVersion": "hypercloud.tmaxanc.com/v1alpha1",
                    "kind": "NodeDeviceInventoryList", "metadata": {"resourceVersion": "7"},
                    "items": [inventory("n2", &[disk("sda", None)]), inventory("n1", &both)]}),
            ),
            other => not_found(other),
        }
    })
}

fn plugin(kubeconfig: &Path, arguments: &[&str]) -> Command {
    cluster::plugin(kubeconfig, &[&["devices"], arguments].concat())
}

#[test]
fn every_nodes_devices_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = nodes(folder.path(), vec![]);
    let (code, out, err) = ended(&plugin(&kubeconfig, &[]).output().unwrap());
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let first: Vec<_> = out
        .lines()
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert_eq!(first, ["NODE", "n1", "n1", "n2"]);

    let output = plugin(&kubeconfig, &["n2", "-o", "json"]).output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told.as_array().unwrap().len(), 1);
    assert_eq!(told[0]["devices"][0]["name"], "sda");

    let (code, out, err) = ended(&plugin(&kubeconfig, &["n2", "n9"]).output().unwrap());
    assert_eq!(code, Some(4));
    assert!(out.contains("n2") && err.contains("n9"), "{out}{err}");

    let output = plugin(&kubeconfig, &["-o", "rook"]).output().unwrap();
    let (code, out, _) = ended(&output);
    assert_eq!(code, Some(0));
    let spec: Value = serde_yaml::from_str(&out).unwrap();
    let names: Vec<_> = spec["storage"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    assert_eq!(names.len(), 2, "{out}");
}

#[test]
fn changes_are_told_until_the_user_has_enough() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = nodes(folder.path(), vec![]);
    let mut child = plugin(&kubeconfig, &["-w", "n1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for begin in ["NODE", "n1     Current   sda", "n1     Current   sdb"] {
        let line = lines.next().unwrap().unwrap();
        assert!(line.starts_with(begin), "{line}");
    }
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("sda") && line.contains("gone"), "{line}");
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn nothing_is_destroyed_without_the_words() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = serving(folder.path(), |request| {
        assert!(request.starts_with("GET "), "nothing is made: {request}");
        let both = [disk("sda", None), disk("sdb", Some("FileSystem"))];
        match request.contains("/n1") {
            true => Answer::Object(200, inventory("n1", &both)),
            false => not_found("n9"),
        }
    });
    let (code, out, err) = ended(
        &plugin(&kubeconfig, &["clean", "n1", "sdb"])
            .output()
            .unwrap(),
    );
    assert_eq!((code, out.as_str()), (Some(2), ""));
    for said in [
        "/dev/sdb",
        "1Ti",
        "DISK-1",
        "S1",
        "FileSystem: an old file system",
        "kubectl hcs devices clean n1 /dev/disk/by-id/wwn-sdb --yes-really-destroy-data \
         --context test --kubeconfig ",
    ] {
        assert!(err.contains(said), "{said}: {err}");
    }
    for (words, reason) in [
        (["clean", "n9", "sdb"], "NodeNotFound"),
        (["clean", "n1", "sdz"], "DeviceNotThere"),
    ] {
        let (code, _, err) = ended(&plugin(&kubeconfig, &words).output().unwrap());
        assert_eq!(code, Some(3), "{err}");
        assert!(
            err.contains(reason) && !err.contains("error: error"),
            "{err}"
        );
    }
    let output = plugin(&kubeconfig, &["clean", "n1", "sdb", "-o", "json"]).output();
    let event: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(event["reason"], "NotConfirmed");
}

#[test]
fn a_cleaning_is_followed_and_can_be_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut done = status("Succeeded", "Cleaned", "done");
    done["device"] = json!({"path": "/dev/sdb", "size": 1});
    done["removed"] = json!(["ext4 at byte 1080"]);
    done["discarded"] = json!(true);
    let cleaning = status("Cleaning", "Cleaning", "the agent is at it");
    let kubeconfig = nodes(folder.path(), vec![cleaning.clone(), done]);
    let words = ["clean", "n1", "/dev/sdb", "--yes-really-destroy-data"];
    let (code, out, err) = ended(&plugin(&kubeconfig, &words).output().unwrap());
    assert_eq!(code, Some(0), "{err}");
    let expected = "cleanup n1-x7k2p created\ncleaned: /dev/sdb\n  \
                    removed: ext4 at byte 1080\n  all of its blocks were discarded\n";
    assert_eq!(out, expected);
    assert!(
        err.contains("Cleaning: the agent is at it (Cleaning)"),
        "{err}"
    );

    let refused = status("Failed", "Mounted", "mounted at /data");
    let kubeconfig = nodes(folder.path(), vec![refused]);
    let (code, _, err) = ended(&plugin(&kubeconfig, &words).output().unwrap());
    assert_eq!(code, Some(3));
    assert!(err.contains("mounted at /data (Mounted)"), "{err}");

    let kubeconfig = nodes(folder.path(), vec![cleaning]);
    let mut child = plugin(&kubeconfig, &words)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("Pending"));
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let rest: String = lines.map(|line| line.unwrap() + "\n").collect();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let said = "kubectl get nodedevicecleanup n1-x7k2p --watch";
    assert!(rest.contains(said), "{rest}");
}

#[test]
fn a_cluster_without_the_system_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let answers = [
        (
            404,
            "NotFound",
            "the server could not find the requested resource",
            3,
            "NotInstalled",
        ),
        (
            403,
            "Forbidden",
            "nodedeviceinventories is forbidden",
            3,
            "NotShown",
        ),
        (
            500,
            "InternalError",
            "etcd is away",
            4,
            "ClusterUnreachable",
        ),
    ];
    for (status, kind, said, expected, reason) in answers {
        let kubeconfig = serving(folder.path(), move |_| {
            Answer::Object(
                status,
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                    "status": "Failure", "reason": kind, "message": said, "code": status}),
            )
        });
        for words in [&[][..], &["clean", "n1", "sdb"]] {
            let (code, _, err) = ended(&plugin(&kubeconfig, words).output().unwrap());
            assert_eq!(code, Some(expected), "{words:?}: {err}");
            assert!(err.contains(reason), "{words:?}: {err}");
        }
    }
}
