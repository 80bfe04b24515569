//! Whoever is killed in mid-import, the image arrives whole.

use std::time::Duration;

use e2e::cluster::{Cluster, Scope};
use e2e::disk::{self, Disk, Recipe};
use e2e::source::Address;
use e2e::{image, reader, source, system};
use kube::ResourceExt;

const MIB: u64 = 1 << 20;

/// An import that has begun and waits in its middle.
struct Midway {
    scope: Scope,
    disk: Disk,
    address: Address,
    node: String,
    _server: source::Server,
}

async fn midway(name: &str, mode: &str) -> anyhow::Result<Midway> {
    let cluster = Cluster::connect().await?;
    system::all_ready(&cluster, "node-agent").await?;
    system::all_ready(&cluster, "coordinator").await?;
    let server = source::Server::start(cluster.address_for_pods().await?).await?;
    let scope = cluster.scope(name).await?;
    let disk = Recipe {
        virtual_size: 1024 * MIB,
        data: 400 * MIB,
        convert: disk::PLAIN,
    }
    .make()?;
    let address = server.file("disk", &disk.image)?;
    address.allow(200 * MIB);
    image::create(&scope, "midway", &address.url, mode).await?;
    let image = image::importing(&scope, "midway").await?;
    let node = image
        .status
        .and_then(|s| s.transfer)
        .map(|t| t.node_name)
        .unwrap_or_default();
    e2e::wait::until("the gate holds the import", image::IMPORT, || async {
        Ok(e2e::wait::when(
            address.served() >= 200 * MIB,
            address.served(),
        ))
    })
    .await?;
    Ok(Midway {
        scope,
        disk,
        address,
        node,
        _server: server,
    })
}

/// Opens the gate; the volume must hold the disk.
async fn arrives(midway: Midway, mode: &str) -> anyhow::Result<()> {
    midway.address.allow(u64::MAX);
    image::ready(&midway.scope, "midway", Duration::from_secs(300)).await?;
    let claim = hypercloud_api::names::image_claim("midway");
    let sha256 = match mode {
        "Block" => reader::block_sha256(&midway.scope, &claim, midway.disk.virtual_size).await?,
        _ => reader::file_sha256(&midway.scope, &claim).await?.0,
    };
    assert_eq!(sha256, midway.disk.sha256);
    println!("served {} MiB of it in all", midway.address.served() / MIB);
    image::delete(&midway.scope, "midway").await?;
    midway.scope.close().await
}

/// One after the other: each takes away what the others stand on.
#[tokio::test]
async fn whoever_is_killed_the_image_arrives() -> anyhow::Result<()> {
    for mode in ["Block", "Filesystem"] {
        let midway = midway("agent-killed", mode).await?;
        let agent = system::agent_on(&midway.scope.cluster, &midway.node).await?;
        system::kill(&midway.scope.cluster, &agent.name_any()).await?;
        system::all_ready(&midway.scope.cluster, "node-agent").await?;
        arrives(midway, mode).await?;
    }

    let midway = midway("coordinator-killed", "Block").await?;
    let cluster = midway.scope.cluster.clone();
    let leader = system::leader(&cluster).await?;
    let pods = system::pods(&cluster, "coordinator").await?;
    assert_eq!(pods.len(), 2, "two coordinators run");
    let pod = pods.iter().find(|pod| leader.contains(&pod.name_any()));
    let pod = pod.map(|pod| pod.name_any()).unwrap_or_default();
    // It cannot hand over: the other one has to notice.
    let frozen = system::stop_dead(&cluster, &pod).await?;
    let next = system::new_leader(&cluster, &leader).await?;
    assert!(!next.contains(&pod), "{next} leads though it was stopped");
    if frozen {
        system::kill(&cluster, &pod).await?;
    }
    arrives(midway, "Block").await
}
