//! What commands and Deployments say, also in unexpected words.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn printed() -> Printed {
    Printed {
        dump: json!({"epoch": 9, "osds": [
            {"osd": 0, "up": 1, "in": 1}, {"osd": 3, "up": 0, "in": 0}]})
        .to_string(),
        metadata: json!([
            {"id": 0, "hostname": "node-a", "device_ids": "sda=MODEL_1",
             "device_paths": "sda=/dev/disk/by-path/pci-1"},
            {"id": 3}])
        .to_string(),
        safe: json!({"safe_to_destroy": [3], "active": [0]}).to_string(),
    }
}

#[test]
fn osds_are_read_from_three_answers() {
    let told = read(&printed()).unwrap();
    assert_eq!(
        told,
        [
            Told {
                id: 0,
                up: true,
                is_in: true,
                safe: Some(false),
                node: Some("node-a".into()),
                ids: vec!["MODEL_1".into()],
                paths: vec!["/dev/disk/by-path/pci-1".into()],
            },
            Told {
                id: 3,
                safe: Some(true),
                ..Told::default()
            },
        ]
    );
}

#[test]
fn warnings_stand_before_and_behind_an_answer() {
    let mut printed = printed();
    printed.dump = format!(
        "2026-01-01 did not load config file\n{}\nan epilogue\n",
        printed.dump
    );
    assert_eq!(read(&printed).unwrap().len(), 2);
}

#[test]
fn what_is_not_said_to_be_safe_is_not() {
    let mut printed = printed();
    printed.safe = "Error EAGAIN: 4 pgs have unknown state".into();
    let told = read(&printed).unwrap();
    assert!(told.iter().all(|osd| osd.safe.is_none()));
}

#[test]
fn no_answer_is_not_an_answer_of_none() {
    let mut without = printed();
    without.dump = "Error: timed out".into();
    assert_eq!(read(&without), Err(NoAnswer("osd dump")));
    let mut without = printed();
    without.metadata.clear();
    assert_eq!(read(&without), Err(NoAnswer("osd metadata")));
    let mut half = printed();
    half.dump = json!({"osds": [{"osd": 0}]}).to_string();
    assert_eq!(read(&half), Err(NoAnswer("osd dump")));
}

#[test]
fn a_device_is_named_once() {
    let of = |text: &str| listed(Some(text));
    assert_eq!(of("sda=X,sdb=X"), ["X"]);
    assert_eq!(of("sda=X,sdb=Y"), ["X", "Y"]);
    assert!(of("").is_empty() && of("sda=").is_empty() && of("sda").is_empty());
}

fn object(id: &str, replicas: i64, there: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": format!("rook-ceph-osd-{id}"), "namespace": "rook-ceph",
                     "labels": {"app": "rook-ceph-osd", "ceph-osd-id": id}},
        "spec": {"replicas": replicas, "template": {"spec": {
            "nodeSelector": {"kubernetes.io/hostname": "a"},
            "initContainers": [{"name": "activate", "env": [
                {"name": "ROOK_BLOCK_PATH", "value": "/dev/sda"}]}],
            "containers": [{"name": "osd"}]}}},
        "status": {"replicas": there}})
}

#[test]
fn deployments_say_where_an_osd_is_and_whether_it_runs() {
    let mut stray = object("9", 1, 1);
    stray["metadata"]["namespace"] = json!("team");
    let seen = Seen::from_iter([
        object("0", 1, 1),
        object("1", 0, 1),
        object("2", 0, 0),
        object("x", 1, 1),
        stray,
    ]);
    let deployed = deployed(&seen);
    assert_eq!(deployed.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(deployed[&0].hostname.as_deref(), Some("a"));
    assert_eq!(deployed[&0].block.as_deref(), Some("/dev/sda"));
    let runs: Vec<bool> = deployed.values().map(|own| own.runs).collect();
    assert_eq!(runs, [true, true, false]);
}

#[test]
fn a_node_is_known_by_its_label() {
    let told = read(&printed()).unwrap();
    let nodes = [("node-a".to_owned(), "a".to_owned())].into();
    let evidence = evidence(&told, &BTreeMap::new(), &nodes);
    assert_eq!(evidence[0].hostname.as_deref(), Some("a"));
    assert_eq!(evidence[1].hostname, None);
    let placed = [(3, "/dev/disk/by-id/x".to_owned())].into();
    let osds = osds(&told, &BTreeMap::new(), &evidence, &placed);
    // Up means that it runs, whether there is a Deployment or not.
    assert!(osds[0].runs && !osds[1].runs);
    assert_eq!(osds[1].device, "/dev/disk/by-id/x");
}

proptest! {
    /// Commands may print whatever they like.
    #[test]
    fn whatever_is_printed_is_read_or_refused(
        dump in "\\PC{0,80}", metadata in "\\PC{0,80}", safe in "\\PC{0,80}",
    ) {
        let _ = read(&Printed { dump, metadata, safe });
    }
}
