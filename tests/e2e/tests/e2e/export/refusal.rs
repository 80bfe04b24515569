//! What is refused: objects that are there, stores that do not let in, and
//! volumes whose owner would have something else exported.

use e2e::volume::{BLOCK, FILESYSTEM};
use e2e::wait::until;
use e2e::{access, cluster, disk, download, export, system, task};
use hypercloud_api::VirtualMachineVolumeExport;
use serde_json::json;
use test_store::KEYS;

use super::stage;

#[tokio::test]
async fn an_object_is_replaced_only_where_that_is_wanted() -> anyhow::Result<()> {
    let stage = stage("export-there", &[("disk", "Block")]).await?;
    let (scope, store) = (&stage.scope, &stage.store);
    store.put("there", b"somebody's own")?;
    let spec = stage.spec("disk", "there", json!({}));
    export::start(scope, "careful", spec).await?;
    let (reason, message) = export::failed(scope, "careful").await?;
    assert_eq!(reason, "ObjectExists", "{message}");
    assert!(message.contains("exists already"), "{message}");
    assert_eq!(
        store.object("there").as_deref(),
        Some(&b"somebody's own"[..])
    );
    stage.assert_only(&["there"]);

    let spec = stage.spec("disk", "there", json!({"overwrite": true}));
    export::start(scope, "bold", spec).await?;
    let status = export::succeeded(scope, "bold").await?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("object");
    export::save(store, "there", &path)?;
    stage.assert_holds("there", "qcow2", &status, &path)?;
    stage.assert_only(&["there"]);
    for name in ["careful", "bold"] {
        export::tidy(scope, &stage.uid(name).await?).await?;
    }

    // The command line does the same and follows it to its end.
    let url = format!("s3://{}/by-hand", export::BUCKET);
    let words = [
        "export",
        "disk",
        &url,
        "--namespace",
        &scope.namespace,
        "--endpoint",
        &store.endpoint(),
        "--secret",
        export::SECRET,
        "--compression",
        "zstd",
    ];
    let said = download::own("kubectl-hcs", &words)?;
    assert!(said.contains(&stage.disk.sha256), "{said}");
    assert!(said.contains(&url), "{said}");
    export::save(store, "by-hand", &path)?;
    let sha256 = download::same_disk(&path, "qcow2", &stage.disk.image)?;
    assert_eq!(sha256, stage.disk.sha256);
    let refused = download::own("kubectl-hcs", &words);
    let refused = format!(
        "{:#}",
        refused.err().unwrap_or(anyhow::anyhow!("done twice"))
    );
    assert!(refused.contains("ObjectExists"), "{refused}");
    stage.scope.close().await
}

#[tokio::test]
async fn an_export_goes_on_once_the_store_lets_in() -> anyhow::Result<()> {
    let cluster = cluster::Cluster::connect().await?;
    let scope = cluster.scope("export-keys").await?;
    let store = export::store(&cluster).await?;
    BLOCK.fill(&scope, "disk", 32, 12).await?;
    let sha256 = BLOCK.sha256(&scope, "disk", 32).await?;
    let spec = export::spec(&store, "disk", "kept", json!({}));
    export::start(&scope, "late", spec).await?;
    let message = export::waiting(&scope, "late", "SecretNotFound").await?;
    assert!(message.contains(export::SECRET), "{message}");
    let wrong = [("accessKeyId", KEYS.0), ("secretKey", "wrong")];
    access::secret(&scope, export::SECRET, &wrong).await?;
    let message = export::waiting(&scope, "late", "CredentialsRejected").await?;
    let told = format!("change the Secret {}", export::SECRET);
    assert!(message.contains(&told), "{message}");
    let asked = store.requests().len();
    let found: VirtualMachineVolumeExport = task::look(&scope, "late").await?.0;
    let status = found.status.clone().unwrap_or_default();
    assert!(!status.rejected_credentials.is_empty(), "{status:?}");
    let told = until("an Event tells it", task::LIMIT, || async {
        let events = export::events(&scope, "late").await?;
        let told = events.iter().any(|reason| reason == "CredentialsRejected");
        Ok(e2e::wait::when(told, events))
    });
    told.await?;
    assert_eq!(
        store.requests().len(),
        asked,
        "rejected keys are not tried again"
    );
    export::keys(&scope).await?;
    let status = export::succeeded(&scope, "late").await?;
    assert!(status.rejected_credentials.is_empty());
    let digest = status.disk.and_then(|disk| disk.digest);
    assert_eq!(digest, Some(format!("sha256:{sha256}")));

    // Another bucket is for good.
    let mut spec = export::spec(&store, "disk", "kept", json!({}));
    spec["objectStore"]["bucketName"] = json!("elsewhere");
    export::start(&scope, "elsewhere", spec).await?;
    let (reason, message) = export::failed(&scope, "elsewhere").await?;
    assert_eq!(reason, "NoSuchBucket", "{message}");
    assert_eq!(store.objects().len(), 1);
    assert!(store.uploads().is_empty());
    let logs = system::logs(&cluster).await?;
    assert!(!logs.contains(KEYS.1), "the secret key stands in a log");
    scope.close().await
}

#[tokio::test]
async fn a_volumes_owner_gets_nothing_exported_but_the_disk() -> anyhow::Result<()> {
    let cluster = cluster::Cluster::connect().await?;
    let scope = cluster.scope("export-hostile").await?;
    let store = export::store(&cluster).await?;
    export::keys(&scope).await?;
    FILESYSTEM.fill(&scope, "disk", 16, 4).await?;
    for (name, make) in [
        ("absolute", "ln -s /etc/shadow $DISK"),
        ("above", "ln -s ../../../../../../../../etc/shadow $DISK"),
        ("beside", "mv $DISK.kept /volume/other; ln -s other $DISK"),
        ("fifo", "mkfifo $DISK"),
        ("folder", "mkdir $DISK"),
    ] {
        let script = format!(
            "if [ -f $DISK ] && [ ! -L $DISK ]; then mv $DISK $DISK.kept; else rm -rf $DISK; fi; {make}"
        );
        FILESYSTEM.run(&scope, "disk", &script).await?;
        let spec = export::spec(&store, "disk", name, json!({}));
        export::start(&scope, name, spec).await?;
        let (reason, message) = export::failed(&scope, name).await?;
        println!("{name}: {reason}: {message}");
        let refused = ["UnsafeSource", "NotAFile", "InvalidSourceName"];
        assert!(refused.contains(&reason.as_str()), "{reason}: {message}");
        assert!(store.objects().is_empty(), "{:?}", store.objects());
        assert!(store.uploads().is_empty(), "{:?}", store.uploads());
        export::delete(&scope, name).await?;
    }
    // A guest's disk that says it is a qcow2 with a backing file is that
    // many bytes, and nothing else.
    let script = "rm -rf $DISK; mv /volume/other $DISK; \
                  printf 'QFI\\373\\0\\0\\0\\003\\0\\0\\0\\0\\0\\0\\002\\0\\0\\0\\0\\013' | \
                  dd of=$DISK conv=notrunc; printf /etc/shadow | dd of=$DISK bs=1 seek=512 conv=notrunc";
    FILESYSTEM.run(&scope, "disk", script).await?;
    let sha256 = FILESYSTEM.sha256(&scope, "disk", 16).await?;
    for (name, format) in [("guest", "qcow2"), ("guest-raw", "raw")] {
        let spec = export::spec(&store, "disk", name, json!({"format": format}));
        export::start(&scope, name, spec).await?;
        export::succeeded(&scope, name).await?;
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("object");
        export::save(&store, name, &path)?;
        assert_eq!(download::content(&path, format)?, sha256);
        if format == "raw" {
            assert_eq!(disk::file_sha256(&path)?, sha256);
        }
    }
    scope.close().await
}
