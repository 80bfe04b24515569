//! The storage of the cluster: the loop-file CSI driver, the sidecars, the
//! snapshot CRDs and the classes.
//!
//! The volumes are files on an XFS file system of their own, because XFS shares
//! blocks: a clone or a snapshot is one atomic step, also of a volume in use.

use crate::binaries::Binaries;
use crate::command::{program, run, succeeds, wait_until};
use crate::kubectl::{Kubectl, list};
use crate::node;
use crate::process::{self, Service};
use crate::settings::{Node, Settings};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::time::Duration;

/// The driver's name, as in the StorageClasses.
pub const DRIVER: &str = "loopfile.csi.hypercloud.dev";
/// StorageClass with `WaitForFirstConsumer`.
pub const CLASS: &str = "loopfile";
/// StorageClass with `Immediate` binding.
pub const IMMEDIATE_CLASS: &str = "loopfile-immediate";
/// StorageClass whose driver refuses to clone volumes.
pub const NO_CLONE_CLASS: &str = "loopfile-noclone";
/// VolumeSnapshotClass.
pub const SNAPSHOT_CLASS: &str = "loopfile";

/// Processes of the host, in the order they start.
pub const PROCESSES: [&str; 5] = [
    "csi-controller",
    "csi-provisioner",
    "csi-resizer",
    "csi-snapshotter",
    "snapshot-controller",
];

const GIB: u64 = 1 << 30;

/// Mounts the file system of the volumes, made anew if it is not there. Must
/// precede the nodes, whose mount namespaces are copies of the host's.
pub fn mount_volumes(settings: &Settings) -> Result<()> {
    let (image, volumes) = (settings.volumes_image(), settings.volumes());
    fs::create_dir_all(&volumes)?;
    if succeeds(&mut program(
        "mountpoint",
        &["--quiet".as_ref(), volumes.as_os_str()],
    )) {
        return Ok(());
    }
    if !image.exists() {
        let unfinished = image.with_extension("unfinished");
        File::create(&unfinished)?.set_len(volumes_bytes(free_bytes(settings)?))?;
        run(program(
            "mkfs.xfs",
            &["-q", "-f", "-m", "reflink=1", "-l", "size=64m"],
        )
        .arg(&unfinished))?;
        fs::rename(&unfinished, &image)?;
    }
    // Direct I/O on the way to the disk; freed blocks are given back to it.
    let device = run(program(
        "losetup",
        &["--find", "--show", "--nooverlap", "--direct-io=on"],
    )
    .arg(&image))
    .context("bind a loop device to the file system of the volumes")?;
    run(program("mount", &["-t", "xfs", "-o", "discard", device.trim()]).arg(&volumes)).map(drop)
}

fn free_bytes(settings: &Settings) -> Result<u64> {
    let usage = rustix::fs::statvfs(&settings.root)?;
    Ok(usage.f_bavail * usage.f_frsize)
}

/// Sparse: most of the free room, so that the disk below never fills first.
fn volumes_bytes(free: u64) -> u64 {
    (free / 10 * 9 / GIB).max(2) * GIB
}

/// Starts the controller, its sidecars, and the driver on every node.
pub fn start(
    settings: &Settings,
    binaries: &Binaries,
    kubectl: &Kubectl,
    nodes: &[Node],
) -> Result<()> {
    let crds = binaries.snapshot_crds()?;
    kubectl.run(&["apply", "--filename", &crds])?;
    let established = [
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "--filename",
        &crds,
    ];
    kubectl.run(&established)?;
    kubectl.apply(&objects())?;

    for (name, words) in host_processes(settings, binaries)? {
        let service = Service {
            name,
            words,
            control_groups: Vec::new(),
        };
        process::start(settings, &service)?;
        if name == "csi-controller" {
            let listens = wait_until(
                "the CSI controller listens",
                Duration::from_secs(20),
                || {
                    process::expect_alive(settings, name)?;
                    Ok(settings.controller_socket().exists())
                },
            );
            process::explain(settings, name, listens)?;
        }
    }
    for each in nodes {
        start_on_node(settings, binaries, each)?;
    }
    for each in nodes {
        let driver = each.process("csi");
        let is_registered = wait_until(
            &format!("the CSI driver is registered on {}", each.name),
            Duration::from_secs(60),
            || {
                process::expect_alive(settings, &driver)?;
                let found = kubectl.get(&["csinode", &each.name])?;
                Ok(found["spec"]["drivers"]
                    .as_array()
                    .is_some_and(|drivers| drivers.iter().any(|driver| driver["name"] == DRIVER)))
            },
        );
        process::explain(settings, &driver, is_registered)?;
    }
    for name in PROCESSES {
        process::explain(settings, name, process::expect_alive(settings, name))?;
    }
    Ok(())
}

fn host_processes(
    settings: &Settings,
    binaries: &Binaries,
) -> Result<Vec<(&'static str, Vec<String>)>> {
    let socket = settings.controller_socket().display().to_string();
    let kubeconfig = format!("--kubeconfig={}", settings.kubeconfig().display());
    let address = format!("--csi-address={socket}");
    let rate = ["--kube-api-qps=50", "--kube-api-burst=100"].map(str::to_owned);
    let mut all = vec![(
        "csi-controller",
        vec![
            binaries.path("csi-driver")?,
            "-controller".to_owned(),
            format!("-socket={socket}"),
            format!("-root={}", settings.volumes().display()),
        ],
    )];
    // With the strict topology the scheduler's choice is the only one offered.
    let sidecars: [(&str, &[&str]); 4] = [
        (
            "csi-provisioner",
            &[
                "--strict-topology=true",
                "--timeout=300s",
                "--retry-interval-start=500ms",
                "--retry-interval-max=10s",
            ],
        ),
        (
            "csi-resizer",
            &[
                "--timeout=60s",
                "--retry-interval-start=500ms",
                "--retry-interval-max=10s",
            ],
        ),
        (
            "csi-snapshotter",
            &[
                "--timeout=300s",
                "--retry-interval-start=500ms",
                "--retry-interval-max=10s",
            ],
        ),
        // By the lease that one in a pod has as well, so that there may be
        // both.
        (
            "snapshot-controller",
            &[
                "--leader-election=true",
                "--leader-election-namespace=kube-system",
                "--retry-interval-start=500ms",
                "--retry-interval-max=10s",
            ],
        ),
    ];
    for (name, own) in sidecars {
        let mut words = vec![binaries.path(name)?, kubeconfig.clone()];
        words.extend(rate.clone());
        words.extend(own.iter().map(ToString::to_string));
        if name != "snapshot-controller" {
            words.push(address.clone());
        }
        all.push((name, words));
    }
    Ok(all)
}

fn start_on_node(settings: &Settings, binaries: &Binaries, each: &Node) -> Result<()> {
    let holder =
        node::holder(settings, each).with_context(|| format!("{} does not run", each.name))?;
    let mut words = node::enter(holder);
    words.extend([
        binaries.path("csi-driver")?,
        format!("-node={}", each.name),
        format!("-root={}", settings.volumes().display()),
        format!("-socket=/var/lib/kubelet/plugins/{DRIVER}/csi.sock"),
        "-registration=/var/lib/kubelet/plugins_registry".to_owned(),
    ]);
    let service = Service {
        name: &each.process("csi"),
        words,
        control_groups: crate::cgroup::make(&each.name)?,
    };
    process::start(settings, &service).map(drop)
}

/// The driver's object and the classes.
fn objects() -> Value {
    let class = |name: &str, binding: &str| {
        json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": DRIVER,
            "volumeBindingMode": binding,
            "reclaimPolicy": "Delete",
            "allowVolumeExpansion": true,
        })
    };
    let waiting = "WaitForFirstConsumer";
    let mut default = class(CLASS, waiting);
    default["metadata"]["annotations"] =
        json!({"storageclass.kubernetes.io/is-default-class": "true"});
    // Only here: an empty map could not be applied a second time.
    let mut no_clone = class(NO_CLONE_CLASS, waiting);
    no_clone["parameters"] = json!({"cloning": "refused"});
    list(vec![
        json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER},
            "spec": {
                "attachRequired": false,
                "podInfoOnMount": false,
                "fsGroupPolicy": "File",
                "volumeLifecycleModes": ["Persistent"],
            },
        }),
        default,
        class(IMMEDIATE_CLASS, "Immediate"),
        no_clone,
        json!({
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotClass",
            "metadata": {
                "name": SNAPSHOT_CLASS,
                "annotations": {"snapshot.storage.kubernetes.io/is-default-class": "true"},
            },
            "driver": DRIVER,
            "deletionPolicy": "Delete",
        }),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_class_waits_and_one_does_not() {
        let objects = objects();
        let binding = |name: &str| {
            objects["items"]
                .as_array()
                .unwrap()
                .iter()
                .find(|item| item["kind"] == "StorageClass" && item["metadata"]["name"] == name)
                .unwrap()["volumeBindingMode"]
                .clone()
        };
        assert_eq!(binding(CLASS), "WaitForFirstConsumer");
        assert_eq!(binding(IMMEDIATE_CLASS), "Immediate");
    }

    #[test]
    fn the_volumes_leave_room_on_the_disk() {
        assert_eq!(volumes_bytes(100 * GIB), 90 * GIB);
        assert_eq!(volumes_bytes(0), 2 * GIB);
    }
}
