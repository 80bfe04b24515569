//! The cluster's name server: CoreDNS in a pod, behind the usual service.
//!
//! It knows the names of services and denies all others at once: nothing
//! outside the machine is to be reached from the pods.

use crate::binaries::Binaries;
use crate::images::{self, Recipe};
use crate::kubectl::{Kubectl, list};
use crate::settings::{NAME_SERVER_ADDRESS, Node, Settings};
use anyhow::Result;
use serde_json::{Value, json};

const IMAGE: &str = "hcs-test/coredns:1";
const NAME: &str = "coredns";
const NAMESPACE: &str = "kube-system";

const COREFILE: &str = ".:53 {
    errors
    ready
    cache 10
    loadbalance
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
    }
    template ANY ANY . {
        rcode NXDOMAIN
    }
}
";

/// Starts the name server; does not wait for it.
pub fn start(
    settings: &Settings,
    binaries: &Binaries,
    kubectl: &Kubectl,
    nodes: &[Node],
) -> Result<()> {
    let recipe = Recipe {
        name: IMAGE.to_owned(),
        programs: vec![format!("{}=/coredns", binaries.path("coredns")?)],
        ..Recipe::default()
    };
    images::load(settings, nodes, &recipe)?;
    kubectl.apply(&objects())
}

/// Whether the name server is there and answers.
pub fn is_ready(kubectl: &Kubectl) -> bool {
    kubectl
        .get(&["--namespace", NAMESPACE, "deployment", NAME])
        .is_ok_and(|found| found["status"]["readyReplicas"] == 1)
}

/// Waits until the name server answers.
pub fn wait(kubectl: &Kubectl) -> Result<()> {
    let deployment = format!("deployment/{NAME}");
    let arguments = [
        "--namespace",
        NAMESPACE,
        "rollout",
        "status",
        &deployment,
        "--timeout=90s",
    ];
    kubectl.run(&arguments).map(drop)
}

fn objects() -> Value {
    let metadata = json!({"name": NAME, "namespace": NAMESPACE});
    let labels = json!({"k8s-app": "kube-dns"});
    let watched = |group: &str, resources: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": ["list", "watch"]});
    let port = |name: &str, protocol: &str| json!({"name": name, "port": 53, "protocol": protocol});
    list(vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": NAME},
            "rules": [
                watched("", &["services", "namespaces", "pods"]),
                watched("discovery.k8s.io", &["endpointslices"]),
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": NAME,
            },
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
        }),
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {"Corefile": COREFILE},
        }),
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": NAMESPACE, "labels": labels},
            "spec": {
                "clusterIP": NAME_SERVER_ADDRESS,
                "selector": labels,
                "ports": [port("dns", "UDP"), port("dns-tcp", "TCP")],
            },
        }),
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod()},
            },
        }),
    ])
}

fn pod() -> Value {
    json!({
        "serviceAccountName": NAME,
        "dnsPolicy": "Default",
        "priorityClassName": "system-cluster-critical",
        "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
        "containers": [{
            "name": NAME,
            "image": IMAGE,
            "args": ["-conf", "/etc/coredns/Corefile"],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": true}],
        }],
        "volumes": [{"name": "config", "configMap": {"name": NAME}}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_server_is_where_kubelet_tells_pods_it_is() {
        let objects = objects();
        let service = objects["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|item| item["kind"] == "Service")
            .unwrap();
        assert_eq!(service["spec"]["clusterIP"], NAME_SERVER_ADDRESS);
    }
}
