//! A machine boots from a disk as it would under KubeVirt: in a pod without
//! rights, as user 107, which knows nothing but the claim. What it writes goes
//! back with a rollback, goes out with an export, and never into the image.

use e2e::cluster::Scope;
use e2e::machine::{self, Run};
use e2e::source::stage;
use e2e::{disk, export, image, reader, rollback, vm_disk};
use hypercloud_api::names;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use serde_json::json;

/// The image's name.
const IMAGE: &str = "debian";

/// What a machine does first, and what it tells of where it runs.
const FIRST: &[&str] = &[
    "echo first > /root/first; sync",
    "findmnt --noheadings --output SOURCE,FSTYPE /",
];
const SECOND: &[&str] = &["cat /root/first", "echo second > /root/second; sync"];
const LAST: &[&str] = &["cat /root/first", "ls /root"];

#[tokio::test]
async fn machines_boot_side_by_side_from_clones_of_an_image() -> anyhow::Result<()> {
    let scope = imported("boot", "Block").await?;
    disk_of_image(&scope, "one").await?;
    disk_of_image(&scope, "two").await?;
    let (one, two) = tokio::try_join!(
        machine::boot(&scope, "one", "Block", FIRST),
        machine::boot(
            &scope,
            "two",
            "Block",
            &["echo two > /root/other; sync", "ls /root"]
        ),
    )?;
    assert_booted(&one, "/dev/volume is a device of 107:107");
    assert_eq!(two.answers[1], "other", "{}", two.transcript);
    assert!(
        one.time.0 < two.time.1 && two.time.0 < one.time.1,
        "one after the other: {:?}, {:?}",
        one.time,
        two.time
    );
    tokio::try_join!(
        there_and_back(&scope, "one", "Block"),
        out_and_in(&scope, "two"),
    )?;
    let (expected, size) = oracle()?;
    let claim = names::image_claim(IMAGE);
    let sha256 = reader::block_sha256(&scope, &claim, size).await?;
    assert_eq!(sha256, expected, "the image has changed");
    scope.close().await
}

#[tokio::test]
async fn a_machine_boots_from_a_disk_in_a_file() -> anyhow::Result<()> {
    let scope = imported("boot-file", "Filesystem").await?;
    disk_of_image(&scope, "one").await?;
    let one = machine::boot(&scope, "one", "Filesystem", FIRST).await?;
    assert_booted(&one, "/volume/disk.img is a file of 107:107, mode 660");
    there_and_back(&scope, "one", "Filesystem").await?;
    let (sha256, _) = reader::file_sha256(&scope, &names::image_claim(IMAGE)).await?;
    assert_eq!(sha256, oracle()?.0, "the image has changed");
    scope.close().await
}

/// The machine, which user 107 ran, found its disk as `disk` says, and a system
/// on it.
fn assert_booted(run: &Run, disk: &str) {
    let text = &run.transcript;
    let first = text.lines().next().unwrap_or_default();
    assert!(first.starts_with(&format!("== {disk}")), "{text}");
    assert!(first.ends_with("; this is 107:107"), "{text}");
    assert_eq!(run.answers[1], "/dev/vda1 ext4", "{text}");
}

/// Takes a snapshot of a disk on which the first file is, lets a machine write
/// a second one, and puts the disk back. The next machine finds the first file
/// and no other, in the same claim.
async fn there_and_back(scope: &Scope, claim: &str, mode: &str) -> anyhow::Result<()> {
    rollback::snapshot(scope, "before", claim).await?;
    let run = machine::boot(scope, claim, mode, SECOND).await?;
    assert_eq!(run.answers[0], "first", "{}", run.transcript);
    let claims = scope.api::<PersistentVolumeClaim>();
    let uid = claims.get(claim).await?.uid();
    rollback::start(scope, "back", claim, "before").await?;
    rollback::succeeded(scope, "back", rollback::ROLLBACK).await?;
    let run = machine::boot(scope, claim, mode, LAST).await?;
    assert_eq!(run.answers, ["first", "first"], "{}", run.transcript);
    assert_eq!(claims.get(claim).await?.uid(), uid, "another claim");
    Ok(())
}

/// Exports the disk, imports the object as an image with the same Secret, and
/// boots a disk of that: it has what a machine wrote to the first.
async fn out_and_in(scope: &Scope, claim: &str) -> anyhow::Result<()> {
    let store = export::store(&scope.cluster).await?;
    export::keys(scope).await?;
    let spec = export::spec(&store, claim, "machine", json!({}));
    export::start(scope, "out", spec).await?;
    let exported = export::succeeded(scope, "out").await?;
    let source = json!({
        "objectStore": export::object(&store, "machine"),
        "secretRef": {"name": export::SECRET},
        "format": "qcow2"
    });
    image::from(scope, "in", source, "Block").await?;
    image::ready(scope, "in", image::IMPORT).await?;
    let disk = exported.disk.unwrap_or_default();
    let size = disk.virtual_size as u64;
    let found = reader::block_sha256(scope, &names::image_claim("in"), size).await?;
    assert_eq!(disk.digest, Some(format!("sha256:{found}")));
    let spec = json!({"virtualMachineImageName": "in"});
    vm_disk::of(scope, "again", spec).await?;
    let run = machine::boot(scope, "again", "Block", &["ls /root"]).await?;
    assert_eq!(run.answers, ["other"], "{}", run.transcript);
    Ok(())
}

/// SHA-256 and size of the bootable disk's bytes, as qemu-img reads them.
fn oracle() -> anyhow::Result<(String, u64)> {
    let folder = tempfile::tempdir()?;
    let raw = folder.path().join("raw");
    let arguments = ["convert", "-f", "qcow2", "-O", "raw"];
    disk::qemu_img(&arguments, &[&machine::bootable_disk()?, &raw])?;
    Ok((disk::file_sha256(&raw)?, raw.metadata()?.len()))
}

/// A namespace with an image of the disk that boots, in a volume of `mode`.
async fn imported(test: &str, mode: &str) -> anyhow::Result<Scope> {
    let (scope, server) = stage(test).await?;
    let address = server.file("disk.qcow2", &machine::bootable_disk()?)?;
    image::create(&scope, IMAGE, &address.url, mode).await?;
    image::ready(&scope, IMAGE, image::IMPORT).await?;
    Ok(scope)
}

async fn disk_of_image(scope: &Scope, name: &str) -> anyhow::Result<()> {
    let spec = json!({"virtualMachineImageName": IMAGE});
    vm_disk::of(scope, name, spec).await.map(drop)
}
