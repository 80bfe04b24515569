//! Requests as the API server writes them, and answers as it reads them.

use super::*;
use hypercloud_storage::device::Known;
use hypercloud_storage::version::Running;
use proptest::prelude::*;

fn spec(hostname: &str, devices: &[&str]) -> Value {
    json!({"storage": {"replicas": 3, "nodes": [{"hostname": hostname, "devices": devices}]}})
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "hypercloud.tmaxanc.com/v1alpha1", "kind": "HyperCloudStorage",
        "metadata": {"name": "hypercloud"}, "spec": spec})
}

fn review(operation: &str, old: Value, new: Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "operation": operation, "name": "hypercloud", "dryRun": true,
        "kind": {"group": "hypercloud.tmaxanc.com", "version": "v1alpha1", "kind": "HyperCloudStorage"},
        "resource": {"group": "hypercloud.tmaxanc.com", "version": "v1alpha1",
            "resource": "hypercloudstorages"},
        "userInfo": {"username": "jane"}, "object": new, "oldObject": old, "options": null}})
}

fn question(review: &Value) -> Question {
    let read = read(review.to_string().as_bytes()).unwrap();
    assert_eq!(read.uid, "u-1");
    read.question
}

fn change(old: Value, new: Value) -> Change {
    let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
    match question(&review(operation, old, new)) {
        Question::May(change) => *change,
        other => panic!("{other:?}"),
    }
}

fn judged(change: &Change) -> Value {
    let known = Known {
        hostnames: ["n".to_owned()].into(),
        ..Known::default()
    };
    let ground = Ground {
        known: &known,
        running: Running::default(),
        kubernetes: None,
    };
    answer("u-1", &judge(change, ground))["response"].clone()
}

#[test]
fn a_new_storage_is_judged_by_the_cluster() {
    let good = change(Value::Null, object(spec("n", &["sdb"])));
    assert!(good.old.is_none());
    let response = judged(&good);
    assert_eq!(
        (&response["uid"], &response["allowed"]),
        (&json!("u-1"), &json!(true))
    );
    // What is only waited for is said.
    let warnings = response["warnings"].as_array().unwrap();
    assert!(
        warnings[0].as_str().unwrap().contains("not known yet"),
        "{warnings:?}"
    );

    let bad = change(Value::Null, object(spec("m", &["sdb"])));
    let response = judged(&bad);
    assert_eq!(response["allowed"], false);
    let status = &response["status"];
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(422), &json!("HostnameUnknown"))
    );
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with("HostnameUnknown: no node has the label"),
        "{message}"
    );
}

#[test]
fn every_refusal_is_told_up_to_a_bound() {
    let hostnames = |count: usize| {
        let node = |n: usize| json!({"hostname": format!("m{n}"), "devices": ["sdb"]});
        let nodes: Vec<Value> = (0..count).map(node).collect();
        let new = object(json!({"storage": {"replicas": 3, "nodes": nodes}}));
        let response = judged(&change(Value::Null, new));
        response["status"]["message"].as_str().unwrap().to_owned()
    };
    let two = hostnames(2);
    assert!(
        two.contains("hostname=m0") && two.contains("; HostnameUnknown: "),
        "{two}"
    );
    let many = hostnames(100);
    assert!(
        many.ends_with("; and 92 more") && many.len() < 2000,
        "{many}"
    );
}

#[test]
fn what_the_cluster_has_no_say_in_passes_unread() {
    let none = Question::None { warnings: vec![] };
    let old = object(spec("n", &["sdb"]));
    let mut labelled = old.clone();
    labelled["metadata"]["finalizers"] = json!(["a/b"]);
    assert_eq!(question(&review("UPDATE", old.clone(), labelled)), none);
    let mut confirmed = old.clone();
    confirmed["spec"]["cleanup"] = json!({"confirmation": "yes-really-destroy-data"});
    assert_eq!(question(&review("UPDATE", old.clone(), confirmed)), none);
    assert_eq!(question(&review("DELETE", old.clone(), Value::Null)), none);
    // Of what is going nobody asks for anything any more.
    let mut going = object(spec("m", &["sdz"]));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(question(&review("UPDATE", old.clone(), going)), none);
    let mut status = review("UPDATE", old.clone(), object(spec("m", &["sdz"])));
    status["request"]["subResource"] = json!("status");
    assert_eq!(question(&status), none);
    // Also what nobody can read, as long as it stays.
    let strange = object(json!({"storage": 7}));
    assert_eq!(question(&review("UPDATE", strange.clone(), strange)), none);
}

#[test]
fn more_copies_pass_with_a_warning() {
    let old = object(spec("n", &["sdb"]));
    let mut more = old.clone();
    more["spec"]["storage"]["replicas"] = json!(4);
    match question(&review("UPDATE", old, more)) {
        Question::None { warnings } => assert!(warnings[0].contains("3 copies"), "{warnings:?}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_former_specification_and_status_come_along() {
    let mut old = object(spec("n", &["sdb"]));
    old["status"] =
        json!({"devices": [{"hostname": "n", "device": "sdb", "byId": "/dev/disk/by-id/b"}]});
    let mut new = object(spec("n", &["sdb", "sdc"]));
    // Nobody vouches for the status that comes with a change.
    new["status"] = json!({"devices": []});
    let both = change(old.clone(), new.clone());
    assert_eq!(both.old.unwrap().storage.nodes[0].devices.len(), 1);
    assert_eq!(both.status.devices[0].by_id, "/dev/disk/by-id/b");
    // A former one that nobody can read is as good as none.
    old["spec"] = json!({"storage": 7});
    old["status"] = json!({"devices": 7});
    let both = change(old, new);
    assert!(both.old.is_none() && both.status.devices.is_empty());
}

#[test]
fn a_specification_that_cannot_be_read_is_refused() {
    let new = object(json!({"storage": {"replicas": "three"}}));
    let question = question(&review("CREATE", Value::Null, new));
    assert!(matches!(question, Question::Malformed(_)), "{question:?}");
}

#[test]
fn what_could_not_be_judged_is_refused_and_says_so() {
    let verdict = Verdict::Unjudged("cannot read the nodes".to_owned());
    let response = &answer("u-1", &verdict)["response"];
    assert_eq!(response["allowed"], false);
    assert_eq!(response["status"]["code"], 503);
    assert_eq!(response["status"]["reason"], "AdmissionUnavailable");
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.contains("cannot read the nodes") && message.contains("try again"));
}

#[test]
fn what_is_no_review_is_told_apart() {
    let whole = review("CREATE", Value::Null, object(spec("n", &["sdb"])));
    let changed = |pointer: &str, to: Value| {
        let mut review = whole.clone();
        *review.pointer_mut(pointer).unwrap() = to;
        read(review.to_string().as_bytes())
    };
    assert!(changed("/kind", json!("AdmissionReview")).is_ok());
    for (pointer, to) in [
        ("/apiVersion", json!("admission.k8s.io/v1beta1")),
        ("/kind", json!("Review")),
        ("/request", Value::Null),
    ] {
        assert!(
            matches!(changed(pointer, to), Err(NoReview::Other)),
            "{pointer}"
        );
    }
    let pods = changed("/request/resource/resource", json!("pods"));
    assert!(matches!(pods, Err(NoReview::Resource(_))));
    for body in ["", "null", "[]", "{}", "\u{0}", "{\"apiVersion\": 1}"] {
        assert!(read(body.as_bytes()).is_err(), "{body:?}");
    }
    assert!(read(&[0xff; 64]).is_err());
    let deep = "[".repeat(100_000);
    assert!(read(deep.as_bytes()).is_err());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z/]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let keys = prop_oneof![
            Just("metadata"),
            Just("spec"),
            Just("storage"),
            Just("nodes"),
            Just("devices"),
            Just("hostname"),
            Just("replicas"),
            Just("status"),
            Just("versions"),
        ];
        let object = prop::collection::btree_map(keys, inner.clone(), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..3).prop_map(Value::from),
            object.prop_map(|map| map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn no_object_is_too_strange(old in any_json(), new in any_json()) {
        let body = review("UPDATE", old, new).to_string();
        if let Ok(Review { question: Question::May(change), .. }) = read(body.as_bytes()) {
            prop_assert!(judged(&change)["allowed"].is_boolean());
        }
    }
}
