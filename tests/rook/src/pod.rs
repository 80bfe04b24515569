//! Programs that do one thing: daemons, the toolbox, and those of jobs.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::command::{self, Change};
use crate::orders::{Orders, Outcome};
use crate::osd::{self, Osd};
use crate::{MEMORY, NAMESPACE, api, daemon, follow, probe};

/// A daemon: it is ready, or as it is ordered.
pub async fn daemon(client: &Client) -> anyhow::Result<()> {
    let workload = std::env::var(daemon::WORKLOAD).context("no name of a workload")?;
    probe::serve(daemon::PORT, workload, follow::orders(client)).await
}

/// A program without a probe: it ends where it is ordered down.
pub async fn lasting(client: &Client, workload: &str) -> anyhow::Result<()> {
    let mut orders = follow::orders(client);
    loop {
        if orders.borrow_and_update().down.contains(workload) {
            bail!("{workload} is down as it was ordered");
        }
        orders.changed().await?;
    }
}

async fn memory(client: &Client) -> anyhow::Result<BTreeMap<String, String>> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let found = maps.get_opt(MEMORY).await.context("no Ceph answers")?;
    Ok(found.and_then(|map| map.data).unwrap_or_default())
}

async fn osds(client: &Client) -> anyhow::Result<(Vec<Osd>, Orders)> {
    let osds = osd::remembered(&memory(client).await?);
    Ok((osds, follow::once(client).await))
}

/// `ceph` with these words.
pub async fn ceph(client: &Client, words: &[String]) -> anyhow::Result<()> {
    let (osds, orders) = osds(client).await?;
    let now = Timestamp::now();
    let answer = command::answer(words, &osds, &orders, now);
    if let Some(change) = answer.change {
        let (id, since) = match change {
            Change::Out(id) => (id, json!(now.to_string())),
            Change::In(id) => (id, Value::Null),
        };
        api::remember(client, json!({osd::out_key(id): since})).await?;
    }
    match answer.ok {
        true => println!("{}", answer.text),
        false => bail!(answer.text),
    }
    Ok(())
}

/// `rook ceph osd remove`, which leaves an OSD that is up, and waits until it
/// is safe to destroy.
pub async fn remove_osds(client: &Client, ids: &[u32]) -> anyhow::Result<()> {
    let namespace = namespace();
    let (osds, orders) = osds(client).await?;
    if !orders.purges {
        bail!("failed to get osd dump: it was ordered so");
    }
    for id in ids {
        let Some(osd) = osds.iter().find(|osd| osd.id == *id) else {
            bail!("failed to get osd status for osd {id}: not found osd.{id} in OSDDump");
        };
        if osd.up {
            println!("osd.{id} is healthy. It cannot be removed unless it is 'down'");
            continue;
        }
        if osd.out.is_none() || orders.drain.is_none() {
            bail!("osd.{id} is NOT ok to destroy");
        }
        let name = format!("rook-ceph-osd-{id}");
        api::delete(client, api::DEPLOYMENT, Some(&namespace), &name).await?;
        let left: Vec<&Osd> = osds.iter().filter(|osd| !ids.contains(&osd.id)).collect();
        let change = json!({osd::out_key(*id): null, osd::SEEN: json!(left).to_string()});
        api::remember(client, change).await?;
        println!("completed removal of OSD {id}");
    }
    Ok(())
}

/// `rook ceph clean`, on the node that is named to it.
pub async fn clean(client: &Client) -> anyhow::Result<()> {
    let hostname = std::env::var("NODE_NAME").unwrap_or_default();
    let mut orders = follow::orders(client);
    // What is ordered may be changed while the job hangs.
    let first = follow::once(client).await;
    let mut outcome = first.cleanup_of(&hostname);
    while outcome == Outcome::Stuck {
        orders.changed().await?;
        outcome = orders.borrow_and_update().cleanup_of(&hostname);
    }
    match outcome {
        Outcome::Fail => bail!("cannot clean {hostname}: it was ordered so"),
        _ => println!("cleaned {hostname}"),
    }
    Ok(())
}

/// The namespace that the pod is in.
pub fn namespace() -> String {
    let file = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
    let named = std::env::var("POD_NAMESPACE").or_else(|_| std::fs::read_to_string(file));
    named.unwrap_or_else(|_| hypercloud_storage::ROOK_NAMESPACE.to_owned())
}
