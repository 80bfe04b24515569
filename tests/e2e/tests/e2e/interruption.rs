//! Whoever is killed in mid-import, the image arrives whole.

use std::time::Duration;

use e2e::cluster::{Cluster, Scope};
use e2e::disk::{self, Disk, Recipe};
use e2e::source::Address;
use e2e::{access, image, reader, source, system};
use kube::ResourceExt;
use serde_json::json;

const MIB: u64 = 1 << 20;

/// An import that has begun and waits in its middle.
struct Midway {
    scope: Scope,
    disk: Disk,
    address: Address,
    node: String,
    _server: source::Server,
}

/// What is kept of a source when its agent is killed.
#[derive(Clone, Copy)]
enum Source {
    /// Everything: anybody is let in.
    Open,
    /// Not what lets in, which the coordinator has to bring again.
    Guarded,
}

async fn midway(name: &str, mode: &str, source: Source) -> anyhow::Result<Midway> {
    let cluster = Cluster::connect().await?;
    system::all_ready(&cluster, "node-agent").await?;
    system::all_ready(&cluster, "coordinator").await?;
    let scope = cluster.scope(name).await?;
    let address = cluster.address_for_pods().await?;
    let server = match source {
        Source::Open => source::Server::start(address).await?,
        Source::Guarded => {
            let guard = source::Guard {
                username: "reader",
                password: "s3cret",
                token: None,
            };
            let (server, authority) = source::Server::guarded(address, guard).await?;
            let login = [("username", "reader"), ("password", "s3cret")];
            access::secret(&scope, "login", &login).await?;
            access::config_map(&scope, "ca", &[("ca.crt", &authority)]).await?;
            server
        }
    };
    let disk = Recipe {
        virtual_size: 1024 * MIB,
        data: 400 * MIB,
        convert: disk::PLAIN,
    }
    .make()?;
    let address = server.file("disk", &disk.image)?;
    address.allow(200 * MIB);
    let from = match source {
        Source::Open => json!({"http": address.url}),
        Source::Guarded => json!({
            "http": address.url,
            "secretRef": {"name": "login"},
            "caConfigMap": {"name": "ca", "key": "ca.crt"}
        }),
    };
    image::from(&scope, "midway", from, mode).await?;
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
    let _alone = system::disturb().await;
    for (mode, source) in [("Block", Source::Guarded), ("Filesystem", Source::Open)] {
        let midway = midway("agent-killed", mode, source).await?;
        let agent = system::agent_on(&midway.scope.cluster, &midway.node).await?;
        system::kill(&midway.scope.cluster, &agent.name_any()).await?;
        system::all_ready(&midway.scope.cluster, "node-agent").await?;
        arrives(midway, mode).await?;
    }

    let midway = midway("coordinator-killed", "Block", Source::Open).await?;
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
