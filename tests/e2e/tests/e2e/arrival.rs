//! An image arrives: what is in the volume is what qemu-img would have put
//! there.

use std::time::Duration;

use e2e::cluster::Scope;
use e2e::disk::{self, Disk, Recipe};
use e2e::source::stage;
use e2e::wait::{Seen, until, when};
use e2e::{agents, image, reader, system};
use hypercloud_api::VirtualMachineImage;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn small(convert: &'static [&'static str]) -> anyhow::Result<Disk> {
    // Not a multiple of the cluster, nor of a mebibyte.
    Recipe {
        virtual_size: 256 * MIB + 512 * 33,
        data: 48 * MIB,
        convert,
    }
    .make()
}

#[tokio::test]
async fn a_block_volume_holds_every_kind_of_image() -> anyhow::Result<()> {
    let (scope, server) = stage("block").await?;
    for (name, convert) in [
        ("zlib", disk::ZLIB),
        ("zstd", disk::ZSTD),
        ("plain", disk::PLAIN),
        ("version-2", disk::VERSION_2),
        ("raw", disk::RAW),
    ] {
        let disk = small(convert)?;
        let address = server.file(name, &disk.image)?;
        image::create(&scope, name, &address.url, "Block").await?;
        image::ready(&scope, name, image::IMPORT).await?;
        let claim = hypercloud_api::names::image_claim(name);
        let sha256 = reader::block_sha256(&scope, &claim, disk.virtual_size).await?;
        assert_eq!(
            sha256, disk.sha256,
            "{name}: the volume differs from qemu-img's raw disk"
        );
    }
    scope.close().await
}

#[tokio::test]
async fn a_filesystem_volume_holds_one_file_as_kubevirt_wants_it() -> anyhow::Result<()> {
    let (scope, server) = stage("file").await?;
    let disk = small(disk::ZLIB)?;
    let address = server.file("zlib", &disk.image)?;
    // A name with a dot, as in the example.
    image::create(&scope, "ubuntu18.04", &address.url, "Filesystem").await?;
    image::ready(&scope, "ubuntu18.04", image::IMPORT).await?;
    let claim = hypercloud_api::names::image_claim("ubuntu18.04");
    let (sha256, stat) = reader::file_sha256(&scope, &claim).await?;
    assert_eq!(sha256, disk.sha256);
    assert_eq!(
        stat,
        format!("107:107 660 {}", disk.virtual_size),
        "owner, mode, size, no more"
    );
    scope.close().await
}

#[tokio::test]
async fn the_status_tells_the_story() -> anyhow::Result<()> {
    // Another leader tells an Event of its own.
    let _alone = system::disturb().await;
    let (scope, server) = stage("status").await?;
    let disk = small(disk::ZLIB)?;
    let address = server.file("zlib", &disk.image)?;
    image::create(&scope, "story", &address.url, "Block").await?;
    image::ready(&scope, "story", image::IMPORT).await?;
    let image = scope.api::<VirtualMachineImage>().get("story").await?;
    let generation = image.metadata.generation;
    let status = image.status.unwrap_or_default();
    assert_eq!(status.progress.as_deref(), Some("100%"));
    assert_eq!(status.size.as_deref(), Some("256Mi"));
    assert_eq!(status.observed_generation, generation);
    assert_eq!(status.pvc_name.as_deref(), Some("vmim-story"));
    let found = status.source.unwrap_or_default();
    assert_eq!(found.format, "qcow2");
    assert_eq!(found.virtual_size, Some(disk.virtual_size as i64));
    assert_eq!(
        found.size,
        Some(std::fs::metadata(&disk.image)?.len() as i64)
    );
    for condition in &status.conditions {
        assert_eq!(
            condition.observed_generation, generation,
            "{}",
            condition.type_
        );
    }
    let transfer = status.transfer.unwrap_or_default();
    assert!(
        transfer.bytes_received > 0 && transfer.completion_time.is_some(),
        "{transfer:?}"
    );

    // Nothing of the work is left but the claim: no pod, no job.
    let pods = scope.api::<Pod>().list(&ListParams::default()).await?;
    assert!(
        pods.items.is_empty(),
        "{:?}",
        pods.items.iter().map(|p| p.name_any()).collect::<Vec<_>>()
    );
    let uid = image.metadata.uid.unwrap_or_default();
    let jobs = agents::jobs(&scope.cluster).await?;
    assert!(
        jobs.iter().all(|(_, job)| !job.id.starts_with(&uid)),
        "{jobs:?}"
    );

    // And a person sees it.
    let table = kubectl(&scope, &["get", "virtualmachineimage", "story"])?;
    let mut lines = table.lines();
    let header: Vec<_> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    assert_eq!(header, ["NAME", "PHASE", "PROGRESS", "SIZE", "AGE"]);
    let row: Vec<_> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    assert_eq!(row[..4], ["story", "Ready", "100%", "256Mi"]);
    // The Event of an end comes after the status.
    let reasons = ["ImportStarted", "Imported"];
    let told = || kubectl(&scope, &["get", "events", "-o", "custom-columns=R:.reason"]);
    let is_told = |events: &str, reason: &str| events.lines().any(|found| found == reason);
    until("both Events", Duration::from_secs(30), || async {
        let events = told()?;
        let both = reasons.iter().all(|reason| is_told(&events, reason));
        Ok(when(both, events))
    })
    .await?;
    let events = told()?;
    for reason in reasons {
        assert_eq!(
            events.lines().filter(|r| *r == reason).count(),
            1,
            "{reason} in {events}"
        );
    }
    scope.close().await
}

/// Starts the agents anew.
async fn fresh_agents(scope: &Scope) -> anyhow::Result<()> {
    let former = system::pods(&scope.cluster, "node-agent").await?;
    let former: Vec<_> = former.iter().map(|pod| pod.name_any()).collect();
    for pod in &former {
        system::kill(&scope.cluster, pod).await?;
    }
    until(
        "the agents are others",
        Duration::from_secs(120),
        || async {
            let now = system::pods(&scope.cluster, "node-agent").await?;
            let fresh = |pod: &&Pod| system::is_ready(pod) && !former.contains(&pod.name_any());
            let fresh = now.iter().filter(fresh).count();
            Ok(when(fresh == former.len(), (fresh, now.len())))
        },
    )
    .await
}

#[tokio::test]
async fn two_gibibytes_of_data_fit_through_little_memory() -> anyhow::Result<()> {
    // Other tests may have a job there meanwhile; what came before is not
    // measured.
    const MOST: u64 = 192 * MIB;
    let _alone = system::disturb().await;
    let (scope, server) = stage("memory").await?;
    fresh_agents(&scope).await?;
    let disk = Recipe {
        virtual_size: 6 * GIB,
        data: 2 * GIB,
        convert: disk::PLAIN,
    }
    .make()?;
    let address = server.file("large", &disk.image)?;
    image::create(&scope, "large", &address.url, "Block").await?;
    let image = image::importing(&scope, "large").await?;
    let node = image
        .status
        .and_then(|s| s.transfer)
        .map(|t| t.node_name)
        .unwrap_or_default();
    image::ready(&scope, "large", Duration::from_secs(600)).await?;
    let limit = Duration::from_secs(60);
    let peak = until("the agent tells its memory", limit, || async {
        let agent = system::agent_on(&scope.cluster, &node).await?;
        let peak = agents::peak_memory(&scope.cluster, &agent).await?;
        Ok(Seen::Done(peak))
    })
    .await?;
    println!("peak resident memory of the agent: {} MiB", peak / MIB);
    assert!(
        peak < MOST,
        "the agent's resident memory peaked at {} MiB",
        peak / MIB
    );
    let claim = hypercloud_api::names::image_claim("large");
    let sha256 = reader::block_sha256(&scope, &claim, disk.virtual_size).await?;
    assert_eq!(sha256, disk.sha256);
    image::delete(&scope, "large").await?;
    scope.close().await
}

fn kubectl(scope: &Scope, arguments: &[&str]) -> anyhow::Result<String> {
    let output = std::process::Command::new("kubectl")
        .args(["--namespace", &scope.namespace])
        .args(arguments)
        .output()?;
    anyhow::ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}
