//! `kubectl-hcs rollback` as a process, against an API server that says what
//! the test says: what is printed, and the exit codes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod cluster;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use self::cluster::{ended, status};

fn rollback(status: Value) -> Value {
    json!({"apiVersion": "hypercloud.tmaxanc.com/v1alpha1",
        "kind": "VirtualMachineVolumeRollback",
        "metadata": {"name": "disk-x7k2p", "namespace": "team", "uid": "u1",
            "resourceVersion": "1"},
        "spec": {"pvcName": "disk", "volumeSnapshotName": "before"},
        "status": status})
}

fn cluster(folder: &Path, statuses: Vec<Value>) -> PathBuf {
    cluster::cluster(folder, rollback, statuses)
}

fn plugin(kubeconfig: &Path, arguments: &[&str]) -> Command {
    let mut command = cluster::plugin(kubeconfig, &["rollback", "disk", "--to", "before"]);
    command.args(arguments);
    command
}

#[test]
fn a_rollback_is_followed_in_lines_and_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    let mut done = status("Succeeded", "RolledBack", "7 bytes written");
    done["copy"] = json!({"jobId": "j", "nodeName": "n", "bytesDone": 9, "bytesWritten": 2048});
    let working = status("RollingBack", "RollingBack", "node n: Transferring");
    let kubeconfig = cluster(folder.path(), vec![working, done]);

    let output = plugin(&kubeconfig, &[]).output().unwrap();
    let (code, out, err) = ended(&output);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(
        out,
        "rollback disk-x7k2p created in namespace team\nrolled back: wrote 2.00 KiB\n"
    );
    let line = "RollingBack 42%: node n: Transferring (RollingBack)";
    assert!(err.lines().any(|found| found == line), "{err}");

    let output = plugin(&kubeconfig, &["-o", "json"]).output().unwrap();
    let (code, out, err) = ended(&output);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let lines: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let events: Vec<_> = lines
        .iter()
        .map(|line| line["event"].as_str().unwrap())
        .collect();
    assert_eq!(events, ["created", "progress", "progress", "done"]);
    assert_eq!(lines[0]["name"], "disk-x7k2p");
    let (phase, percent) = (&lines[2]["phase"], &lines[2]["percent"]);
    assert_eq!((phase, percent), (&json!("RollingBack"), &json!(42)));
    assert_eq!(lines[3]["bytesWritten"], 2048);
}

#[test]
fn a_refusal_and_a_timeout_have_codes_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let refused = status(
        "Failed",
        "VolumeInUse",
        "the pod virt-launcher-vm uses the disk",
    );
    let kubeconfig = cluster(folder.path(), vec![refused]);
    let (code, _, err) = ended(&plugin(&kubeconfig, &[]).output().unwrap());
    assert_eq!(code, Some(3));
    let said = "error: the pod virt-launcher-vm uses the disk (VolumeInUse)";
    assert!(err.contains(said), "{err}");

    let kubeconfig = cluster(folder.path(), vec![status("Pending", "Waits", "for it")]);
    let output = plugin(&kubeconfig, &["--timeout", "300ms"])
        .output()
        .unwrap();
    let (code, _, err) = ended(&output);
    assert_eq!(code, Some(4));
    assert!(err.contains("it goes on in the cluster"), "{err}");
    let output = plugin(&kubeconfig, &["--wait=false"]).output().unwrap();
    let (code, out, err) = ended(&output);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("disk-x7k2p created"), "{out}");
}

#[test]
fn an_interrupt_leaves_it_running_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = cluster(folder.path(), vec![status("Pending", "Waits", "for it")]);
    let mut child = plugin(&kubeconfig, &[])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    assert!(line.starts_with("Pending"), "{line}");
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let rest: String = lines.map(|line| line.unwrap() + "\n").collect();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let said = "kubectl get --namespace team virtualmachinevolumerollback disk-x7k2p --watch";
    assert!(rest.contains(said), "{rest}");
}

#[test]
fn words_that_make_no_sense_are_usage_errors() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = cluster(folder.path(), vec![]);
    for arguments in [&["--timeout", "5"][..], &["--wait=maybe"], &["--no"]] {
        let (code, _, err) = ended(&plugin(&kubeconfig, arguments).output().unwrap());
        assert_eq!(code, Some(2), "{err}");
    }
    let missing = folder.path().join("missing");
    let (code, _, err) = ended(&plugin(&missing, &[]).output().unwrap());
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("--kubeconfig"), "{err}");
    // The program that stands alone knows no cluster.
    let alone = Command::new(env!("CARGO_BIN_EXE_hcs"))
        .args(["rollback", "disk", "--to", "before"])
        .output()
        .unwrap();
    assert_eq!(alone.status.code(), Some(2));
}
