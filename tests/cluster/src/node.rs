//! A node: a network, mount and host-name namespace with its own containerd,
//! kubelet and kube-proxy.
//!
//! A process called the holder keeps the namespaces; it has laid the node's own
//! directories over the host's before anything else of the node starts.

mod config;

use crate::binaries::Binaries;
use crate::cgroup;
use crate::command::{program, run, succeeds, wait_until};
use crate::network;
use crate::process::{self, Service};
use crate::settings::{Node, Settings};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Starts everything of the node but its CSI driver.
pub fn start(settings: &Settings, binaries: &Binaries, node: &Node, all: &[Node]) -> Result<()> {
    let groups = cgroup::make(&node.name)?;
    let holder = hold(settings, node, &groups)?;
    network::connect(node, holder, all)?;
    config::write(settings, node)?;

    let inside = |name: &str, words: Vec<String>| -> Result<()> {
        let service = Service {
            name: &node.process(name),
            words: enter(holder).into_iter().chain(words).collect(),
            control_groups: groups.clone(),
        };
        process::start(settings, &service).map(drop)
    };
    inside("containerd", config::containerd_words(node))?;
    let containerd = node.process("containerd");
    let answers = wait_until(
        &format!("{containerd} answers"),
        Duration::from_secs(30),
        || {
            process::expect_alive(settings, &containerd)?;
            Ok(succeeds(&mut ctr(node, &["version"])))
        },
    );
    process::explain(settings, &containerd, answers)?;
    inside("kubelet", config::kubelet_words(settings, binaries, node)?)?;
    inside("kube-proxy", config::proxy_words(binaries, node)?)
}

/// The words that carry a program into the node's namespaces.
pub fn enter(holder: i32) -> Vec<String> {
    let words = ["nsenter", "--mount", "--net", "--uts", "--target"];
    words
        .into_iter()
        .map(str::to_owned)
        .chain([holder.to_string(), "--".to_owned()])
        .collect()
}

/// The holder of a running node.
pub fn holder(settings: &Settings, node: &Node) -> Option<i32> {
    process::recorded(settings, &node.process("holder"))
}

/// A call to the node's containerd.
pub fn ctr(node: &Node, arguments: &[&str]) -> Command {
    let mut command = program("ctr", &["--namespace", "k8s.io", "--address"]);
    command.arg(node.containerd_socket()).args(arguments);
    command
}

fn hold(settings: &Settings, node: &Node, groups: &[PathBuf]) -> Result<i32> {
    for (own, name) in node.own_directories() {
        fs::create_dir_all(node.directory.join(own))?;
        make_directory(settings, Path::new(name))?;
    }
    let ready = node.directory.join("ready");
    let script = node.directory.join("hold.sh");
    if holder(settings, node).is_none() {
        let _ = fs::remove_file(&ready);
    }
    fs::write(&script, holder_script(node, &ready))?;
    let name = node.process("holder");
    let words = [
        "unshare",
        "--mount",
        "--net",
        "--uts",
        "--propagation",
        "private",
        "sh",
    ];
    let holder = process::start(
        settings,
        &Service {
            name: &name,
            words: words
                .into_iter()
                .map(str::to_owned)
                .chain([script.display().to_string()])
                .collect(),
            control_groups: groups.to_vec(),
        },
    )?;
    let is_ready = wait_until(&format!("{name} is ready"), Duration::from_secs(20), || {
        process::expect_alive(settings, &name)?;
        Ok(ready.exists())
    });
    process::explain(settings, &name, is_ready)?;
    Ok(holder)
}

/// Mounts made by the host later are not seen by the node, nor the other way
/// round; within the node mounts spread, as kubelet and pods expect.
fn holder_script(node: &Node, ready: &Path) -> String {
    let mut script = String::from("set -eu\n");
    for (own, name) in node.own_directories() {
        script.push_str(&format!(
            "mount --bind '{}' {name}\n",
            node.directory.join(own).display()
        ));
    }
    script.push_str(&format!(
        "mount --make-rshared /\n\
         hostname {}\n\
         for setting in net/ipv4/ip_forward net/bridge/bridge-nf-call-iptables; do\n\
         \x20   if [ -w /proc/sys/$setting ]; then echo 1 > /proc/sys/$setting; fi\n\
         done\n\
         touch '{}'\n\
         exec sleep infinity\n",
        node.name,
        ready.display()
    ));
    script
}

/// Makes a directory on the host and remembers it, and its new parents, for
/// `down` to remove.
fn make_directory(settings: &Settings, path: &Path) -> Result<()> {
    let new: Vec<&Path> = path
        .ancestors()
        .take_while(|ancestor| !ancestor.exists())
        .collect();
    let mut record = File::options()
        .create(true)
        .append(true)
        .open(settings.made_directories())?;
    for directory in new {
        writeln!(record, "{}", directory.display())?;
    }
    fs::create_dir_all(path).with_context(|| format!("make {}", path.display()))
}

/// Removes the directories made on the host, where nothing is in them.
pub fn remove_made_directories(settings: &Settings) {
    let Ok(record) = fs::read_to_string(settings.made_directories()) else {
        return;
    };
    for line in record.lines() {
        // What someone else has put there stays.
        let _ = fs::remove_dir(line);
    }
}

/// Runs a program inside the node, on this terminal.
pub fn execute(settings: &Settings, node: &Node, words: &[String]) -> Result<Command> {
    let holder = holder(settings, node).with_context(|| format!("{} does not run", node.name))?;
    let entry = enter(holder);
    let mut command = Command::new(&entry[0]);
    command.args(&entry[1..]).args(words);
    Ok(command)
}

/// Loads an image archive into the node's containerd.
pub fn load_image(node: &Node, archive: &Path) -> Result<()> {
    let archive = archive.display().to_string();
    run(&mut ctr(node, &["images", "import", &archive])).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_lays_the_nodes_own_directories_over_the_hosts() {
        let node = &Node::list(Path::new("/c"), 2).unwrap()[1];
        let script = holder_script(node, Path::new("/c/nodes/node-b/ready"));
        assert!(script.contains("mount --bind '/c/nodes/node-b/kubelet' /var/lib/kubelet\n"));
        assert!(script.contains("hostname node-b\n"));
        assert!(script.ends_with("exec sleep infinity\n"));
    }

    #[test]
    fn only_what_was_made_here_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            root: directory.path().join("root"),
            cache: directory.path().into(),
            sources: directory.path().into(),
        };
        fs::create_dir(&settings.root).unwrap();
        let own = directory.path().join("own/deep");
        let there = directory.path().join("there");
        fs::create_dir(&there).unwrap();
        make_directory(&settings, &own).unwrap();
        make_directory(&settings, &there).unwrap();
        remove_made_directories(&settings);
        assert!(!directory.path().join("own").exists());
        assert!(there.exists());
    }
}
