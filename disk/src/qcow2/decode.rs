//! Decoding of compressed clusters.
//!
//! A cluster decodes to exactly its size: less or more is a damaged or
//! hostile image. Input may have a sector's rest behind its end, which belongs
//! to the next cluster and is not looked at.

use libdeflater::{DecompressionError, Decompressor};
use zstd::zstd_safe;

use super::header::Compression;
use crate::refusal::Refusal;

/// A decoder with its working memory, reused from cluster to cluster. One per
/// thread.
pub struct Decoder(Kind);

enum Kind {
    Deflate(Decompressor),
    Zstd(zstd_safe::DCtx<'static>),
}

impl Decoder {
    /// A decoder for an image's compression type.
    #[must_use]
    pub fn new(compression: Compression) -> Self {
        Self(match compression {
            Compression::Deflate => Kind::Deflate(Decompressor::new()),
            Compression::Zstd => Kind::Zstd(zstd_safe::DCtx::create()),
        })
    }

    /// Decodes the cluster that begins `input` into all of `cluster`.
    /// `offset` is the cluster's place in the source, for messages.
    ///
    /// # Errors
    /// A [`Refusal`] when it is no such cluster, or a shorter or longer one.
    pub fn decode(&mut self, offset: u64, input: &[u8], cluster: &mut [u8]) -> Result<(), Refusal> {
        let decoded = match &mut self.0 {
            Kind::Deflate(deflate) => {
                deflate
                    .deflate_decompress(input, cluster)
                    .map_err(|error| match error {
                        DecompressionError::InsufficientSpace => Refusal::LongCluster { offset },
                        DecompressionError::BadData => Refusal::UndecodableCluster { offset },
                    })?
            }
            Kind::Zstd(context) => {
                // In one piece, straight into the cluster: no window buffer,
                // whose size the frame could choose.
                let frame = zstd_safe::find_frame_compressed_size(input)
                    .ok()
                    .and_then(|length| input.get(..length))
                    .ok_or(Refusal::UndecodableCluster { offset })?;
                context.decompress(cluster, frame).map_err(|code| {
                    if zstd_safe::get_error_name(code).contains("too small") {
                        Refusal::LongCluster { offset }
                    } else {
                        Refusal::UndecodableCluster { offset }
                    }
                })?
            }
        };
        if decoded == cluster.len() {
            Ok(())
        } else {
            Err(Refusal::ShortCluster { offset })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deflated(bytes: &[u8]) -> Vec<u8> {
        let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
        let mut out = vec![0; compressor.deflate_compress_bound(bytes.len())];
        let length = compressor.deflate_compress(bytes, &mut out).unwrap();
        out.truncate(length);
        out
    }

    fn zstandard(bytes: &[u8]) -> Vec<u8> {
        zstd::bulk::compress(bytes, 1).unwrap()
    }

    #[test]
    fn only_whole_clusters_decode() {
        let cluster: Vec<u8> = (0..4096u32).map(|n| (n / 7) as u8).collect();
        type Encode = fn(&[u8]) -> Vec<u8>;
        let kinds: [(Compression, Encode); 2] = [
            (Compression::Deflate, deflated),
            (Compression::Zstd, zstandard),
        ];
        for (compression, encode) in kinds {
            let mut decoder = Decoder::new(compression);
            let mut out = vec![0; 4096];
            let mut input = encode(&cluster);
            input.extend_from_slice(b"the next cluster");
            decoder.decode(7, &input, &mut out).unwrap();
            assert_eq!(out, cluster);

            let short = encode(&cluster[..4095]);
            assert_eq!(
                decoder.decode(7, &short, &mut out),
                Err(Refusal::ShortCluster { offset: 7 })
            );
            let long = encode(&[&cluster[..], b"!"].concat());
            assert_eq!(
                decoder.decode(7, &long, &mut out),
                Err(Refusal::LongCluster { offset: 7 })
            );
            let cut = encode(&cluster);
            assert_eq!(
                decoder.decode(7, &cut[..cut.len() / 2], &mut out),
                Err(Refusal::UndecodableCluster { offset: 7 })
            );
            assert!(decoder.decode(7, b"", &mut out).is_err());
        }
    }
}
