//! What is shown of nodes, and cleanings against an API server that says what
//! the test says.

use clap::Parser;
use hypercloud_api::NodeDeviceCleanup;
use hypercloud_inventory::rook::Selector;
use kube::Resource;
use serde_json::{Value, json};

use super::clean::resource;
use super::*;
use crate::cluster::carry_out;
use crate::cluster::mock::{
    Exchange, Heard, TO_THE_END, client, create, event, failed, status, watch,
};
use crate::devices::Shown;

const NAME: &str = "n1-x7k2p";

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

/// A disk that is available, or for these reasons is not.
fn disk(name: &str, reasons: &[&str]) -> Value {
    let told: Vec<Value> = reasons
        .iter()
        .map(|reason| json!({"reason": reason, "message": format!("says {reason}")}))
        .collect();
    let link = format!("/dev/disk/by-id/wwn-{name}");
    json!({"name": name, "path": format!("/dev/{name}"), "kind": "disk",
        "available": reasons.is_empty(), "reasons": told, "size": 1_u64 << 40,
        "rotational": true, "model": "DISK\x1b[31m", "deviceClass": "hdd",
        "identity": {"byId": link, "links": [link], "serial": "S1"}})
}

fn inventory(node: &str, state: &str, message: &str, devices: Value) -> NodeDeviceInventory {
    let value = json!({"apiVersion": "hypercloud.tmaxanc.com/v1alpha1",
        "kind": "NodeDeviceInventory", "metadata": {"name": node}, "spec": {},
        "status": {"state": state, "hostname": format!("{node}-host"),
            "heartbeatTime": "2026-01-01T00:05:00Z", "revision": 7, "devices": devices,
            "conditions": [{"type": "Ready", "status": "True", "reason": "R",
                "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    serde_json::from_value(value).unwrap()
}

fn cluster() -> Vec<NodeDeviceInventory> {
    let mut pending = inventory("n3", "Pending", "no agent runs there", json!([]));
    if let Some(status) = &mut pending.status {
        status.heartbeat_time = None;
    }
    vec![
        pending,
        inventory(
            "n1",
            "Current",
            "",
            json!([disk("sda", &["Mounted"]), disk("sdb", &[])]),
        ),
        inventory(
            "n2",
            "Stale",
            "the agent is away",
            json!([disk("sda", &[])]),
        ),
    ]
}

fn nodes(named: &[&str], selector: &Selector) -> Nodes {
    let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
    Nodes::of(cluster().iter(), &named, selector, now())
}

fn page(output: Output, nodes: &Nodes) -> Page {
    Sheet::new(output, false).page(nodes).unwrap()
}

#[test]
fn a_table_tells_of_every_node_and_how_old_it_is() {
    let told = page(Output::Table, &nodes(&[], &Selector::default())).text;
    let lines: Vec<Vec<&str>> = told
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines.len(), 5, "{told}");
    assert_eq!(lines[0][..3], ["NODE", "STATE", "NAME"]);
    assert_eq!(lines[1][..3], ["n1", "Current", "sda"]);
    assert_eq!(lines[1][7..], ["no", "Mounted"]);
    assert_eq!(lines[3][..3], ["n2", "Stale(5m)", "sda"]);
    assert_eq!(lines[4][..2], ["n3", "Pending"]);
    assert!(told.ends_with("no agent runs there\n"), "{told}");
    assert!(!told.contains('\x1b'), "{told}");

    let one = page(Output::Wide, &nodes(&["n2"], &Selector::default())).text;
    assert_eq!(one.lines().count(), 2, "{one}");
    let large = Selector {
        min_size: Some(1 << 50),
        ..Selector::default()
    };
    // Only the node that has none says so.
    let none = page(Output::Table, &nodes(&[], &large)).text;
    assert_eq!(none.lines().count(), 2, "{none}");
}

#[test]
fn programs_get_a_list_by_node() {
    let nodes = nodes(&[], &Selector::default());
    let told: Value = serde_json::from_str(&page(Output::Json, &nodes).text).unwrap();
    assert_eq!(told[0]["node"], "n1");
    assert_eq!(told[0]["devices"][0]["reasons"][0]["reason"], "Mounted");
    assert_eq!(told[1]["state"], "Stale");
    assert_eq!(told[1]["message"], "the agent is away");
    assert_eq!(told[2]["devices"], json!([]));
    let same: Value = serde_yaml::from_str(&page(Output::Yaml, &nodes).text).unwrap();
    assert_eq!(same, told);
}

#[test]
fn rook_is_given_what_is_free_on_nodes_that_are_heard_of() {
    let told = page(Output::Rook, &nodes(&[], &Selector::default()));
    let spec: Value = serde_yaml::from_str(&told.text).unwrap();
    let expected = json!([{"name": "n1-host", "devices": [{
        "name": "/dev/disk/by-id/wwn-sdb", "config": {"deviceClass": "hdd"}}]}]);
    assert_eq!(spec["storage"]["nodes"], expected);
    let notes = told.notes.join("\n");
    assert!(
        notes.contains("node n2") && notes.contains("the agent is away"),
        "{notes}"
    );
    assert!(
        notes.contains("node n3") && notes.contains("no agent runs there"),
        "{notes}"
    );
    let told = page(Output::Rook, &nodes(&["n3"], &Selector::default()));
    assert!(told.notes.join("\n").contains("no device is available"));
}

#[test]
fn what_is_watched_is_told_once() {
    let all = nodes(&[], &Selector::default());
    for output in [Output::Table, Output::Json, Output::Yaml, Output::Rook] {
        let mut sheet = Sheet::new(output, true);
        let first = sheet.page(&all).unwrap();
        assert!(!first.text.is_empty(), "{output:?}");
        assert_eq!(sheet.page(&all).unwrap(), Page::default(), "{output:?}");
    }
    let mut sheet = Sheet::new(Output::Json, true);
    let line = sheet.page(&all).unwrap().text;
    assert_eq!(line.lines().count(), 1, "{line}");
    assert_eq!(all.groups().len(), 3);
}

/// A cleanup as the API server has it.
fn object(version: &str, status: Value) -> Value {
    json!({"apiVersion": "hypercloud.tmaxanc.com/v1alpha1", "kind": "NodeDeviceCleanup",
        "metadata": {"name": NAME, "uid": "u1", "resourceVersion": version},
        "spec": {"nodeName": "n1", "device": "/dev/sdb",
            "confirmation": "yes-really-destroy-data"},
        "status": status})
}

async fn cleaned(script: Vec<Exchange>) -> (Result<(), Failure>, Heard<NodeDeviceCleanup>, Value) {
    let (client, made) = client(NAME, NodeDeviceCleanup::url_path(&(), None), script);
    let api: Api<NodeDeviceCleanup> = Api::all(client);
    let mut heard = Heard::default();
    let never = std::future::pending();
    let asked = resource("n1", "/dev/sdb");
    let result = carry_out(&api, asked, &TO_THE_END, &mut heard, never).await;
    let asked = made.lock().unwrap().1[0].clone();
    (result, heard, asked)
}

#[tokio::test]
async fn a_cleaning_is_made_and_followed_to_its_end() {
    let mut done = status("Succeeded", "Cleaned", "done");
    done["device"] = json!({"path": "/dev/sdc", "size": 1});
    done["removed"] = json!(["ext4 at byte 1080"]);
    done["discarded"] = json!(true);
    let cleaning = status("Cleaning", "Cleaning", "the agent is at it");
    let (result, heard, asked) = cleaned(vec![
        create(201, object("1", json!({}))),
        watch(vec![
            event("MODIFIED", object("2", cleaning)),
            event("MODIFIED", object("3", done)),
        ]),
    ])
    .await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(heard.created, ["/n1-x7k2p"]);
    let phases: Vec<_> = heard.steps.iter().map(|step| step.phase).collect();
    assert_eq!(phases, ["Pending", "Cleaning"]);
    assert_eq!(heard.done[0].device, "/dev/sdc");
    assert_eq!(heard.done[0].removed, ["ext4 at byte 1080"]);
    assert_eq!(asked["metadata"]["generateName"], "n1-");
    let spec = json!({"nodeName": "n1", "device": "/dev/sdb",
        "confirmation": "yes-really-destroy-data"});
    assert_eq!(asked["spec"], spec);
}

#[tokio::test]
async fn what_is_used_is_refused_and_what_remains_is_a_failure() {
    for (reason, code) in [
        ("Mounted", 3),
        ("RetriesExhausted", 4),
        ("LeftoversRemain", 4),
        ("Expired", 4),
        ("AgentUnreachable", 4),
        ("Unreadable", 4),
        ("CleaningInterrupted", 4),
    ] {
        let mut end = status("Failed", reason, "why");
        end["device"] = json!({"path": "/dev/sdb", "size": 1});
        let (result, _, _) = cleaned(vec![
            create(201, object("1", json!({}))),
            watch(vec![event("MODIFIED", object("2", end))]),
        ])
        .await;
        assert_eq!(failed(result), (code, reason.to_owned(), "why".to_owned()));
    }
    let (result, _, _) = cleaned(vec![
        create(201, object("1", json!({}))),
        watch(vec![event("DELETED", object("2", json!({})))]),
    ])
    .await;
    let (code, reason, message) = failed(result);
    assert_eq!((code, reason.as_str()), (4, "Vanished"));
    assert!(
        message.starts_with("the cleanup n1-x7k2p was deleted"),
        "{message}"
    );
}

#[derive(Parser)]
struct Words {
    #[command(flatten)]
    devices: NodeDevicesArguments,
}

#[test]
fn words_are_understood() {
    let parsed = |words: &[&str]| {
        let all = ["devices"].iter().chain(words);
        Words::try_parse_from(all).map(|words| words.devices)
    };
    let plain = parsed(&["n1", "n2", "-o", "rook", "--min-size", "100Gi"]).unwrap();
    assert_eq!(plain.nodes, ["n1", "n2"]);
    assert!(plain.order.is_none() && plain.output == Output::Rook);
    assert!(
        parsed(&["clean", "n1", "/dev/sdb"])
            .unwrap()
            .order
            .is_some()
    );
    // A node may be called so.
    assert_eq!(parsed(&["--", "clean"]).unwrap().nodes, ["clean"]);
    for words in [
        &["clean"][..],
        &["clean", "n1"],
        &["clean", "n1", ""],
        &["clean", "N1", "sdb"],
        &["n1", "--yes-really-destroy-data"],
    ] {
        assert!(parsed(words).is_err(), "{words:?}");
    }
}
