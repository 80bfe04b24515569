//! What a specification asks for, once it is known to make sense. Pure.

use std::time::Duration;

use hypercloud_api::{
    CaReference, ExportCompression, ExportDigest, ExportFormat, VirtualMachineVolumeExportSpec,
};

use crate::access::wanted::{Unfit, WantedStored, judge_name, object};

/// Largest disk whose digest is computed without being asked for, in bytes:
/// all of a disk goes through it, holes too.
const DIGEST_LIMIT: u64 = 256 << 30;

/// A specification that can be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The object to make.
    pub object: WantedStored,
    /// Its format.
    pub format: ExportFormat,
    /// How a qcow2's clusters are compressed.
    pub compression: ExportCompression,
    /// Whether an object that is there is replaced.
    pub overwrite: bool,
    /// For how long an address to fetch it by is to be good, where one is
    /// asked for.
    pub download: Option<Duration>,
    digest: Option<ExportDigest>,
}

impl Wanted {
    /// Whether the digest of a disk on a volume of this `capacity` is
    /// computed.
    pub fn digest(&self, capacity: u64) -> bool {
        match self.digest {
            Some(ExportDigest::Sha256) => true,
            Some(ExportDigest::None) => false,
            None => capacity <= DIGEST_LIMIT,
        }
    }
}

/// Why a specification cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It names nothing that could be reached.
    #[error("{0}: correct it, and create another export")]
    Unfit(#[from] Unfit),
    /// The name of the claim is none.
    #[error("pvcName {name:?} cannot be the name of a claim: create another export")]
    ClaimName {
        /// What was named.
        name: String,
    },
    /// What is not compressed by its format.
    #[error("a raw object is not compressed: create another export without compression")]
    RawCompressed,
}

impl Invalid {
    /// The kind of problem in one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unfit(_) | Self::ClaimName { .. } | Self::RawCompressed => "ExportInvalid",
        }
    }
}

/// What `spec` asks for.
pub fn validate(spec: &VirtualMachineVolumeExportSpec) -> Result<Wanted, Invalid> {
    if judge_name(&spec.pvc_name).is_err() {
        let name = spec.pvc_name.clone();
        return Err(Invalid::ClaimName { name });
    }
    let by_name = || {
        let name = spec.cert_config_map.clone()?;
        Some(CaReference { name, key: None })
    };
    let secret = spec.secret_ref.as_ref().map(|secret| secret.name.clone());
    let ca = spec.ca_config_map.clone().or_else(by_name);
    let names = secret.iter().chain(ca.iter().map(|ca| &ca.name));
    names.into_iter().try_for_each(|name| judge_name(name))?;
    let format = spec.format.unwrap_or_default();
    let compression = match (format, spec.compression) {
        (ExportFormat::Raw, None | Some(ExportCompression::None)) => ExportCompression::None,
        (ExportFormat::Raw, Some(_)) => return Err(Invalid::RawCompressed),
        (ExportFormat::Qcow2, compression) => compression.unwrap_or_default(),
    };
    let seconds = |url: &hypercloud_api::DownloadUrl| {
        u64::try_from(url.expires_after_seconds).map(Duration::from_secs)
    };
    Ok(Wanted {
        object: WantedStored {
            object: object(&spec.object_store)?,
            secret,
            ca,
        },
        format,
        compression,
        overwrite: spec.overwrite,
        download: spec.download_url.as_ref().and_then(|url| seconds(url).ok()),
        digest: spec.digest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypercloud_api::{BucketClaimReference, DownloadUrl, SecretReference, StoredObject};

    fn spec() -> VirtualMachineVolumeExportSpec {
        VirtualMachineVolumeExportSpec {
            pvc_name: "mydisk".into(),
            object_store: StoredObject {
                bucket_name: Some("vm-image".into()),
                object_name: "mydisk".into(),
                ..StoredObject::default()
            },
            ..VirtualMachineVolumeExportSpec::default()
        }
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let wanted = validate(&spec()).unwrap();
        assert_eq!(wanted.format, ExportFormat::Qcow2);
        assert_eq!(wanted.compression, ExportCompression::Zlib);
        assert!(!wanted.overwrite && wanted.download.is_none());
        assert!(wanted.digest(256 << 30) && !wanted.digest((256 << 30) + 1));
        let mut raw = spec();
        raw.format = Some(ExportFormat::Raw);
        raw.digest = Some(ExportDigest::Sha256);
        let wanted = validate(&raw).unwrap();
        assert_eq!(wanted.compression, ExportCompression::None);
        assert!(wanted.digest(u64::MAX));
        raw.digest = Some(ExportDigest::None);
        assert!(!validate(&raw).unwrap().digest(1));
    }

    #[test]
    fn what_is_said_is_carried_out() {
        let mut spec = spec();
        spec.secret_ref = Some(SecretReference {
            name: "keys".into(),
        });
        spec.cert_config_map = Some("ca".into());
        spec.compression = Some(ExportCompression::Zstd);
        spec.overwrite = true;
        spec.download_url = Some(DownloadUrl {
            expires_after_seconds: 60,
        });
        let wanted = validate(&spec).unwrap();
        assert_eq!(wanted.object.secret.as_deref(), Some("keys"));
        assert_eq!(wanted.object.ca.unwrap().name, "ca");
        assert_eq!(wanted.compression, ExportCompression::Zstd);
        assert_eq!(wanted.download, Some(Duration::from_secs(60)));
        assert!(wanted.overwrite);
    }

    #[test]
    fn what_cannot_work_is_said() {
        let bad = |change: fn(&mut VirtualMachineVolumeExportSpec)| {
            let mut spec = spec();
            change(&mut spec);
            let invalid = validate(&spec).unwrap_err();
            assert_eq!(invalid.reason(), "ExportInvalid", "{spec:?}");
        };
        bad(|spec| spec.pvc_name = "../secrets/x".into());
        bad(|spec| spec.object_store.bucket_name = None);
        bad(|spec| spec.object_store.endpoint = Some("s3.example.com".into()));
        bad(|spec| spec.cert_config_map = Some("a/b".into()));
        bad(|spec| {
            let name = "A".into();
            spec.object_store.object_bucket_claim = Some(BucketClaimReference { name });
        });
        bad(|spec| {
            spec.format = Some(ExportFormat::Raw);
            spec.compression = Some(ExportCompression::Zlib);
        });
    }
}
