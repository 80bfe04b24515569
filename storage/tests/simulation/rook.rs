//! What Kubernetes and Rook do by themselves, in small steps.

use hypercloud_storage::health::cluster_key;
use hypercloud_storage::object::Key;
use hypercloud_storage::plan::removal::Osd;
use serde_json::{Value, json};

use crate::world::{Trouble, World, image};

const NS: &str = "rook-ceph";

fn app(name: &str) -> Key {
    Key::namespaced("apps/v1", "Deployment", NS, name)
}

fn well(wanted: i64) -> Value {
    json!({"observedGeneration": 1_i64 << 40, "updatedReplicas": wanted, "readyReplicas": wanted,
           "availableReplicas": wanted, "conditions": [
               {"type": "Available", "status": "True"},
               {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]})
}

fn down() -> Value {
    json!({"observedGeneration": 1_i64 << 40, "updatedReplicas": 1, "conditions": [
        {"type": "Available", "status": "False"},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]})
}

impl World {
    /// Whether Rook's operator runs.
    fn operates(&self) -> bool {
        self.trouble != Trouble::OperatorDown && self.seen.has(&app("rook-ceph-operator"))
    }

    /// Whether everything that a person would look at is well: the judge of
    /// the tests, which knows nothing of statuses.
    pub fn is_well(&self) -> bool {
        self.trouble == Trouble::None
    }

    /// Everything does its next small step.
    pub fn live(&mut self) {
        self.kubernetes();
        self.leave();
        if self.operates() {
            self.rook();
        }
    }

    fn each(&mut self, kind: &str, mut change: impl FnMut(&mut Value)) {
        let keys: Vec<Key> = self
            .seen
            .keys()
            .filter(|key| key.kind == kind)
            .cloned()
            .collect();
        for key in keys {
            let mut object = self.seen.get(&key).unwrap().clone();
            change(&mut object);
            self.seen.insert(object);
        }
    }

    fn kubernetes(&mut self) {
        self.each("CustomResourceDefinition", |object| {
            object["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
        });
        let trouble = self.trouble;
        self.each("Deployment", |object| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let is_down = match trouble {
                Trouble::OperatorDown => name == "rook-ceph-operator",
                Trouble::OsdDown => name == "rook-ceph-osd-0",
                Trouble::DriverDown => name.ends_with("ctrlplugin"),
                _ => false,
            };
            object["status"] = if is_down { down() } else { well(1) };
        });
    }

    /// What is being deleted goes, once those who hold it let it.
    fn leave(&mut self) {
        let going: Vec<Key> = self
            .seen
            .keys()
            .filter(|key| self.seen.is_going(key))
            .cloned()
            .collect();
        for key in going {
            let is_rooks = key.api_version.starts_with("ceph.rook.io");
            let held = is_rooks && !self.operates()
                || key == cluster_key() && self.seen.keys().any(|k| k.kind == "CephBlockPool");
            if held {
                continue;
            }
            if key == cluster_key() {
                assert!(
                    self.resource.spec.cleanup.is_some(),
                    "the data was destroyed unasked"
                );
                for (host, _) in self.devices() {
                    self.seen.insert(json!({
                        "apiVersion": "batch/v1", "kind": "Job",
                        "metadata": {"name": format!("clean-{host}"), "namespace": NS,
                                     "labels": {"app": "rook-ceph-cleanup"}},
                        "spec": {"template": {"spec": {
                            "nodeSelector": {"kubernetes.io/hostname": host}}}},
                        "status": {"conditions": [{"type": "Complete", "status": "True"}]}}));
                }
            }
            self.seen.remove(&key);
            if key.kind == "Namespace" {
                let inside: Vec<Key> = self
                    .seen
                    .keys()
                    .filter(|other| other.namespace.as_deref() == Some(NS))
                    .cloned()
                    .collect();
                for other in inside {
                    self.seen.remove(&other);
                }
            }
        }
    }

    fn rook(&mut self) {
        let trouble = self.trouble;
        for kind in ["CephBlockPool", "CephObjectStore", "CephObjectStoreUser"] {
            self.each(kind, |object| {
                object["status"] = match trouble {
                    Trouble::PoolFailed => json!({"phase": "Failure"}),
                    _ => json!({"phase": "Ready"}),
                };
            });
        }
        self.each("ObjectBucketClaim", |object| {
            object["status"] = json!({"phase": "Bound"});
        });
        let Some(cluster) = self.seen.get(&cluster_key()).cloned() else {
            return;
        };
        if self.seen.is_going(&cluster_key()) {
            return;
        }
        self.drivers();
        let is_done = self.daemons(&cluster);
        self.report(cluster, is_done);
    }

    fn drivers(&mut self) {
        let name = "rook-ceph.rbd.csi.ceph.com";
        for name in [
            format!("{name}-ctrlplugin"),
            hypercloud_storage::GATEWAY.to_owned(),
        ] {
            let key = app(&name);
            if !self.seen.has(&key) {
                self.seen
                    .insert(json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": key.name, "namespace": NS}, "spec": {"replicas": 1}}));
            }
        }
        self.seen
            .insert(json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": format!("{name}-nodeplugin"), "namespace": NS},
            "status": {"desiredNumberScheduled": 3, "updatedNumberScheduled": 3,
                       "numberAvailable": 3}}));
    }

    /// One daemon is made, or brought to the versions of the operator and the
    /// cluster; true once all are.
    fn daemons(&mut self, cluster: &Value) -> bool {
        let operator = self.seen.get(&app("rook-ceph-operator")).unwrap();
        let rook = image(operator)
            .unwrap()
            .rsplit(':')
            .next()
            .unwrap()
            .to_owned();
        let ceph = image(cluster)
            .unwrap()
            .rsplit(":v")
            .next()
            .unwrap()
            .to_owned();
        for (host, device) in self.devices() {
            let known = |osd: &&Osd| osd.hostname == host && osd.device == device;
            if self.osds.iter().find(known).is_none() {
                let id = u32::try_from(self.osds.len()).unwrap();
                self.osds.push(Osd {
                    id,
                    hostname: host.clone(),
                    device: device.clone(),
                    is_in: true,
                    runs: true,
                    safe_to_destroy: Some(false),
                });
            }
        }
        let gone: Vec<Key> = self
            .seen
            .keys()
            .filter(|key| key.name.starts_with("rook-ceph-osd-"))
            .filter(|key| {
                !self
                    .osds
                    .iter()
                    .any(|osd| key.name.ends_with(&format!("-{}", osd.id)))
            })
            .cloned()
            .collect();
        gone.iter().for_each(|key| self.seen.remove(key));
        for (number, host) in self.osds.iter().map(|osd| (osd.id, &osd.hostname)) {
            let key = app(&format!("rook-ceph-osd-{number}"));
            let labels = json!({"rook_cluster": NS, "app": "rook-ceph-osd",
                                "rook-version": rook, "ceph-version": format!("{ceph}-0")});
            let live = self.seen.get(&key).map(|live| &live["metadata"]["labels"]);
            if live == Some(&labels) {
                continue;
            }
            self.seen
                .insert(json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": key.name, "namespace": NS, "labels": labels},
                "spec": {"replicas": 1, "template": {"spec": {
                    "nodeSelector": {"kubernetes.io/hostname": host}}}}}));
            return false;
        }
        true
    }

    fn report(&mut self, mut cluster: Value, is_done: bool) {
        let health = match self.trouble {
            Trouble::HealthErr => "HEALTH_ERR",
            _ => "HEALTH_OK",
        };
        let state = match self.trouble {
            Trouble::ReconcileFailed => "Error",
            _ => "Created",
        };
        let checked = match self.trouble {
            Trouble::NoLook => cluster["status"]["ceph"]["lastChecked"].clone(),
            _ => json!(self.now.to_string()),
        };
        let mut version = cluster["status"]["version"].clone();
        if is_done {
            let ceph = image(&cluster).unwrap().rsplit(":v").next().unwrap();
            version = json!({"version": format!("{ceph}-0")});
        }
        let generation = cluster["metadata"]["generation"].clone();
        cluster["status"] = json!({
            "phase": if is_done { "Ready" } else { "Progressing" },
            "state": state, "message": "", "observedGeneration": generation, "version": version,
            // Nobody believes this.
            "conditions": [{"type": "Ready", "status": "True"}],
            "ceph": {"health": health, "lastChecked": checked, "details": {}},
        });
        self.seen.insert(cluster);
    }
}
