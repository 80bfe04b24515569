//! Volumes that are given all of their room at once.

use e2e::disk::{self, Recipe};
use e2e::source::stage;
use e2e::{image, reader, system};
use serde_json::json;

const MIB: u64 = 1 << 20;

#[tokio::test]
async fn a_preallocated_file_has_all_of_its_room() -> anyhow::Result<()> {
    let (scope, server) = stage("room").await?;
    let disk = Recipe {
        virtual_size: 64 * MIB,
        data: 8 * MIB,
        convert: disk::ZLIB,
    }
    .make()?;
    let address = server.file("disk", &disk.image)?;
    for (name, preallocation) in [("all", true), ("needed", false)] {
        let spec = json!({
            "storageClassName": system::storage_class(),
            "source": {"http": address.url},
            "pvc": {"volumeMode": "Filesystem"},
            "preallocation": preallocation
        });
        image::of(&scope, name, spec).await?;
    }
    let mut rooms = Vec::new();
    for name in ["all", "needed"] {
        image::ready(&scope, name, image::IMPORT).await?;
        let claim = hypercloud_api::names::image_claim(name);
        let (sha256, _) = reader::file_sha256(&scope, &claim).await?;
        assert_eq!(sha256, disk.sha256, "{name}");
        rooms.push(reader::file_room(&scope, &claim).await?);
    }
    assert!(rooms[0] >= disk.virtual_size, "{rooms:?}");
    assert!(rooms[1] < disk.virtual_size, "holes are left: {rooms:?}");
    scope.close().await
}
