//! Packed files for the tests, made by the libraries themselves.

use std::io::{Read, Write};

use flate2::Compression;
use hypercloud_transfer::Packing;
use liblzma::stream::{Check, MtStreamBuilder};

pub const ALL: [Packing; 3] = [Packing::Gzip, Packing::Xz, Packing::Zstd];

/// Packs as the packing's own program does.
pub fn pack(packing: Packing, bytes: &[u8]) -> Vec<u8> {
    match packing {
        Packing::Gzip => gzip(bytes),
        Packing::Xz => xz(bytes, 64 << 20),
        Packing::Zstd => zstd(bytes, None),
    }
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

/// xz in blocks of so many plain bytes.
pub fn xz(bytes: &[u8], block: u64) -> Vec<u8> {
    let encoder = MtStreamBuilder::new()
        .preset(0)
        .block_size(block)
        .check(Check::Crc32)
        .threads(1)
        .encoder()
        .unwrap();
    let mut packed = Vec::new();
    liblzma::read::XzEncoder::new_stream(bytes, encoder)
        .read_to_end(&mut packed)
        .unwrap();
    packed
}

/// Zstandard with a checksum, and a window of the given logarithm.
pub fn zstd(bytes: &[u8], window: Option<u32>) -> Vec<u8> {
    let mut writer = zstd::Encoder::new(Vec::new(), 1).unwrap();
    writer.include_checksum(true).unwrap();
    if let Some(window) = window {
        writer.window_log(window).unwrap();
    }
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}
