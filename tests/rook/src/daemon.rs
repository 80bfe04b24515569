//! The daemons of Ceph that Rook makes of a CephCluster.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::orders::Orders;
use crate::osd;

/// Label by which Rook leaves an OSD alone.
const LEFT_ALONE: &str = "ceph.rook.io/do-not-reconcile";
/// Port on which a daemon says whether it is ready.
pub const PORT: u16 = 8080;
/// Variable by which a daemon knows the name of its workload.
pub const WORKLOAD: &str = "SIMULATED_WORKLOAD";

/// What the daemons are of.
#[derive(Clone, Copy, Debug)]
pub struct Release<'a> {
    /// Of Rook, as `v1.20.6`.
    pub rook: &'a str,
    /// Ceph's image.
    pub image: &'a str,
}

impl Release<'_> {
    /// The version in the image's tag, as Rook labels it.
    #[must_use]
    pub fn ceph(&self) -> String {
        let tag = self.image.rsplit(':').next().unwrap_or_default();
        format!("{}-0", tag.trim_start_matches('v'))
    }
}

/// A daemon that is to be.
#[derive(Clone, Debug)]
pub struct Daemon {
    /// The Deployment's name.
    pub name: String,
    /// The label `app`.
    pub app: &'static str,
    /// The program.
    pub program: &'static str,
    /// The node, where it is for one.
    pub hostname: Option<String>,
    /// More labels.
    pub labels: Vec<(&'static str, String)>,
    /// More of its environment.
    pub environment: Vec<(&'static str, String)>,
    /// The owner.
    pub owner: Value,
}

/// What is done next for the daemons.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// This Deployment is made.
    Make(Value),
    /// This Deployment is replaced.
    Change(Value),
    /// A daemon takes up its change.
    Wait,
    /// All are as they are meant.
    Done,
}

/// The owner reference of an object.
#[must_use]
pub fn owner(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "name": object["metadata"]["name"], "uid": object["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Letters by which Rook tells daemons of a kind apart.
fn letter(number: usize) -> char {
    char::from(b'a' + u8::try_from(number % 26).unwrap_or_default())
}

/// The daemons of a CephCluster, in the order in which they are made and
/// upgraded. OSDs keep their numbers; a new one gets the lowest that is free.
#[must_use]
pub fn wanted(cluster: &Value, existing: &[Value], orders: &Orders) -> Vec<Daemon> {
    let spec = &cluster["spec"];
    let nodes = devices(spec);
    let count = |name: &str| {
        let count = spec[name]["count"].as_u64().unwrap_or(1);
        usize::try_from(count).unwrap_or(1)
    };
    let owner = owner(cluster);
    let plain = |app, program, number| Daemon {
        name: format!("{app}-{}", letter(number)),
        app,
        program,
        hostname: None,
        labels: vec![("ceph_daemon_id", letter(number).to_string())],
        environment: Vec::new(),
        owner: owner.clone(),
    };
    let mut daemons: Vec<Daemon> = (0..count("mon"))
        .map(|number| Daemon {
            hostname: nodes
                .get(number % nodes.len().max(1))
                .map(|(host, _)| host.clone()),
            ..plain("rook-ceph-mon", "ceph-mon", number)
        })
        .collect();
    daemons.extend((0..count("mgr")).map(|number| plain("rook-ceph-mgr", "ceph-mgr", number)));
    daemons.extend(osds(&nodes, existing, orders, &owner));
    daemons
}

/// Nodes with their devices.
fn devices(spec: &Value) -> Vec<(String, Vec<String>)> {
    let nodes = spec["storage"]["nodes"].as_array();
    let name = |object: &Value| object["name"].as_str().unwrap_or_default().to_owned();
    nodes
        .into_iter()
        .flatten()
        .map(|node| {
            let devices = node["devices"].as_array();
            (
                name(node),
                devices.into_iter().flatten().map(name).collect(),
            )
        })
        .collect()
}

/// An OSD for each device that has one or is to have one. One whose device is
/// no longer named stays.
fn osds(
    nodes: &[(String, Vec<String>)],
    existing: &[Value],
    orders: &Orders,
    owner: &Value,
) -> Vec<Daemon> {
    let known: Vec<osd::Osd> = existing.iter().filter_map(osd::of).collect();
    let mut taken: BTreeSet<u32> = known.iter().map(|osd| osd.id).collect();
    let mut all: Vec<(u32, String, String)> = known
        .iter()
        .map(|osd| (osd.id, osd.hostname.clone(), osd.device.clone()))
        .collect();
    for (host, devices) in nodes {
        for device in devices {
            let has_one = known
                .iter()
                .any(|osd| osd.hostname == *host && osd.device == *device);
            if has_one {
                continue;
            }
            let id = (0..).find(|id| !taken.contains(id)).unwrap_or_default();
            taken.insert(id);
            if orders.makes_osd(id) {
                all.push((id, host.clone(), device.clone()));
            }
        }
    }
    all.sort();
    all.into_iter()
        .map(|(id, hostname, device)| Daemon {
            name: format!("rook-ceph-osd-{id}"),
            app: "rook-ceph-osd",
            program: "ceph-osd",
            labels: vec![
                ("ceph-osd-id", id.to_string()),
                ("osd", id.to_string()),
                ("topology-location-host", hostname.clone()),
            ],
            environment: vec![
                ("ROOK_OSD_ID", id.to_string()),
                ("ROOK_NODE_NAME", hostname.clone()),
                ("ROOK_BLOCK_PATH", device),
            ],
            hostname: Some(hostname),
            owner: owner.clone(),
        })
        .collect()
}

impl Daemon {
    /// Its Deployment.
    #[must_use]
    pub fn deployment(&self, namespace: &str, release: Release<'_>) -> Value {
        let mut labels = json!({"app": self.app, "rook_cluster": namespace});
        for (key, value) in &self.labels {
            labels[*key] = json!(value);
        }
        let mut environment = vec![json!({"name": WORKLOAD, "value": self.name})];
        let more = self.environment.iter();
        environment.extend(more.map(|(name, value)| json!({"name": name, "value": value})));
        let mut selector = json!({"app": self.app, "rook_cluster": namespace});
        if let Some((key, value)) = self.labels.first() {
            selector[*key] = json!(value);
        }
        let mut pod = pod(self.program, release.image, &environment);
        pod["serviceAccountName"] = json!(match self.app {
            "rook-ceph-osd" => "rook-ceph-osd",
            "rook-ceph-mgr" => "rook-ceph-mgr",
            "rook-ceph-rgw" => "rook-ceph-rgw",
            _ => "rook-ceph-default",
        });
        if let Some(hostname) = &self.hostname {
            pod["nodeSelector"] = json!({"kubernetes.io/hostname": hostname});
        }
        let mut own = labels.clone();
        own["rook-version"] = json!(release.rook);
        own["ceph-version"] = json!(release.ceph());
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": self.name, "namespace": namespace, "labels": own,
                "ownerReferences": [self.owner],
            },
            "spec": {
                "replicas": 1,
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": selector},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        })
    }
}

/// A pod in which the program says whether it is ready.
#[must_use]
pub fn pod(program: &str, image: &str, environment: &[Value]) -> Value {
    json!({
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}],
        "containers": [{
            "name": program,
            "image": image,
            "command": [program],
            "env": environment,
            "readinessProbe": {
                "httpGet": {"path": "/readyz", "port": PORT},
                "periodSeconds": 2, "failureThreshold": 1,
            },
        }],
    })
}

/// What is done next: what is missing is made, and then one daemon after
/// another is brought to the release, each once the one before it is ready.
#[must_use]
pub fn next(
    wanted: &[Daemon],
    existing: &[Value],
    namespace: &str,
    release: Release<'_>,
    orders: &Orders,
) -> Step {
    let find = |name: &str| {
        existing
            .iter()
            .find(|object| object["metadata"]["name"] == name)
    };
    let mut changed = 0;
    for daemon in wanted {
        let meant = daemon.deployment(namespace, release);
        let Some(live) = find(&daemon.name) else {
            return Step::Make(meant);
        };
        if !live["metadata"]["labels"][LEFT_ALONE].is_null() {
            continue;
        }
        if !is_as_meant(live, &meant) {
            if orders.upgrades == Some(changed) {
                return Step::Wait;
            }
            return Step::Change(merged(live, &meant));
        }
        changed += 1;
        if !rolled_out(live) && !orders.down.contains(&daemon.name) {
            let rest = wanted.iter().skip(changed);
            let outdated = rest
                .filter_map(|daemon| Some((daemon, find(&daemon.name)?)))
                .any(|(daemon, live)| !is_as_meant(live, &daemon.deployment(namespace, release)));
            if outdated {
                return Step::Wait;
            }
        }
    }
    Step::Done
}

fn image(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]["containers"][0]["image"]
}

fn is_as_meant(live: &Value, meant: &Value) -> bool {
    let label = |object: &Value, name: &str| object["metadata"]["labels"][name].clone();
    ["rook-version", "ceph-version"]
        .iter()
        .all(|name| label(live, name) == label(meant, name))
        && image(live) == image(meant)
        && live["spec"]["replicas"] == meant["spec"]["replicas"]
}

fn rolled_out(live: &Value) -> bool {
    let status = &live["status"];
    status["observedGeneration"].as_i64() >= live["metadata"]["generation"].as_i64()
        && status["updatedReplicas"] == live["spec"]["replicas"]
        && status["availableReplicas"] == live["spec"]["replicas"]
}

/// The Deployment that is there, with what Rook says of it. Labels of others
/// stay.
fn merged(live: &Value, meant: &Value) -> Value {
    let mut merged = live.clone();
    let labels = meant["metadata"]["labels"].as_object();
    for (key, value) in labels.into_iter().flatten() {
        merged["metadata"]["labels"][key] = value.clone();
    }
    merged["spec"]["replicas"] = meant["spec"]["replicas"].clone();
    merged["spec"]["template"]["spec"]["containers"][0]["image"] = image(meant).clone();
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orders::Missing;

    const NS: &str = "rook-ceph";

    fn cluster() -> Value {
        json!({
            "apiVersion": "ceph.rook.io/v1", "kind": "CephCluster",
            "metadata": {"name": NS, "uid": "u"},
            "spec": {
                "mon": {"count": 1}, "mgr": {"count": 2},
                "storage": {"nodes": [
                    {"name": "a", "devices": [{"name": "/dev/x"}, {"name": "/dev/y"}]},
                    {"name": "b", "devices": [{"name": "/dev/z"}]},
                ]},
            },
        })
    }

    const OLD: Release<'_> = Release {
        rook: "v1.19.10",
        image: "quay.io/ceph/ceph:v19.2.6",
    };
    const NEW: Release<'_> = Release {
        rook: "v1.20.6",
        image: "quay.io/ceph/ceph:v19.2.6",
    };

    /// Goes on until nothing is left to do or to wait for.
    fn settle(
        cluster: &Value,
        there: &mut Vec<Value>,
        release: Release<'_>,
        orders: &Orders,
    ) -> Step {
        for _ in 0..50 {
            let wanted = wanted(cluster, there, orders);
            let mut object = match next(&wanted, there, NS, release, orders) {
                Step::Make(object) | Step::Change(object) => object,
                end => return end,
            };
            object["status"] =
                json!({"updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1});
            there.retain(|other| other["metadata"]["name"] != object["metadata"]["name"]);
            there.push(object);
        }
        Step::Wait
    }

    fn names(there: &[Value]) -> Vec<String> {
        let mut names: Vec<String> = there
            .iter()
            .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_daemon_for_everything_that_is_asked_for() {
        let mut there = Vec::new();
        let end = settle(&cluster(), &mut there, OLD, &Orders::default());
        assert_eq!(end, Step::Done);
        assert_eq!(
            names(&there),
            [
                "rook-ceph-mgr-a",
                "rook-ceph-mgr-b",
                "rook-ceph-mon-a",
                "rook-ceph-osd-0",
                "rook-ceph-osd-1",
                "rook-ceph-osd-2",
            ]
        );
        let osd = there
            .iter()
            .filter_map(osd::of)
            .find(|osd| osd.id == 2)
            .unwrap();
        assert_eq!(
            (osd.hostname.as_str(), osd.device.as_str()),
            ("b", "/dev/z")
        );
    }

    #[test]
    fn numbers_stay_and_free_ones_are_given_again() {
        let mut there = Vec::new();
        let mut cluster = cluster();
        settle(&cluster, &mut there, OLD, &Orders::default());
        // Another device goes before the others, and a number is free.
        there.retain(|object| object["metadata"]["name"] != "rook-ceph-osd-1");
        cluster["spec"]["storage"]["nodes"][0]["devices"] =
            json!([{"name": "/dev/w"}, {"name": "/dev/x"}]);
        settle(&cluster, &mut there, OLD, &Orders::default());
        let device = |id| {
            let osd = there.iter().filter_map(osd::of).find(|osd| osd.id == id);
            osd.map(|osd| osd.device)
        };
        assert_eq!(device(0).as_deref(), Some("/dev/x"));
        assert_eq!(device(1).as_deref(), Some("/dev/w"));
        // A device that is named no more keeps its OSD.
        cluster["spec"]["storage"]["nodes"] = json!([]);
        settle(&cluster, &mut there, OLD, &Orders::default());
        assert_eq!(there.iter().filter_map(osd::of).count(), 3);
    }

    #[test]
    fn osds_that_are_ordered_away_are_not_made() {
        let mut there = Vec::new();
        let orders = Orders {
            missing: Missing::All,
            ..Orders::default()
        };
        assert_eq!(settle(&cluster(), &mut there, OLD, &orders), Step::Done);
        assert_eq!(there.iter().filter_map(osd::of).count(), 0);
    }

    #[test]
    fn an_upgrade_goes_one_by_one_and_stops_where_it_is_told() {
        let mut there = Vec::new();
        settle(&cluster(), &mut there, OLD, &Orders::default());
        let orders = Orders {
            upgrades: Some(2),
            ..Orders::default()
        };
        let count = |there: &[Value]| {
            let new = |object: &&Value| object["metadata"]["labels"]["rook-version"] == "v1.20.6";
            there.iter().filter(new).count()
        };
        assert_eq!(settle(&cluster(), &mut there, NEW, &orders), Step::Wait);
        assert_eq!(count(&there), 2);
        assert_eq!(
            settle(&cluster(), &mut there, NEW, &Orders::default()),
            Step::Done
        );
        assert_eq!(count(&there), 6);
    }

    #[test]
    fn an_osd_that_was_stopped_is_started_again_unless_it_is_to_be_left_alone() {
        let mut there = Vec::new();
        let orders = Orders::default();
        settle(&cluster(), &mut there, OLD, &orders);
        let stop = |there: &mut Vec<Value>, label: Value| {
            let osd = there
                .iter_mut()
                .find(|o| o["metadata"]["name"] == "rook-ceph-osd-1")
                .unwrap();
            osd["spec"]["replicas"] = json!(0);
            osd["metadata"]["labels"][LEFT_ALONE] = label;
        };
        stop(&mut there, json!("true"));
        let all = wanted(&cluster(), &there, &orders);
        assert_eq!(next(&all, &there, NS, OLD, &orders), Step::Done);
        stop(&mut there, Value::Null);
        assert!(matches!(
            next(&all, &there, NS, OLD, &orders),
            Step::Change(_)
        ));
    }
}
