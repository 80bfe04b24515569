//! The Ceph cluster: nodes, devices, copies, network, and what is made of it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The Ceph cluster and what is made of it.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[x_kube(validation = Rule::new("self.replicas > 1 || (has(self.allowSingleReplica) && self.allowSingleReplica)")
    .message("with one replica a lost device is lost data: set allowSingleReplica if that is meant"))]
#[x_kube(validation = Rule::new("!has(self.mons) || self.mons <= self.nodes.size()")
    .message("each monitor goes to another node: name at least as many nodes as mons"))]
#[x_kube(validation = Rule::new("self.replicas >= oldSelf.replicas")
    .message("replicas can be raised, not lowered"))]
#[x_kube(validation = Rule::new("(has(self.failureDomain) ? self.failureDomain : 'Host') == (has(oldSelf.failureDomain) ? oldSelf.failureDomain : 'Host')")
    .message("failureDomain is settled when the storage is made"))]
#[x_kube(validation = Rule::new("(has(self.dataDirHostPath) ? self.dataDirHostPath : '/var/lib/rook') == (has(oldSelf.dataDirHostPath) ? oldSelf.dataDirHostPath : '/var/lib/rook')")
    .message("dataDirHostPath is settled when the storage is made: the monitors' data is there"))]
#[x_kube(validation = Rule::new("(has(self.network) && dyn(self.network) != null && has(self.network.hostNetwork) && self.network.hostNetwork == true) == (has(oldSelf.network) && dyn(oldSelf.network) != null && has(oldSelf.network.hostNetwork) && oldSelf.network.hostNetwork == true)")
    .message("network.hostNetwork is settled when the storage is made: a Ceph that runs would not be found any more"))]
#[x_kube(validation = Rule::new("(has(self.network) && dyn(self.network) != null && has(self.network.publicRanges)) == (has(oldSelf.network) && dyn(oldSelf.network) != null && has(oldSelf.network.publicRanges)) && (!(has(self.network) && dyn(self.network) != null && has(self.network.publicRanges)) || self.network.publicRanges == oldSelf.network.publicRanges)")
    .message("network.publicRanges are settled when the storage is made: a Ceph that runs would not be found any more"))]
#[x_kube(validation = Rule::new("(has(self.network) && dyn(self.network) != null && has(self.network.clusterRanges)) == (has(oldSelf.network) && dyn(oldSelf.network) != null && has(oldSelf.network.clusterRanges)) && (!(has(self.network) && dyn(self.network) != null && has(self.network.clusterRanges)) || self.network.clusterRanges == oldSelf.network.clusterRanges)")
    .message("network.clusterRanges are settled when the storage is made: Ceph's devices would not find each other any more"))]
#[x_kube(validation = Rule::new("(has(self.network) && dyn(self.network) != null && has(self.network.ipFamily) && self.network.ipFamily == 'IPv6') == (has(oldSelf.network) && dyn(oldSelf.network) != null && has(oldSelf.network.ipFamily) && oldSelf.network.ipFamily == 'IPv6')")
    .message("network.ipFamily is settled when the storage is made: a Ceph that runs would not be found any more"))]
#[serde(rename_all = "camelCase")]
pub struct StorageCluster {
    /// How many copies of everything there are. Each goes to another node, or
    /// device by the `failureDomain`; the status says where there are too few.
    #[schemars(range(min = 1, max = 10))]
    pub replicas: i32,

    /// Nodes whose devices are used.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["hostname".into()]))]
    pub nodes: Vec<StorageNode>,

    /// How many monitors there are; three where there are three nodes or
    /// more, else one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 9))]
    #[x_kube(validation = Rule::new("self % 2 == 1").message("mons must be odd: an even number survives no more losses than one less"))]
    pub mons: Option<i32>,

    /// What two copies never share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<FailureDomain>,

    /// That one copy of everything is enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_single_replica: Option<bool>,

    /// Folder of the nodes in which monitors keep their data.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 4096), regex(pattern = "^/"))]
    #[x_kube(validation = Rule::new("!['/etc/ceph', '/rook', '/var/log/ceph'].exists(p, self == p || self.startsWith(p + '/'))")
        .message("Rook takes no dataDirHostPath in /etc/ceph, /rook or /var/log/ceph"))]
    pub data_dir_host_path: Option<String>,

    /// What HEALTH_WARN means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthPolicy>,

    /// How Ceph is reached, and how its daemons reach each other. But for
    /// `encryption`, `compression` and `requireMsgr2` it is settled when the
    /// storage is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<StorageNetwork>,

    /// Requests and limits of Ceph's daemons, by Rook's names of them: `mon`,
    /// `mgr`, `osd`, `prepareosd`, `crashcollector`, `logcollector`,
    /// `cleanup`, `exporter`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    #[x_kube(validation = Rule::new("self.all(k, k in ['mon', 'mgr', 'mgr-sidecar', 'osd', 'prepareosd', 'crashcollector', 'logcollector', 'cleanup', 'exporter'])")
        .message("resources are those of mon, mgr, mgr-sidecar, osd, prepareosd, crashcollector, logcollector, cleanup or exporter"))]
    pub resources: BTreeMap<String, DaemonResources>,

    /// The block pool and its classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<BlockStorage>,

    /// The object store that images and exports use where they name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_store: Option<ObjectStorage>,

    /// Whether devices that are taken out of the list are emptied and given
    /// up. Where nothing is set their removal is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removal: Option<RemovalPolicy>,

    /// Whether there is a pod with Ceph's own tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toolbox: Option<bool>,
}

/// A node and its devices.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct StorageNode {
    /// The node's label `kubernetes.io/hostname`.
    #[schemars(length(min = 1, max = 63))]
    pub hostname: String,
    /// Devices, by a link in `/dev/disk/by-id`, or by a name such as
    /// `/dev/sdb`, of which the link is found out once.
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub devices: Vec<DeviceName>,
}

/// Name of a device.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord,
)]
#[serde(transparent)]
pub struct DeviceName(
    #[schemars(length(min = 1, max = 512), regex(pattern = r"^(/dev/)?[^/\s][^\s]*$"))] pub String,
);

impl From<&str> for DeviceName {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

/// What two copies never share.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailureDomain {
    /// A node.
    #[default]
    Host,
    /// A device.
    #[serde(rename = "OSD")]
    Osd,
}

impl FailureDomain {
    /// The domain as Ceph spells it.
    #[must_use]
    pub fn as_ceph(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Osd => "osd",
        }
    }
}

/// What Ceph's warnings mean.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HealthPolicy {
    /// Whether HEALTH_WARN is an ERROR, as it is where nothing is set, or a
    /// Warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnings: Option<WarningsPolicy>,
    /// Checks that do not matter, by Ceph's names such as `MON_DISK_LOW`. A
    /// HEALTH_WARN of nothing else is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ignore: Vec<String>,
}

/// What HEALTH_WARN means.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WarningsPolicy {
    /// That the storage is not well.
    #[default]
    Refuse,
    /// That it is well enough, with a warning.
    Tolerate,
}

/// How Ceph is reached, and how its daemons reach each other.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new("!(has(self.publicRanges) || has(self.clusterRanges)) || (has(self.hostNetwork) && self.hostNetwork)")
    .message("publicRanges and clusterRanges go with hostNetwork"))]
#[serde(rename_all = "camelCase")]
pub struct StorageNetwork {
    /// Whether daemons are on their node's own network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_network: Option<bool>,
    /// Networks of clients and monitors, as `10.1.0.0/16`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub public_ranges: Option<Vec<String>>,
    /// Networks between devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub cluster_ranges: Option<Vec<String>>,
    /// Whether what goes over the network is encrypted. The nodes' kernel has
    /// to know it (5.11 or newer).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<bool>,
    /// Whether it is compressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<bool>,
    /// Whether only the second version of Ceph's protocol is spoken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_msgr2: Option<bool>,
    /// Family of addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_family: Option<IpFamily>,
}

/// Family of addresses.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // They are Kubernetes' words.
pub enum IpFamily {
    IPv4,
    IPv6,
}

/// Requests and limits of a daemon.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DaemonResources {
    /// What it is given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
    /// What it may take.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Quantity>,
}

/// The block pool and its classes.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct BlockStorage {
    /// Whether claims that name no class get this one. Disks of virtual
    /// machines do in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_class: Option<bool>,
    /// Parameters of the storage class beside the system's own, such as
    /// `mapOptions` and `imageFeatures`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub parameters: BTreeMap<String, String>,
}

/// The object store.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ObjectStorage {
    /// Whether there is one, as there is where nothing is set. One that was
    /// made stays, with what it holds, when this becomes false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How many gateways there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub instances: Option<i32>,
    /// Requests and limits of each gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<DaemonResources>,
}

/// What becomes of a device that is taken out of the list.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RemovalPolicy {
    /// Nothing: it stays in use.
    #[default]
    Refuse,
    /// Its data moves to the others, and its OSD is removed, one at a time and
    /// only while Ceph is healthy.
    PurgeOsds,
}
