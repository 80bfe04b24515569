//! A cluster with a Rook that does what it is told, one thing at a time, and a
//! coordinator that may die before any of its effects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hypercloud_api::{
    CleanupConfirmation, HyperCloudStorage, HyperCloudStorageSpec, InventoryState, StorageCleanup,
    StorageState, StorageVersions,
};
use hypercloud_inventory::{Device, Inventory};
use hypercloud_storage::decide::{Decision, View, decide};
use hypercloud_storage::device::NodeDevices;
use hypercloud_storage::health::cluster_key;
use hypercloud_storage::manifest::source::Wanted;
use hypercloud_storage::manifest::{read, split};
use hypercloud_storage::object::{Desired, Keep, Key, Seen};
use hypercloud_storage::plan::deletion::{Step, Users};
use hypercloud_storage::plan::removal::{Action, Osd, Osds};
use hypercloud_storage::refusal::Refusals;
use hypercloud_storage::version::table::FILES;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// What can be wrong with a Rook that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    None,
    HealthErr,
    OsdDown,
    OperatorDown,
    ReconcileFailed,
    PoolFailed,
    DriverDown,
    NoLook,
}

/// Which manifests are at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    All,
    None,
    Wrong,
}

pub struct World {
    pub resource: HyperCloudStorage,
    pub seen: Seen,
    pub now: Timestamp,
    pub trouble: Trouble,
    pub files: Files,
    pub users: Users,
    pub osds: Vec<Osd>,
    pub refused: Refusals,
    /// First applications of stages, and changes of images, as they happened.
    pub log: Vec<String>,
    pub gone: bool,
    disks: BTreeMap<String, Vec<String>>,
}

fn ceph(rook: &str) -> &'static str {
    match rook {
        "1.20.6" => "20.2.4",
        _ => "19.2.6",
    }
}

/// A storage of this Rook, with the newest Ceph that goes with it.
pub fn spec(rook: &str, hosts: &[&str]) -> HyperCloudStorageSpec {
    let nodes: Vec<Value> = hosts
        .iter()
        .map(|host| json!({"hostname": host, "devices": ["/dev/sda"]}))
        .collect();
    let storage = json!({"replicas": 3, "nodes": nodes});
    HyperCloudStorageSpec {
        storage: serde_json::from_value(storage).unwrap(),
        versions: Some(StorageVersions {
            rook: Some(rook.to_owned()),
            ceph: Some(ceph(rook).to_owned()),
        }),
        ..Default::default()
    }
}

/// Manifests of a release: as few objects as matter.
fn manifest(wanted: &Wanted) -> String {
    let definition = |name: &str| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {name}}}\nspec: {{release: '{}'}}\n",
            wanted.version
        )
    };
    let deployment = |namespace: &str, name: &str, image: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {{replicas: 1, template: {{spec: {{containers: [{{image: '{image}:v{}'}}]}}}}}}\n",
            wanted.version
        )
    };
    let file = wanted.file.as_str();
    match file {
        "crds.yaml" => definition("cephclusters"),
        "common.yaml" => format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: rook-ceph}}\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: rook, namespace: rook-ceph, annotations: {{release: '{}'}}}}\n",
            wanted.version
        ),
        "csi-operator.yaml" => format!(
            "{}---\n{}",
            definition("drivers"),
            deployment(
                "rook-ceph",
                "ceph-csi-controller-manager",
                "quay.io/cephcsi/ceph-csi-operator"
            )
        ),
        "operator.yaml" => format!(
            "apiVersion: csi.ceph.io/v1\nkind: Driver\nmetadata: {{name: rook-ceph.rbd.csi.ceph.com, namespace: rook-ceph}}\n---\n{}",
            deployment("rook-ceph", "rook-ceph-operator", "docker.io/rook/ceph")
        ),
        "toolbox.yaml" => deployment("rook-ceph", "rook-ceph-tools", "x"),
        _ if file.contains("rbac-snapshot-controller") => "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: snapshot-controller, namespace: kube-system}\n".to_owned(),
        _ if file.contains("setup-snapshot-controller") => {
            deployment("kube-system", "snapshot-controller", "x")
        }
        _ => {
            let name = file.rsplit('/').next().unwrap().replace('_', "-");
            definition(name.trim_end_matches(".yaml"))
        }
    }
}

impl World {
    pub fn new(rook: &str) -> Self {
        let mut resource = HyperCloudStorage::new("hypercloud", spec(rook, &["a", "b", "c"]));
        resource.metadata.generation = Some(1);
        let disks = ["a", "b", "c", "d"].map(|host| {
            (
                host.to_owned(),
                vec![format!("wwn-{host}0"), format!("wwn-{host}1")],
            )
        });
        Self {
            resource,
            seen: Seen::default(),
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            trouble: Trouble::None,
            files: Files::All,
            users: Users::default(),
            osds: Vec::new(),
            refused: Refusals::new(),
            log: Vec::new(),
            gone: false,
            disks: disks.into(),
        }
    }

    pub fn state(&self) -> StorageState {
        let status = self.resource.status.as_ref();
        status.and_then(|status| status.state).unwrap_or_default()
    }

    pub fn message(&self) -> String {
        let status = self.resource.status.clone().unwrap_or_default();
        format!(
            "{:?} {:?} {:#?}",
            status.state, status.message, status.components
        )
    }

    pub fn change(&mut self, change: impl FnOnce(&mut HyperCloudStorageSpec)) {
        change(&mut self.resource.spec);
        self.resource.metadata.generation = self.resource.metadata.generation.map(|g| g + 1);
    }

    pub fn delete(&mut self, confirmed: bool) {
        self.resource.metadata.deletion_timestamp = Some(Time(self.now));
        self.resource.spec.cleanup = confirmed.then_some(StorageCleanup {
            confirmation: Some(CleanupConfirmation::YesReallyDestroyData),
            definitions: Some(hypercloud_api::DefinitionsPolicy::Remove),
            sanitize: None,
        });
    }

    /// Devices that the CephCluster has.
    pub fn devices(&self) -> Vec<(String, String)> {
        let cluster = self.seen.get(&cluster_key());
        let found = cluster.map(hypercloud_storage::device::in_cluster);
        found.unwrap_or_default().into_iter().collect()
    }

    fn inventories(&self) -> BTreeMap<String, NodeDevices> {
        // Also of an OSD that was told to go the data is there until it is gone.
        let osds = self.osds.iter();
        let osds = osds.map(|osd| (osd.hostname.clone(), osd.device.clone()));
        let used: BTreeSet<(String, String)> = self.devices().into_iter().chain(osds).collect();
        let of = |host: &str, names: &[String]| {
            let devices = names.iter().enumerate().map(|(n, name)| {
                let letter = char::from(b'a' + u8::try_from(n).unwrap());
                let by_id = format!("/dev/disk/by-id/{name}");
                let is_used = used.contains(&(host.to_owned(), by_id.clone()));
                let reasons = match is_used {
                    true => json!([{"reason": "BlueStore", "message": "a label of BlueStore"}]),
                    false => json!([]),
                };
                serde_json::from_value::<Device>(json!({
                    "name": format!("sd{letter}"), "path": format!("/dev/sd{letter}"),
                    "kind": "disk", "available": !is_used, "reasons": reasons, "size": 1_u64 << 40,
                    "identity": {"byId": by_id, "links": [by_id]},
                }))
                .unwrap()
            });
            NodeDevices {
                state: InventoryState::Current,
                inventory: Inventory {
                    hostname: None,
                    boot_id: None,
                    devices: devices.collect(),
                },
            }
        };
        self.disks
            .iter()
            .map(|(host, names)| (host.clone(), of(host, names)))
            .collect()
    }

    /// Node names change places with a reboot.
    pub fn reboot(&mut self, host: &str) {
        if let Some(names) = self.disks.get_mut(host) {
            names.reverse();
        }
    }

    pub fn look(&self) -> Decision {
        let mut files = BTreeMap::new();
        for known in FILES.iter().filter(|_| self.files != Files::None) {
            let wanted = Wanted {
                project: known.project,
                version: known.version,
                file: known.file.to_owned(),
            };
            let found = match self.files {
                Files::Wrong => read(&wanted, b"other", Some(known.sha256)),
                _ => split(&wanted.path(), &manifest(&wanted)),
            };
            files.insert(wanted, found.map(Arc::new));
        }
        let hosts: Vec<String> = match self.seen.has(&cluster_key()) {
            true => self.devices().into_iter().map(|(host, _)| host).collect(),
            false => Vec::new(),
        };
        decide(&View {
            resource: &self.resource,
            seen: &self.seen,
            hostnames: &self.disks.keys().cloned().collect(),
            inventories: &self.inventories(),
            osds: &Osds::known(self.osds.clone()),
            files: &files,
            refused: &self.refused,
            users: &self.users,
            hosts: &hosts,
            definitions_in_use: &BTreeSet::new(),
            foreign_snapshots: false,
            kubernetes: None,
            now: self.now,
        })
    }

    /// One look of the coordinator, which dies after `effects` effects.
    pub fn coordinate(&mut self, effects: usize) {
        if self.gone {
            return;
        }
        let decision = self.look();
        let mut left = effects;
        let mut may = || {
            left = left.saturating_sub(1);
            left > 0
        };
        self.resource.status = Some(decision.status);
        for desired in decision.apply {
            if !desired.is_applied(&self.seen) {
                if !may() {
                    return;
                }
                self.apply(desired);
            }
        }
        for key in decision.remove {
            self.mark(&key);
        }
        if let Some(action) = decision.purge {
            self.purge(&action);
        }
        match decision.deletion {
            Some(Step::Delete(keys)) => {
                for key in keys {
                    if !may() {
                        return;
                    }
                    self.mark(&key);
                }
            }
            Some(Step::Confirm) => {
                let mut cluster = self.seen.get(&cluster_key()).unwrap().clone();
                cluster["spec"]["cleanupPolicy"]["confirmation"] = json!("yes-really-destroy-data");
                self.seen.insert(cluster);
            }
            Some(Step::Withdraw) => {
                let mut cluster = self.seen.get(&cluster_key()).unwrap().clone();
                cluster["spec"]["cleanupPolicy"]["confirmation"] = Value::Null;
                self.seen.insert(cluster);
            }
            Some(Step::Release) => self.gone = true,
            Some(Step::RecordHosts(_) | Step::Wait { .. }) | None => {}
        }
    }

    /// What is done to an OSD; Ceph moves its data away at once.
    fn purge(&mut self, action: &Action) {
        let change = |osds: &mut Vec<Osd>, id: u32, change: fn(&mut Osd)| {
            osds.iter_mut().filter(|osd| osd.id == id).for_each(change);
        };
        match action {
            Action::MarkOut(id) => change(&mut self.osds, *id, |osd| {
                osd.is_in = false;
                osd.safe_to_destroy = Some(true);
            }),
            Action::MarkIn(id) => change(&mut self.osds, *id, |osd| osd.is_in = true),
            Action::Stop(id) => change(&mut self.osds, *id, |osd| {
                assert_eq!(osd.safe_to_destroy, Some(true), "stopped with data");
                osd.runs = false;
            }),
            Action::Purge(id) => {
                assert!(self.osds.iter().any(|osd| osd.id == *id && !osd.runs));
                self.osds.retain(|osd| osd.id != *id);
            }
            Action::WriteDown(_) | Action::Forget(_) => panic!("the status is not an effect"),
        }
    }

    /// Server-side apply.
    fn apply(&mut self, desired: Desired) {
        let live = self.seen.get(&desired.key).cloned();
        if live.is_some() && desired.keep == Keep::Seeded {
            return;
        }
        let stage = desired.object["metadata"]["labels"]["hypercloud.tmaxanc.com/storage-stage"]
            .as_str()
            .unwrap()
            .to_owned();
        if !self.log.contains(&stage) {
            self.log.push(stage);
        }
        let mut object = desired.object;
        let generation = live.as_ref().map_or(0, |live| {
            let before = live["metadata"]["generation"].as_i64().unwrap_or(1);
            if live["spec"] == object["spec"] {
                before - 1
            } else {
                before
            }
        });
        object["metadata"]["generation"] = json!(generation + 1);
        if let Some(live) = &live {
            object["status"] = live["status"].clone();
            let old = (image(live), image(&object));
            if let (Some(from), Some(to)) = old
                && from != to
            {
                self.log.push(format!("{} {to}", desired.key.name));
            }
        }
        self.seen.insert(object);
    }

    fn mark(&mut self, key: &Key) {
        if let Some(mut object) = self.seen.get(key).cloned() {
            object["metadata"]["deletionTimestamp"] = json!("now");
            self.seen.insert(object);
        }
    }

    pub fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }
}

/// The image of a Deployment, or of Ceph.
pub fn image(object: &Value) -> Option<&str> {
    let containers = &object["spec"]["template"]["spec"]["containers"];
    let own = containers[0]["image"].as_str();
    own.or_else(|| object["spec"]["cephVersion"]["image"].as_str())
}
