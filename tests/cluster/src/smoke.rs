//! Tries the cluster as a user would: volumes of both modes on the node the
//! scheduler chose, a clone, snapshots and what is restored from them, growth,
//! a service reached across nodes; and that nothing is left afterwards.

use crate::binaries;
use crate::command::wait_until;
use crate::csi::{CLASS, SNAPSHOT_CLASS};
use crate::kubectl::{Kubectl, list};
use crate::loops;
use crate::phase::phase;
use crate::settings::{Node, SHELL_IMAGE, Settings};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

const BLOCK_BYTES: &str = "64Mi";
const GROWN_BYTES: &str = "96Mi";
const PATIENCE: Duration = Duration::from_secs(120);

struct Smoke {
    kubectl: Kubectl,
    namespace: String,
    /// The node the first volumes are asked for.
    home: String,
}

/// Runs all of it in a namespace of its own, which it deletes at the end.
pub fn run(settings: &Settings) -> Result<()> {
    let nodes = crate::nodes(settings)?;
    let smoke = Smoke {
        kubectl: Kubectl::new(settings, &binaries::built(settings)?)?,
        namespace: format!("smoke-{}", std::process::id()),
        home: nodes
            .last()
            .map(|node| node.name.clone())
            .unwrap_or_default(),
    };
    smoke
        .kubectl
        .run(&["create", "namespace", &smoke.namespace])?;
    let tried = smoke.try_everything(&nodes);
    if tried.is_err() {
        for kinds in ["pods,pvc,volumesnapshots", "events"] {
            let seen = smoke
                .call(&["get", kinds, "--output=wide"])
                .unwrap_or_default();
            eprintln!("{seen}");
        }
    }
    let volumes = smoke.volumes();
    let cleaned = phase("delete everything", || smoke.clean_up(settings, &volumes?));
    tried.and(cleaned)?;
    eprintln!("the cluster works");
    Ok(())
}

impl Smoke {
    fn try_everything(&self, nodes: &[Node]) -> Result<()> {
        phase("volumes of both modes", || self.first_volumes())?;
        phase("clone", || self.clone_volumes())?;
        phase("snapshots and what is restored", || self.snapshots())?;
        phase("growth in use", || self.grow())?;
        phase("a service from every node", || self.service(nodes))
    }

    fn first_volumes(&self) -> Result<()> {
        self.kubectl.apply(&list(vec![
            self.claim("block", "Block", Value::Null),
            self.claim("files", "Filesystem", Value::Null),
        ]))?;
        let place = json!({"kubernetes.io/hostname": self.home});
        self.start_pod("writer", &place, "block", "files")?;
        self.write("first")?;
        for claim in ["block", "files"] {
            let volume = self.get("pvc", claim)?["spec"]["volumeName"].clone();
            let volume = volume.as_str().context("the claim has no volume")?;
            let affinity = self.kubectl.get(&["pv", volume])?["spec"]["nodeAffinity"].to_string();
            if !affinity.contains(&self.home) {
                bail!("{claim} is not where its pod is: {affinity}");
            }
        }
        Ok(())
    }

    fn clone_volumes(&self) -> Result<()> {
        let source = |name: &str| json!({"kind": "PersistentVolumeClaim", "name": name});
        self.kubectl.apply(&list(vec![
            self.claim("block-clone", "Block", source("block")),
            self.claim("files-clone", "Filesystem", source("files")),
        ]))?;
        self.start_pod("clone", &json!({}), "block-clone", "files-clone")?;
        self.expect("clone", "first")
    }

    fn snapshots(&self) -> Result<()> {
        let snapshot = |claim: &str| {
            json!({
                "apiVersion": "snapshot.storage.k8s.io/v1",
                "kind": "VolumeSnapshot",
                "metadata": {"name": claim, "namespace": self.namespace},
                "spec": {
                    "volumeSnapshotClassName": SNAPSHOT_CLASS,
                    "source": {"persistentVolumeClaimName": claim},
                },
            })
        };
        self.kubectl
            .apply(&list(vec![snapshot("block"), snapshot("files")]))?;
        wait_until("the snapshots are ready", PATIENCE, || {
            Ok(
                self.get("volumesnapshot", "block")?["status"]["readyToUse"] == true
                    && self.get("volumesnapshot", "files")?["status"]["readyToUse"] == true,
            )
        })?;
        self.write("later")?;
        let source = |name: &str| json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": name});
        self.kubectl.apply(&list(vec![
            self.claim("block-restored", "Block", source("block")),
            self.claim("files-restored", "Filesystem", source("files")),
        ]))?;
        self.start_pod("restored", &json!({}), "block-restored", "files-restored")?;
        self.expect("restored", "first")?;
        self.expect("writer", "later")
    }

    /// A device grows in use. A file system does so only where the machine lets
    /// the driver (`CAP_SYS_RESOURCE`), and else when it is mounted next.
    fn grow(&self) -> Result<()> {
        let patch =
            json!({"spec": {"resources": {"requests": {"storage": GROWN_BYTES}}}}).to_string();
        for claim in ["block", "files"] {
            self.call(&["patch", "pvc", claim, "--patch", &patch])?;
        }
        wait_until("the device has grown", PATIENCE, || {
            let bytes = self.shell("writer", "blockdev --getsize64 /dev/volume")?;
            Ok(bytes.trim() == (96 << 20).to_string())
        })?;
        self.call(&["delete", "pod", "writer"])?;
        self.start_pod("writer", &json!({}), "block", "files")?;
        self.expect("writer", "later")?;
        let room = self.shell("writer", "df -m /files | awk 'NR == 2 {print $2}'")?;
        if room.trim().parse::<u32>()? <= 64 {
            bail!("the file system in the pod has {} MiB", room.trim());
        }
        for claim in ["block", "files"] {
            wait_until(&format!("{claim} tells its growth"), PATIENCE, || {
                Ok(self.get("pvc", claim)?["status"]["capacity"]["storage"] == GROWN_BYTES)
            })?;
        }
        Ok(())
    }

    fn service(&self, nodes: &[Node]) -> Result<()> {
        let mut objects = vec![json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": self.namespace},
            "spec": {"selector": {"serves": "web"}, "ports": [{"port": 80}]},
        })];
        for node in nodes {
            let labels = json!({"serves": "web"});
            let command = "echo served > /tmp/index.html && exec httpd -f -p 80 -h /tmp";
            objects.push(json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": format!("web-{}", node.name),
                    "namespace": self.namespace,
                    "labels": labels,
                },
                "spec": {
                    "nodeSelector": {"kubernetes.io/hostname": node.name},
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "shell",
                        "image": SHELL_IMAGE,
                        "command": ["sh", "-c", command],
                        "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 1},
                    }],
                },
            }));
        }
        self.kubectl.apply(&list(objects))?;
        for node in nodes {
            self.wait_for_pod(&format!("web-{}", node.name))?;
        }
        let address = self.get("service", "web")?["spec"]["clusterIP"].clone();
        let address = address.as_str().context("the service has no address")?;
        for node in nodes {
            let pod = format!("web-{}", node.name);
            // More calls than pods, so that each is reached from each.
            for _ in 0..2 * nodes.len() {
                wait_until("the service answers", Duration::from_secs(20), || {
                    let answer =
                        self.shell(&pod, &format!("timeout 2 wget -q -O - http://{address}/"))?;
                    Ok(answer.trim() == "served")
                })?;
            }
            let by_name = self.shell(&pod, "timeout 5 wget -q -O - http://web/")?;
            if by_name.trim() != "served" {
                bail!("the service by its name says {by_name:?} to {pod}");
            }
            let api = "timeout 5 wget -q -O - --no-check-certificate https://$KUBERNETES_SERVICE_HOST/healthz";
            let answer = self.shell(&pod, api)?;
            if answer.trim() != "ok" {
                bail!("the API says {answer:?} to {pod}");
            }
        }
        Ok(())
    }

    /// Writes `text` to both volumes of the writer, down to the disk.
    fn write(&self, text: &str) -> Result<()> {
        let script = format!(
            "printf %s {text} | dd of=/dev/volume conv=notrunc,fsync 2>/dev/null && \
             printf %s {text} > /files/text && sync"
        );
        self.shell("writer", &script).map(drop)
    }

    fn expect(&self, pod: &str, text: &str) -> Result<()> {
        let found = self.shell(pod, "head -c 5 /dev/volume; echo; cat /files/text; echo")?;
        if found != format!("{text}\n{text}\n") {
            bail!("{pod} reads {found:?}, not {text} twice");
        }
        Ok(())
    }

    fn claim(&self, name: &str, mode: &str, source: Value) -> Value {
        let mut claim = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "storageClassName": CLASS,
                "volumeMode": mode,
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": BLOCK_BYTES}},
            },
        });
        if !source.is_null() {
            claim["spec"]["dataSource"] = source;
        }
        claim
    }

    fn start_pod(&self, name: &str, place: &Value, block: &str, files: &str) -> Result<()> {
        self.kubectl.apply(&json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "nodeSelector": place,
                "terminationGracePeriodSeconds": 1,
                "containers": [{
                    "name": "shell",
                    "image": SHELL_IMAGE,
                    "command": ["sleep", "100000"],
                    "volumeDevices": [{"name": "block", "devicePath": "/dev/volume"}],
                    "volumeMounts": [{"name": "files", "mountPath": "/files"}],
                }],
                "volumes": [
                    {"name": "block", "persistentVolumeClaim": {"claimName": block}},
                    {"name": "files", "persistentVolumeClaim": {"claimName": files}},
                ],
            },
        }))?;
        self.wait_for_pod(name)
    }

    fn wait_for_pod(&self, name: &str) -> Result<()> {
        let pod = format!("pod/{name}");
        self.call(&["wait", &pod, "--for=condition=Ready", "--timeout=120s"])
            .map(drop)
    }

    fn shell(&self, pod: &str, script: &str) -> Result<String> {
        self.call(&["exec", pod, "--", "sh", "-c", script])
    }

    fn get(&self, kind: &str, name: &str) -> Result<Value> {
        self.kubectl
            .get(&["--namespace", &self.namespace, kind, name])
    }

    fn call(&self, arguments: &[&str]) -> Result<String> {
        let mut all = vec!["--namespace", &self.namespace];
        all.extend(arguments);
        self.kubectl.run(&all)
    }

    /// The volumes and snapshots behind this namespace's objects.
    fn volumes(&self) -> Result<Vec<String>> {
        let claims = self.kubectl.get(&["--namespace", &self.namespace, "pvc"])?;
        let snapshots = self
            .kubectl
            .get(&["--namespace", &self.namespace, "volumesnapshots"])?;
        let names = |found: &Value, pointer: &str| -> Vec<String> {
            let items = found["items"].as_array().cloned().unwrap_or_default();
            items
                .iter()
                .filter_map(|item| item.pointer(pointer)?.as_str())
                .map(str::to_owned)
                .collect()
        };
        let mut all = names(&claims, "/spec/volumeName");
        // The driver's snapshot is named by the object's UID.
        all.extend(names(&snapshots, "/metadata/uid"));
        Ok(all)
    }

    fn clean_up(&self, settings: &Settings, volumes: &[String]) -> Result<()> {
        self.kubectl.run(&[
            "delete",
            "namespace",
            &self.namespace,
            "--wait=true",
            "--timeout=120s",
        ])?;
        wait_until("nothing is left of the volumes", PATIENCE, || {
            let left = leftovers(settings, volumes)?;
            if left.is_empty() {
                return Ok(true);
            }
            bail!("left: {}", left.join(", "))
        })
    }
}

/// Files and loop devices of these volumes and snapshots.
fn leftovers(settings: &Settings, volumes: &[String]) -> Result<Vec<String>> {
    let mut names = loops::files_below(&settings.root)?;
    let mut directories = vec![settings.volumes()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else {
                names.push(path.display().to_string());
            }
        }
    }
    names.retain(|name| volumes.iter().any(|volume| name.contains(volume)));
    Ok(names)
}
