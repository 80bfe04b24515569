//! Up, down and how it stands.

use crate::binaries::{self, Binaries};
use crate::command::wait_until;
use crate::kubectl::Kubectl;
use crate::phase::phase;
use crate::settings::{MAXIMAL_NODES, Node, Settings};
use crate::{certificates, cgroup, control_plane, csi, dns, images, loops, network};
use crate::{node, packages, process};
use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::time::{Duration, Instant};

/// Brings a cluster of `count` nodes up, or completes one that is partly up.
pub fn up(settings: &Settings, count: Option<usize>) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("namespaces, mounts and loop devices need root");
    }
    let begun = Instant::now();
    fs::create_dir_all(&settings.root)?;
    let _lock = lock(settings)?;
    let nodes = agree_on_nodes(settings, count)?;
    phase("packages", || {
        let installed = packages::install_missing()?;
        if !installed.is_empty() {
            eprintln!("    installed {}", installed.join(" "));
        }
        Ok(())
    })?;
    let binaries = phase("programs", || binaries::build(settings))?;
    let kubectl = Kubectl::new(settings, &binaries)?;
    if missing(settings, &nodes).is_empty()
        && are_ready(&kubectl, &nodes).unwrap_or(false)
        && dns::is_ready(&kubectl)
    {
        eprintln!("the cluster is up and well ({} nodes)", nodes.len());
        return Ok(());
    }
    phase("certificates", || certificates::make(settings, &nodes))?;
    phase("network and storage of the host", || {
        network::make_bridge()?;
        csi::mount_volumes(settings)
    })?;
    phase("control plane", || {
        control_plane::start(settings, &binaries, &kubectl)
    })?;
    phase("nodes", || {
        for each in &nodes {
            node::start(settings, &binaries, each, &nodes)
                .with_context(|| format!("start {}", each.name))?;
        }
        images::load_own(settings, &binaries, &nodes)
    })?;
    phase("nodes ready", || wait_for_nodes(settings, &kubectl, &nodes))?;
    phase("storage and names", || {
        dns::start(settings, &binaries, &kubectl, &nodes)?;
        csi::start(settings, &binaries, &kubectl, &nodes)?;
        dns::wait(&kubectl)
    })?;
    eprintln!(
        "the cluster is up ({} nodes, {:.1} s): export KUBECONFIG={}",
        nodes.len(),
        begun.elapsed().as_secs_f64(),
        settings.kubeconfig().display()
    );
    Ok(())
}

fn wait_for_nodes(settings: &Settings, kubectl: &Kubectl, nodes: &[Node]) -> Result<()> {
    for each in nodes {
        let one = std::slice::from_ref(each);
        let is_ready = wait_until(
            &format!("{} is ready", each.name),
            Duration::from_secs(120),
            || are_ready(kubectl, one),
        );
        process::explain(settings, &each.process("kubelet"), is_ready)?;
        for program in ["containerd", "kubelet", "kube-proxy"] {
            let name = each.process(program);
            process::explain(settings, &name, process::expect_alive(settings, &name))?;
        }
    }
    Ok(())
}

fn are_ready(kubectl: &Kubectl, nodes: &[Node]) -> Result<bool> {
    let found = kubectl.get(&["nodes"])?;
    let ready = |name: &str| {
        found["items"].as_array().is_some_and(|items| {
            items
                .iter()
                .filter(|item| item["metadata"]["name"] == name)
                .flat_map(|item| item["status"]["conditions"].as_array())
                .flatten()
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        })
    };
    Ok(nodes.iter().all(|each| ready(&each.name)))
}

/// Every process the cluster has when it is complete.
fn expected(nodes: &[Node]) -> Vec<String> {
    let host = control_plane::PROCESSES.iter().chain(&csi::PROCESSES);
    let inside = nodes.iter().flat_map(|each| {
        ["holder", "containerd", "kubelet", "kube-proxy", "csi"].map(|name| each.process(name))
    });
    host.map(ToString::to_string).chain(inside).collect()
}

fn missing(settings: &Settings, nodes: &[Node]) -> Vec<String> {
    let mut names = expected(nodes);
    names.retain(|name| process::recorded(settings, name).is_none());
    names
}

/// One `up` or `down` at a time.
fn lock(settings: &Settings) -> Result<File> {
    let mut path = settings.root.clone().into_os_string();
    path.push(".lock");
    let file = File::create(&path).with_context(|| format!("open {}", path.display()))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        eprintln!("waiting for another `up` or `down` to end");
        flock(&file, FlockOperation::LockExclusive)?;
    }
    Ok(file)
}

/// The number of nodes is settled by the first `up`.
fn agree_on_nodes(settings: &Settings, count: Option<usize>) -> Result<Vec<Node>> {
    let file = settings.root.join("node-count");
    let recorded = match fs::read_to_string(&file) {
        Ok(text) => Some(
            text.trim()
                .parse::<usize>()
                .context("read the number of nodes")?,
        ),
        Err(_) => None,
    };
    match (recorded, count) {
        (Some(recorded), Some(count)) if recorded != count => {
            bail!("the cluster has {recorded} nodes; take it down before asking for {count}")
        }
        _ => {}
    }
    let count = recorded.or(count).unwrap_or(DEFAULT_NODES);
    let nodes = Node::list(&settings.root, count)?;
    fs::write(&file, format!("{count}\n"))?;
    Ok(nodes)
}

const DEFAULT_NODES: usize = 2;

/// The nodes of the cluster that is up.
pub fn nodes(settings: &Settings) -> Result<Vec<Node>> {
    let text = fs::read_to_string(settings.root.join("node-count"))
        .context("no cluster is up; run `test-cluster up`")?;
    Node::list(&settings.root, text.trim().parse()?)
}

/// Takes the cluster away, whatever part of it is there.
pub fn down(settings: &Settings) -> Result<()> {
    let _lock = lock(settings)?;
    let all = Node::list(&settings.root, MAXIMAL_NODES)?;
    phase("end the processes", || {
        // kubelets first, so that nothing restarts what ends.
        let mut names = process::names(settings);
        names.sort_by_key(|name| (!name.ends_with("kubelet"), !name.starts_with("csi-")));
        for name in names.iter().filter(|name| !name.ends_with("-holder")) {
            process::stop(settings, name, Duration::from_secs(3))?;
        }
        cgroup::end_all()?;
        for name in process::names(settings) {
            process::stop(settings, &name, Duration::from_secs(3))?;
        }
        Ok(())
    })?;
    phase("take away mounts, loop devices and the network", || {
        loops::remove_below(&settings.root)?;
        network::remove(&all)
    })?;
    phase("remove the state", || {
        node::remove_made_directories(settings);
        if settings.root.exists() {
            fs::remove_dir_all(&settings.root)
                .with_context(|| format!("remove {}", settings.root.display()))?;
        }
        Ok(())
    })?;
    let mut lock_file = settings.root.clone().into_os_string();
    lock_file.push(".lock");
    fs::remove_file(lock_file)?;
    leftovers(settings)
}

fn leftovers(settings: &Settings) -> Result<()> {
    let mut left: Vec<String> = loops::below(&settings.root)?
        .into_iter()
        .map(|(_, device)| device)
        .collect();
    if cgroup::exists() {
        left.push("control groups".to_owned());
    }
    if network::device_exists(crate::settings::BRIDGE) {
        left.push("the bridge".to_owned());
    }
    if left.is_empty() {
        eprintln!("nothing of the cluster is left");
        return Ok(());
    }
    bail!("left over: {}", left.join(", "))
}

/// Prints what runs; fails when something is missing.
pub fn status(settings: &Settings) -> Result<()> {
    let nodes = nodes(settings)?;
    for name in expected(&nodes) {
        match process::recorded(settings, &name) {
            Some(process) => println!("{name:<28} runs ({process})"),
            None => println!("{name:<28} does not run"),
        }
    }
    let binaries: Binaries = binaries::built(settings)?;
    let kubectl = Kubectl::new(settings, &binaries)?;
    print!("{}", kubectl.run(&["get", "nodes", "--output=wide"])?);
    let missing = missing(settings, &nodes);
    if !missing.is_empty() {
        bail!("not running: {}", missing.join(", "));
    }
    if !are_ready(&kubectl, &nodes)? {
        bail!("not every node is ready");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_nodes_stays_as_first_agreed() {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            root: directory.path().into(),
            cache: directory.path().into(),
            sources: directory.path().into(),
        };
        assert!(nodes(&settings).is_err());
        assert_eq!(agree_on_nodes(&settings, Some(1)).unwrap().len(), 1);
        assert_eq!(agree_on_nodes(&settings, None).unwrap().len(), 1);
        assert!(agree_on_nodes(&settings, Some(2)).is_err());
        assert_eq!(nodes(&settings).unwrap().len(), 1);
    }
}
