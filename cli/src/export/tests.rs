//! Whole exports against an API server that says what the test says.

use clap::Parser;
use serde_json::{Value, json};

use super::*;
use crate::cluster::carry_out;
use crate::cluster::mock::{
    Heard, TO_THE_END, create, event, failed, played, server, status, watch,
};

const NAME: &str = "disk-x7k2p";

/// An export of `disk` as the API server has it.
pub(super) fn object(version: &str, status: Value) -> Value {
    json!({"apiVersion": "hypercloud.tmaxanc.com/v1alpha1",
        "kind": "VirtualMachineVolumeExport",
        "metadata": {"name": NAME, "namespace": "team", "uid": "u1",
            "resourceVersion": version},
        "spec": {"pvcName": "disk", "objectStore": {"bucketName": "images", "objectName": "a/b"}},
        "status": status})
}

#[derive(Parser)]
struct Words {
    #[command(flatten)]
    export: ExportArguments,
}

/// What is asked of the cluster by these words.
fn asked(words: &[&str]) -> Result<VirtualMachineVolumeExport, clap::Error> {
    let all = ["export", "disk", "s3://images/a/b"].iter().chain(words);
    Words::try_parse_from(all).map(|words| resource(&words.export))
}

#[tokio::test]
async fn an_export_is_made_and_followed_to_its_end() {
    let working = json!({"phase": "Exporting", "progress": "42%", "upload": {"jobId": "u1-0",
        "nodeName": "n1", "bytesTotal": 1000, "bytesDone": 420, "bytesRead": 400,
        "bytesStored": 7}});
    let mut done = status("Succeeded", "Exported", "stored");
    done["object"] = json!({"url": "s3://images/a/b", "size": 9});
    done["disk"] = json!({"virtualSize": 1000, "digest": "sha256:0a"});
    let preparing = status("Preparing", "SnapshotTaking", "soon");
    let (api, made) = server(
        NAME,
        vec![
            create(201, object("1", json!({}))),
            watch(vec![
                event("MODIFIED", object("2", preparing)),
                event("MODIFIED", object("3", working)),
                event("MODIFIED", object("4", done)),
            ]),
        ],
    );
    let mut heard = Heard::default();
    let never = std::future::pending();
    let export = asked(&[]).unwrap();
    let result = carry_out(&api, export, &TO_THE_END, &mut heard, never).await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(heard.created, ["team/disk-x7k2p"]);
    let phases: Vec<_> = heard.steps.iter().map(|step| step.phase).collect();
    assert_eq!(phases, ["Pending", "Preparing", "Exporting"]);
    assert_eq!(heard.steps[2].figures.bytes_stored, 7);
    assert_eq!((heard.done[0].size, heard.done[0].virtual_size), (9, 1000));
    assert_eq!(heard.done[0].digest.as_deref(), Some("sha256:0a"));
    let asked = made.lock().unwrap().1[0].clone();
    assert_eq!(asked["metadata"]["generateName"], "disk-");
    let spec = json!({"pvcName": "disk", "format": "qcow2",
        "objectStore": {"bucketName": "images", "objectName": "a/b"}});
    assert_eq!(asked["spec"], spec);
}

#[tokio::test]
async fn an_object_that_is_there_is_a_refusal_and_a_last_try_a_failure() {
    for (reason, code) in [("ObjectExists", 3), ("RetriesExhausted", 4)] {
        let failure = status("Failed", reason, "s3://images/a/b");
        let script = vec![
            create(201, object("1", json!({}))),
            watch(vec![event("MODIFIED", object("2", failure))]),
        ];
        let (result, heard) = played(NAME, asked(&[]).unwrap(), script).await;
        let expected = (code, reason.to_owned(), "s3://images/a/b".to_owned());
        assert_eq!(failed(result), expected);
        assert!(heard.done.is_empty());
    }
}

#[tokio::test]
async fn one_that_is_deleted_is_told_of_in_its_own_words() {
    let deleting = object("3", json!({"phase": "Deleting"}));
    let script = vec![
        create(201, object("1", json!({}))),
        watch(vec![event("DELETED", deleting)]),
    ];
    let (result, _) = played(NAME, asked(&[]).unwrap(), script).await;
    let (code, reason, message) = failed(result);
    assert_eq!((code, reason.as_str()), (4, "Vanished"));
    assert!(
        message.starts_with("the export disk-x7k2p in namespace team"),
        "{message}"
    );
    assert!(
        message.contains("what was stored is discarded"),
        "{message}"
    );
}

#[test]
fn every_word_has_its_place_in_the_resource() {
    let export = asked(&[
        "--name",
        "mine",
        "--format",
        "raw",
        "--compression",
        "none",
        "--overwrite",
        "--digest",
        "none",
        "--download-url",
        "12h",
        "--endpoint",
        "https://store.test:9000",
        "--region",
        "eu-west-3",
        "--path-style",
        "--secret",
        "keys",
        "--ca-config-map",
        "authorities",
    ])
    .unwrap();
    assert_eq!(export.metadata.name.as_deref(), Some("mine"));
    assert_eq!(export.metadata.generate_name, None);
    let spec = serde_json::to_value(export.spec).unwrap();
    let expected = json!({"pvcName": "disk", "format": "raw", "compression": "none",
        "overwrite": true, "digest": "none", "downloadUrl": {"expiresAfterSeconds": 43200},
        "secretRef": {"name": "keys"}, "caConfigMap": {"name": "authorities"},
        "objectStore": {"bucketName": "images", "objectName": "a/b", "region": "eu-west-3",
            "endpoint": "https://store.test:9000/", "forcePathStyle": true}});
    assert_eq!(spec, expected);
    let path_style = |words: &[&str]| asked(words).unwrap().spec.object_store.force_path_style;
    assert_eq!(path_style(&[]), None);
    assert_eq!(path_style(&["--path-style=false"]), Some(false));
}

#[test]
fn words_that_make_no_sense_are_refused() {
    for words in [
        &["--download-url", "59s"][..],
        &["--download-url", "169h"],
        &["--format", "vmdk"],
        &["--compression", "xz"],
        &["--name", "Mine"],
        &["--endpoint", "nonsense"],
        &["--path-style=maybe"],
        &["--resume"],
    ] {
        assert!(asked(words).is_err(), "{words:?}");
    }
    for object in ["http://store.test/a/b", "s3://images", "file", "s3:///a"] {
        let words = ["export", "disk", object];
        assert!(Words::try_parse_from(words).is_err(), "{object}");
    }
}
