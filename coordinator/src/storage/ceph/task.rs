//! The Jobs that ask Ceph and tell it what to do, as they are made. Pure.
//!
//! They are made as Rook makes its own pods: where the monitors are and what
//! lets in there is in Rook's Secrets, and the configuration is in its
//! ConfigMap. No shell is needed, and nobody has to have installed anything.

use hypercloud_api::names::{LABEL_MANAGED_BY, MANAGED_BY};
use hypercloud_storage::ROOK_NAMESPACE;
use hypercloud_storage::health::cluster_key;
use hypercloud_storage::object::{Key, Seen};
use serde_json::{Value, json};

/// Label with what a Job does.
pub const LABEL_TASK: &str = "hypercloud.tmaxanc.com/osd-task";
/// Label with the number of the OSD that a Job is about.
pub const LABEL_OSD: &str = "hypercloud.tmaxanc.com/osd";

/// Annotation with how many seconds the answer of a Job that looks is good for.
pub const ANNOTATION_FRESH: &str = "hypercloud.tmaxanc.com/osd-answer-seconds";

/// The containers of a Job that looks.
pub const DUMP: &str = "dump";
/// See [`DUMP`].
pub const METADATA: &str = "metadata";
/// See [`DUMP`].
pub const SAFE: &str = "safe";

/// Where the key is, in the pods.
const KEY_FOLDER: &str = "/var/lib/rook-ceph-mon";
const KEY_FILE: &str = "secret.keyring";
/// User and group of Ceph's command, as in Rook's toolbox.
const USER: i64 = 2016;
/// Seconds for which a Job that ended stays, at most.
const KEPT: i64 = 600;

/// What a Job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    /// Asks Ceph for its OSDs.
    Look,
    /// Marks an OSD out.
    Out(u32),
    /// Marks an OSD in.
    In(u32),
    /// Purges an OSD.
    Purge(u32),
}

impl Task {
    /// The word for it in labels.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Out(_) => "out",
            Self::In(_) => "in",
            Self::Purge(_) => "purge",
        }
    }

    /// The OSD that it is about.
    #[must_use]
    pub fn osd(self) -> Option<u32> {
        match self {
            Self::Look => None,
            Self::Out(id) | Self::In(id) | Self::Purge(id) => Some(id),
        }
    }

    /// What the labels say; none of somebody else's words.
    #[must_use]
    pub fn read(word: &str, osd: Option<&str>) -> Option<Self> {
        let id = osd.and_then(|osd| osd.parse().ok());
        match word {
            "look" => Some(Self::Look),
            "out" => id.map(Self::Out),
            "in" => id.map(Self::In),
            "purge" => id.map(Self::Purge),
            _ => None,
        }
    }

    /// The words of it for people.
    #[must_use]
    pub fn phrase(self) -> String {
        match self {
            Self::Look => "asks Ceph for its OSDs".to_owned(),
            Self::Out(id) => format!("marks OSD {id} out"),
            Self::In(id) => format!("marks OSD {id} in"),
            Self::Purge(id) => format!("purges OSD {id}"),
        }
    }

    /// One CamelCase word for that it does not succeed.
    #[must_use]
    pub fn failure(self) -> &'static str {
        match self {
            Self::Look => "CephUnanswered",
            Self::Out(_) | Self::In(_) => "OsdMarkFailed",
            Self::Purge(_) => "OsdPurgeFailed",
        }
    }
}

/// What Jobs are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The image of Ceph that runs.
    pub ceph: String,
    /// The image of Rook that runs.
    pub rook: String,
    /// Whether Ceph is reached from a node's network only.
    pub host_network: bool,
    /// Taints that are no obstacle.
    pub tolerations: Vec<Value>,
}

impl Setup {
    /// By what runs, so that images from other registries are taken from
    /// there; none as long as there is no CephCluster or operator.
    #[must_use]
    pub fn of(seen: &Seen) -> Option<Self> {
        let spec = &seen.get(&cluster_key())?["spec"];
        let operator = Key::namespaced(
            "apps/v1",
            "Deployment",
            ROOK_NAMESPACE,
            "rook-ceph-operator",
        );
        let pod = &seen.get(&operator)?["spec"]["template"]["spec"];
        let mut tolerations = vec![json!({
            "key": "node.kubernetes.io/unreachable", "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": 5,
        })];
        let placed = spec["placement"]["all"]["tolerations"].as_array();
        tolerations.extend(placed.into_iter().flatten().cloned());
        Some(Self {
            ceph: spec["cephVersion"]["image"].as_str()?.to_owned(),
            rook: pod["containers"][0]["image"].as_str()?.to_owned(),
            host_network: spec["network"]["provider"] == "host",
            tolerations,
        })
    }

    /// The Job that does `task`. One that looks has a new name each time; the
    /// name of any other says what it does, so that it is never done twice at
    /// once.
    #[must_use]
    pub fn job(&self, task: Task) -> Value {
        let mut labels = json!({LABEL_MANAGED_BY: MANAGED_BY, LABEL_TASK: task.word()});
        let mut metadata = json!({"namespace": ROOK_NAMESPACE});
        match task.osd() {
            Some(id) => {
                labels[LABEL_OSD] = json!(id.to_string());
                metadata["name"] = json!(format!("hypercloud-osd-{id}-{}", task.word()));
            }
            None => metadata["generateName"] = json!("hypercloud-osd-look-"),
        }
        metadata["labels"] = labels.clone();
        let (tries, limit, mut pod) = match task {
            Task::Look => (0, 300, self.asking()),
            Task::Out(id) => (4, 600, self.telling(&["osd", "out", &id.to_string()])),
            Task::In(id) => (4, 600, self.telling(&["osd", "in", &id.to_string()])),
            Task::Purge(id) => (2, 1800, self.purging(id)),
        };
        pod["restartPolicy"] = json!("Never");
        pod["enableServiceLinks"] = json!(false);
        pod["tolerations"] = json!(self.tolerations);
        if self.host_network {
            pod["hostNetwork"] = json!(true);
            pod["dnsPolicy"] = json!("ClusterFirstWithHostNet");
        }
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": {
                "backoffLimit": tries,
                "activeDeadlineSeconds": limit,
                "ttlSecondsAfterFinished": KEPT,
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        })
    }

    /// Each question has a container, whose log is the answer.
    fn asking(&self) -> Value {
        self.ceph_pod(vec![
            self.ceph(DUMP, &["osd", "dump", "--format", "json"]),
            self.ceph(METADATA, &["osd", "metadata", "--format", "json"]),
            self.ceph(SAFE, &["osd", "safe-to-destroy", "all", "--format", "json"]),
        ])
    }

    fn telling(&self, words: &[&str]) -> Value {
        self.ceph_pod(vec![self.ceph("ceph", words)])
    }

    fn ceph_pod(&self, containers: Vec<Value>) -> Value {
        json!({
            "serviceAccountName": "rook-ceph-default",
            "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": containers,
            "volumes": [
                key_volume(),
                {"name": "config", "configMap": {
                    "name": "rook-config-override",
                    "items": [{"key": "config", "path": "ceph.conf"}],
                }},
            ],
        })
    }

    fn ceph(&self, name: &str, words: &[&str]) -> Value {
        let mut args = vec!["--name", "$(ROOK_CEPH_USERNAME)", "--connect-timeout", "30"];
        args.extend_from_slice(words);
        json!({
            "name": name,
            "image": self.ceph,
            "command": ["ceph"],
            "args": args,
            "env": [
                secret("ROOK_CEPH_MON_HOST", "rook-ceph-config", "mon_host"),
                secret("ROOK_CEPH_USERNAME", "rook-ceph-mon", "ceph-username"),
                {"name": "CEPH_ARGS", "value": format!(
                    "--mon-host=$(ROOK_CEPH_MON_HOST) --keyfile={KEY_FOLDER}/{KEY_FILE}"
                )},
            ],
            "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
            },
            "resources": resources("128Mi"),
            "volumeMounts": [
                {"name": "key", "mountPath": KEY_FOLDER, "readOnly": true},
                {"name": "config", "mountPath": "/etc/ceph", "readOnly": true},
            ],
        })
    }

    /// Rook's own Job, as its `osd-purge.yaml` has it: without force, so that
    /// it asks Ceph once more whether the OSD is needed.
    fn purging(&self, id: u32) -> Value {
        json!({
            "serviceAccountName": "rook-ceph-purge-osd",
            "containers": [{
                "name": "osd-removal",
                "image": self.rook,
                "args": [
                    "ceph", "osd", "remove", "--preserve-pvc", "false",
                    "--force-osd-removal", "false", "--osd-ids", id.to_string(),
                ],
                "env": [
                    {"name": "POD_NAMESPACE",
                     "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                    {"name": "ROOK_MON_ENDPOINTS", "valueFrom": {"configMapKeyRef":
                        {"name": "rook-ceph-mon-endpoints", "key": "data"}}},
                    secret("ROOK_CEPH_USERNAME", "rook-ceph-mon", "ceph-username"),
                    {"name": "ROOK_CONFIG_DIR", "value": "/var/lib/rook"},
                    {"name": "ROOK_CEPH_CONFIG_OVERRIDE",
                     "value": "/etc/rook/config/override.conf"},
                    secret("ROOK_FSID", "rook-ceph-mon", "fsid"),
                    {"name": "ROOK_LOG_LEVEL", "value": "DEBUG"},
                ],
                "resources": resources("256Mi"),
                "volumeMounts": [
                    {"name": "ceph", "mountPath": "/etc/ceph"},
                    {"name": "rook", "mountPath": "/var/lib/rook"},
                    {"name": "key", "mountPath": KEY_FOLDER, "readOnly": true},
                ],
            }],
            "volumes": [
                key_volume(),
                {"name": "ceph", "emptyDir": {}},
                {"name": "rook", "emptyDir": {}},
            ],
        })
    }
}

fn key_volume() -> Value {
    json!({"name": "key", "secret": {
        "secretName": "rook-ceph-mon",
        "items": [{"key": "ceph-secret", "path": KEY_FILE}],
    }})
}

fn secret(variable: &str, name: &str, key: &str) -> Value {
    json!({"name": variable, "valueFrom": {"secretKeyRef": {"name": name, "key": key}}})
}

/// What a command takes; Ceph's is a program of Python.
fn resources(memory: &str) -> Value {
    json!({
        "requests": {"cpu": "10m", "memory": memory},
        "limits": {"memory": "512Mi"},
    })
}

#[cfg(test)]
mod tests;
