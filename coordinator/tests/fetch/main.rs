//! Manifests from real servers, ConfigMaps and folders: what is taken, what is
//! refused and how that is said, and that it comes right by itself.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../own/memory.rs"]
mod memory;
#[path = "../../../tests/mirror.rs"]
mod mirror;
mod near;
mod released;
mod site;
mod web;

use std::sync::Arc;
use std::time::Duration;

use hyper_util::client::proxy::matcher::Matcher;
use hypercloud_api::{CdiInstallation, HttpMirror, HyperCloudStorageSpec, ManifestMirror};
use hypercloud_coordinator::storage::fetch::{Library, Terms};
use hypercloud_storage::manifest::ManifestError;
use hypercloud_storage::manifest::source::Wanted;
use hypercloud_storage::version::Version;
use hypercloud_storage::version::table::Project;
use memory::Server;
use sha2::{Digest, Sha256};

/// A manifest.
const TEXT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3600);

/// No proxies, and whatever failed is tried again after `again`.
fn terms(again: Duration) -> Terms {
    Terms {
        connect: Duration::from_secs(30),
        whole: Duration::from_secs(60),
        again,
        proxies: Arc::new(Matcher::builder().build()),
    }
}

fn library(server: &Server, again: Duration) -> Library {
    Library::with(server.client(), "system", terms(again))
}

/// A file whose checksum the specification says.
fn wanted(file: &str) -> Wanted {
    Wanted {
        project: Project::Cdi,
        version: Version::new(1, 66, 0),
        file: file.into(),
    }
}

fn cdi() -> Wanted {
    wanted("cdi-operator.yaml")
}

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What takes [`TEXT`] for the released file, from this mirror.
fn spec(mirror: ManifestMirror) -> HyperCloudStorageSpec {
    HyperCloudStorageSpec {
        manifests: Some(mirror),
        cdi: Some(CdiInstallation {
            sha256: Some(sha256(TEXT.as_bytes())),
            version: None,
        }),
        ..HyperCloudStorageSpec::default()
    }
}

fn http(url: &str) -> HyperCloudStorageSpec {
    spec(ManifestMirror {
        http: Some(HttpMirror {
            url: url.to_owned(),
            ca_config_map: None,
        }),
        ..ManifestMirror::default()
    })
}

/// The file as it is after one more try.
async fn tried(
    library: &Library,
    spec: &HyperCloudStorageSpec,
    wanted: &Wanted,
) -> Result<usize, ManifestError> {
    library.fetch(spec, std::slice::from_ref(wanted)).await;
    let files = library.files(spec).await;
    let file = files.get(wanted).expect("the file was fetched");
    file.as_ref().map(|f| f.len()).map_err(Clone::clone)
}

/// Tries until the file is at hand.
async fn until_there(library: &Library, spec: &HyperCloudStorageSpec, wanted: &Wanted) {
    let trying = async {
        while tried(library, spec, wanted).await.is_err() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let limit = Duration::from_secs(30);
    tokio::time::timeout(limit, trying).await.expect("there");
}

/// The reason of an error, with its words for those who look.
fn reason(tried: Result<usize, ManifestError>) -> &'static str {
    let error = tried.expect_err("an error");
    println!("{error}");
    error.reason()
}
