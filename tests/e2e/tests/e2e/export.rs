//! Disks become objects in an object store, whole or not at all.

mod interruption;
mod refusal;
mod usage;

use std::path::Path;

use anyhow::Context;
use e2e::cluster::{Cluster, Scope};
use e2e::disk::{self, Disk, Recipe};
use e2e::source::Server;
use e2e::{download, export, image, reader, system, vm_disk};
use hypercloud_api::{
    ExportReadFrom, VirtualMachineVolumeExport, VirtualMachineVolumeExportStatus,
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use test_store::Store;

const MIB: u64 = 1 << 20;
/// The class whose volumes are made at once.
const IMMEDIATE: &str = "loopfile-immediate";

/// The issue's example, to the letter.
const EXAMPLE: &str = "
apiVersion: hypercloud.tmaxanc.com/v1alpha1
kind: VirtualMachineVolumeExport
metadata: {name: export}
spec:
  pvcName: mydisk
  objectStore: {bucketName: vm-image, objectName: mydisk}
";

/// A namespace with disks, a store that the cluster's pods reach, and the
/// Secret that lets in there.
struct Stage {
    scope: Scope,
    store: Store,
    /// What the disks were made from.
    disk: Disk,
}

/// A stage with a disk for each name and volume mode.
async fn stage(test: &str, disks: &[(&str, &str)]) -> anyhow::Result<Stage> {
    let cluster = Cluster::connect().await?;
    system::all_ready(&cluster, "node-agent").await?;
    let scope = cluster.scope(test).await?;
    let server = Server::start(cluster.address_for_pods().await?).await?;
    let disk = Recipe {
        virtual_size: 160 * MIB,
        data: 48 * MIB,
        convert: disk::ZSTD,
    }
    .make()?;
    let address = server.file("disk", &disk.image)?;
    let spec = json!({"storageClassName": IMMEDIATE, "source": {"http": address.url}});
    image::of(&scope, "origin", spec).await?;
    for (name, mode) in disks {
        let spec = json!({"virtualMachineImageName": "origin", "pvc": {"volumeMode": mode}});
        vm_disk::of(&scope, name, spec).await?;
    }
    for (name, _) in disks {
        vm_disk::ready(&scope, name).await?;
    }
    let store = export::store(&cluster).await?;
    export::keys(&scope).await?;
    Ok(Stage { scope, store, disk })
}

impl Stage {
    fn spec(&self, claim: &str, key: &str, more: Value) -> Value {
        export::spec(&self.store, claim, key, more)
    }

    /// Asserts that the object holds the disk, and that what the status says
    /// of it is true.
    fn assert_holds(
        &self,
        key: &str,
        format: &str,
        status: &VirtualMachineVolumeExportStatus,
        path: &Path,
    ) -> anyhow::Result<()> {
        let sha256 = download::same_disk(path, format, &self.disk.image)?;
        assert_eq!(sha256, self.disk.sha256, "{key}");
        let disk = status.disk.as_ref().context("no disk in the status")?;
        let digest = disk.digest.as_deref();
        assert_eq!(digest, Some(format!("sha256:{sha256}").as_str()), "{key}");
        assert_eq!(disk.virtual_size as u64, self.disk.virtual_size, "{key}");
        let object = status.object.as_ref().context("no object in the status")?;
        assert_eq!(object.url, format!("s3://{}/{key}", export::BUCKET));
        assert_eq!(object.size as u64, path.metadata()?.len(), "{key}");
        let etag = object.etag.as_deref().map(|etag| etag.trim_matches('"'));
        assert_eq!(etag, self.store.etag(key).as_deref(), "{key}");
        assert_eq!(status.progress.as_deref(), Some("100%"));
        Ok(())
    }

    /// Nothing is under way in the store, and no object but these is there.
    fn assert_only(&self, keys: &[&str]) {
        assert!(
            self.store.uploads().is_empty(),
            "{:?}",
            self.store.uploads()
        );
        let objects = self.store.objects();
        let found: Vec<_> = objects.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(found, keys);
    }

    async fn uid(&self, name: &str) -> anyhow::Result<String> {
        let api = self.scope.api::<VirtualMachineVolumeExport>();
        Ok(api.get(name).await?.uid().unwrap_or_default())
    }
}

/// Applies a manifest as it is written.
async fn apply(scope: &Scope, manifest: &str) -> anyhow::Result<()> {
    let object: DynamicObject = serde_yaml::from_str(manifest)?;
    let types = object.types.clone().context("no kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let client = scope.cluster.client.clone();
    let api: Api<DynamicObject> = Api::namespaced_with(client, &scope.namespace, &resource);
    let parameters = PatchParams::apply("e2e");
    api.patch(&object.name_any(), &parameters, &Patch::Apply(&object))
        .await?;
    Ok(())
}

/// Whether the coordinator's configuration names the tests' Service as the
/// cluster's object store.
async fn knows_the_tests_store(cluster: &Cluster) -> anyhow::Result<bool> {
    let client = cluster.client.clone();
    let deployments: Api<Deployment> = Api::namespaced(client, e2e::cluster::SYSTEM_NAMESPACE);
    let deployment = deployments.get("coordinator").await?;
    let configured = serde_json::to_string(&deployment.spec)?;
    Ok(configured.contains("OBJECT_STORE_ENDPOINT"))
}

#[tokio::test]
async fn the_issues_example_works_as_it_stands() -> anyhow::Result<()> {
    let stage = stage("export", &[("mydisk", "Block")]).await?;
    let (scope, store) = (&stage.scope, &stage.store);
    if !knows_the_tests_store(&scope.cluster).await?
        || !export::make_default(&scope.cluster, store).await?
    {
        println!("skipped: the coordinator was not installed by tests/system");
        return stage.scope.close().await;
    }
    apply(scope, EXAMPLE).await?;
    let status = export::succeeded(scope, "export").await?;
    assert_eq!(status.read_from, Some(ExportReadFrom::Volume));
    stage.assert_only(&["mydisk"]);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("mydisk");
    download::by_aws(store, "s3://vm-image/mydisk", &path)?;
    stage.assert_holds("mydisk", "qcow2", &status, &path)?;
    export::tidy(scope, &stage.uid("export").await?).await?;

    // By the same configuration it comes back.
    let source = json!({"objectStore": {"bucketName": "vm-image", "objectName": "mydisk"}});
    image::from(scope, "again", source, "Block").await?;
    image::ready(scope, "again", image::IMPORT).await?;
    let claim = hypercloud_api::names::image_claim("again");
    let sha256 = reader::block_sha256(scope, &claim, stage.disk.virtual_size).await?;
    assert_eq!(sha256, stage.disk.sha256);

    // A person sees it, and the end of the resource is not the object's.
    let events = export::events(scope, "export").await?;
    for reason in ["ExportStarted", "Exported"] {
        let count = events.iter().filter(|found| *found == reason).count();
        assert_eq!(count, 1, "{reason} in {events:?}");
    }
    export::delete(scope, "export").await?;
    stage.assert_only(&["mydisk"]);
    stage.scope.close().await
}

#[tokio::test]
async fn every_format_holds_the_disk() -> anyhow::Result<()> {
    let disks = [("disk", "Block"), ("file", "Filesystem")];
    let stage = stage("export-formats", &disks).await?;
    let (scope, store) = (&stage.scope, &stage.store);
    let kinds = [
        ("zlib", json!({})),
        ("zstd", json!({"compression": "zstd"})),
        ("none", json!({"format": "qcow2", "compression": "none"})),
        ("raw", json!({"format": "raw"})),
    ];
    // Several at a time read one volume.
    for (claim, _) in disks {
        for (kind, more) in &kinds {
            let key = format!("{claim}/{kind}");
            let mut spec = stage.spec(claim, &key, more.clone());
            spec["downloadUrl"] = json!({"expiresAfterSeconds": 600});
            export::start(scope, &format!("{claim}-{kind}"), spec).await?;
        }
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("object");
    for (claim, mode) in disks {
        for (kind, _) in &kinds {
            let key = format!("{claim}/{kind}");
            let name = format!("{claim}-{kind}");
            let status = export::succeeded(scope, &name).await?;
            let url = export::download_url(scope, &status).await?;
            download::by_http(store, &url, &path)?;
            let format = if *kind == "raw" { "raw" } else { "qcow2" };
            stage.assert_holds(&key, format, &status, &path)?;
            let fetched = disk::file_sha256(&path)?;
            download::by_aws(store, &format!("s3://{}/{key}", export::BUCKET), &path)?;
            assert_eq!(disk::file_sha256(&path)?, fetched, "{key}");
            let upload = status.upload.unwrap_or_default();
            println!(
                "{mode} {kind}: {} bytes read, {} stored",
                upload.bytes_read, upload.bytes_stored
            );
            let told = serde_json::to_string(&status.conditions)?;
            assert!(!told.contains("X-Amz-Signature"), "{told}");
        }
    }
    let logs = system::logs(&scope.cluster).await?;
    for secret in [test_store::KEYS.1, "X-Amz-Signature"] {
        assert!(!logs.contains(secret), "{secret} stands in a log");
    }
    assert!(store.uploads().is_empty(), "{:?}", store.uploads());
    stage.scope.close().await
}
