//! Pools, object stores and their users.

use serde_json::{Value, json};

use super::{Look, Operator};
use crate::api::{self, Kind};
use crate::daemon::{self, Daemon, Release};
use crate::orders::Orders;

/// A kind, the phase that is ordered, and what its status says beside it.
struct Resource<'a> {
    kind: Kind,
    finalizer: &'static str,
    phase: &'a str,
    info: Value,
    blocked: bool,
}

impl Operator {
    /// Does the next small thing for each of them.
    pub(super) async fn resources(&self, look: &Look, orders: &Orders) -> anyhow::Result<()> {
        for pool in &look.pools {
            let resource = Resource {
                kind: api::POOL,
                finalizer: "cephblockpool.ceph.rook.io",
                phase: &orders.pool,
                info: json!({"info": {"type": "Replicated"}, "poolID": 2}),
                blocked: false,
            };
            self.resource(pool, resource, look, orders).await?;
        }
        for store in &look.stores {
            let name = api::text(store, "name");
            let endpoint = self.endpoint(name);
            let uses = |object: &Value| object["spec"]["store"] == name;
            let resource = Resource {
                kind: api::STORE,
                finalizer: "cephobjectstore.ceph.rook.io",
                phase: &orders.object_store,
                info: json!({
                    "info": {"endpoint": endpoint},
                    "endpoints": {"insecure": [endpoint], "secure": []},
                }),
                blocked: look.users.iter().any(uses),
            };
            self.gateway(store, look).await?;
            self.resource(store, resource, look, orders).await?;
        }
        for user in &look.users {
            let (name, store) = (api::text(user, "name"), user["spec"]["store"].as_str());
            let secret = format!("rook-ceph-object-user-{}-{name}", store.unwrap_or_default());
            let resource = Resource {
                kind: api::USER,
                finalizer: "cephobjectstoreuser.ceph.rook.io",
                phase: &orders.user,
                info: json!({"info": {"secretName": secret}}),
                blocked: false,
            };
            let is_new = user["status"]["phase"] != "Ready" && !api::is_going(user);
            if is_new && look.ceph_is_ready() {
                let made = json!({
                    "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/rook",
                    "metadata": {
                        "name": secret, "namespace": self.namespace,
                        "ownerReferences": [daemon::owner(user)],
                    },
                    "stringData": {
                        "AccessKey": "simulated", "SecretKey": "simulated",
                        "Endpoint": self.endpoint(store.unwrap_or_default()),
                    },
                });
                api::make(&self.client, api::SECRET, &made).await?;
            }
            self.resource(user, resource, look, orders).await?;
        }
        Ok(())
    }

    /// Where an object store is said to be.
    pub fn endpoint(&self, store: &str) -> String {
        format!("http://{}:80", self.gateway_host(store))
    }

    /// The name of an object store's service.
    pub fn gateway_host(&self, store: &str) -> String {
        format!("rook-ceph-rgw-{store}.{}.svc", self.namespace)
    }

    /// The gateway's Deployment, brought to the release like any daemon.
    async fn gateway(&self, store: &Value, look: &Look) -> anyhow::Result<()> {
        let cluster = look.clusters.first();
        let image = cluster.and_then(|cluster| cluster["spec"]["cephVersion"]["image"].as_str());
        let (Some(image), false, true) = (image, api::is_going(store), look.ceph_is_ready()) else {
            return Ok(());
        };
        let name = api::text(store, "name");
        let gateway = Daemon {
            name: format!("rook-ceph-rgw-{name}-a"),
            app: "rook-ceph-rgw",
            program: "radosgw",
            hostname: None,
            labels: vec![("rook_object_store", name.to_owned())],
            environment: Vec::new(),
            owner: daemon::owner(store),
        };
        let release = Release {
            rook: &self.version,
            image,
        };
        let all = [gateway];
        let orders = Orders::default();
        match daemon::next(&all, &look.deployments, &self.namespace, release, &orders) {
            daemon::Step::Make(object) => api::make(&self.client, api::DEPLOYMENT, &object).await?,
            daemon::Step::Change(object) => {
                api::replace(&self.client, api::DEPLOYMENT, &object).await?;
            }
            daemon::Step::Wait | daemon::Step::Done => {}
        }
        Ok(())
    }

    async fn resource(
        &self,
        object: &Value,
        resource: Resource<'_>,
        look: &Look,
        orders: &Orders,
    ) -> anyhow::Result<()> {
        let Resource {
            kind,
            finalizer,
            phase,
            info,
            blocked,
        } = resource;
        if api::is_going(object) {
            if orders.deletes && !blocked {
                api::release(&self.client, kind, object, finalizer).await?;
            }
            return Ok(());
        }
        if !look.ceph_is_ready() {
            return Ok(());
        }
        if api::hold(&self.client, kind, object, finalizer).await? || phase == "empty" {
            return Ok(());
        }
        let mut changed = object.clone();
        if !changed["status"].is_object() {
            changed["status"] = json!({});
        }
        changed["status"]["phase"] = json!(phase);
        if phase == "Ready" {
            changed["status"]["observedGeneration"] = object["metadata"]["generation"].clone();
            for (key, value) in info.as_object().into_iter().flatten() {
                changed["status"][key] = value.clone();
            }
        }
        if changed["status"] != object["status"] {
            api::replace_status(&self.client, kind, &changed).await?;
            self.pace(orders).await;
        }
        Ok(())
    }
}
