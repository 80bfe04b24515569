//! What Ceph's commands and Rook's Deployments say of OSDs. Pure.

use std::collections::{BTreeMap, BTreeSet};

use hypercloud_storage::ROOK_NAMESPACE;
use hypercloud_storage::object::Seen;
use hypercloud_storage::plan::removal::Osd;
use serde_json::Value;

use super::place::{ANNOTATION_DEVICE, Evidence};

/// Label `app` of the Deployments of OSDs.
const APP: &str = "rook-ceph-osd";
/// Label with the number of an OSD.
const LABEL_ID: &str = "ceph-osd-id";
/// Label of a node by which Rook knows it.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// Variable with the path that Rook has an OSD's device by.
const BLOCK_PATH: &str = "ROOK_BLOCK_PATH";

/// What the commands printed, which is JSON among lines of warnings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// `ceph osd dump`.
    pub dump: String,
    /// `ceph osd metadata`.
    pub metadata: String,
    /// `ceph osd safe-to-destroy`; what it does not say is not safe.
    pub safe: String,
}

/// A command did not print what it should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`ceph {0}` did not answer as it should")]
pub struct NoAnswer(pub &'static str);

/// An OSD as Ceph has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Its number.
    pub id: u32,
    /// Whether it answers its peers.
    pub up: bool,
    /// Whether it is given data.
    pub is_in: bool,
    /// Whether its data is needed no more; none where Ceph did not say.
    pub safe: Option<bool>,
    /// The name of the node that it ran on last.
    pub node: Option<String>,
    /// Model and serial number of its devices.
    pub ids: Vec<String>,
    /// Links in `/dev/disk/by-path` to its devices.
    pub paths: Vec<String>,
}

/// The Deployment of an OSD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deployed {
    /// The label of its node.
    pub hostname: Option<String>,
    /// The path that Rook has its device by.
    pub block: Option<String>,
    /// The link that a person says it is.
    pub annotated: Option<String>,
    /// Whether it has pods, or is to have some.
    pub runs: bool,
}

/// The OSDs by what the commands printed.
///
/// # Errors
/// Output that is not what the command prints.
pub fn read(printed: &Printed) -> Result<Vec<Told>, NoAnswer> {
    let dump = json(&printed.dump).ok_or(NoAnswer("osd dump"))?;
    let osds = dump["osds"].as_array().ok_or(NoAnswer("osd dump"))?;
    let metadata = json(&printed.metadata).ok_or(NoAnswer("osd metadata"))?;
    let metadata = metadata.as_array().ok_or(NoAnswer("osd metadata"))?;
    let safe: Option<BTreeSet<u32>> = json(&printed.safe).and_then(|safe| {
        let numbers = safe["safe_to_destroy"].as_array()?;
        Some(numbers.iter().filter_map(number).collect())
    });
    osds.iter()
        .map(|osd| {
            let id = number(&osd["osd"]).ok_or(NoAnswer("osd dump"))?;
            let flag = |name: &str| osd[name].as_i64().ok_or(NoAnswer("osd dump"));
            let known = metadata.iter().find(|of| number(&of["id"]) == Some(id));
            let text = |name: &str| known.and_then(|of| of[name].as_str());
            Ok(Told {
                id,
                up: flag("up")? != 0,
                is_in: flag("in")? != 0,
                safe: safe.as_ref().map(|safe| safe.contains(&id)),
                node: text("hostname")
                    .filter(|name| !name.is_empty())
                    .map(str::to_owned),
                ids: listed(text("device_ids")),
                paths: listed(text("device_paths")),
            })
        })
        .collect()
}

/// The values of `sda=X,sdb=Y`, each once.
fn listed(text: Option<&str>) -> Vec<String> {
    let pairs = text.unwrap_or_default().split(',');
    let values = pairs.filter_map(|pair| pair.split_once('='));
    let values: BTreeSet<&str> = values.map(|(_, value)| value.trim()).collect();
    let values = values.into_iter().filter(|value| !value.is_empty());
    values.map(str::to_owned).collect()
}

/// The JSON that a command printed: a pod's log has its warnings too.
fn json(text: &str) -> Option<Value> {
    let whole = serde_json::from_str(text).ok();
    let is_json = |value: &Value| value.is_object() || value.is_array();
    whole.filter(is_json).or_else(|| {
        let mut lines = text.lines().rev();
        lines.find_map(|line| serde_json::from_str(line).ok().filter(is_json))
    })
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| number.try_into().ok())
}

/// The Deployments of OSDs, by the OSDs' numbers.
#[must_use]
pub fn deployed(seen: &Seen) -> BTreeMap<u32, Deployed> {
    seen.of_kind("apps", "Deployment")
        .filter(|object| object["metadata"]["namespace"] == ROOK_NAMESPACE)
        .filter(|object| object["metadata"]["labels"]["app"] == APP)
        .filter_map(|object| {
            let id = object["metadata"]["labels"][LABEL_ID].as_str()?;
            Some((id.parse().ok()?, deployment(object)))
        })
        .collect()
}

fn deployment(object: &Value) -> Deployed {
    let pod = &object["spec"]["template"]["spec"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let containers = [&pod["containers"], &pod["initContainers"]];
    let block = containers
        .into_iter()
        .filter_map(Value::as_array)
        .flatten()
        .filter_map(|container| container["env"].as_array())
        .flatten()
        .find(|variable| variable["name"] == BLOCK_PATH)
        .and_then(|variable| text(&variable["value"]));
    let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let there = object["status"]["replicas"].as_i64().unwrap_or(0);
    Deployed {
        hostname: text(&pod["nodeSelector"][HOSTNAME]),
        block,
        annotated: text(&object["metadata"]["annotations"][ANNOTATION_DEVICE]),
        runs: wanted > 0 || there > 0,
    }
}

/// What is said of the device of each OSD; `hostnames` are the labels of the
/// nodes by their names. A node that is gone was most likely called alike.
#[must_use]
pub fn evidence(
    told: &[Told],
    deployed: &BTreeMap<u32, Deployed>,
    hostnames: &BTreeMap<String, String>,
) -> Vec<Evidence> {
    told.iter()
        .map(|osd| {
            let own = deployed.get(&osd.id).cloned().unwrap_or_default();
            let of_node = osd.node.as_ref().map(|node| {
                let hostname = hostnames.get(node).unwrap_or(node);
                hostname.clone()
            });
            Evidence {
                id: osd.id,
                hostname: own.hostname.or(of_node),
                annotated: own.annotated,
                block: own.block,
                ids: osd.ids.clone(),
                paths: osd.paths.clone(),
            }
        })
        .collect()
}

/// The OSDs, with the links of devices that are given up.
#[must_use]
pub fn osds(
    told: &[Told],
    deployed: &BTreeMap<u32, Deployed>,
    evidence: &[Evidence],
    placed: &BTreeMap<u32, String>,
) -> Vec<Osd> {
    told.iter()
        .zip(evidence)
        .map(|(osd, evidence)| {
            let own = deployed.get(&osd.id);
            Osd {
                id: osd.id,
                hostname: evidence.hostname.clone().unwrap_or_default(),
                device: placed.get(&osd.id).cloned().unwrap_or_default(),
                is_in: osd.is_in,
                // Rook purges none that Ceph holds for up.
                runs: osd.up || own.is_some_and(|own| own.runs),
                safe_to_destroy: osd.safe,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
