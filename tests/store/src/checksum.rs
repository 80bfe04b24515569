//! Checksums that a client sends with what it stores, as the store verifies
//! them: of a part its bytes', of an object in parts that of its parts'
//! checksums.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use s3s::checksum::ChecksumHasher;
use s3s::dto::{Checksum, ChecksumAlgorithm, ChecksumType};
use s3s::{S3Result, s3_error};

/// A value as it stands in a request, by its algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    pub algorithm: String,
    /// In base64.
    pub value: String,
}

/// The fields in which inputs and outputs have checksums.
macro_rules! sums {
    ($from:expr) => {
        s3s::dto::Checksum {
            checksum_crc32: $from.checksum_crc32.clone(),
            checksum_crc32c: $from.checksum_crc32c.clone(),
            checksum_crc64nvme: $from.checksum_crc64nvme.clone(),
            checksum_sha1: $from.checksum_sha1.clone(),
            checksum_sha256: $from.checksum_sha256.clone(),
            ..s3s::dto::Checksum::default()
        }
    };
}
pub(crate) use sums;

impl Sum {
    /// What a request says; one checksum at most.
    pub fn said(fields: Checksum) -> Option<Self> {
        let values = [
            (ChecksumAlgorithm::CRC32, fields.checksum_crc32),
            (ChecksumAlgorithm::CRC32C, fields.checksum_crc32c),
            (ChecksumAlgorithm::CRC64NVME, fields.checksum_crc64nvme),
            (ChecksumAlgorithm::SHA1, fields.checksum_sha1),
            (ChecksumAlgorithm::SHA256, fields.checksum_sha256),
        ];
        let said = |(algorithm, value): (&str, Option<String>)| {
            let algorithm = algorithm.to_owned();
            value.map(|value| Self { algorithm, value })
        };
        values.into_iter().find_map(said)
    }

    /// The checksum of `bytes`.
    pub fn of(algorithm: &str, bytes: &[u8]) -> S3Result<Self> {
        let mut hasher = ChecksumHasher::default();
        match algorithm {
            ChecksumAlgorithm::CRC32 => hasher.crc32 = Some(Default::default()),
            ChecksumAlgorithm::CRC32C => hasher.crc32c = Some(Default::default()),
            ChecksumAlgorithm::CRC64NVME => hasher.crc64nvme = Some(Default::default()),
            ChecksumAlgorithm::SHA1 => hasher.sha1 = Some(Default::default()),
            ChecksumAlgorithm::SHA256 => hasher.sha256 = Some(Default::default()),
            _ => {
                return Err(s3_error!(
                    InvalidRequest,
                    "no checksum is called {algorithm}"
                ));
            }
        }
        hasher.update(bytes);
        Self::said(hasher.finalize()).ok_or(s3_error!(InternalError))
    }

    /// Compares with what `bytes` have.
    pub fn verify(&self, bytes: &[u8]) -> S3Result<()> {
        if Self::of(&self.algorithm, bytes)? == *self {
            Ok(())
        } else {
            Err(s3_error!(BadDigest, "the {} is another", self.algorithm))
        }
    }

    /// The checksum of an object in parts which have these.
    pub fn composite(algorithm: &str, parts: &[&Self]) -> S3Result<Self> {
        let mut bytes = Vec::new();
        for part in parts {
            let value = BASE64_STANDARD.decode(&part.value);
            bytes.extend(value.map_err(|error| s3_error!(error, InvalidPart))?);
        }
        let whole = Self::of(algorithm, &bytes)?;
        let value = format!("{}-{}", whole.value, parts.len());
        Ok(Self { value, ..whole })
    }

    /// As an answer says it.
    pub fn fields(sum: Option<&Self>) -> Checksum {
        let mut fields = Checksum::default();
        let Some(sum) = sum else { return fields };
        let value = Some(sum.value.clone());
        match sum.algorithm.as_str() {
            ChecksumAlgorithm::CRC32 => fields.checksum_crc32 = value,
            ChecksumAlgorithm::CRC32C => fields.checksum_crc32c = value,
            ChecksumAlgorithm::CRC64NVME => fields.checksum_crc64nvme = value,
            ChecksumAlgorithm::SHA1 => fields.checksum_sha1 = value,
            _ => fields.checksum_sha256 = value,
        }
        let kind = if sum.value.contains('-') {
            ChecksumType::COMPOSITE
        } else {
            ChecksumType::FULL_OBJECT
        };
        fields.checksum_type = Some(ChecksumType::from_static(kind));
        fields
    }
}

/// An ETag that follows from the bytes, as most stores' do.
pub(crate) fn etag(bytes: &[u8]) -> S3Result<String> {
    let sum = Sum::of(ChecksumAlgorithm::CRC64NVME, bytes)?;
    let sum = BASE64_STANDARD.decode(sum.value).unwrap_or_default();
    let hex: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{hex}{:016x}", bytes.len()))
}
