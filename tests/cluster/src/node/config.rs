//! What the programs of a node are told: command lines and configuration files.

use crate::binaries::Binaries;
use crate::certificates::{authority_file, certificate_file, key_file};
use crate::settings::{
    CONTROL_GROUP, NAME_SERVER_ADDRESS, Node, PAUSE_IMAGE, POD_NETWORK, Settings,
};
use anyhow::Result;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

fn containerd_file(node: &Node) -> PathBuf {
    node.directory.join("containerd.toml")
}

fn kubelet_file(node: &Node) -> PathBuf {
    node.directory.join("kubelet.json")
}

fn proxy_file(node: &Node) -> PathBuf {
    node.directory.join("kube-proxy.json")
}

fn cni_directory(node: &Node) -> PathBuf {
    node.directory.join("cni")
}

/// Writes every configuration file of the node.
pub fn write(settings: &Settings, node: &Node) -> Result<()> {
    fs::create_dir_all(cni_directory(node))?;
    fs::write(containerd_file(node), containerd(node))?;
    let documents = [
        (cni_directory(node).join("10-bridge.conflist"), cni(node)),
        (kubelet_file(node), kubelet(settings, node)),
        (proxy_file(node), proxy(settings, node)),
    ];
    for (file, document) in documents {
        fs::write(file, format!("{document:#}\n"))?;
    }
    Ok(())
}

/// The command line of containerd.
pub fn containerd_words(node: &Node) -> Vec<String> {
    vec![
        "containerd".to_owned(),
        "--config".to_owned(),
        containerd_file(node).display().to_string(),
    ]
}

/// The command line of kubelet.
pub fn kubelet_words(settings: &Settings, binaries: &Binaries, node: &Node) -> Result<Vec<String>> {
    Ok(vec![
        binaries.path("kubelet")?,
        format!("--config={}", kubelet_file(node).display()),
        format!(
            "--kubeconfig={}",
            settings.credentials(&node.name).display()
        ),
        format!("--hostname-override={}", node.name),
        format!("--node-ip={}", node.address),
        "--v=1".to_owned(),
    ])
}

/// The command line of kube-proxy.
pub fn proxy_words(binaries: &Binaries, node: &Node) -> Result<Vec<String>> {
    Ok(vec![
        binaries.path("kube-proxy")?,
        format!("--config={}", proxy_file(node).display()),
        "--v=1".to_owned(),
    ])
}

/// `restrict_oom_score_adj`: inside a container or a restricted machine no
/// process may be made less likely to be killed, and every sandbox would fail.
/// `device_ownership_from_security_context`: a raw volume belongs to the user
/// of the pod that mounts it, as KubeVirt asks of its clusters.
fn containerd(node: &Node) -> String {
    let directory = node.directory.display();
    let socket = node.containerd_socket();
    let cni = cni_directory(node);
    format!(
        r#"version = 2
root = "{directory}/containerd"
state = "{directory}/containerd-state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = "{socket}"

[ttrpc]
  address = "{socket}.ttrpc"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  device_ownership_from_security_context = true

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "{cni}"

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
"#,
        socket = socket.display(),
        cni = cni.display(),
    )
}

fn cni(node: &Node) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "hairpinMode": true,
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": node.pods}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

/// Two kubelets share the host's control groups; each works below its own
/// root and so takes no other's pods for orphans.
fn kubelet(settings: &Settings, node: &Node) -> Value {
    let file = |path: PathBuf| path.display().to_string();
    let serving = node.process("serving");
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": file(authority_file(settings))},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{CONTROL_GROUP}/{}", node.name),
        "clusterDNS": [NAME_SERVER_ADDRESS],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": format!("unix://{}", node.containerd_socket().display()),
        "enforceNodeAllocatable": [],
        "evictionHard": {
            "imagefs.available": "1%",
            "memory.available": "50Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
        "failCgroupV1": false,
        "failSwapOn": false,
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "localStorageCapacityIsolation": false,
        "nodeStatusUpdateFrequency": "5s",
        "oomScoreAdj": 0,
        "registerNode": true,
        // A claim that grows is noticed when its pod is looked at again.
        "syncFrequency": "10s",
        "rotateCertificates": false,
        "tlsCertFile": file(certificate_file(settings, &serving)),
        "tlsPrivateKeyFile": file(key_file(settings, &serving)),
        "volumeStatsAggPeriod": "30s",
    })
}

/// Connection tracking limits belong to the host and are left alone.
fn proxy(settings: &Settings, node: &Node) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": node.name,
        "clusterCIDR": POD_NETWORK,
        "clientConnection": {"kubeconfig": settings.credentials("kube-proxy").display().to_string()},
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        "oomScoreAdj": 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn settings() -> Settings {
        Settings {
            root: "/c".into(),
            cache: "/cache".into(),
            sources: "/src".into(),
        }
    }

    #[test]
    fn containerd_keeps_to_the_nodes_directory() {
        let node = &Node::list(Path::new("/c"), 1).unwrap()[0];
        let text = containerd(node);
        assert!(text.contains("root = \"/c/nodes/node-a/containerd\"\n"));
        assert!(text.contains("address = \"/c/nodes/node-a/containerd.sock\"\n"));
        assert!(text.contains("restrict_oom_score_adj = true"));
    }

    #[test]
    fn kubelets_have_control_groups_of_their_own() {
        let nodes = Node::list(Path::new("/c"), 2).unwrap();
        let roots: Vec<Value> = nodes
            .iter()
            .map(|node| kubelet(&settings(), node)["cgroupRoot"].clone())
            .collect();
        assert_eq!(roots, ["/hcs-test/node-a", "/hcs-test/node-b"]);
    }

    #[test]
    fn pods_of_a_node_are_in_its_network() {
        let node = &Node::list(Path::new("/c"), 2).unwrap()[1];
        let subnet = cni(node)["plugins"][0]["ipam"]["ranges"][0][0]["subnet"].clone();
        assert_eq!(subnet, "10.244.2.0/24");
    }
}
