//! What cannot become an image fails at once, says why, and leaves nothing.

use axum::http::StatusCode;
use e2e::cluster::Scope;
use e2e::disk::{Recipe, qemu_img};
use e2e::source::stage;
use e2e::{disk, image};
use hypercloud_api::{ImagePhase, VirtualMachineImage};

/// Creates an image from `url`, waits until it failed, and looks for what is
/// left; reason and message of the failure.
async fn refused(scope: &Scope, name: &str, url: &str) -> anyhow::Result<(String, String)> {
    image::create(scope, name, url, "Block").await?;
    let said = image::failed(scope, name).await?;
    image::delete(scope, name).await?;
    let left = image::leftovers(scope).await?;
    assert!(left.is_empty(), "{name} left {left:?}");
    Ok(said)
}

#[tokio::test]
async fn a_missing_image_fails_for_good() -> anyhow::Result<()> {
    let (scope, server) = stage("missing").await?;
    let (reason, message) = refused(&scope, "missing", &server.missing()).await?;
    assert_eq!(reason, "NotFound");
    assert!(message.contains("does not exist"), "{message}");
    scope.close().await
}

#[tokio::test]
async fn a_web_page_is_no_disk() -> anyhow::Result<()> {
    let (scope, server) = stage("page").await?;
    let page = "<!DOCTYPE html><html><body>Sign in to go on</body></html>\n";
    let address = server.answer("page", StatusCode::OK, "text/html; charset=utf-8", page)?;
    let (reason, message) = refused(&scope, "page", &address.url).await?;
    assert_eq!(reason, "WebPage", "{message}");
    scope.close().await
}

#[tokio::test]
async fn an_image_with_a_backing_file_is_refused() -> anyhow::Result<()> {
    let (scope, server) = stage("backing").await?;
    let base = Recipe {
        virtual_size: 16 << 20,
        data: 4 << 20,
        convert: disk::PLAIN,
    }
    .make()?;
    let folder = tempfile::tempdir()?;
    let image = folder.path().join("overlay.qcow2");
    let backing = base.image.display().to_string();
    qemu_img(
        &["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", &backing],
        &[&image],
    )?;
    let address = server.file("overlay", &image)?;
    let (reason, message) = refused(&scope, "overlay", &address.url).await?;
    assert_eq!(reason, "BackingFile", "{message}");
    scope.close().await
}

#[tokio::test]
async fn an_address_of_the_node_itself_is_refused() -> anyhow::Result<()> {
    let (scope, _server) = stage("inside").await?;
    let (reason, message) = refused(&scope, "inside", "http://127.0.0.1:10248/healthz").await?;
    assert_eq!(reason, "AddressRefused", "{message}");
    scope.close().await
}

#[tokio::test]
async fn a_source_that_does_not_answer_is_tried_again() -> anyhow::Result<()> {
    let (scope, server) = stage("silent").await?;
    // A port that nobody listens on: the one of a server that is gone.
    let url = server.missing();
    drop(server);
    image::create(&scope, "silent", &url, "Block").await?;
    e2e::wait::until("two tries have failed", 3 * image::IMPORT, || async {
        let image = scope.api::<VirtualMachineImage>().get("silent").await?;
        let status = image.status.unwrap_or_default();
        assert_ne!(status.phase, Some(ImagePhase::Failed), "{status:?}");
        let failures = status.retry.as_ref().map_or(0, |retry| retry.failures);
        Ok(e2e::wait::when(failures >= 2, status))
    })
    .await?;
    image::delete(&scope, "silent").await?;
    assert!(image::leftovers(&scope).await?.is_empty());
    scope.close().await
}
