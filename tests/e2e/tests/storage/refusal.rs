//! What is refused when it is applied, with the reason, and what people are
//! warned of.

use std::time::Duration;

use anyhow::Context;
use e2e::cluster::Cluster;
use e2e::storage::ground::{FORMER, Ground};
use e2e::storage::{self, resource};
use e2e::wait::{until, when};
use e2e::{devices, system};
use http::Request;
use hypercloud_api::HYPERCLOUD_STORAGE_NAME;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

const PATH: &str = "/apis/hypercloud.tmaxanc.com/v1alpha1/hypercloudstorages";
const CONFIGURATION: &str = "hypercloud-storage";
/// How soon what is not so any more is put right.
const SOON: Duration = Duration::from_secs(60);

/// What the API server answers to this storage, which it does not keep: the
/// warnings, and why not, if it is refused.
async fn applied(cluster: &Cluster, spec: &Value) -> anyhow::Result<(Vec<String>, Option<Value>)> {
    // One that is there gets this specification, whoever wrote the former.
    let (query, how) = match storage::look(cluster).await? {
        Some(_) => ("fieldManager=e2e", "application/merge-patch+json"),
        None => (
            "fieldManager=e2e&force=true",
            "application/apply-patch+yaml",
        ),
    };
    let path = format!("{PATH}/{HYPERCLOUD_STORAGE_NAME}?dryRun=All&{query}");
    let request = Request::patch(path)
        .header("content-type", how)
        .body(serde_json::to_vec(&resource(spec))?.into())?;
    let response = cluster.client.send(request).await?;
    let (head, body) = response.into_parts();
    let warnings = head.headers.get_all("warning").iter();
    let warnings = warnings.map(|value| Ok(value.to_str()?.to_owned()));
    let warnings: Vec<String> = warnings.collect::<anyhow::Result<_>>()?;
    let body: Value = serde_json::from_slice(&body.collect_bytes().await?)?;
    let refusal = (!head.status.is_success()).then_some(body);
    Ok((warnings, refusal))
}

/// This storage is refused for this reason, in these words.
async fn refused(cluster: &Cluster, spec: &Value, said: &[&str]) -> anyhow::Result<()> {
    let (_, refusal) = applied(cluster, spec).await?;
    let refusal = refusal.with_context(|| format!("{spec} was taken"))?;
    let message = refusal["message"].as_str().unwrap_or_default();
    for part in said {
        anyhow::ensure!(
            message.contains(part),
            "{spec}: {part:?} is not in {message}"
        );
    }
    let reason = said.first().copied().unwrap_or_default();
    anyhow::ensure!(refusal["reason"] == reason, "{refusal}");
    Ok(())
}

/// This storage is taken; what is said about it.
async fn taken(cluster: &Cluster, spec: &Value) -> anyhow::Result<Vec<String>> {
    let (warnings, refusal) = applied(cluster, spec).await?;
    anyhow::ensure!(refusal.is_none(), "{spec}: {refusal:?}");
    Ok(warnings)
}

fn with(ground: &Ground, hostname: &str, devices: &[&str]) -> Value {
    let mut spec = ground.spec();
    spec["storage"]["nodes"] = json!([{"hostname": hostname, "devices": devices}]);
    spec
}

/// Where nothing is installed.
pub async fn what_the_nodes_do_not_have_is_refused(ground: &Ground) -> anyhow::Result<()> {
    ground.none().await?;
    let cluster = &ground.cluster;
    let node = &ground.nodes[0];
    assert!(taken(cluster, &ground.spec()).await?.is_empty());
    let elsewhere = with(ground, "no-such-host", &["/dev/sda"]);
    refused(cluster, &elsewhere, &["HostnameUnknown", "no-such-host"]).await?;
    let nothing = with(ground, node, &["/dev/no-such-device"]);
    refused(cluster, &nothing, &["DeviceNotThere", "no-such-device"]).await?;
    let (link, kernel) = (ground.disks.link("a1"), ground.disks.kernel("a1")?);
    let twice = with(ground, node, &[&link, kernel]);
    refused(cluster, &twice, &["DeviceDuplicate", &link, kernel]).await?;
    // What the node itself is on.
    let status = devices::status(cluster, node).await?;
    let used = status.devices.iter().find(|device| {
        let mut reasons = device.reasons.iter();
        reasons.any(|told| ["BacksSystem", "Mounted"].contains(&told.code()))
    });
    let used = &used.context("no device of the node is in use")?.path;
    let in_use = with(ground, node, &[used]);
    refused(cluster, &in_use, &["DeviceNotAvailable", used]).await?;
    // Every reason is said, and nothing of it was kept.
    let both = with(ground, node, &[used, "/dev/no-such-device"]);
    refused(cluster, &both, &["DeviceNotAvailable", "; DeviceNotThere"]).await?;
    let mut unknown = ground.spec();
    unknown["versions"] = json!({"rook": "1.18.0"});
    refused(cluster, &unknown, &["VersionUnsupported", "1.18.0"]).await?;
    assert!(storage::look(cluster).await?.is_none());
    Ok(())
}

/// Where a storage runs.
pub async fn what_a_change_cannot_bring_is_refused(ground: &Ground) -> anyhow::Result<()> {
    let spec = ground.installed().await?;
    let cluster = &ground.cluster;
    assert!(taken(cluster, &spec).await?.is_empty());
    let mut more = spec.clone();
    let devices = &mut more["storage"]["nodes"][0]["devices"];
    let list = devices.as_array_mut().context("no devices")?;
    list.push(json!(ground.disks.link("a3")));
    let warnings = taken(cluster, &more).await?;
    assert!(
        warnings.iter().any(|told| told.contains("data moves")),
        "{warnings:?}"
    );
    let mut fewer = spec.clone();
    let devices = &mut fewer["storage"]["nodes"][0]["devices"];
    devices.as_array_mut().context("no devices")?.pop();
    refused(cluster, &fewer, &["DeviceRemovalRefused", "PurgeOsds"]).await?;
    fewer["storage"]["removal"] = json!("PurgeOsds");
    let warnings = taken(cluster, &fewer).await?;
    assert!(
        warnings.iter().any(|told| told.contains("is given up")),
        "{warnings:?}"
    );
    let mut older = spec.clone();
    older["versions"] = json!({"rook": FORMER});
    refused(cluster, &older, &["DowngradeRefused", FORMER]).await?;
    Ok(())
}

/// Somebody takes the certificate and the trust in it away.
pub async fn the_trust_of_the_api_server_is_kept(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    let all: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client.clone());
    let found = all.get(CONFIGURATION).await?;
    let webhooks = found.webhooks.iter().flatten();
    let nobody = |name: &str| json!({"name": name, "clientConfig": {"caBundle": null}});
    let nobody: Vec<Value> = webhooks.map(|webhook| nobody(&webhook.name)).collect();
    let change = Patch::Strategic(json!({"webhooks": nobody}));
    all.patch(CONFIGURATION, &PatchParams::default(), &change)
        .await?;
    answers(ground).await
}

/// Without a coordinator nothing slips through, and nobody is locked out.
pub async fn without_a_coordinator_nothing_slips_through(ground: &Ground) -> anyhow::Result<()> {
    let spec = ground.installed().await?;
    let cluster = &ground.cluster;
    scale(cluster, 0).await?;
    let ended = alone(ground, &spec).await;
    scale(cluster, 2).await?;
    ended?;
    answers(ground).await
}

/// What can be written, and what not, while no coordinator runs.
async fn alone(ground: &Ground, spec: &Value) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    let mut more = spec.clone();
    let devices = &mut more["storage"]["nodes"][0]["devices"];
    let list = devices.as_array_mut().context("no devices")?;
    list.push(json!(ground.disks.link("a3")));
    until("nobody judges", SOON, || async {
        let (_, refusal) = applied(cluster, &more).await?;
        let said = refusal.map(|refusal| refusal["message"].to_string());
        let is_so = said
            .as_ref()
            .is_some_and(|said| said.contains("failed calling webhook"));
        Ok(when(is_so, said))
    })
    .await?;
    let mut confirmed = spec.clone();
    confirmed["cleanup"] = json!({"confirmation": "yes-really-destroy-data"});
    taken(cluster, &confirmed).await?;
    let by = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    for change in [
        json!({"metadata": {"labels": {"e2e": "yes"}}}),
        json!({"metadata": {"finalizers": []}}),
    ] {
        let change = Patch::Merge(change);
        let storages = storage::api(cluster);
        storages
            .patch(HYPERCLOUD_STORAGE_NAME, &by, &change)
            .await?;
    }
    Ok(())
}

async fn scale(cluster: &Cluster, replicas: i32) -> anyhow::Result<()> {
    let namespace = e2e::cluster::SYSTEM_NAMESPACE;
    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), namespace);
    let change = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    let by = PatchParams::default();
    deployments.patch("coordinator", &by, &change).await?;
    match replicas {
        0 => Ok(()),
        _ => system::all_ready(cluster, "coordinator").await,
    }
}

/// Waits until storages are judged again.
async fn answers(ground: &Ground) -> anyhow::Result<()> {
    let elsewhere = with(ground, "no-such-host", &["/dev/sda"]);
    until("storages are judged", SOON, || async {
        let (_, refusal) = applied(&ground.cluster, &elsewhere).await?;
        let reason = refusal.map(|refusal| refusal["reason"].clone());
        Ok(when(reason == Some(json!("HostnameUnknown")), reason))
    })
    .await
}
