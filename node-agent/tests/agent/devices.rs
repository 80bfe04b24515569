//! Devices that come, change and go, as a watcher is told over TLS.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use hypercloud_inventory::Tree;
use hypercloud_proto::agent::v1 as proto;
use proto::node_agent_client::NodeAgentClient;
use proto::watch_devices_response::Event;
use tempfile::TempDir;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::certificates::Authority;
use crate::server::Agent;
use crate::{DEADLINE, is_root};

/// Runs a tool; `None` where it is not there.
pub fn tool(program: &str, arguments: &[&str]) -> Option<String> {
    let output = match Command::new(program).args(arguments).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: {program} is not there");
            return None;
        }
        Err(error) => panic!("{program}: {error}"),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        text(&output.stderr)
    );
    Some(text(&output.stdout))
}

/// A disk of 6 GiB of this machine, and a node that has no other: what the
/// machine has beside is not touched.
pub struct Disk {
    pub dir: TempDir,
    pub path: String,
}

pub const SIZE: u64 = 6 << 30;

impl Disk {
    pub fn new(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("sys/block")).unwrap();
        // What the machine swaps to is other tests'.
        let proc = tree.join("proc");
        fs::create_dir_all(&proc).unwrap();
        let own = std::process::id().to_string();
        for name in ["1", "sys", &own] {
            symlink(Path::new("/proc").join(name), proc.join(name)).unwrap();
        }
        symlink(&own, proc.join("self")).unwrap();
        fs::write(proc.join("swaps"), "Filename Type Size Used Priority\n").unwrap();
        symlink("/dev", tree.join("dev")).unwrap();
        let file = dir.path().join("disk");
        File::create(&file).unwrap().set_len(SIZE).unwrap();
        let path = attach(&file, options);
        let disk = Self { dir, path };
        let name = disk.name();
        let described = fs::canonicalize(Path::new("/sys/block").join(name)).unwrap();
        symlink(described, tree.join("sys/block").join(name)).unwrap();
        disk
    }

    pub fn name(&self) -> &str {
        self.path.trim_start_matches("/dev/")
    }

    pub fn tree(&self) -> Tree {
        Tree::live_below(self.dir.path().join("tree"))
    }

    /// Leaves the device to whoever has it now.
    pub fn forget(mut self) {
        self.path.clear();
    }

    /// A tool's work on the disk, which comes last.
    pub fn made_by(&self, program: &str, arguments: &[&str]) -> bool {
        let mut arguments = arguments.to_vec();
        arguments.push(&self.path);
        tool(program, &arguments).is_some()
    }
}

fn attach(file: &Path, options: &[&str]) -> String {
    let mut arguments = vec!["--find", "--show"];
    arguments.extend(options);
    arguments.push(file.to_str().unwrap());
    tool("losetup", &arguments).unwrap()
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.path.is_empty() {
            return;
        }
        let _ = Command::new("losetup")
            .args(["--detach", &self.path])
            .status();
    }
}

/// What a watcher was told, added up.
pub struct Told {
    stream: Streaming<proto::WatchDevicesResponse>,
    pub devices: BTreeMap<String, proto::Device>,
    pub look: proto::Look,
}

impl Told {
    pub async fn of(client: &mut NodeAgentClient<Channel>) -> Self {
        let request = proto::WatchDevicesRequest {};
        let mut told = Self {
            stream: client.watch_devices(request).await.unwrap().into_inner(),
            devices: BTreeMap::new(),
            look: proto::Look::default(),
        };
        told.next().await;
        told
    }

    /// Takes what comes up to the next look.
    async fn next(&mut self) {
        loop {
            let event = tokio::time::timeout(DEADLINE, self.stream.message()).await;
            match event.expect("in time").unwrap().unwrap().event.unwrap() {
                Event::Changed(device) => {
                    self.devices.insert(device.name.clone(), device);
                }
                Event::Removed(name) => assert!(self.devices.remove(&name).is_some()),
                Event::Look(look) => {
                    assert_eq!(look.devices, self.devices.len() as u64);
                    assert!(look.revision >= self.look.revision);
                    self.look = look;
                    return;
                }
            }
        }
    }

    /// Takes looks until the device has just these reasons.
    pub async fn until(&mut self, name: &str, reasons: &[&str]) {
        let reached = async {
            while self.reasons(name) != reasons {
                self.next().await;
            }
        };
        let reached = tokio::time::timeout(DEADLINE, reached).await;
        assert!(
            reached.is_ok(),
            "{name}: not {reasons:?}: {:?}",
            self.devices
        );
    }

    pub fn reasons(&self, name: &str) -> Vec<&str> {
        let reasons = &self.devices[name].reasons;
        let mut reasons: Vec<_> = reasons.iter().map(|told| told.reason.as_str()).collect();
        reasons.dedup();
        reasons
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_are_told_what_the_devices_are_and_what_changes() {
    if !is_root("watchers_are_told_what_the_devices_are_and_what_changes") {
        return;
    }
    let disk = Disk::new(&[]);
    let authority = Authority::new();
    let mut agent = Agent::with(&authority, DEADLINE, disk.tree()).await;
    agent.is_ready().await;
    let mut client = agent.client(&authority);
    let mut one = Told::of(&mut client).await;
    let mut other = Told::of(&mut client).await;
    let device = &one.devices[disk.name()];
    assert_eq!(
        (device.path.as_str(), device.size),
        (disk.path.as_str(), SIZE)
    );
    assert_eq!(device.kind(), proto::DeviceKind::Loop);
    assert!(device.identity.as_ref().unwrap().disk_sequence.is_some());
    assert!(one.look.boot_id.is_some() && one.look.revision > 0);
    assert_eq!(one.reasons(disk.name()), ["LoopDevice"]);
    let begun = one.look.revision;

    // No udev tells of this.
    assert!(disk.made_by("mkfs.ext4", &["-q", "-L", "kept"]));
    for told in [&mut one, &mut other] {
        told.until(disk.name(), &["FileSystem", "LoopDevice"]).await;
        let content = told.devices[disk.name()].content.clone().unwrap();
        assert_eq!((content.kind.as_str(), content.label()), ("ext4", "kept"));
        assert!(told.look.revision > begun);
    }

    fs::remove_file(disk.dir.path().join("tree/sys/block").join(disk.name())).unwrap();
    // Any event of a device asks for a look.
    let event = format!("/sys/block/{}/uevent", disk.name());
    fs::write(event, "change").unwrap();
    while !one.devices.is_empty() {
        one.next().await;
    }
    let late = Told::of(&mut client).await;
    assert_eq!(
        (late.devices.len(), late.look.revision),
        (0, one.look.revision)
    );
}
