//! Disks made from images, claims and snapshots: cloned, restored, handed
//! over, copied; waiting and being deleted.

use std::time::{Duration, Instant};

use e2e::cluster::Scope;
use e2e::disk::{self, Disk, Recipe};
use e2e::source::stage;
use e2e::wait::{until, when};
use e2e::{image, reader, system, vm_disk};
use hypercloud_api::{DiskMethod, DiskPhase, VirtualMachineImage, names};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

const MIB: u64 = 1 << 20;
/// The class whose volumes are made at once.
const IMMEDIATE: &str = "loopfile-immediate";
/// The class whose driver does not clone.
const NO_CLONE: &str = "loopfile-noclone";

/// A small disk, mostly empty.
fn small() -> anyhow::Result<Disk> {
    let recipe = Recipe {
        virtual_size: 96 * MIB,
        data: 16 * MIB,
        convert: disk::ZLIB,
    };
    recipe.make()
}

/// A namespace with the image `small` in a volume of `class`.
async fn imported(test: &str, class: &str) -> anyhow::Result<(Scope, Disk)> {
    let (scope, server) = stage(test).await?;
    let small = small()?;
    let address = server.file("small", &small.image)?;
    let spec = json!({"storageClassName": class, "source": {"http": address.url}});
    image::of(&scope, "small", spec).await?;
    image::ready(&scope, "small", image::IMPORT).await?;
    Ok((scope, small))
}

/// Nothing of the disks is left in the namespace but what `kept` names.
async fn nothing_left(scope: &Scope, kept: &[&str]) -> anyhow::Result<()> {
    until("nothing is left", image::DELETION, || async {
        let mut left = image::leftovers(scope).await?;
        let volumes = left.iter().filter(|l| l.starts_with("volume")).count();
        left.retain(|l| !l.starts_with("volume"));
        left.retain(|l| !kept.iter().any(|kept| *l == format!("claim {kept}")));
        let tidy = left.is_empty() && volumes == kept.len();
        Ok(when(tidy, (left, volumes)))
    })
    .await
}

#[tokio::test]
async fn a_disk_is_cloned_from_an_image_as_large_as_it_is_asked_for() -> anyhow::Result<()> {
    let (scope, small) = imported("clone", IMMEDIATE).await?;
    let larger = json!({"virtualMachineImageName": "small",
        "pvc": {"resources": {"requests": {"storage": "160Mi"}}, "labels": {"tier": "gold"}}});
    vm_disk::of(&scope, "larger", larger).await?;
    let smaller = json!({"virtualMachineImageName": "small",
        "pvc": {"resources": {"requests": {"storage": "1Mi"}}}});
    vm_disk::of(&scope, "smaller", smaller).await?;
    for (name, size) in [("larger", "160Mi"), ("smaller", "96Mi")] {
        let status = vm_disk::ready(&scope, name).await?;
        vm_disk::assert_made_by(&status, DiskMethod::Clone);
        let found = vm_disk::capacity(&scope, name).await?;
        assert_eq!(found, ("Bound".to_owned(), size.to_owned()));
        assert_eq!(status.capacity.as_deref(), Some(size));
        let sha256 = reader::block_sha256(&scope, name, small.virtual_size).await?;
        assert_eq!(sha256, small.sha256, "{name}");
    }
    let status = vm_disk::status(&scope, "smaller").await?;
    let raised = status.conditions.iter().find(|c| c.type_ == "SizeRaised");
    assert!(
        raised.is_some_and(|c| c.message.contains("96Mi")),
        "{status:?}"
    );
    let labels = vm_disk::claim(&scope, "larger").await?.metadata.labels;
    assert_eq!(labels.unwrap_or_default()["tier"], "gold");
    for name in ["larger", "smaller"] {
        vm_disk::delete(&scope, name, &DeleteParams::default()).await?;
    }
    nothing_left(&scope, &["vmim-small"]).await?;
    scope.close().await
}

#[tokio::test]
async fn a_disk_waits_for_its_first_consumer_where_its_class_does() -> anyhow::Result<()> {
    let (scope, small) = imported("consumer", "loopfile").await?;
    vm_disk::of(&scope, "root", json!({"virtualMachineImageName": "small"})).await?;
    let message = vm_disk::says(&scope, "root", "WaitForFirstConsumer").await?;
    assert!(message.contains("loopfile"), "{message}");
    let (phase, _) = vm_disk::capacity(&scope, "root").await?;
    assert_eq!(phase, "Pending");
    let sha256 = reader::block_sha256(&scope, "root", small.virtual_size).await?;
    assert_eq!(sha256, small.sha256);
    let status = vm_disk::ready(&scope, "root").await?;
    vm_disk::assert_made_by(&status, DiskMethod::Clone);
    scope.close().await
}

#[tokio::test]
async fn a_disk_waits_for_its_image_and_is_made_at_once_when_it_comes() -> anyhow::Result<()> {
    let _alone = system::disturb().await;
    let (scope, server) = stage("late").await?;
    vm_disk::of(&scope, "root", json!({"virtualMachineImageName": "small"})).await?;
    let message = vm_disk::says(&scope, "root", "ImageNotFound").await?;
    assert!(message.contains("small"), "{message}");
    let small = small()?;
    let address = server.file("small", &small.image)?;
    let spec = json!({"storageClassName": IMMEDIATE, "source": {"http": address.url}});
    image::of(&scope, "small", spec).await?;
    vm_disk::says(&scope, "root", "ImageNotReady").await?;
    image::ready(&scope, "small", image::IMPORT).await?;
    let begun = Instant::now();
    vm_disk::ready(&scope, "root").await?;
    let took = begun.elapsed();
    assert!(
        took < Duration::from_secs(90),
        "{took:?} from image to disk"
    );
    scope.close().await
}

#[tokio::test]
async fn a_disk_is_made_from_a_claim_and_from_a_snapshot_of_it() -> anyhow::Result<()> {
    let (scope, small) = imported("again", IMMEDIATE).await?;
    vm_disk::of(&scope, "first", json!({"virtualMachineImageName": "small"})).await?;
    vm_disk::ready(&scope, "first").await?;
    vm_disk::of(&scope, "early", json!({"volumeSnapshotName": "before"})).await?;
    vm_disk::says(&scope, "early", "SnapshotNotFound").await?;
    vm_disk::snapshot(&scope, "before", "first").await?;
    let overwrite = "dd if=/dev/zero of=/dev/volume bs=1M count=8 conv=fsync";
    reader::run(&scope, "first", "Block", overwrite).await?;
    vm_disk::of(&scope, "second", json!({"pvcName": "first"})).await?;
    let restored = vm_disk::ready(&scope, "early").await?;
    vm_disk::assert_made_by(&restored, DiskMethod::Restore);
    let cloned = vm_disk::ready(&scope, "second").await?;
    vm_disk::assert_made_by(&cloned, DiskMethod::Clone);
    let sha256 = |name| reader::block_sha256(&scope, name, small.virtual_size);
    assert_eq!(sha256("early").await?, small.sha256);
    let second = sha256("second").await?;
    assert_ne!(second, small.sha256);
    assert_eq!(second, sha256("first").await?);
    scope.close().await
}

#[tokio::test]
async fn a_storage_that_does_not_clone_is_copied_from() -> anyhow::Result<()> {
    let (scope, small) = imported("copied", NO_CLONE).await?;
    vm_disk::of(&scope, "root", json!({"virtualMachineImageName": "small"})).await?;
    let sha256 = reader::block_sha256(&scope, "root", small.virtual_size).await?;
    assert_eq!(sha256, small.sha256);
    let status = vm_disk::ready(&scope, "root").await?;
    vm_disk::assert_made_by(&status, DiskMethod::Copy);
    let written = status.copy.map_or(0, |copy| copy.bytes_written);
    // What is empty is not written.
    let written = u64::try_from(written)?;
    assert!(written > 0 && written < 48 * MIB, "{written} bytes written");
    nothing_left(&scope, &["vmim-small", "root"]).await?;
    vm_disk::delete(&scope, "root", &DeleteParams::default()).await?;
    nothing_left(&scope, &["vmim-small"]).await?;
    scope.close().await
}

#[tokio::test]
async fn a_disk_of_another_volume_mode_is_copied_and_stays_sparse() -> anyhow::Result<()> {
    let (scope, small) = imported("mode", IMMEDIATE).await?;
    let spec = json!({"virtualMachineImageName": "small", "pvc": {"volumeMode": "Filesystem"}});
    vm_disk::of(&scope, "file", spec).await?;
    let status = vm_disk::ready(&scope, "file").await?;
    vm_disk::assert_made_by(&status, DiskMethod::Copy);
    let (sha256, stat) = reader::file_sha256(&scope, "file").await?;
    assert_eq!(sha256, small.sha256);
    assert_eq!(stat, format!("107:107 660 {}", small.virtual_size));
    let room = reader::file_room(&scope, "file").await?;
    assert!(room < 48 * MIB, "{room} bytes for 16 MiB of data");
    nothing_left(&scope, &["vmim-small", "file"]).await?;
    scope.close().await
}

#[tokio::test]
async fn an_image_of_another_namespace_has_to_be_shared() -> anyhow::Result<()> {
    let (owner, small) = imported("owner", IMMEDIATE).await?;
    let (tenant, _server) = stage("tenant").await?;
    let spec = json!({"virtualMachineImageName": "small",
        "virtualMachineImageNamespace": owner.namespace});
    vm_disk::of(&tenant, "root", spec).await?;
    let denied = vm_disk::says(&tenant, "root", "ImageNotShared").await?;
    let spec = json!({"virtualMachineImageName": "none",
        "virtualMachineImageNamespace": owner.namespace});
    vm_disk::of(&tenant, "none", spec).await?;
    let none = vm_disk::says(&tenant, "none", "ImageNotShared").await?;
    assert_eq!(denied.replace("small", "none"), none);
    let grant = json!({"spec": {"sharedWith": {"namespaces": [tenant.namespace]}}});
    let images = owner.api::<VirtualMachineImage>();
    let patch = Patch::Merge(&grant);
    images
        .patch("small", &PatchParams::default(), &patch)
        .await?;
    let status = vm_disk::ready(&tenant, "root").await?;
    vm_disk::assert_made_by(&status, DiskMethod::CloneAndHandOver);
    let sha256 = reader::block_sha256(&tenant, "root", small.virtual_size).await?;
    assert_eq!(sha256, small.sha256);
    nothing_left(&owner, &["vmim-small"]).await?;
    vm_disk::delete(&tenant, "none", &DeleteParams::default()).await?;
    vm_disk::delete(&tenant, "root", &DeleteParams::default()).await?;
    nothing_left(&tenant, &[]).await?;
    owner.close().await?;
    tenant.close().await
}

#[tokio::test]
async fn the_claim_goes_with_its_disk_unless_it_is_orphaned() -> anyhow::Result<()> {
    let (scope, _small) = imported("orphan", IMMEDIATE).await?;
    for name in ["kept", "gone"] {
        vm_disk::of(&scope, name, json!({"virtualMachineImageName": "small"})).await?;
    }
    for name in ["kept", "gone"] {
        vm_disk::ready(&scope, name).await?;
    }
    vm_disk::delete(&scope, "kept", &DeleteParams::orphan()).await?;
    vm_disk::delete(&scope, "gone", &DeleteParams::background()).await?;
    nothing_left(&scope, &["vmim-small", "kept"]).await?;
    let kept = vm_disk::claim(&scope, "kept").await?;
    let owners = kept.metadata.owner_references.unwrap_or_default();
    assert!(owners.is_empty(), "{owners:?}");
    // It is taken for what it is: somebody else's.
    vm_disk::of(&scope, "kept", json!({"virtualMachineImageName": "small"})).await?;
    vm_disk::says(&scope, "kept", "ClaimConflict").await?;
    vm_disk::delete(&scope, "kept", &DeleteParams::background()).await?;
    assert_eq!(vm_disk::capacity(&scope, "kept").await?.0, "Bound");
    scope.close().await
}

#[tokio::test]
async fn a_disk_that_waits_is_deleted_without_a_trace() -> anyhow::Result<()> {
    let (scope, _small) = imported("waiting", "loopfile").await?;
    let mode = json!({"volumeMode": "Filesystem"});
    for (name, pvc) in [("clone", json!({})), ("copy", mode)] {
        let spec = json!({"virtualMachineImageName": "small", "pvc": pvc});
        vm_disk::of(&scope, name, spec).await?;
        vm_disk::says(&scope, name, "WaitForFirstConsumer").await?;
        vm_disk::delete(&scope, name, &DeleteParams::default()).await?;
    }
    nothing_left(&scope, &["vmim-small"]).await?;
    scope.close().await
}

#[tokio::test]
async fn a_claim_of_somebody_else_is_left_alone_and_a_lost_one_is_told() -> anyhow::Result<()> {
    let (scope, _small) = imported("conflict", IMMEDIATE).await?;
    let claims = scope.api::<PersistentVolumeClaim>();
    let claim = serde_json::from_value(json!({"metadata": {"name": "root"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": IMMEDIATE,
        "resources": {"requests": {"storage": "8Mi"}}}}))?;
    claims.create(&PostParams::default(), &claim).await?;
    vm_disk::of(&scope, "root", json!({"virtualMachineImageName": "small"})).await?;
    let message = vm_disk::says(&scope, "root", "ClaimConflict").await?;
    assert!(message.contains("root"), "{message}");
    claims.delete("root", &DeleteParams::default()).await?;
    vm_disk::ready(&scope, "root").await?;
    claims.delete("root", &DeleteParams::default()).await?;
    vm_disk::says(&scope, "root", "ClaimLost").await?;
    let status = vm_disk::status(&scope, "root").await?;
    assert_eq!(status.phase, Some(DiskPhase::Failed));
    let prime = names::RESERVED_CLAIM_PREFIXES[1];
    assert!(
        !image::leftovers(&scope)
            .await?
            .iter()
            .any(|l| l.contains(prime))
    );
    scope.close().await
}
