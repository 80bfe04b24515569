//! Images in an object store that looks at every signature.

use e2e::cluster::{Cluster, Scope};
use e2e::disk::{self, Disk, Recipe};
use e2e::{access, image, reader, system};
use hypercloud_api::VirtualMachineImage;
use serde_json::{Value, json};
use test_store::{BUCKET, KEYS, Setup, Store};

const MIB: u64 = 1 << 20;
const OBJECT: &str = "disks/small.qcow2";
/// An access key that the store does not know.
const STRANGER: &str = "AKIDSTRANGER";

/// A namespace, and a store that the cluster's pods reach with a disk in it.
async fn stage(test: &str) -> anyhow::Result<(Scope, Store, Disk)> {
    let cluster = Cluster::connect().await?;
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
    Ok((cluster.scope(test).await?, store, disk))
}

/// The object as a resource names it, let in by the Secret `keys`.
fn object(store: &Store) -> Value {
    json!({
        "objectStore": {
            "bucketName": BUCKET,
            "objectName": OBJECT,
            "endpoint": store.endpoint(),
            "region": "us-east-1",
            "forcePathStyle": true
        },
        "secretRef": {"name": "keys"}
    })
}

async fn arrives(scope: &Scope, name: &str, disk: &Disk) -> anyhow::Result<()> {
    image::ready(scope, name, image::IMPORT).await?;
    let claim = hypercloud_api::names::image_claim(name);
    let sha256 = reader::block_sha256(scope, &claim, disk.virtual_size).await?;
    assert_eq!(sha256, disk.sha256);
    Ok(())
}

#[tokio::test]
async fn an_object_arrives_once_the_keys_are_right() -> anyhow::Result<()> {
    let (scope, store, disk) = stage("object").await?;
    let strange = [("accessKeyId", STRANGER), ("secretKey", KEYS.1)];
    access::secret(&scope, "keys", &strange).await?;
    image::from(&scope, "object", object(&store), "Block").await?;
    let by_stranger = || {
        let seen = store.seen();
        seen.iter().filter(|uri| uri.contains(STRANGER)).count()
    };

    let message = image::waiting(&scope, "object", "CredentialsRejected").await?;
    let told = "does not know the access key";
    assert!(message.contains(told), "{message}");
    assert!(message.contains("change the Secret keys"), "{message}");
    let asked = by_stranger();
    assert!(asked > 0, "{:?}", store.seen());
    let image = scope.api::<VirtualMachineImage>().get("object").await?;
    let status = image.status.unwrap_or_default();
    assert!(!status.rejected_credentials.is_empty());

    let right = [("accessKeyId", KEYS.0), ("secretKey", KEYS.1)];
    access::secret(&scope, "keys", &right).await?;
    arrives(&scope, "object", &disk).await?;
    assert_eq!(by_stranger(), asked, "rejected keys are not tried again");

    let image = scope.api::<VirtualMachineImage>().get("object").await?;
    let told = serde_json::to_string(&image)? + &system::logs(&scope.cluster).await?;
    for secret in [KEYS.1, "X-Amz-Signature"] {
        assert!(!told.contains(secret), "{secret} stands in status or log");
    }
    let status = image.status.unwrap_or_default();
    assert!(status.rejected_credentials.is_empty());
    scope.close().await
}

#[tokio::test]
async fn a_wrong_secret_key_is_waited_out() -> anyhow::Result<()> {
    let (scope, store, disk) = stage("signature").await?;
    let wrong = [
        ("AWS_ACCESS_KEY_ID", KEYS.0),
        ("AWS_SECRET_ACCESS_KEY", "wrong"),
    ];
    access::secret(&scope, "keys", &wrong).await?;
    image::from(&scope, "signature", object(&store), "Block").await?;
    let message = image::waiting(&scope, "signature", "CredentialsRejected").await?;
    let told = "does not accept the signature";
    assert!(message.contains(told), "{message}");
    assert!(message.contains("change the Secret keys"), "{message}");
    let right = [wrong[0], ("AWS_SECRET_ACCESS_KEY", KEYS.1)];
    access::secret(&scope, "keys", &right).await?;
    arrives(&scope, "signature", &disk).await?;
    scope.close().await
}

#[tokio::test]
async fn a_bucket_claim_says_where_and_lets_in() -> anyhow::Result<()> {
    let (scope, store, disk) = stage("bucket").await?;
    let source = json!({"objectStore": {
        "objectName": OBJECT,
        "objectBucketClaim": {"name": "disks"}
    }});
    image::from(&scope, "claimed", source, "Block").await?;
    // A claim's objects come when the bucket is there.
    image::waiting(&scope, "claimed", "ConfigMapNotFound").await?;
    let keys = [
        ("AWS_ACCESS_KEY_ID", KEYS.0),
        ("AWS_SECRET_ACCESS_KEY", KEYS.1),
    ];
    access::secret(&scope, "disks", &keys).await?;
    let place = [
        ("BUCKET_HOST", store.address.ip().to_string()),
        ("BUCKET_PORT", store.address.port().to_string()),
        ("BUCKET_NAME", BUCKET.to_owned()),
        ("BUCKET_REGION", String::new()),
    ];
    let place = place.each_ref().map(|(key, value)| (*key, value.as_str()));
    access::config_map(&scope, "disks", &place).await?;
    arrives(&scope, "claimed", &disk).await?;
    scope.close().await
}
