//! The resource as people write it, and as the API server reads it.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::*;

fn schema() -> Value {
    let definition = serde_json::to_value(HyperCloudStorage::crd()).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

fn rules(schema: &Value) -> Vec<&str> {
    let rules = schema["x-kubernetes-validations"].as_array();
    let messages = rules.into_iter().flatten().map(|rule| &rule["message"]);
    messages.filter_map(Value::as_str).collect()
}

#[test]
fn what_people_write_is_read() {
    let written = json!({
        "apiVersion": "hypercloud.tmaxanc.com/v1alpha1",
        "kind": "HyperCloudStorage",
        "metadata": {"name": "hypercloud"},
        "spec": {"storage": {"replicas": 3, "nodes": [
            {"hostname": "a", "devices": ["/dev/sda"]}]}},
    });
    let read: HyperCloudStorage = serde_json::from_value(written).unwrap();
    assert_eq!(read.spec.storage.nodes[0].devices[0].0, "/dev/sda");
    assert!(read.spec.cdi.is_none() && read.spec.cleanup.is_none());
    let cdi: CdiInstallation = serde_json::from_value(json!({})).unwrap();
    assert_eq!(cdi, CdiInstallation::default());
    // Nothing is written that was not set.
    let again = serde_json::to_value(&read.spec).unwrap();
    let storage = json!({"replicas": 3, "nodes": [{"hostname": "a", "devices": ["/dev/sda"]}]});
    assert_eq!(again, json!({"storage": storage}));
}

#[test]
fn nothing_but_the_words_destroys_data() {
    for words in ["yes", "Yes-Really-Destroy-Data", ""] {
        let cleanup = json!({"confirmation": words});
        assert!(serde_json::from_value::<StorageCleanup>(cleanup).is_err());
    }
    let cleanup = json!({"confirmation": "yes-really-destroy-data"});
    assert!(serde_json::from_value::<StorageCleanup>(cleanup).is_ok());
}

#[test]
fn states_are_as_people_read_them() {
    for state in [
        StorageState::Ok,
        StorageState::Warning,
        StorageState::Error,
        StorageState::Installing,
        StorageState::Upgrading,
        StorageState::Deleting,
    ] {
        assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
    }
}

#[test]
fn there_is_one_in_a_cluster() {
    let schema = schema();
    assert_eq!(
        rules(&schema),
        ["a cluster has one HyperCloudStorage, and its name is hypercloud"]
    );
}

#[test]
fn lists_are_maps_and_sets_with_bounds() {
    let schema = schema();
    let storage = &schema["properties"]["spec"]["properties"]["storage"];
    let nodes = &storage["properties"]["nodes"];
    assert_eq!(nodes["x-kubernetes-list-type"], "map");
    assert_eq!(nodes["x-kubernetes-list-map-keys"], json!(["hostname"]));
    assert_eq!(
        (&nodes["minItems"], &nodes["maxItems"]),
        (&json!(1), &json!(256))
    );
    let devices = &nodes["items"]["properties"]["devices"];
    assert_eq!(devices["x-kubernetes-list-type"], "set");
    assert_eq!(devices["items"]["type"], "string");
    assert_eq!(devices["items"]["maxLength"], 512);
    assert!(rules(storage).len() >= 9);
}

/// Rook changes no network of a Ceph that runs, but for what goes over it.
#[test]
fn the_network_is_settled() {
    let schema = schema();
    let storage = &schema["properties"]["spec"]["properties"]["storage"];
    let rules = rules(storage);
    for field in ["hostNetwork", "publicRanges", "clusterRanges", "ipFamily"] {
        let start = format!("network.{field} ");
        let settled = rules.iter().find(|rule| rule.starts_with(&start));
        assert!(
            settled.is_some_and(|rule| rule.contains("settled")),
            "{field}"
        );
    }
    for free in ["encryption", "compression", "requireMsgr2"] {
        assert!(!rules.iter().any(|rule| rule.contains(free)), "{free}");
    }
}
