//! `kubectl-hcs export` as a process, against an API server that says what the
//! test says: what is printed, and the exit codes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod cluster;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use self::cluster::{cluster, ended, status};

fn export(status: Value) -> Value {
    json!({"apiVersion": "hypercloud.tmaxanc.com/v1alpha1",
        "kind": "VirtualMachineVolumeExport",
        "metadata": {"name": "disk-x7k2p", "namespace": "team", "uid": "u1",
            "resourceVersion": "1"},
        "spec": {"pvcName": "disk",
            "objectStore": {"bucketName": "images", "objectName": "disk"}},
        "status": status})
}

fn plugin(kubeconfig: &Path, arguments: &[&str]) -> Command {
    let mut command = cluster::plugin(kubeconfig, &["export", "disk", "s3://images/disk"]);
    command.args(arguments);
    command
}

#[test]
fn an_export_is_followed_in_lines_and_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    let mut working = status("Exporting", "Exporting", "node n: Transferring");
    working["upload"] = json!({"jobId": "j", "nodeName": "n", "bytesTotal": 100,
        "bytesDone": 42, "bytesRead": 40, "bytesStored": 5});
    let mut done = status("Succeeded", "Exported", "s3://images/disk");
    done["object"] = json!({"url": "s3://images/disk", "size": 2048, "etag": "\"e-2\"",
        "address": "http://store.test/images/disk"});
    done["disk"] = json!({"virtualSize": 4096, "digest": "sha256:0a"});
    let kubeconfig = cluster(folder.path(), export, vec![working, done]);

    let (code, out, err) = ended(&plugin(&kubeconfig, &[]).output().unwrap());
    assert_eq!(code, Some(0), "{err}");
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(
        lines,
        [
            "export disk-x7k2p created in namespace team",
            "exported: s3://images/disk, 2.00 KiB (2048 bytes)",
            "address: http://store.test/images/disk",
            "etag: \"e-2\"",
            "disk: sha256:0a",
        ]
    );
    let line = "Exporting 42%: node n: Transferring (Exporting)";
    assert!(err.lines().any(|found| found == line), "{err}");

    let (code, out, err) = ended(&plugin(&kubeconfig, &["-o", "json"]).output().unwrap());
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let lines: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let events: Vec<_> = lines.iter().map(|line| &line["event"]).collect();
    assert_eq!(events, ["created", "progress", "progress", "done"]);
    assert_eq!(lines[2]["bytesStored"], 5);
    assert_eq!(lines[3]["size"], 2048);
    assert_eq!(lines[3]["digest"], "sha256:0a");
}

#[test]
fn a_refusal_a_timeout_and_nonsense_have_codes_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let refused = status("Failed", "ObjectExists", "s3://images/disk exists");
    let kubeconfig = cluster(folder.path(), export, vec![refused]);
    let (code, _, err) = ended(&plugin(&kubeconfig, &[]).output().unwrap());
    assert_eq!(code, Some(3));
    let said = "error: s3://images/disk exists (ObjectExists)";
    assert!(err.contains(said), "{err}");

    let waiting = vec![status("Pending", "VolumeInUse", "the pod vm uses it")];
    let kubeconfig = cluster(folder.path(), export, waiting);
    let limited = plugin(&kubeconfig, &["--timeout", "300ms"]).output();
    let (code, _, err) = ended(&limited.unwrap());
    assert_eq!(code, Some(4));
    let said = "kubectl get --namespace team virtualmachinevolumeexport disk-x7k2p --watch";
    assert!(err.contains(said), "{err}");
    let (code, out, _) = ended(&plugin(&kubeconfig, &["--wait=false"]).output().unwrap());
    assert_eq!(code, Some(0));
    assert!(out.contains("disk-x7k2p created"), "{out}");

    for words in [&["--format", "vmdk"][..], &["--download-url", "1s"]] {
        let (code, _, err) = ended(&plugin(&kubeconfig, words).output().unwrap());
        assert_eq!(code, Some(2), "{err}");
    }
    // The program that stands alone knows no cluster.
    let alone = Command::new(env!("CARGO_BIN_EXE_hcs"))
        .args(["export", "disk", "s3://images/disk"])
        .output()
        .unwrap();
    assert_eq!(alone.status.code(), Some(2));
}
