//! `hcs devices` on a record of a machine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A disk with a system on it and an empty one.
fn record() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::create_dir_all(root.join("sys/block")).unwrap();
    for (name, number, turns) in [("sda", "8:0", "1"), ("nvme0n1", "259:0", "0")] {
        let disk = root.join("sys/devices/pci0/host0/block").join(name);
        for (attribute, value) in [
            ("dev", number),
            ("size", "2097152000"),
            ("ro", "0"),
            ("removable", "0"),
            ("queue/rotational", turns),
        ] {
            write(&disk.join(attribute), value);
        }
        fs::create_dir(disk.join("holders")).unwrap();
        fs::create_dir(disk.join("slaves")).unwrap();
        write(
            &root.join(format!("run/udev/data/b{number}")),
            &format!(
                "S:disk/by-id/wwn-{name}\nI:1\nE:ID_MODEL=Disk\x1b[31m\nE:ID_SERIAL=S{name}\n"
            ),
        );
        symlink(
            format!("../devices/pci0/host0/block/{name}"),
            root.join("sys/block").join(name),
        )
        .unwrap();
    }
    write(&root.join("proc/swaps"), "Filename\n");
    write(&root.join("proc/sys/kernel/hostname"), "Node-1\n");
    write(
        &root.join("proc/1/mountinfo"),
        "27 1 8:0 / / rw - ext4 /dev/sda rw\n",
    );
    dir
}

fn hcs(root: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hcs"))
        .args(["devices", "--root", root.to_str().unwrap()])
        .args(arguments)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_table_has_a_line_for_each_device_and_no_escapes() {
    let record = record();
    let table = text(&hcs(record.path(), &[]));
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(lines[0].starts_with("NAME "), "{table}");
    assert!(
        lines[1].starts_with("nvme0n1") && lines[1].contains("yes"),
        "{table}"
    );
    assert!(lines[2].contains("BacksSystem,Mounted"), "{table}");
    assert!(!table.contains('\x1b'), "{table}");
    let wide = text(&hcs(record.path(), &["-o", "wide"]));
    assert!(
        wide.contains("the node's / is on it; mounted at /"),
        "{wide}"
    );
    assert!(wide.contains("wwn-nvme0n1"), "{wide}");
}

#[test]
fn programs_are_given_everything() {
    let record = record();
    let json = text(&hcs(record.path(), &["-o", "json"]));
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["devices"][1]["reasons"][1]["reason"], "Mounted");
    assert_eq!(value["devices"][0]["available"], true);
    let yaml = text(&hcs(record.path(), &["-o", "yaml"]));
    let same: serde_json::Value = serde_yaml::from_str(&yaml).unwrap();
    assert_eq!(same, value);
}

#[test]
fn rook_is_given_what_is_free_and_wanted() {
    let record = record();
    let spec = text(&hcs(record.path(), &["-o", "rook", "--min-size", "100Gi"]));
    let spec: serde_json::Value = serde_yaml::from_str(&spec).unwrap();
    assert_eq!(
        spec,
        serde_json::json!({"storage": {
            "useAllNodes": false,
            "useAllDevices": false,
            "nodes": [{
                "name": "node-1",
                "devices": [{
                    "name": "/dev/disk/by-id/wwn-nvme0n1",
                    "config": {"deviceClass": "nvme"},
                }],
            }],
        }})
    );
    let none = hcs(
        record.path(),
        &["-o", "rook", "--rotational", "--hostname", "x"],
    );
    assert!(text(&none).contains("nodes: []"));
    assert!(String::from_utf8_lossy(&none.stderr).contains("no device is available"));
}

#[test]
fn what_is_no_record_and_no_size_is_refused() {
    let empty = tempfile::tempdir().unwrap();
    let output = hcs(empty.path(), &[]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let output = hcs(empty.path(), &["--min-size", "much"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn an_agent_that_is_not_there_is_told_from_words_that_make_no_sense() {
    let folder = tempfile::tempdir().unwrap();
    let tls = folder.path().to_str().unwrap();
    let asked = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hcs"));
        command.arg("devices").args(arguments).output().unwrap()
    };
    let nobody = ["--agent", "127.0.0.1:1", "--tls", tls];
    let output = asked(&nobody);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("ca.crt") && said.contains("--tls"), "{said}");

    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["somebody".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    write(&folder.path().join("ca.crt"), &certificate);
    write(&folder.path().join("tls.crt"), &certificate);
    write(&folder.path().join("tls.key"), &key.serialize_pem());
    let output = asked(&nobody);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("the agent cannot be reached"), "{said}");
    for arguments in [
        &["--agent", "127.0.0.1:1"][..],
        &["--tls", tls],
        &["--watch"],
        &["--agent", "127.0.0.1:1", "--tls", tls, "--root", tls],
    ] {
        assert_eq!(asked(arguments).status.code(), Some(2), "{arguments:?}");
    }
    let senseless = asked(&["--agent", "no address", "--tls", tls]);
    assert_eq!(senseless.status.code(), Some(2), "{senseless:?}");
}
