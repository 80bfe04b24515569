//! OSDs as Ceph knows them.
//!
//! Their Deployments say which there are. What Ceph itself remembers, which of
//! them are out and since when, is in the memory.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Key of the memory under which the operator writes what it sees.
pub const SEEN: &str = "osds";

/// An OSD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Osd {
    /// Its number.
    pub id: u32,
    /// Its node's label `kubernetes.io/hostname`.
    pub hostname: String,
    /// Its device, as the CephCluster names it.
    pub device: String,
    /// Whether its daemon runs.
    pub up: bool,
    /// When it was taken out, if it is.
    #[serde(skip)]
    pub out: Option<Timestamp>,
}

/// The key under which it is remembered that an OSD is out.
#[must_use]
pub fn out_key(id: u32) -> String {
    format!("out-{id}")
}

/// The OSD of a Deployment.
#[must_use]
pub fn of(deployment: &Value) -> Option<Osd> {
    let labels = &deployment["metadata"]["labels"];
    if labels["app"] != "rook-ceph-osd" {
        return None;
    }
    let pod = &deployment["spec"]["template"]["spec"];
    let environment = pod["containers"][0]["env"].as_array()?;
    let device = environment
        .iter()
        .find(|variable| variable["name"] == "ROOK_BLOCK_PATH")?;
    Some(Osd {
        id: labels["ceph-osd-id"].as_str()?.parse().ok()?,
        hostname: pod["nodeSelector"]["kubernetes.io/hostname"]
            .as_str()?
            .to_owned(),
        device: device["value"].as_str()?.to_owned(),
        up: deployment["status"]["readyReplicas"].as_i64() >= Some(1),
        out: None,
    })
}

/// What the operator writes into the memory.
#[must_use]
pub fn written(deployments: &[Value]) -> String {
    let mut osds: Vec<Osd> = deployments.iter().filter_map(of).collect();
    osds.sort_by_key(|osd| osd.id);
    json!(osds).to_string()
}

/// The OSDs of the memory.
#[must_use]
pub fn remembered(memory: &BTreeMap<String, String>) -> Vec<Osd> {
    let text = memory.get(SEEN).map_or("[]", String::as_str);
    let mut osds: Vec<Osd> = serde_json::from_str(text).unwrap_or_default();
    for osd in &mut osds {
        let since = memory.get(&out_key(osd.id));
        osd.out = since.and_then(|since| since.parse().ok());
    }
    osds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_remembered() {
        let deployment = json!({
            "metadata": {"labels": {"app": "rook-ceph-osd", "ceph-osd-id": "3"}},
            "spec": {"template": {"spec": {
                "nodeSelector": {"kubernetes.io/hostname": "a"},
                "containers": [{"env": [{"name": "ROOK_BLOCK_PATH", "value": "/dev/x"}]}],
            }}},
            "status": {"readyReplicas": 1},
        });
        let other = json!({"metadata": {"labels": {"app": "rook-ceph-mon"}}});
        let mut memory = BTreeMap::from([(SEEN.to_owned(), written(&[deployment, other]))]);
        let osds = remembered(&memory);
        assert_eq!((osds.len(), osds[0].id, osds[0].up), (1, 3, true));
        assert_eq!((osds[0].device.as_str(), osds[0].out), ("/dev/x", None));
        memory.insert(out_key(3), "2026-01-01T00:00:00Z".to_owned());
        assert!(remembered(&memory)[0].out.is_some());
    }
}
