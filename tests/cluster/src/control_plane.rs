//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler, as
//! processes of the host.

use crate::binaries::Binaries;
use crate::certificates::{authority_file, certificate_file, key_file};
use crate::command::wait_until;
use crate::kubectl::Kubectl;
use crate::process::{self, Service, expect_alive, explain};
use crate::settings::{API_PORT, HOST_ADDRESS, POD_NETWORK, SERVICE_NETWORK, Settings};
use anyhow::Result;
use std::path::Path;
use std::time::Duration;

const ETCD: &str = "http://127.0.0.1:36379";
const ETCD_PEER: &str = "http://127.0.0.1:36380";

/// The control plane's processes in the order they start.
pub const PROCESSES: [&str; 4] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];

/// Starts all and waits until the API answers.
pub fn start(settings: &Settings, binaries: &Binaries, kubectl: &Kubectl) -> Result<()> {
    let start = |name: &str, arguments: Vec<String>| {
        let service = Service {
            name,
            words: [binaries.path(name)?]
                .into_iter()
                .chain(arguments)
                .collect(),
            control_groups: Vec::new(),
        };
        process::start(settings, &service).map(drop)
    };
    start("etcd", etcd(settings))?;
    start("kube-apiserver", api_server(settings))?;
    let api_is_ready = wait_until("the API server is ready", Duration::from_secs(120), || {
        expect_alive(settings, "kube-apiserver")?;
        expect_alive(settings, "etcd")?;
        Ok(kubectl.succeeds(&["get", "--raw=/readyz"]))
    });
    explain_all(settings, api_is_ready, &["etcd", "kube-apiserver"])?;
    start("kube-controller-manager", controller_manager(settings))?;
    start("kube-scheduler", scheduler(settings))?;
    // The first thing every pod needs, and proof that controllers work.
    let has_account = wait_until(
        "the default service account exists",
        Duration::from_secs(60),
        || {
            expect_alive(settings, "kube-controller-manager")?;
            expect_alive(settings, "kube-scheduler")?;
            Ok(kubectl.succeeds(&["get", "serviceaccount", "default"]))
        },
    );
    explain_all(
        settings,
        has_account,
        &["kube-controller-manager", "kube-scheduler"],
    )
}

/// Adds the log of the process that ended, or else those of all.
fn explain_all(settings: &Settings, outcome: Result<()>, names: &[&str]) -> Result<()> {
    let ended: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| process::recorded(settings, name).is_none())
        .collect();
    let to_blame = if ended.is_empty() { names } else { &ended };
    to_blame
        .iter()
        .fold(outcome, |outcome, name| explain(settings, name, outcome))
}

fn flag(name: &str, value: impl AsRef<Path>) -> String {
    format!("--{name}={}", value.as_ref().display())
}

/// Without fsync: a test cluster does not outlive its machine.
fn etcd(settings: &Settings) -> Vec<String> {
    vec![
        "--name=test".to_owned(),
        flag("data-dir", settings.root.join("etcd")),
        format!("--listen-client-urls={ETCD}"),
        format!("--advertise-client-urls={ETCD}"),
        format!("--listen-peer-urls={ETCD_PEER}"),
        format!("--initial-advertise-peer-urls={ETCD_PEER}"),
        format!("--initial-cluster=test={ETCD_PEER}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

/// `enable-aggregator-routing` lets the API server, which runs outside the
/// nodes and so without kube-proxy, reach webhooks by their pods' addresses.
fn api_server(settings: &Settings) -> Vec<String> {
    let certificates = settings.certificates();
    vec![
        format!("--etcd-servers={ETCD}"),
        "--bind-address=0.0.0.0".to_owned(),
        format!("--advertise-address={HOST_ADDRESS}"),
        format!("--secure-port={API_PORT}"),
        flag(
            "tls-cert-file",
            certificate_file(settings, "kube-apiserver"),
        ),
        flag("tls-private-key-file", key_file(settings, "kube-apiserver")),
        flag("client-ca-file", authority_file(settings)),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--service-cluster-ip-range={SERVICE_NETWORK}"),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        flag(
            "service-account-key-file",
            certificates.join("service-accounts.pub"),
        ),
        flag(
            "service-account-signing-key-file",
            key_file(settings, "service-accounts"),
        ),
        flag("kubelet-certificate-authority", authority_file(settings)),
        flag(
            "kubelet-client-certificate",
            certificate_file(settings, "kubelet-client"),
        ),
        flag("kubelet-client-key", key_file(settings, "kubelet-client")),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--enable-aggregator-routing=true".to_owned(),
        "--profiling=false".to_owned(),
        "--v=1".to_owned(),
    ]
}

/// A dead node is noticed sooner than by default, for tests that kill one.
fn controller_manager(settings: &Settings) -> Vec<String> {
    let mut flags = with_kubeconfig(settings, "kube-controller-manager");
    flags.extend([
        "--bind-address=127.0.0.1".to_owned(),
        "--secure-port=36257".to_owned(),
        "--use-service-account-credentials=true".to_owned(),
        flag(
            "service-account-private-key-file",
            key_file(settings, "service-accounts"),
        ),
        flag("root-ca-file", authority_file(settings)),
        flag("cluster-signing-cert-file", authority_file(settings)),
        flag("cluster-signing-key-file", key_file(settings, "ca")),
        "--allocate-node-cidrs=false".to_owned(),
        format!("--cluster-cidr={POD_NETWORK}"),
        "--node-monitor-grace-period=20s".to_owned(),
    ]);
    flags
}

fn scheduler(settings: &Settings) -> Vec<String> {
    let mut flags = with_kubeconfig(settings, "kube-scheduler");
    flags.extend([
        "--bind-address=127.0.0.1".to_owned(),
        "--secure-port=36259".to_owned(),
    ]);
    flags
}

fn with_kubeconfig(settings: &Settings, name: &str) -> Vec<String> {
    let file = settings.credentials(name);
    vec![
        flag("kubeconfig", &file),
        flag("authentication-kubeconfig", &file),
        flag("authorization-kubeconfig", &file),
        "--leader-elect=false".to_owned(),
        "--profiling=false".to_owned(),
        "--v=1".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_speak_with_their_own_credentials() {
        let settings = Settings {
            root: "/c".into(),
            cache: "/cache".into(),
            sources: "/src".into(),
        };
        let flags = scheduler(&settings);
        assert!(flags.contains(&"--kubeconfig=/c/kubeconfig/kube-scheduler.json".to_owned()));
        assert!(api_server(&settings).contains(&"--authorization-mode=Node,RBAC".to_owned()));
        assert!(etcd(&settings).contains(&"--unsafe-no-fsync".to_owned()));
    }
}
