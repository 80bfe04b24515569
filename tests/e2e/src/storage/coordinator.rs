//! A coordinator of the tests' own: a process of this machine that leads in
//! the pods' place, with the coordinator's account. It can be killed at any
//! instant and started again at once, and leads again at once.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::{Cluster, SYSTEM_NAMESPACE};
use crate::wait::{until, when};
use crate::{download, system};

const IDENTITY: &str = "coordinator-of-the-tests";
const LEASE: &str = "hypercloud-storage-coordinator";

/// The process, which ends with this value.
pub struct Coordinator {
    program: PathBuf,
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl Coordinator {
    /// Takes the lead from the pods.
    pub async fn take_over(cluster: &Cluster) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let kubeconfig = kubeconfig(cluster).await?;
        let text = serde_json::to_string(&kubeconfig)?;
        std::fs::write(folder.path().join("kubeconfig"), text)?;
        let mut own = Self {
            program: download::program("coordinator")?,
            folder,
            child: None,
        };
        lead(cluster, Some(IDENTITY)).await?;
        own.start()?;
        until(
            "the tests' coordinator leads",
            Duration::from_secs(30),
            || async {
                let held = system::leader(cluster).await?;
                // Who is deposed may have written once more.
                if held != IDENTITY {
                    lead(cluster, Some(IDENTITY)).await?;
                }
                let log = std::fs::read_to_string(own.log())?;
                Ok(when(held == IDENTITY && log.contains("leading"), held))
            },
        )
        .await?;
        Ok(own)
    }

    /// Gives the lead back to the pods.
    pub async fn hand_back(mut self, cluster: &Cluster) -> anyhow::Result<()> {
        self.kill()?;
        lead(cluster, None).await?;
        system::living_leader(cluster).await.map(drop)
    }

    /// Starts it where it does not run.
    pub fn start(&mut self) -> anyhow::Result<()> {
        if self.child.is_some() {
            return Ok(());
        }
        let log = File::options().create(true).append(true).open(self.log())?;
        let mut command = Command::new(&self.program);
        command
            .env_remove("OBJECT_STORE_ENDPOINT")
            .env_remove("OBJECT_STORE_SECRET")
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .env("POD_NAMESPACE", SYSTEM_NAMESPACE)
            .env("POD_NAME", IDENTITY)
            .env("HOLDER_IMAGE", "hypercloud-storage/node-agent:dev")
            .env("HEALTH_ADDRESS", "127.0.0.1:0")
            .env("ADMISSION_ADDRESS", "127.0.0.1:0")
            .env("LOG_FORMAT", "text")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        self.child = Some(command.spawn().context("the coordinator does not start")?);
        Ok(())
    }

    /// Kills it, without a signal that it could answer.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Whether it ended by itself.
    pub fn has_ended(&mut self) -> anyhow::Result<bool> {
        match &mut self.child {
            Some(child) => Ok(child.try_wait()?.is_some()),
            None => Ok(false),
        }
    }

    /// Its log's file.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// The tester's kubeconfig with the coordinator's account in it.
async fn kubeconfig(cluster: &Cluster) -> anyhow::Result<Value> {
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), SYSTEM_NAMESPACE);
    let request: TokenRequest =
        serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 7200}}))?;
    let issued = accounts
        .create_token_request("coordinator", &PostParams::default(), &request)
        .await?;
    let token = issued.status.context("no token was issued")?.token;
    let path = std::env::var("KUBECONFIG").context("KUBECONFIG names no cluster")?;
    let text = std::fs::read_to_string(path)?;
    let mut config: Value = serde_yaml::from_str(&text)?;
    let users = config["users"].as_array_mut().context("no users")?;
    for user in users {
        user["user"] = json!({"token": token});
    }
    Ok(config)
}

/// Gives the Lease to somebody, or to whoever comes.
async fn lead(cluster: &Cluster, who: Option<&str>) -> anyhow::Result<()> {
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), SYSTEM_NAMESPACE);
    let seconds = if who.is_some() { 15 } else { 1 };
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ");
    let patch = Patch::Merge(json!({"spec": {
        "holderIdentity": who,
        "leaseDurationSeconds": seconds,
        "renewTime": now.to_string(),
    }}));
    leases.patch(LEASE, &PatchParams::default(), &patch).await?;
    Ok(())
}
