//! Disks that are in use: exported from a snapshot where one can be taken,
//! waited for where none can.

use std::os::unix::fs::{PermissionsExt, chown};

use e2e::cluster::Cluster;
use e2e::pod::Once;
use e2e::rollback::snapshots;
use e2e::task::LIMIT;
use e2e::volume::BLOCK;
use e2e::wait::{until, when};
use e2e::{disk, download, export, rollback, system};
use hypercloud_api::{ExportReadFrom, VirtualMachineVolumeExport};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;

use super::MIB;

/// A pod that goes on with a shell script on the volume of `claim`.
async fn machine(
    scope: &e2e::cluster::Scope,
    claim: &str,
    mode: &str,
    script: &str,
) -> anyhow::Result<String> {
    let machine = Once {
        name: "machine",
        image: system::shell_image(),
        command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        claim,
        mode,
        limit: LIMIT,
    };
    machine.keep(scope).await
}

#[tokio::test]
async fn a_disk_in_use_is_exported_from_a_snapshot() -> anyhow::Result<()> {
    const SIZE: u64 = 96;
    let cluster = Cluster::connect().await?;
    let scope = cluster.scope("export-used").await?;
    let store = export::store(&cluster).await?;
    export::keys(&scope).await?;
    BLOCK.fill(&scope, "disk", SIZE, 40).await?;
    let kept = BLOCK.sha256(&scope, "disk", 40).await?;
    // It writes behind what is compared, and does not stop.
    let script = "while :; do dd if=/dev/urandom of=/dev/volume bs=1M count=4 seek=48 \
                  conv=notrunc; sync; done";
    let pod = machine(&scope, "disk", "Block", script).await?;
    let spec = export::spec(&store, "disk", "used", json!({}));
    let made = export::start(&scope, "used", spec).await?;
    let status = export::succeeded(&scope, "used").await?;
    assert_eq!(status.read_from, Some(ExportReadFrom::Snapshot));
    assert!(status.taken_at.is_some());
    let phase = scope.api::<Pod>().get(&pod).await?.status;
    let phase = phase.and_then(|status| status.phase);
    assert_eq!(phase.as_deref(), Some("Running"), "the machine went on");

    let folder = tempfile::tempdir()?;
    let (path, raw) = (folder.path().join("object"), folder.path().join("raw"));
    export::save(&store, "used", &path)?;
    disk::qemu_img(&["check", "-q"], &[&path])?;
    disk::qemu_img(&["convert", "-O", "raw"], &[&path, &raw])?;
    let digest = format!("sha256:{}", disk::file_sha256(&raw)?);
    let told = status.disk.unwrap_or_default();
    assert_eq!(told.digest.as_deref(), Some(digest.as_str()));
    assert_eq!(told.virtual_size as u64, SIZE * MIB);
    let bytes = std::fs::read(&raw)?;
    let head = folder.path().join("head");
    std::fs::write(&head, &bytes[..40 << 20])?;
    assert_eq!(disk::file_sha256(&head)?, kept);
    assert!(bytes[48 << 20..52 << 20].iter().any(|byte| *byte != 0));

    // Snapshot and claim were for this only.
    export::tidy(&scope, &made.uid().unwrap_or_default()).await?;
    let left = snapshots(&scope).list(&ListParams::default()).await?.items;
    assert!(left.is_empty(), "{left:?}");
    let claims = scope.api::<PersistentVolumeClaim>();
    let claims = claims.list(&ListParams::default()).await?.items;
    assert_eq!(claims.len(), 1, "{claims:?}");
    scope.close().await
}

#[tokio::test]
async fn a_machine_that_starts_meanwhile_has_the_export_begin_anew() -> anyhow::Result<()> {
    const SIZE: u64 = 96;
    let cluster = Cluster::connect().await?;
    let scope = cluster.scope("export-torn").await?;
    let store = export::store(&cluster).await?;
    export::keys(&scope).await?;
    BLOCK.fill(&scope, "disk", SIZE, 80).await?;
    // What the machine does not write to.
    let rest = "dd if=$DISK bs=1M skip=4 2>/dev/null | sha256sum";
    let kept = BLOCK.run(&scope, "disk", rest).await?;
    store.allow(3);
    let spec = export::spec(&store, "disk", "torn", json!({}));
    let made = export::start(&scope, "torn", spec).await?;
    export::midway(&scope, "torn", &store).await?;
    let script = "dd if=/dev/urandom of=/dev/volume bs=1M count=4; sync; sleep 3600";
    machine(&scope, "disk", "Block", script).await?;
    until("it is read from a snapshot", LIMIT, || async {
        let api = scope.api::<VirtualMachineVolumeExport>();
        let status = api.get("torn").await?.status.unwrap_or_default();
        let anew = status.read_from == Some(ExportReadFrom::Snapshot);
        Ok(when(anew, (status.phase, status.conditions)))
    })
    .await?;
    assert!(store.object("torn").is_none());
    store.allow(u64::MAX);
    let status = export::succeeded(&scope, "torn").await?;
    let folder = tempfile::tempdir()?;
    let (path, raw) = (folder.path().join("object"), folder.path().join("raw"));
    export::save(&store, "torn", &path)?;
    disk::qemu_img(&["convert", "-O", "raw"], &[&path, &raw])?;
    let sha256 = disk::file_sha256(&raw)?;
    let digest = status.disk.and_then(|disk| disk.digest);
    assert_eq!(digest, Some(format!("sha256:{sha256}")));
    std::fs::write(&path, &std::fs::read(&raw)?[4 << 20..])?;
    let found = disk::file_sha256(&path)?;
    assert!(kept.starts_with(&found), "{kept}");
    assert!(store.uploads().is_empty(), "{:?}", store.uploads());
    export::tidy(&scope, &made.uid().unwrap_or_default()).await?;
    scope.close().await
}

#[tokio::test]
async fn a_disk_in_use_whose_storage_takes_no_snapshots_is_waited_for() -> anyhow::Result<()> {
    const SIZE: u64 = 64;
    if std::env::var_os("HCS_E2E_STORAGE_CLASS").is_some() {
        println!("skipped: the nodes of this cluster do not have this machine's files");
        return Ok(());
    }
    let cluster = Cluster::connect().await?;
    let scope = cluster.scope("export-local").await?;
    let store = export::store(&cluster).await?;
    export::keys(&scope).await?;
    let folder = tempfile::tempdir()?;
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777))?;
    let file = folder.path().join("disk.img");
    let recipe = disk::Recipe {
        virtual_size: SIZE * MIB,
        data: 16 * MIB,
        convert: disk::RAW,
    };
    let origin = recipe.make()?;
    std::fs::copy(&origin.image, &file)?;
    chown(&file, Some(107), Some(107))?;
    let volumes: Api<PersistentVolume> = Api::all(cluster.client.clone());
    let nodes = Api::<Node>::all(cluster.client.clone());
    let nodes = nodes.list(&ListParams::default()).await?.items;
    let node = nodes
        .first()
        .map(|node| node.name_any())
        .unwrap_or_default();
    let volume = serde_json::from_value(json!({
        "metadata": {"name": scope.namespace},
        "spec": {
            "capacity": {"storage": "128Mi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "local": {"path": folder.path()},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
            ]}]}}
        }
    }))?;
    volumes.create(&PostParams::default(), &volume).await?;
    let claim = serde_json::from_value(json!({
        "metadata": {"name": "disk"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeName": scope.namespace,
            "resources": {"requests": {"storage": "128Mi"}}
        }
    }))?;
    let claims = scope.api::<PersistentVolumeClaim>();
    claims.create(&PostParams::default(), &claim).await?;

    let pod = machine(&scope, "disk", "Filesystem", "sleep 3600").await?;
    let spec = export::spec(&store, "disk", "local", json!({}));
    let made = export::start(&scope, "local", spec).await?;
    let message = export::waiting(&scope, "local", "VolumeInUse").await?;
    assert!(message.contains(&pod), "{message}");
    // Nothing was made for it yet, in the cluster or in the store.
    assert_eq!(claims.list(&ListParams::default()).await?.items.len(), 1);
    let pods = scope.api::<Pod>();
    assert_eq!(pods.list(&ListParams::default()).await?.items.len(), 1);
    assert!(store.requests().is_empty(), "{:?}", store.requests());

    let now = DeleteParams::default().grace_period(0);
    pods.delete(&pod, &now).await?;
    let status = export::succeeded(&scope, "local").await?;
    assert_eq!(status.read_from, Some(ExportReadFrom::Volume));
    let path = folder.path().join("object");
    export::save(&store, "local", &path)?;
    let sha256 = download::content(&path, "qcow2")?;
    assert_eq!(sha256, origin.sha256);
    export::tidy(&scope, &made.uid().unwrap_or_default()).await?;
    claims.delete("disk", &DeleteParams::default()).await?;
    until("the claim is gone", LIMIT, || async {
        let found = claims.get_opt("disk").await?;
        Ok(when(found.is_none(), found))
    })
    .await?;
    volumes
        .delete(&scope.namespace, &DeleteParams::default())
        .await?;
    scope.close().await
}

#[tokio::test]
async fn a_claim_that_is_not_bound_yet_is_waited_for() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    let scope = cluster.scope("export-unbound").await?;
    let store = export::store(&cluster).await?;
    export::keys(&scope).await?;
    let spec = export::spec(&store, "disk", "late", json!({"digest": "none"}));
    export::start(&scope, "late", spec).await?;
    export::waiting(&scope, "late", "PvcNotFound").await?;
    rollback::claim(&scope, "disk", "Block", 16).await?;
    export::waiting(&scope, "late", "PvcNotBound").await?;
    let script = "dd if=/dev/urandom of=/dev/volume bs=1M count=1; sync";
    e2e::reader::run(&scope, "disk", "Block", script).await?;
    let status = export::succeeded(&scope, "late").await?;
    assert_eq!(status.disk.and_then(|disk| disk.digest), None);
    // Of the system's own claims none is exported.
    let spec = export::spec(&store, "vmim-image", "own", json!({}));
    export::start(&scope, "own", spec).await?;
    let (reason, message) = export::failed(&scope, "own").await?;
    assert_eq!(reason, "ClaimReserved", "{message}");
    scope.close().await
}
