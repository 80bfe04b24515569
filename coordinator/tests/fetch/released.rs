//! Every file of every supported release, from copies beside the project: it
//! is what the table says, by whichever way it came.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use hypercloud_api::{HyperCloudStorageSpec, ManifestMirror};
use hypercloud_storage::manifest::source::Wanted;
use hypercloud_storage::render::ceph_image;
use hypercloud_storage::version::Version;
use hypercloud_storage::version::table::{CsiImages, FILES, ROOK};

use super::memory::Server;
use super::site::{Reply, Site};
use super::*;

fn released() -> Vec<Wanted> {
    FILES
        .iter()
        .map(|file| Wanted {
            project: file.project,
            version: file.version,
            file: file.file.to_owned(),
        })
        .collect()
}

/// Fetches every file, a release at a time, and says how long it took.
async fn fetched(spec: &HyperCloudStorageSpec) {
    let server = Server::default();
    let library = library(&server, NEVER);
    let versions: BTreeSet<Version> = FILES.iter().map(|file| file.version).collect();
    for version in versions {
        let wanted = released().into_iter();
        let wanted: Vec<Wanted> = wanted.filter(|w| w.version == version).collect();
        let begun = Instant::now();
        assert!(library.fetch(spec, &wanted).await);
        let took = begun.elapsed().as_millis();
        println!("{} files of {version}: {took} ms", wanted.len());
        let files = library.files(spec).await;
        for wanted in wanted {
            let objects = files[&wanted].as_ref().unwrap();
            assert!(!objects.is_empty(), "{}", wanted.path());
        }
    }
}

#[tokio::test]
async fn all_pass_from_a_web_server() {
    let Some(folder) = mirror::folder() else {
        return;
    };
    let site = Site::plain().await;
    for wanted in released() {
        let bytes = std::fs::read(folder.join(wanted.path())).unwrap();
        site.set(&format!("/{}", wanted.path()), Reply::File(bytes));
    }
    fetched(&http(&format!("http://127.0.0.1:{}", site.port()))).await;
}

#[tokio::test]
async fn all_pass_from_a_folder() {
    let Some(folder) = mirror::folder() else {
        return;
    };
    let mirror = ManifestMirror {
        folder: Some(folder.to_str().unwrap().to_owned()),
        ..ManifestMirror::default()
    };
    fetched(&spec(mirror)).await;
}

/// The lines that the script prints that fills a mirror.
fn script(arguments: &[&str]) -> BTreeSet<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/manifests.sh");
    let listed = Command::new(script).args(arguments).output().unwrap();
    assert!(listed.status.success(), "{listed:?}");
    let listed = String::from_utf8(listed.stdout).unwrap();
    listed.lines().map(str::to_owned).collect()
}

#[test]
fn the_script_that_fills_a_mirror_knows_every_file() {
    let known: BTreeSet<String> = released()
        .iter()
        .map(|wanted| {
            let address = wanted.project.address(wanted.version, &wanted.file);
            format!("{} {address}", wanted.path())
        })
        .collect();
    assert_eq!(script(&["list"]), known);
}

#[test]
fn the_script_that_fills_a_mirror_knows_the_images_that_stand_in_no_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let mut named = BTreeSet::new();
    for release in ROOK {
        let place = folder.path().join(format!("rook/v{}", release.version));
        std::fs::create_dir_all(place).unwrap();
        named.extend(release.ceph.iter().map(|ceph| ceph_image(*ceph)));
        if let CsiImages::Operator(images) = release.csi_images {
            named.extend(images.iter().map(|(_, image)| (*image).to_owned()));
        }
    }
    assert_eq!(script(&["images", folder.path().to_str().unwrap()]), named);
}
