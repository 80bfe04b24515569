//! Files out of ConfigMaps and folders.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use hypercloud_api::{HyperCloudStorageSpec, ManifestMirror};
use serde_json::{Value, json};

use super::memory::Server;
use super::*;

const KEY: &str = "cdi_v1.66.0_cdi-operator.yaml";

fn maps(names: &[&str]) -> HyperCloudStorageSpec {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    spec(ManifestMirror {
        config_maps: Some(names),
        ..ManifestMirror::default()
    })
}

fn put(server: &Server, name: &str, content: Value) {
    let path = format!("/api/v1/namespaces/system/configmaps/{name}");
    let mut map = json!({"metadata": {"name": name}});
    for (key, value) in content.as_object().unwrap() {
        map[key] = value.clone();
    }
    server.put(&path, map);
}

/// Bytes as they stand in `binaryData`.
fn packed(bytes: &[u8]) -> Value {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    let bytes = encoder.finish().unwrap();
    json!(k8s_openapi::ByteString(bytes))
}

#[tokio::test]
async fn config_maps_hold_files_as_they_are_or_packed() {
    let server = Server::default();
    put(&server, "empty", json!({}));
    put(&server, "plain", json!({"data": {KEY: TEXT}}));
    let gz = format!("{KEY}.gz");
    let content = packed(TEXT.as_bytes());
    put(&server, "packed", json!({"binaryData": {&gz: content}}));
    put(&server, "other", json!({"data": {KEY: "# other\n"}}));
    put(&server, "broken", json!({"binaryData": {&gz: "AAAA"}}));
    for (names, expected) in [
        (vec!["plain"], Ok(1)),
        (vec!["packed"], Ok(1)),
        (vec!["gone", "empty", "packed"], Ok(1)),
        // The first that has it counts.
        (vec!["plain", "other"], Ok(1)),
        (vec!["other", "plain"], Err("ManifestChecksumWrong")),
        (vec!["broken"], Err("ManifestInvalid")),
        (vec!["empty"], Err("ManifestMissing")),
    ] {
        let library = library(&server, NEVER);
        let tried = tried(&library, &maps(&names), &cdi()).await;
        assert_eq!(tried.map_err(|e| e.reason()), expected, "{names:?}");
    }
}

#[tokio::test]
async fn a_config_map_that_is_missing_is_named_and_may_come() {
    let server = Server::default();
    let library = library(&server, Duration::from_millis(1));
    put(&server, "empty", json!({}));
    let spec = maps(&["empty", "gone"]);
    let missing = tried(&library, &spec, &cdi()).await.unwrap_err();
    assert_eq!(missing.reason(), "ManifestMissing");
    let words = missing.to_string();
    assert!(
        words.contains("gone (which is not in namespace system)"),
        "{words}"
    );
    assert!(words.contains(KEY), "{words}");
    put(&server, "gone", json!({"data": {KEY: TEXT}}));
    until_there(&library, &spec, &cdi()).await;
}

fn folder(path: &Path) -> HyperCloudStorageSpec {
    spec(ManifestMirror {
        folder: Some(path.to_str().unwrap().to_owned()),
        ..ManifestMirror::default()
    })
}

#[tokio::test]
async fn a_folder_has_files_and_links_to_files() {
    let server = Server::default();
    let library = library(&server, Duration::ZERO);
    let root = tempfile::tempdir().unwrap();
    let spec = folder(root.path());
    let wanted = cdi();
    let tried = || tried(&library, &spec, &wanted);
    assert_eq!(reason(tried().await), "ManifestMissing");
    let release = root.path().join("cdi/v1.66.0");
    let path = release.join("cdi-operator.yaml");
    fs::create_dir_all(&path).unwrap();
    assert_eq!(reason(tried().await), "ManifestRefused");
    fs::remove_dir(&path).unwrap();
    // It has no end.
    symlink("/dev/zero", &path).unwrap();
    assert_eq!(reason(tried().await), "ManifestRefused");
    fs::remove_file(&path).unwrap();
    symlink("gone", &path).unwrap();
    assert_eq!(reason(tried().await), "ManifestMissing");
    fs::write(release.join("gone"), "# other\n").unwrap();
    assert_eq!(reason(tried().await), "ManifestChecksumWrong");
    // As a volume of a ConfigMap has it.
    fs::create_dir(root.path().join("..1")).unwrap();
    fs::write(root.path().join("..1/file"), TEXT).unwrap();
    symlink("..1", root.path().join("..data")).unwrap();
    fs::remove_file(&path).unwrap();
    symlink("../../..data/file", &path).unwrap();
    assert_eq!(tried().await, Ok(1));
}

#[tokio::test]
async fn a_file_that_is_too_large_is_not_read_to_its_end() {
    let server = Server::default();
    let library = library(&server, NEVER);
    let root = tempfile::tempdir().unwrap();
    let release = root.path().join("cdi/v1.66.0");
    fs::create_dir_all(&release).unwrap();
    let file = fs::File::create(release.join("cdi-operator.yaml")).unwrap();
    file.set_len(1 << 40).unwrap();
    let large = tried(&library, &folder(root.path()), &cdi()).await;
    assert_eq!(reason(large), "ManifestInvalid");
}
