//! The bucket of the storage is where images come from that name no store.

use std::time::Duration;

use anyhow::Context;
use e2e::disk::{self, Recipe};
use e2e::storage::coordinator::Coordinator;
use e2e::storage::ground::Ground;
use e2e::storage::objects::Object;
use e2e::storage::{self, NOTICED, object, orders};
use e2e::{image, reader};
use hypercloud_storage::{OBJECT_STORE, SYSTEM_NAMESPACE};
use serde_json::json;
use test_store::{BUCKET, KEYS, Setup, Store};

const OBJECT: &str = "disks/golden.qcow2";
const MIB: u64 = 1 << 20;

pub async fn images_that_name_none_come_from_the_bucket(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    ground.installed().await?;
    let disk = Recipe {
        virtual_size: 32 * MIB,
        data: 8 * MIB,
        convert: disk::ZLIB,
    }
    .make()?;
    let setup = Setup {
        address: cluster.address_for_pods().await?,
        ..Setup::with(OBJECT, &std::fs::read(&disk.image)?)
    };
    let store = Store::start(setup).await?;

    // Rook says where the bucket is: at the tests' store.
    let (host, port) = (
        store.address.ip().to_string(),
        store.address.port().to_string(),
    );
    let place = [
        ("bucket-host", host.as_str()),
        ("bucket-port", port.as_str()),
        ("bucket-name", BUCKET),
        ("bucket-key", KEYS.0),
        ("bucket-secret", KEYS.1),
    ];
    orders::give(cluster, &place).await?;
    let map = Object {
        api_version: "v1",
        kind: "ConfigMap",
        namespace: SYSTEM_NAMESPACE,
        name: OBJECT_STORE,
    };
    object(cluster, &map, "tells of the bucket", NOTICED, |found| {
        found.is_some_and(|found| found["data"]["BUCKET_PORT"] == port.as_str())
    })
    .await?;

    // The pods were given a store by their operator; this one was not.
    let own = Coordinator::take_over(cluster).await?;
    let scope = cluster.scope("default-store").await?;
    let source = json!({"objectStore": {"objectName": OBJECT}});
    let imported = async {
        image::from(&scope, "golden", source, "Block").await?;
        image::ready(&scope, "golden", Duration::from_secs(120)).await?;
        let claim = hypercloud_api::names::image_claim("golden");
        let sha256 = reader::block_sha256(&scope, &claim, disk.virtual_size).await?;
        anyhow::ensure!(sha256 == disk.sha256, "it is another disk");
        anyhow::Ok(())
    }
    .await;
    if imported.is_err() {
        let log = std::fs::read_to_string(own.log()).unwrap_or_default();
        println!("--- the tests' coordinator\n{log}");
    }
    own.hand_back(cluster).await?;
    imported.context("the image does not come from the bucket")?;
    scope.close().await?;
    orders::clear(cluster).await?;
    storage::is_ok(cluster, NOTICED).await.map(drop)
}
