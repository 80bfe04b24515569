//! The cluster under test, and a namespace of its own for each test.

use std::net::{IpAddr, UdpSocket};

use anyhow::Context;
use hypercloud_api::names::RESERVED_CLAIM_PREFIXES;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Client, Config, ResourceExt};
use serde_json::json;

use crate::system;

/// Namespace that the system runs in.
pub const SYSTEM_NAMESPACE: &str = "hypercloud-storage";

/// The cluster that `KUBECONFIG` names.
#[derive(Clone)]
pub struct Cluster {
    /// A client with the rights of the tester.
    pub client: Client,
}

/// A namespace that is deleted with everything in it when the test ends.
pub struct Scope {
    /// The cluster that it lives in.
    pub cluster: Cluster,
    /// Its name.
    pub namespace: String,
}

impl Cluster {
    /// Connects to the cluster that `KUBECONFIG` names.
    pub async fn connect() -> anyhow::Result<Self> {
        std::env::var("KUBECONFIG")
            .context("KUBECONFIG names no cluster; `make test` brings one up and sets it")?;
        Ok(Self {
            client: Client::try_default().await?,
        })
    }

    /// Makes a namespace whose name starts with `test`.
    pub async fn scope(&self, test: &str) -> anyhow::Result<Scope> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let made = namespaces
            .create(
                &PostParams::default(),
                &serde_json::from_value(json!({"metadata": {
                    "generateName": format!("{test}-"),
                    // Holder pods must be welcome under the strictest profile.
                    "labels": {"pod-security.kubernetes.io/enforce": "restricted"}
                }}))?,
            )
            .await?;
        Ok(Scope {
            cluster: self.clone(),
            namespace: made.name_any(),
        })
    }

    /// A client that is the service account `name` of `namespace`, by a token
    /// of its own.
    pub async fn account(&self, namespace: &str, name: &str) -> anyhow::Result<Client> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let request =
            serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 600}}))?;
        let issued = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await?;
        let token = issued.status.context("no token was issued")?.token;
        let mut config = Config::infer().await?;
        config.auth_info = serde_json::from_value(json!({"token": token}))?;
        Ok(Client::try_from(config)?)
    }

    /// An address of this machine that the cluster's pods reach: the one
    /// from which this machine speaks to the first node.
    pub async fn address_for_pods(&self) -> anyhow::Result<IpAddr> {
        let nodes = Api::<Node>::all(self.client.clone())
            .list(&ListParams::default())
            .await?;
        let node = nodes
            .items
            .iter()
            .filter_map(|node| node.status.as_ref()?.addresses.as_ref())
            .flatten()
            .find(|address| address.type_ == "InternalIP")
            .context("no node has an internal address")?;
        // Connecting a datagram socket sends nothing; it only asks the
        // kernel for the route.
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect((node.address.as_str(), 9))?;
        Ok(socket.local_addr()?.ip())
    }
}

impl Scope {
    /// A client for the namespace's objects of one kind.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.cluster.client.clone(), &self.namespace)
    }

    /// A client to make pods with that mount `claim`: the coordinator's own,
    /// where nobody else may.
    pub async fn pods_on(&self, claim: &str) -> anyhow::Result<Api<Pod>> {
        let mut reserved = RESERVED_CLAIM_PREFIXES.iter();
        let client = if reserved.any(|prefix| claim.starts_with(prefix)) {
            system::coordinator(&self.cluster).await?
        } else {
            self.cluster.client.clone()
        };
        Ok(Api::namespaced(client, &self.namespace))
    }

    /// Deletes the namespace; it goes in the background.
    pub async fn close(self) -> anyhow::Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.cluster.client.clone());
        namespaces
            .delete(&self.namespace, &DeleteParams::background())
            .await?;
        Ok(())
    }
}
