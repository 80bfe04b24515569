//! What Rook does for a CephCluster.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Look, Operator};
use crate::daemon::{self, Release, Step};
use crate::orders::{Orders, Outcome};
use crate::{api, cleanup, status};

const FINALIZER: &str = "cephcluster.ceph.rook.io";
/// Folders of the host that Rook takes for none.
const FORBIDDEN: [&str; 3] = ["/etc/ceph", "/rook", "/var/log/ceph"];
/// How long it waits after a failure.
const AGAIN: Duration = Duration::from_secs(5);
/// How often it makes sure of what clients of Ceph need.
const SUPPLY: Duration = Duration::from_secs(30);
/// How often it looks at Ceph unless the CephCluster says so.
const STATUS_INTERVAL: u64 = 60;

/// Why nothing is done for a cluster, while its status stays what it is.
fn ignored(cluster: &Value, look: &Look) -> Option<&'static str> {
    let folder = cluster["spec"]["dataDirHostPath"].as_str();
    if look.clusters.len() > 1 {
        return Some("only one cluster cr per namespace is supported");
    }
    if folder.is_some_and(|folder| FORBIDDEN.contains(&folder)) {
        return Some("dataDirHostPath is disallowed");
    }
    None
}

impl Operator {
    /// Does the next small thing for a CephCluster.
    pub(super) async fn cluster(
        &mut self,
        cluster: &Value,
        look: &Look,
        orders: &Orders,
    ) -> anyhow::Result<()> {
        if api::is_going(cluster) {
            return self.leave(cluster, look, orders).await;
        }
        let former = &cluster["status"];
        let mut status = former.clone();
        let ignored = ignored(cluster, look);
        if ignored.is_none() && api::hold(&self.client, api::CLUSTER, cluster, FINALIZER).await? {
            return Ok(());
        }
        let is_confirmed = cluster["spec"]["cleanupPolicy"]["confirmation"]
            == hypercloud_storage::ROOK_CONFIRMATION;
        if ignored.is_none() && !is_confirmed && orders.writes {
            self.reconcile(cluster, &mut status, look, orders).await?;
        }
        // Those whom it took up are looked at, whatever came later.
        let is_up = look
            .deployments
            .iter()
            .any(|object| object["metadata"]["labels"]["app"] == "rook-ceph-mon");
        if is_up && former.is_object() && orders.writes {
            self.check(cluster, &mut status, look, orders);
        }
        if status != *former {
            let mut changed = cluster.clone();
            changed["status"] = status;
            api::replace_status(&self.client, api::CLUSTER, &changed).await?;
        }
        Ok(())
    }

    async fn reconcile(
        &mut self,
        cluster: &Value,
        status: &mut Value,
        look: &Look,
        orders: &Orders,
    ) -> anyhow::Result<()> {
        let now = look.now;
        match orders.reconcile {
            Outcome::Fail => {
                if self.failed.is_none_or(|at| at.elapsed() >= AGAIN) {
                    self.failed = Some(Instant::now());
                    let message = "failed to create cluster: it was ordered so";
                    status::failed(status, message, now);
                }
                return Ok(());
            }
            Outcome::Stuck => {
                if status["phase"] != "Progressing" {
                    status::progressing(status, "Configuring Ceph OSDs", now);
                }
                return Ok(());
            }
            Outcome::Ok => self.failed = None,
        }
        let Some(image) = cluster["spec"]["cephVersion"]["image"].as_str() else {
            return Ok(());
        };
        let release = Release {
            rook: &self.version,
            image,
        };
        if status["version"]["image"] != image {
            status["version"] = json!({"image": image, "version": release.ceph()});
        }
        if !status["phase"].is_string() {
            status::progressing(status, "Configuring the Ceph cluster", now);
            return Ok(());
        }
        let uid = &cluster["metadata"]["uid"];
        let is_supplied = self
            .supplied
            .as_ref()
            .is_some_and(|(whose, at)| whose == uid && at.elapsed() < SUPPLY);
        if !is_supplied {
            self.supply(cluster).await?;
            self.supplied = Some((uid.clone(), Instant::now()));
        }
        if !self.work(cluster, status, look, orders, release).await? {
            return Ok(());
        }
        let generation = cluster["metadata"]["generation"].as_i64();
        let is_told = status["phase"] == "Ready"
            && status["state"] == "Created"
            && has_no_progress(status)
            && (!orders.observes || status["observedGeneration"].as_i64() == generation);
        if !is_told && orders.answers {
            status::ready(status, generation.filter(|_| orders.observes), now);
        }
        Ok(())
    }

    /// Brings the daemons one or more steps on; true once all are as they are
    /// meant.
    async fn work(
        &self,
        cluster: &Value,
        status: &mut Value,
        look: &Look,
        orders: &Orders,
        release: Release<'_>,
    ) -> anyhow::Result<bool> {
        let mut there = look.deployments.clone();
        let wanted = daemon::wanted(cluster, &there, orders);
        let tell = |status: &mut Value, message: &str| {
            if status["phase"] != "Progressing" || status["message"] != message {
                status::progressing(status, message, look.now);
            }
        };
        loop {
            match daemon::next(&wanted, &there, &self.namespace, release, orders) {
                Step::Done => return Ok(true),
                Step::Wait => {
                    tell(status, "Upgrading the daemons");
                    return Ok(false);
                }
                Step::Make(object) => {
                    tell(status, "Configuring the daemons");
                    api::make(&self.client, api::DEPLOYMENT, &object).await?;
                    there.push(object);
                    self.pace(orders).await;
                    if !orders.pace.is_zero() {
                        return Ok(false);
                    }
                }
                Step::Change(object) => {
                    println!("{} is changed", api::text(&object, "name"));
                    tell(status, "Upgrading the daemons");
                    api::replace(&self.client, api::DEPLOYMENT, &object).await?;
                    self.pace(orders).await;
                    return Ok(false);
                }
            }
        }
    }

    /// Looks at Ceph when it is time, and when it is ordered to be otherwise.
    fn check(&mut self, cluster: &Value, status: &mut Value, look: &Look, orders: &Orders) {
        if !orders.looks || orders.reconcile == Outcome::Stuck {
            return;
        }
        let every = &cluster["spec"]["healthCheck"]["daemonHealth"]["status"]["interval"];
        let every = every.as_str().and_then(seconds).unwrap_or(STATUS_INTERVAL);
        let is_due = self.looked.as_ref().is_none_or(|(at, former)| {
            at.elapsed() >= Duration::from_secs(every)
                || (&former.health, &former.checks, former.answers, former.looks)
                    != (&orders.health, &orders.checks, orders.answers, orders.looks)
        });
        if is_due || status["ceph"].is_null() {
            // A reconcile that goes on is not hidden here: what it says last
            // is more than the time of a look.
            let phase = ["phase", "state", "message"].map(|key| status[key].clone());
            let works = status["phase"] == "Progressing" && status["state"] == "Creating";
            status::looked(status, orders, look.now);
            if works && orders.answers {
                for (key, value) in ["phase", "state", "message"].into_iter().zip(phase) {
                    status[key] = value;
                }
            }
            self.looked = Some((Instant::now(), orders.clone()));
        }
    }

    /// The way out: once nothing depends on it, the daemons go with it, and
    /// with the confirmation their nodes are cleaned.
    async fn leave(&mut self, cluster: &Value, look: &Look, orders: &Orders) -> anyhow::Result<()> {
        let blocked = dependents(cluster, look);
        let mut changed = cluster.clone();
        let former = &cluster["status"]["conditions"];
        let is_told = former.as_array().into_iter().flatten().any(|condition| {
            condition["type"] == "DeletionIsBlocked"
                && condition["status"] == (if blocked.is_some() { "True" } else { "False" })
                && blocked
                    .as_ref()
                    .is_none_or(|text| condition["message"] == text.as_str())
        });
        if !is_told && orders.writes {
            status::deleting(&mut changed["status"], blocked.as_deref(), look.now);
            api::replace_status(&self.client, api::CLUSTER, &changed).await?;
            return Ok(());
        }
        if blocked.is_some() || !orders.deletes {
            return Ok(());
        }
        if cluster["spec"]["cleanupPolicy"]["confirmation"] == hypercloud_storage::ROOK_CONFIRMATION
        {
            cleanup::begin(self).await?;
        }
        self.unprotect(orders).await?;
        println!("CephCluster {} goes", api::text(cluster, "name"));
        api::release(&self.client, api::CLUSTER, cluster, FINALIZER).await?;
        self.looked = None;
        Ok(())
    }
}

fn has_no_progress(status: &Value) -> bool {
    let all = status["conditions"].as_array();
    !all.into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Progressing")
}

/// What keeps the cluster from going, in Rook's words.
fn dependents(cluster: &Value, look: &Look) -> Option<String> {
    let kinds = [
        ("CephBlockPool", &look.pools),
        ("CephFilesystem", &look.filesystems),
        ("CephObjectStore", &look.stores),
        ("CephObjectStoreUser", &look.users),
    ];
    let lists: Vec<String> = kinds
        .into_iter()
        .filter(|(_, objects)| !objects.is_empty())
        .map(|(kind, objects)| {
            let names: Vec<&str> = objects.iter().map(|o| api::text(o, "name")).collect();
            format!("{kind}: [{}]", names.join(" "))
        })
        .collect();
    if lists.is_empty() {
        return None;
    }
    let (namespace, name) = (api::text(cluster, "namespace"), api::text(cluster, "name"));
    Some(format!(
        "CephCluster \"{namespace}/{name}\" will not be deleted until all dependents are removed: {}",
        lists.join(", ")
    ))
}

/// The seconds of a duration such as `15s` or `1m`.
fn seconds(text: &str) -> Option<u64> {
    if let Some(minutes) = text.strip_suffix('m') {
        return Some(minutes.parse::<u64>().ok()? * 60);
    }
    text.strip_suffix('s')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read() {
        assert_eq!(seconds("15s"), Some(15));
        assert_eq!(seconds("2m"), Some(120));
        assert_eq!(seconds("soon"), None);
    }
}
