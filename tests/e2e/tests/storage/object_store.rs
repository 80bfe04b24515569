//! The bucket of the storage is where images come from that name no store.

use std::time::Duration;

use anyhow::Context;
use e2e::disk::{self, Recipe};
use e2e::storage::coordinator::Coordinator;
use e2e::storage::ground::Ground;
use e2e::storage::objects::Object;
use e2e::storage::{self, LIMIT};
use e2e::{image, reader};
use hypercloud_storage::{OBJECT_STORE, SYSTEM_NAMESPACE};
use serde_json::json;
use test_store::{KEYS, Setup, Store};

const OBJECT: &str = "disks/golden.qcow2";
const MIB: u64 = 1 << 20;

/// What Rook makes of the bucket's claim.
fn bucket(kind: &str) -> Object<'_> {
    Object {
        api_version: "v1",
        kind,
        namespace: SYSTEM_NAMESPACE,
        name: OBJECT_STORE,
    }
}

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
        buckets: vec![OBJECT_STORE.to_owned()],
        ..Setup::with(OBJECT, &std::fs::read(&disk.image)?)
    };
    let store = Store::start(setup).await?;

    // Rook says where the bucket is: at the tests' store.
    let (host, port) = (
        store.address.ip().to_string(),
        store.address.port().to_string(),
    );
    let place = json!({"data": {
        "BUCKET_HOST": host, "BUCKET_PORT": port, "BUCKET_NAME": OBJECT_STORE,
    }});
    bucket("ConfigMap").merge(cluster, place).await?;
    let keys = json!({"stringData": {
        "AWS_ACCESS_KEY_ID": KEYS.0, "AWS_SECRET_ACCESS_KEY": KEYS.1,
    }});
    bucket("Secret").merge(cluster, keys).await?;

    // The pods were given a store by their operator; this one was not.
    let own = Coordinator::take_over(cluster).await?;
    let scope = cluster.scope("default-store").await?;
    let source = json!({"objectStore": {"bucketName": OBJECT_STORE, "objectName": OBJECT}});
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
    storage::is_ok(cluster, LIMIT).await.map(drop)
}
