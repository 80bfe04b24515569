//! Images that are packed: what arrives is what was in them.

use std::io::Read;

use e2e::disk::{self, Recipe};
use e2e::source::stage;
use e2e::{image, reader};
use hypercloud_api::VirtualMachineImage;

const MIB: u64 = 1 << 20;

fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    flate2::read::GzEncoder::new(bytes, flate2::Compression::fast()).read_to_end(&mut packed)?;
    Ok(packed)
}

fn zstd(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    zstd::encode_all(bytes, 1)
}

#[tokio::test]
async fn a_packed_image_is_unpacked_on_its_way() -> anyhow::Result<()> {
    let (scope, server) = stage("packed").await?;
    type Pack = fn(&[u8]) -> std::io::Result<Vec<u8>>;
    let kinds: [(_, _, Pack, _); 2] = [
        ("raw", disk::RAW, gzip, "gzip"),
        ("qcow2", disk::PLAIN, zstd, "zstd"),
    ];
    let mut disks = Vec::new();
    for (format, convert, pack, word) in kinds {
        let recipe = Recipe {
            virtual_size: 32 * MIB + 512 * 33,
            data: 8 * MIB,
            convert,
        };
        let disk = recipe.make()?;
        let packed = pack(&std::fs::read(&disk.image)?)?;
        std::fs::write(&disk.image, &packed)?;
        let address = server.file(word, &disk.image)?;
        image::create(&scope, word, &address.url, "Block").await?;
        disks.push((format, word, disk, packed.len()));
    }
    for (format, word, disk, length) in disks {
        image::ready(&scope, word, image::IMPORT).await?;
        let image = scope.api::<VirtualMachineImage>().get(word).await?;
        let found = image
            .status
            .and_then(|status| status.source)
            .unwrap_or_default();
        assert_eq!(
            (found.format.as_str(), found.packing.as_deref()),
            (format, Some(word))
        );
        assert_eq!(found.size, Some(length as i64), "{word}: as it is sent");
        assert_eq!(found.virtual_size, Some(disk.virtual_size as i64), "{word}");
        let claim = hypercloud_api::names::image_claim(word);
        let sha256 = reader::block_sha256(&scope, &claim, disk.virtual_size).await?;
        assert_eq!(sha256, disk.sha256, "{word}");
    }
    scope.close().await
}
