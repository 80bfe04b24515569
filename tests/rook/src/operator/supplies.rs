//! What Rook makes beside daemons: the secrets and addresses by which clients
//! reach Ceph, and what the CSI drivers are told of it.

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::Operator;
use crate::orders::Orders;
use crate::{api, daemon, key, status};

/// Keeps what is needed to reach the data from being deleted by mistake.
pub const PROTECTION: &str = "ceph.rook.io/disaster-protection";
/// The address of the monitors.
const ENDPOINT: &str = "10.96.255.1:6789";

impl Operator {
    /// Makes what is not there yet.
    pub(super) async fn supply(&self, cluster: &Value) -> kube::Result<()> {
        let owner = daemon::owner(cluster);
        let metadata = |name: &str| json!({"name": name, "namespace": self.namespace, "ownerReferences": [owner]});
        let secret = |name: &str, data: Value| {
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/rook",
                "metadata": metadata(name), "stringData": data,
            })
        };
        let key_of_ceph = key::own();
        let mut monitors = secret(
            "rook-ceph-mon",
            json!({
                "ceph-username": "client.admin", "ceph-secret": key_of_ceph,
                "mon-secret": "simulated", "fsid": status::FSID,
            }),
        );
        let config = |name: &str, data: Value| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": metadata(name), "data": data,
            })
        };
        let mut endpoints = config(
            "rook-ceph-mon-endpoints",
            json!({"data": format!("a={ENDPOINT}"), "maxMonId": "0", "mapping": "{}"}),
        );
        for protected in [&mut monitors, &mut endpoints] {
            protected["metadata"]["finalizers"] = json!([PROTECTION]);
        }
        let key = |name: &str| json!({"userID": name, "userKey": "simulated"});
        for made in [
            monitors,
            secret(
                "rook-ceph-config",
                json!({"mon_host": format!("[v1:{ENDPOINT}]"), "mon_initial_members": "a"}),
            ),
            secret("rook-csi-rbd-provisioner", key("csi-rbd-provisioner")),
            secret("rook-csi-rbd-node", key("csi-rbd-node")),
            secret("rook-csi-cephfs-provisioner", key("csi-cephfs-provisioner")),
            secret("rook-csi-cephfs-node", key("csi-cephfs-node")),
        ] {
            api::make(&self.client, api::SECRET, &made).await?;
        }
        self.renew_key(&key_of_ceph).await?;
        for made in [
            endpoints,
            config("rook-config-override", json!({"config": ""})),
        ] {
            api::make(&self.client, api::CONFIG_MAP, &made).await?;
        }
        self.tell_drivers(&owner).await
    }

    /// The key is good for as long as the pod that it was written by.
    async fn renew_key(&self, key: &str) -> kube::Result<()> {
        let namespace = Some(self.namespace.as_str());
        let found = api::get(&self.client, api::SECRET, namespace, "rook-ceph-mon").await?;
        let Some(mut secret) = found else {
            return Ok(());
        };
        let written = serde_json::from_value::<ByteString>(secret["data"]["ceph-secret"].clone());
        if written.is_ok_and(|written| written.0 == key.as_bytes()) {
            return Ok(());
        }
        secret["data"]["ceph-secret"] = json!(ByteString(key.as_bytes().to_vec()));
        api::replace(&self.client, api::SECRET, &secret).await
    }

    /// What the CSI operator works from.
    async fn tell_drivers(&self, owner: &Value) -> kube::Result<()> {
        let metadata = json!({
            "name": self.namespace, "namespace": self.namespace, "ownerReferences": [owner],
        });
        let connection = json!({
            "apiVersion": "csi.ceph.io/v1", "kind": "CephConnection",
            "metadata": metadata, "spec": {"monitors": [ENDPOINT]},
        });
        let profile = json!({
            "apiVersion": "csi.ceph.io/v1", "kind": "ClientProfile",
            "metadata": metadata, "spec": {"cephConnectionRef": {"name": self.namespace}},
        });
        api::make(&self.client, api::CONNECTION, &connection).await?;
        api::make(&self.client, api::PROFILE, &profile).await?;
        if self.version.starts_with("v1.19.") {
            self.make_drivers().await?;
        }
        Ok(())
    }

    /// Up to 1.19 the operator itself asks for the drivers. From 1.20 on the
    /// manifests do.
    async fn make_drivers(&self) -> kube::Result<()> {
        let namespace = self.namespace.as_str();
        let name = "rook-ceph-operator-config";
        let settings = api::get(&self.client, api::CONFIG_MAP, Some(namespace), name).await?;
        let plugin = settings
            .as_ref()
            .and_then(|map| map["data"]["ROOK_CSI_CEPH_IMAGE"].as_str())
            .unwrap_or("quay.io/cephcsi/cephcsi:v3.16.2")
            .to_owned();
        let images = "rook-csi-operator-image-set-configmap";
        let set = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": images, "namespace": namespace}, "data": {"plugin": plugin},
        });
        api::make(&self.client, api::CONFIG_MAP, &set).await?;
        let config = json!({
            "apiVersion": "csi.ceph.io/v1", "kind": "OperatorConfig",
            "metadata": {"name": "ceph-csi-operator-config", "namespace": namespace},
            "spec": {"driverSpecDefaults": {"imageSet": {"name": images}}},
        });
        api::make(&self.client, api::OPERATOR_CONFIG, &config).await?;
        for name in [
            hypercloud_storage::RBD_DRIVER,
            hypercloud_storage::CEPHFS_DRIVER,
        ] {
            let driver = json!({
                "apiVersion": "csi.ceph.io/v1", "kind": "Driver",
                "metadata": {"name": name, "namespace": namespace}, "spec": {},
            });
            api::make(&self.client, api::DRIVER, &driver).await?;
        }
        Ok(())
    }

    /// Lets go of what was protected.
    pub(super) async fn unprotect(&self, orders: &Orders) -> kube::Result<()> {
        if !orders.deletes {
            return Ok(());
        }
        for (kind, name) in [
            (api::SECRET, "rook-ceph-mon"),
            (api::CONFIG_MAP, "rook-ceph-mon-endpoints"),
        ] {
            let found = api::get(&self.client, kind, Some(&self.namespace), name).await?;
            if let Some(object) = found {
                api::release(&self.client, kind, &object, PROTECTION).await?;
            }
        }
        Ok(())
    }
}
