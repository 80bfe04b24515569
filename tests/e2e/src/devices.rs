//! Block devices of the nodes: inventories, cleanups, and loop devices of this
//! machine, which is every node of the local cluster.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::Context;
use hypercloud_api::{
    CleanupPhase, InventoryState, NodeDeviceCleanup, NodeDeviceInventory,
    NodeDeviceInventoryStatus, conditions,
};
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use tokio::sync::{Mutex, MutexGuard};

use crate::cluster::Cluster;
use crate::download;
use crate::wait::{Seen, until};

/// Held by tests that make or take away what others look at.
static DEVICES: Mutex<()> = Mutex::const_new(());

/// Waits until no other test changes devices or inventories; none does while
/// the guard is held.
pub async fn alone() -> MutexGuard<'static, ()> {
    DEVICES.lock().await
}

/// How long a cleaning of a small device may take on a busy machine.
pub const CLEANING: Duration = Duration::from_secs(120);

/// The inventories of the nodes.
pub fn inventories(cluster: &Cluster) -> Api<NodeDeviceInventory> {
    Api::all(cluster.client.clone())
}

/// The cleanups of devices.
pub fn cleanups(cluster: &Cluster) -> Api<NodeDeviceCleanup> {
    Api::all(cluster.client.clone())
}

/// What is known of a node's devices.
pub async fn status(cluster: &Cluster, node: &str) -> anyhow::Result<NodeDeviceInventoryStatus> {
    let inventory = inventories(cluster).get(node).await?;
    inventory.status.context("the inventory has no status")
}

/// Waits until the inventory of every node is of now, and there is one at
/// least.
pub async fn all_current(cluster: &Cluster) -> anyhow::Result<Vec<NodeDeviceInventory>> {
    let what = "every inventory is Current";
    until(what, Duration::from_secs(120), || async {
        let all = inventories(cluster).list(&ListParams::default()).await?;
        let of_node = |inventory: &NodeDeviceInventory| {
            let owners = inventory.owner_references();
            owners.iter().any(|owner| owner.kind == "Node")
        };
        let all: Vec<NodeDeviceInventory> = all.into_iter().filter(of_node).collect();
        let states: Vec<_> = all
            .iter()
            .map(|inventory| {
                let status = inventory.status.as_ref();
                (
                    inventory.name_any(),
                    status.and_then(|status| status.state),
                    status.map(|status| status.conditions.clone()),
                )
            })
            .collect();
        let current = |state: &Option<InventoryState>| *state == Some(InventoryState::Current);
        let done = !states.is_empty() && states.iter().all(|(_, state, _)| current(state));
        Ok(if done {
            Seen::Done(all)
        } else {
            Seen::NotYet(format!("{states:?}"))
        })
    })
    .await
}

/// The nodes whose kernel is this machine's, so that a device which a test
/// makes is theirs. None in a cluster of somebody's: what needs such a device
/// is skipped there.
pub async fn nodes_here(cluster: &Cluster) -> anyhow::Result<Vec<String>> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let is_here = |inventory: &&NodeDeviceInventory| {
        let status = inventory.status.as_ref();
        status.and_then(|status| status.boot_id.as_deref()) == Some(boot.trim())
    };
    let all = all_current(cluster).await?;
    let here: Vec<String> = all.iter().filter(is_here).map(|i| i.name_any()).collect();
    if here.is_empty() {
        println!("skipped: no node has this machine's devices");
    }
    Ok(here)
}

/// Which loop device is meant: the kernel gives its name to another one as
/// soon as it is let go.
#[derive(Clone, Debug)]
pub struct LoopName {
    /// The kernel's name.
    pub kernel: String,
    file: String,
}

/// Codes of the reasons of a device in an inventory; nothing where it is not
/// there.
pub fn reasons(status: &NodeDeviceInventoryStatus, name: &LoopName) -> Option<Vec<String>> {
    let mut devices = status.devices.iter();
    let device = devices.find(|device| {
        device.name == name.kernel && device.backing_file.as_ref() == Some(&name.file)
    })?;
    let reasons = device.reasons.iter();
    Some(reasons.map(|reason| reason.code().to_owned()).collect())
}

/// A loop device of this machine, which goes when it is dropped.
pub struct Loop {
    /// Its path.
    pub path: String,
    file: String,
    _folder: tempfile::TempDir,
}

impl Loop {
    /// A device of so many MiB, on which is nothing.
    pub fn attach(mebibytes: u64) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("disk.img");
        std::fs::File::create(&file)?.set_len(mebibytes << 20)?;
        let file = file.display().to_string();
        let path = tool("losetup", &["--find", "--show", &file])?;
        Ok(Self {
            path: path.trim().to_owned(),
            file,
            _folder: folder,
        })
    }

    /// What tells it from others.
    pub fn name(&self) -> LoopName {
        LoopName {
            kernel: self.path.trim_start_matches("/dev/").to_owned(),
            file: self.file.clone(),
        }
    }

    /// Puts a file system on it.
    pub async fn format(&self) -> anyhow::Result<()> {
        let words = ["-q", "-F", &self.path];
        self.alone("mkfs.ext4", &words).await
    }

    /// Runs what wants to have the device alone. An agent that looks has it
    /// alone for a moment, and the kernel refuses everybody else then.
    async fn alone(&self, name: &str, words: &[&str]) -> anyhow::Result<()> {
        let what = format!("{name} has {} alone", self.path);
        until(&what, Duration::from_secs(30), || async {
            tool(name, words).map(|_| Seen::Done(()))
        })
        .await
    }

    /// What `wipefs` finds on it.
    pub fn signatures(&self) -> anyhow::Result<String> {
        tool("wipefs", &["--noheadings", "--output", "TYPE", &self.path])
    }

    /// Mounts it while the guard lives.
    pub async fn mount(&self) -> anyhow::Result<Mounted> {
        let folder = tempfile::tempdir()?;
        let at = folder.path().display().to_string();
        self.alone("mount", &[&self.path, &at]).await?;
        Ok(Mounted { folder })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = tool("losetup", &["--detach", &self.path]);
    }
}

/// A mounted file system, unmounted when it is dropped.
pub struct Mounted {
    folder: tempfile::TempDir,
}

impl Mounted {
    /// Where.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = tool("umount", &[&self.folder.path().display().to_string()]);
    }
}

/// Runs a program of the machine; what it printed.
pub fn tool(name: &str, words: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(name).args(words).output();
    let output = output.with_context(|| format!("{name} cannot be run"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{name} {words:?}: {said}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs `kubectl hcs devices` to its end, whatever that is.
pub fn plugin(words: &[&str]) -> anyhow::Result<Output> {
    let program = download::program("kubectl-hcs")?;
    Ok(Command::new(program).arg("devices").args(words).output()?)
}

/// Exit code, standard output and standard error.
pub fn ended(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    (output.status.code(), out, err)
}

/// Waits until a cleanup is over: its phase, and reason and message.
pub async fn over(cluster: &Cluster, name: &str) -> anyhow::Result<(CleanupPhase, String, String)> {
    let api = cleanups(cluster);
    until("the cleanup is over", CLEANING, || async {
        let status = api.get(name).await?.status.unwrap_or_default();
        let complete = conditions::find(&status.conditions, "Complete");
        let (reason, message) = complete
            .map(|complete| (complete.reason.clone(), complete.message.clone()))
            .unwrap_or_default();
        let phase = status.phase.unwrap_or_default();
        Ok(match phase {
            CleanupPhase::Succeeded | CleanupPhase::Failed => Seen::Done((phase, reason, message)),
            _ => Seen::NotYet(format!("{phase:?} {reason}: {message}")),
        })
    })
    .await
}

/// Deletes the cleanups of a device.
pub async fn forget(cluster: &Cluster, device: &str) -> anyhow::Result<()> {
    let api = cleanups(cluster);
    for cleanup in api.list(&ListParams::default()).await? {
        if cleanup.spec.device == device {
            api.delete(&cleanup.name_any(), &DeleteParams::default())
                .await?;
        }
    }
    Ok(())
}

/// Waits until an Event of this reason was told of the object of a kind, with
/// `about` in its words.
pub async fn event(
    cluster: &Cluster,
    kind: &str,
    name: &str,
    reason: &str,
    about: &str,
) -> anyhow::Result<String> {
    let api: Api<Event> = Api::all(cluster.client.clone());
    let what = format!("an Event {reason} of {kind} {name}");
    until(&what, Duration::from_secs(30), || async {
        let events = api.list(&ListParams::default()).await?;
        let is_of_it = |event: &&Event| {
            let object = event.regarding.as_ref();
            object.and_then(|object| object.kind.as_deref()) == Some(kind)
                && object.and_then(|object| object.name.as_deref()) == Some(name)
                && event.note.as_ref().is_some_and(|note| note.contains(about))
        };
        let of_it: Vec<&Event> = events.iter().filter(is_of_it).collect();
        let mut told = of_it.iter();
        let found = told.find(|event| event.reason.as_deref() == Some(reason));
        Ok(match found {
            Some(event) => Seen::Done(event.note.clone().unwrap_or_default()),
            None => Seen::NotYet(format!(
                "{:?}",
                of_it.iter().map(|event| &event.reason).collect::<Vec<_>>()
            )),
        })
    })
    .await
}
