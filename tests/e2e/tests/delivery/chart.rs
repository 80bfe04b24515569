//! The chart is the kustomize base, and what its values say of it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::programs::{
    IMAGES, NAME, NAMESPACE, Objects, chart, combined, container, helm, kustomized, manifests,
    object, rendered, variable,
};

/// An annotation by which Helm leaves an object where it is.
const POLICY: &str = "helm.sh/resource-policy";

/// Everything of the base, with the images of its development.
const WHOLE: [&str; 2] = [NAMESPACE, r#"image.tag="dev""#];

/// A storage as the values say it.
const STORAGE: [&str; 2] = [
    "storage.enabled=true",
    r#"storage.spec={"storage":{"replicas":3,"nodes":[{"hostname":"a","devices":["/dev/sda"]}]}}"#,
];

/// Takes off what only the chart says; kinds of objects that are kept.
fn without_policy(objects: &mut Objects) -> Vec<String> {
    let mut kept = Vec::new();
    for ((kind, _), object) in objects {
        let Some(metadata) = object["metadata"].as_object_mut() else {
            continue;
        };
        let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else {
            continue;
        };
        if annotations.remove(POLICY) == Some(json!("keep")) {
            kept.push(kind.clone());
        }
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    kept.dedup();
    kept
}

/// Fails where two sets of objects are not the same, with what differs.
fn same(chart: &Objects, base: &Objects) {
    let names = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(chart), names(base));
    for (key, expected) in base {
        let difference = difference(&chart[key], expected);
        assert_eq!(difference, None, "{key:?}");
    }
}

/// The first place at which two values differ. Numbers may be written
/// differently.
fn difference(one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            let absent = &Value::Null;
            keys.into_iter().find_map(|key| {
                let [one, other] = [one, other].map(|map| map.get(key).unwrap_or(absent));
                difference(one, other).map(|found| format!("{key}/{found}"))
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut pairs = one.iter().zip(other).enumerate();
            pairs.find_map(|(at, (one, other))| {
                difference(one, other).map(|found| format!("{at}/{found}"))
            })
        }
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => None,
        _ if one == other => None,
        _ => Some(format!(": {one}, not {other}")),
    }
}

#[test]
fn by_default_it_is_the_base_object_for_object() -> anyhow::Result<()> {
    let mut chart = rendered(&WHOLE)?;
    let kept = without_policy(&mut chart);
    assert_eq!(kept, ["CustomResourceDefinition", "Namespace"]);
    same(&chart, &kustomized(&manifests().join("base"))?);
    Ok(())
}

#[test]
fn without_storage_it_is_the_base_with_the_component_of_that_name() -> anyhow::Result<()> {
    let mut chart = rendered(&[WHOLE[0], WHOLE[1], "storage.allowed=false"])?;
    without_policy(&mut chart);
    let base = combined(&["base"], &["components/without-storage"])?;
    same(&chart, &base);
    let coordinator = container(&chart, "Deployment", "coordinator")?;
    assert_eq!(variable(coordinator, "STORAGE"), Some("false"));
    let all = rendered(&WHOLE)?;
    let gone: Vec<_> = all.keys().filter(|key| !chart.contains_key(*key)).collect();
    assert_eq!(gone.len(), 2, "{gone:?}");
    for (kind, name) in gone {
        assert!(kind.starts_with("ClusterRole"), "{kind}");
        assert_eq!(name, "hypercloud-storage-coordinator-storage");
    }
    Ok(())
}

#[test]
fn with_monitoring_it_is_the_base_with_the_component_of_that_name() -> anyhow::Result<()> {
    let mut chart = rendered(&[WHOLE[0], WHOLE[1], "monitoring.enabled=true"])?;
    without_policy(&mut chart);
    same(&chart, &combined(&["base"], &["components/monitoring"])?);
    let labels = r#"monitoring.labels={"release":"prometheus"}"#;
    let chosen = rendered(&["monitoring.enabled=true", labels])?;
    for kind in ["PodMonitor", "PrometheusRule"] {
        let labels = &object(&chosen, kind, NAME)?["metadata"]["labels"];
        assert_eq!(labels["release"], "prometheus", "{kind}");
        assert_eq!(labels["app.kubernetes.io/part-of"], NAME, "{kind}");
        assert!(object(&rendered(&[])?, kind, NAME).is_err(), "{kind}");
    }
    Ok(())
}

#[test]
fn what_is_not_wanted_is_not_there() -> anyhow::Result<()> {
    let all = rendered(&[])?;
    let kinds = |objects: &Objects, kind: &str| objects.keys().filter(|key| key.0 == kind).count();
    assert_eq!(kinds(&all, "Namespace"), 0);
    assert_eq!(kinds(&all, "HyperCloudStorage"), 0);
    assert_eq!(kinds(&all, "CustomResourceDefinition"), 7);
    let less = rendered(&["crds.install=false", "userRoles.create=false"])?;
    assert_eq!(kinds(&less, "CustomResourceDefinition"), 0);
    assert!(object(&less, "ClusterRole", "hypercloud-storage-edit").is_err());
    assert!(object(&all, "ClusterRole", "hypercloud-storage-edit").is_ok());
    Ok(())
}

#[test]
fn values_get_to_their_places() -> anyhow::Result<()> {
    let made = rendered(&[
        r#"image={"repository":"registry.example/hcs","tag":"7","pullPolicy":"Always","pullSecrets":[{"name":"login"}]}"#,
        r#"logLevel="debug""#,
        r#"coordinator={"replicas":3,"priorityClassName":"p","podLabels":{"l":"m"},"podAnnotations":{"n":"o"},"nodeSelector":{"a":"b"},"tolerations":[{"operator":"Exists"}],"env":{"Y":1},"volumes":[{"name":"v","emptyDir":{}}],"volumeMounts":[{"name":"v","mountPath":"/v"}]}"#,
        r#"agents={"priorityClassName":"q","podLabels":{"r":"s"},"podAnnotations":{"t":"u"},"maxUnavailable":2,"kubeletRoot":"/data/kubelet","nodeSelector":{"c":"d"},"affinity":{"nodeAffinity":{}},"env":{"MEMORY_BUDGET":"256Mi"}}"#,
        r#"objectStore={"endpoint":"http://s3.example","region":"r","pathStyle":false,"secret":"keys","caConfigMap":"ca"}"#,
    ])?;
    let deployment = &object(&made, "Deployment", "coordinator")?["spec"];
    let set = &object(&made, "DaemonSet", "node-agent")?["spec"];
    let (pod, agents) = (&deployment["template"]["spec"], &set["template"]["spec"]);
    assert_eq!(deployment["replicas"], 3);
    let selector = json!({"a": "b", "kubernetes.io/os": "linux"});
    assert_eq!(pod["nodeSelector"], selector);
    assert_eq!(pod["priorityClassName"], "p");
    let component = "app.kubernetes.io/component";
    let metadata =
        json!({"annotations": {"n": "o"}, "labels": {component: "coordinator", "l": "m"}});
    assert_eq!(deployment["template"]["metadata"], metadata);
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(pod["volumes"], json!([{"name": "v", "emptyDir": {}}]));
    let selector = json!({"c": "d", "kubernetes.io/os": "linux"});
    assert_eq!(agents["nodeSelector"], selector);
    assert_eq!(agents["priorityClassName"], "q");
    let metadata =
        json!({"annotations": {"t": "u"}, "labels": {component: "node-agent", "r": "s"}});
    assert_eq!(set["template"]["metadata"], metadata);
    assert_eq!(set["updateStrategy"]["rollingUpdate"]["maxUnavailable"], 2);
    assert_eq!(agents["affinity"], json!({"nodeAffinity": {}}));
    for spec in [pod, agents] {
        assert_eq!(spec["imagePullSecrets"], json!([{"name": "login"}]));
    }
    let coordinator = &pod["containers"][0];
    let agent = &agents["containers"][0];
    assert_eq!(coordinator["image"], "registry.example/hcs/coordinator:7");
    assert_eq!(agent["image"], "registry.example/hcs/node-agent:7");
    assert_eq!(coordinator["imagePullPolicy"], "Always");
    assert_eq!(coordinator["volumeMounts"][0]["mountPath"], "/v");
    let variables = [
        ("HOLDER_IMAGE", "registry.example/hcs/node-agent:7"),
        ("RUST_LOG", "debug"),
        ("Y", "1"),
        ("OBJECT_STORE_ENDPOINT", "http://s3.example"),
        ("OBJECT_STORE_REGION", "r"),
        ("OBJECT_STORE_PATH_STYLE", "false"),
        ("OBJECT_STORE_SECRET", "keys"),
        ("OBJECT_STORE_CA_CONFIG_MAP", "ca"),
    ];
    for (name, value) in variables {
        assert_eq!(variable(coordinator, name), Some(value), "{name}");
    }
    assert_eq!(variable(agent, "RUST_LOG"), Some("debug"));
    assert_eq!(variable(agent, "MEMORY_BUDGET"), Some("256Mi"));
    // Where kubelet has its directory is said three times.
    let root = "/data/kubelet";
    assert_eq!(variable(agent, "KUBELET_ROOT"), Some(root));
    let kubelet = |list: &Value| {
        let mut list = list.as_array().into_iter().flatten();
        list.find(|one| one["name"] == "kubelet").cloned()
    };
    let mount = kubelet(&agent["volumeMounts"]).unwrap_or_default();
    assert_eq!(mount["mountPath"], root);
    let volume = kubelet(&agents["volumes"]).unwrap_or_default();
    assert_eq!(volume["hostPath"]["path"], root);
    Ok(())
}

#[test]
fn a_release_takes_the_images_of_its_version() -> anyhow::Result<()> {
    let made = rendered(&[])?;
    let image = &container(&made, "Deployment", "coordinator")?["image"];
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(*image, format!("hypercloud-storage/coordinator:{version}"));
    // Or just those that are named; holders run the agents' too.
    let [one, other] = ["a", "b"].map(|digit| format!("sha256:{}", digit.repeat(64)));
    let made = rendered(&[
        &format!("image.coordinatorDigest={one:?}"),
        &format!("image.agentDigest={other:?}"),
    ])?;
    let coordinator = container(&made, "Deployment", "coordinator")?;
    let image = format!("hypercloud-storage/coordinator@{one}");
    assert_eq!(coordinator["image"], image);
    let image = format!("hypercloud-storage/node-agent@{other}");
    assert_eq!(container(&made, "DaemonSet", "node-agent")?["image"], image);
    assert_eq!(variable(coordinator, "HOLDER_IMAGE"), Some(image.as_str()));
    Ok(())
}

#[test]
fn a_storage_is_made_after_all_else_and_never_taken_away() -> anyhow::Result<()> {
    let made = rendered(&STORAGE)?;
    let storage = object(&made, "HyperCloudStorage", "hypercloud")?;
    assert_eq!(storage["spec"]["storage"]["replicas"], 3);
    let metadata = &storage["metadata"];
    assert_eq!(metadata["labels"]["app.kubernetes.io/managed-by"], "Helm");
    let annotations = &metadata["annotations"];
    let expected: [(&str, Value); 5] = [
        (POLICY, json!("keep")),
        ("helm.sh/hook", json!("post-install,post-upgrade")),
        // The words that Helm knows each delete it at some time.
        ("helm.sh/hook-delete-policy", json!("never")),
        ("meta.helm.sh/release-name", json!(NAME)),
        ("meta.helm.sh/release-namespace", json!(NAME)),
    ];
    for (name, value) in expected {
        assert_eq!(annotations[name], value, "{name}");
    }
    Ok(())
}

#[test]
fn values_that_make_no_sense_are_refused_with_the_reason() {
    let cases: [(&[&str], &str); 10] = [
        (&[r#"image.repository="""#], "name the registry"),
        (&[r#"image.agentDigest="sha256:1""#], "/image/agentDigest"),
        (&["agents.maxUnavailable=0"], "/agents/maxUnavailable"),
        (
            &[r#"agents.kubeletRoot="/kubelet/""#],
            "/agents/kubeletRoot",
        ),
        (&["storage.enabled=true"], "missing property 'storage'"),
        (
            &[STORAGE[0], STORAGE[1], "storage.allowed=false"],
            "the coordinator may not act on",
        ),
        (&["coordinater.replicas=1"], "'coordinater' not allowed"),
        (&["coordinator.replicas=0"], "/coordinator/replicas"),
        (
            &[r#"objectStore.endpoint="s3.example""#],
            "/objectStore/endpoint",
        ),
        (&[r#"agents.env={"A B":"c"}"#], "A B"),
    ];
    for (values, word) in cases {
        let said = match rendered(values) {
            Ok(_) => "it was taken".to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(said.contains(word), "{values:?}: {said}");
    }
    let chart = chart();
    for (namespace, value, word) in [
        ("default", IMAGES, "--namespace hypercloud-storage"),
        (
            NAME,
            NAMESPACE,
            "cannot make the namespace that it is kept in",
        ),
    ] {
        let words = ["template", NAME, &chart, "--namespace", namespace];
        let values = ["--set-json", IMAGES, "--set-json", value];
        let made = helm(&[&words[..], &values[..]].concat());
        let said = made.map_or_else(|error| error.to_string(), |_| "it was taken".into());
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn lint_finds_nothing() -> anyhow::Result<()> {
    let chart = chart();
    let mut words = vec!["lint", "--strict", "--namespace", NAME, &chart];
    words.extend(["--set-json", IMAGES]);
    helm(&words)?;
    for value in STORAGE {
        words.extend(["--set-json", value]);
    }
    helm(&words)?;
    Ok(())
}
