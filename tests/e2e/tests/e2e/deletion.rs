//! A deleted image leaves nothing, whenever it is deleted.

use e2e::cluster::Scope;
use e2e::disk::{self, Recipe};
use e2e::source::stage;
use e2e::wait::{until, when};
use e2e::{agents, image};
use kube::ResourceExt;

const MIB: u64 = 1 << 20;

/// Asserts that nothing of the image is left in the cluster, on the agents,
/// and, where the volumes are this machine's, among its loop devices.
async fn nothing_left(scope: &Scope, uid: &str, volume: &str) -> anyhow::Result<()> {
    let left = image::leftovers(scope).await?;
    let left: Vec<_> = left
        .into_iter()
        .filter(|l| !l.starts_with("volume"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let jobs = agents::jobs(&scope.cluster).await?;
    assert!(
        jobs.iter().all(|(_, job)| !job.id.starts_with(uid)),
        "{jobs:?}"
    );
    // The volume itself is the provisioner's to remove, in its own time.
    until("the volume is gone", image::DELETION, || async {
        let left = image::leftovers(scope).await?;
        Ok(when(left.is_empty(), left))
    })
    .await?;
    let what = format!("{volume} has no loop device");
    until(&what, image::DELETION, || async {
        let loops = std::process::Command::new("losetup")
            .args(["--list", "--noheadings"])
            .output()?;
        let loops = String::from_utf8_lossy(&loops.stdout).into_owned();
        Ok(when(!loops.contains(volume), loops))
    })
    .await
}

#[tokio::test]
async fn a_ready_image_goes_without_a_trace() -> anyhow::Result<()> {
    let (scope, server) = stage("gone").await?;
    let disk = Recipe {
        virtual_size: 64 * MIB,
        data: 16 * MIB,
        convert: disk::ZLIB,
    }
    .make()?;
    let address = server.file("disk", &disk.image)?;
    let uid = image::create(&scope, "gone", &address.url, "Block")
        .await?
        .uid()
        .unwrap_or_default();
    image::ready(&scope, "gone", image::IMPORT).await?;
    let volume = image::volume_name(&scope, "gone").await?;
    image::delete(&scope, "gone").await?;
    nothing_left(&scope, &uid, &volume).await?;
    scope.close().await
}

#[tokio::test]
async fn an_image_deleted_in_mid_import_goes_without_a_trace() -> anyhow::Result<()> {
    let (scope, server) = stage("midway").await?;
    for mode in ["Block", "Filesystem"] {
        let disk = Recipe {
            virtual_size: 512 * MIB,
            data: 128 * MIB,
            convert: disk::PLAIN,
        };
        let disk = disk.make()?;
        let address = server.file(mode, &disk.image)?;
        address.allow(48 * MIB);
        let name = mode.to_lowercase();
        let image = image::create(&scope, &name, &address.url, mode).await?;
        image::importing(&scope, &name).await?;
        let volume = image::volume_name(&scope, &name).await?;
        // The gate stays shut: the import waits for bytes while it is deleted.
        image::delete(&scope, &name).await?;
        nothing_left(&scope, &image.uid().unwrap_or_default(), &volume).await?;
    }
    scope.close().await
}
