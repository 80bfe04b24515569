//! A bridge on the host, a cable from it to each node, and routes to the pods.
//!
//! Nothing leaves the machine: there is no address translation to the outside.

use crate::command::{program, run, succeeds};
use crate::settings::{BRIDGE, HOST_ADDRESS, Node};
use anyhow::{Context, Result};
use std::path::Path;

/// The rules that let nodes speak to each other where the host's firewall
/// drops what it forwards (bridged frames pass it as well).
const FORWARD: &[&str] = &["FORWARD", "-i", BRIDGE, "-o", BRIDGE, "-j", "ACCEPT"];

fn ip(words: &str) -> Result<String> {
    run(&mut program("ip", &words.split(' ').collect::<Vec<_>>()))
}

fn iptables(action: &str) -> bool {
    let mut arguments = vec!["-w", action];
    arguments.extend(FORWARD);
    succeeds(&mut program("iptables", &arguments))
}

/// The bridge with the host's address.
pub fn make_bridge() -> Result<()> {
    if !device_exists(BRIDGE) {
        ip(&format!("link add {BRIDGE} type bridge"))?;
    }
    ip(&format!("address replace {HOST_ADDRESS}/24 dev {BRIDGE}"))?;
    ip(&format!("link set {BRIDGE} up"))?;
    if !iptables("-C") && !iptables("-I") {
        anyhow::bail!("iptables accepts no rule for {BRIDGE}");
    }
    Ok(())
}

/// Connects the node, whose network namespace is that of `holder`.
pub fn connect(node: &Node, holder: i32, others: &[Node]) -> Result<()> {
    let cable = node.cable();
    let inside = |words: &str| {
        let process = holder.to_string();
        let mut arguments = vec!["--target", &process, "--net", "--", "ip"];
        arguments.extend(words.split(' '));
        run(&mut program("nsenter", &arguments))
    };
    if !device_exists(&cable) {
        ip(&format!(
            "link add {cable} type veth peer name eth0 netns {holder}"
        ))
        .with_context(|| format!("lay a cable to {}", node.name))?;
    }
    ip(&format!("link set {cable} master {BRIDGE} up"))?;
    ip(&format!("route replace {} via {}", node.pods, node.address))?;
    inside("link set lo up")?;
    inside(&format!("address replace {}/24 dev eth0", node.address))?;
    inside("link set eth0 up")?;
    inside(&format!("route replace default via {HOST_ADDRESS}"))?;
    for other in others.iter().filter(|other| *other != node) {
        inside(&format!(
            "route replace {} via {}",
            other.pods, other.address
        ))?;
    }
    Ok(())
}

/// Takes away the bridge, the cables and the firewall rule.
pub fn remove(nodes: &[Node]) -> Result<()> {
    for node in nodes {
        let cable = node.cable();
        if device_exists(&cable) {
            // The cable goes by itself, and perhaps right now, once the
            // node's namespace is gone.
            let _ = ip(&format!("link delete {cable}"));
        }
    }
    if device_exists(BRIDGE) {
        ip(&format!("link delete {BRIDGE}"))?;
    }
    while iptables("-C") && iptables("-D") {}
    Ok(())
}

/// Whether the host has a network device of this name.
pub fn device_exists(name: &str) -> bool {
    Path::new("/sys/class/net").join(name).exists()
}
