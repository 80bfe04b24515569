//! Encoding of clusters that are written compressed.
//!
//! Deflate is written with its full window of 32 KiB, though QEMU inflates
//! with one of 4 KiB (`inflateInit2` with -12): it does so in one call into
//! one buffer that has room for the cluster, and zlib then looks back in that
//! buffer, however far, and has no window at all. Tests hold QEMU to it.

use libdeflater::{CompressionLvl, Compressor};
use zstd::zstd_safe;

use super::header::Compression;

/// Zstandard's level: its fastest that is not called so.
const ZSTD_LEVEL: i32 = 1;
/// libdeflate's level: several times as fast as zlib at its default, which
/// QEMU uses, and no worse for having the larger window.
const DEFLATE_LEVEL: i32 = 1;

/// An encoder with its working memory, reused from cluster to cluster. One
/// per thread. The same cluster always gives the same bytes.
pub struct Encoder(Kind);

enum Kind {
    Deflate(Compressor),
    Zstd(zstd_safe::CCtx<'static>),
}

impl Encoder {
    /// An encoder for a compression type.
    #[must_use]
    pub fn new(compression: Compression) -> Self {
        Self(match compression {
            Compression::Deflate => {
                let level = CompressionLvl::new(DEFLATE_LEVEL).unwrap_or_default();
                Kind::Deflate(Compressor::new(level))
            }
            Compression::Zstd => Kind::Zstd(zstd_safe::CCtx::create()),
        })
    }

    /// Encodes a cluster into the beginning of `out`: how long it became, or
    /// `None` where that is no shorter, or than `out`.
    pub fn encode(&mut self, cluster: &[u8], out: &mut [u8]) -> Option<usize> {
        let most = out.len().min(cluster.len().checked_sub(1)?);
        let out = out.get_mut(..most)?;
        match &mut self.0 {
            Kind::Deflate(deflate) => deflate.deflate_compress(cluster, out).ok(),
            Kind::Zstd(context) => context.compress(out, cluster, ZSTD_LEVEL).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qcow2::Decoder;

    #[test]
    fn what_is_encoded_decodes_and_noise_is_left() {
        let text: Vec<u8> = (0..65536u32).map(|n| (n / 7 % 251) as u8).collect();
        let mut state = 1u64;
        let noise: Vec<u8> = (0..65536)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect();
        for compression in [Compression::Deflate, Compression::Zstd] {
            let mut encoder = Encoder::new(compression);
            let mut out = vec![0; 65536];
            let length = encoder.encode(&text, &mut out).unwrap();
            let mut decoded = vec![0; 65536];
            Decoder::new(compression)
                .decode(0, &out[..length], &mut decoded)
                .unwrap();
            assert!(decoded == text, "{compression:?}");
            assert_eq!(encoder.encode(&noise, &mut out), None);
            assert_eq!(encoder.encode(&text, &mut out[..length - 1]), None);
            assert_eq!(encoder.encode(&[], &mut out), None);
            let mut again = vec![0; 65536];
            assert_eq!(encoder.encode(&text, &mut again), Some(length));
            assert_eq!(
                Encoder::new(compression).encode(&text, &mut out),
                Some(length)
            );
            assert!(out[..length] == again[..length]);
        }
    }
}
