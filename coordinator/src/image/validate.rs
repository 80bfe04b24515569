//! What a specification asks for, once it is known to make sense. Pure.
//!
//! The API server refuses most nonsense by the schema; what is refused here
//! can never work with nothing changed, so it ends the import.

use hypercloud_api::{DeclaredFormat, VirtualMachineImageSpec, VolumeMode, quantity};

use super::source;
use crate::access::wanted::{Unfit, WantedSource};
use crate::agents::ImageFormat;

/// A specification that can be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The source.
    pub source: WantedSource,
    /// Format that the image is said to have.
    pub format: Option<ImageFormat>,
    /// Digest that the source's bytes are said to have, as `sha256:HEX`.
    pub checksum: Option<String>,
    /// Volume mode of the claim.
    pub mode: VolumeMode,
    /// Bytes that the claim is to have at least.
    pub at_least: u64,
    /// Whether the volume is given all of its room now.
    pub preallocation: bool,
}

/// Why a specification cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// No source is set, or two are.
    #[error("exactly one of source.http and source.objectStore has to be set")]
    SourceMissing,
    /// It names nothing that could be reached.
    #[error("source: {0}")]
    Unfit(#[from] Unfit),
    /// A header that no image may set.
    #[error(
        "source.headers: {name} is the transfer's own, or of one connection only: leave it out"
    )]
    Header {
        /// Its name.
        name: String,
    },
    /// The checksum is not one.
    #[error("source.checksum is neither sha256: and 64, nor sha512: and 128 hexadecimal digits")]
    Checksum,
    /// The size is not one.
    #[error("pvc.storage: {problem}")]
    Storage {
        /// What is wrong with it.
        problem: String,
    },
}

impl Invalid {
    /// The kind of problem in one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::SourceMissing | Self::Unfit(_) | Self::Header { .. } | Self::Checksum => {
                "SourceInvalid"
            }
            Self::Storage { .. } => "StorageInvalid",
        }
    }
}

/// What `spec` asks for.
pub fn validate(spec: &VirtualMachineImageSpec) -> Result<Wanted, Invalid> {
    let source = source::wanted(&spec.source)?;
    let checksum = spec.source.checksum.clone();
    if !checksum.as_deref().is_none_or(is_checksum) {
        return Err(Invalid::Checksum);
    }
    let at_least = match spec.pvc.as_ref().and_then(|pvc| pvc.storage.as_ref()) {
        None => 0,
        Some(storage) => quantity::bytes(storage).map_err(|error| Invalid::Storage {
            problem: error.to_string(),
        })?,
    };
    Ok(Wanted {
        source,
        format: spec.source.format.map(|format| match format {
            DeclaredFormat::Qcow2 => ImageFormat::Qcow2,
            DeclaredFormat::Raw => ImageFormat::Raw,
        }),
        checksum,
        mode: spec.volume_mode(),
        at_least,
        preallocation: spec.preallocation.unwrap_or(false),
    })
}

fn is_checksum(text: &str) -> bool {
    let digits = |digits: &str, count| {
        digits.len() == count && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    match text.split_once(':') {
        Some(("sha256", hex)) => digits(hex, 64),
        Some(("sha512", hex)) => digits(hex, 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::wanted::{WantedObject, WantedPlace};
    use crate::agents::source::SourceUrl;
    use hypercloud_api::{
        BucketClaimReference, CaReference, Header, ImageClaim, ImageSource, SecretReference,
        StoredObject,
    };
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

    fn spec(source: ImageSource) -> VirtualMachineImageSpec {
        VirtualMachineImageSpec {
            storage_class_name: None,
            source,
            pvc: None,
            preallocation: None,
            shared_with: None,
        }
    }

    fn web(url: &str) -> ImageSource {
        ImageSource {
            http: Some(url.into()),
            ..ImageSource::default()
        }
    }

    fn named(name: &str) -> SecretReference {
        SecretReference { name: name.into() }
    }

    #[test]
    fn an_http_source_is_carried_out_as_written() {
        let digest = format!("sha512:{}", "0A".repeat(64));
        let mut asked = spec(ImageSource {
            checksum: Some(digest.clone()),
            format: Some(DeclaredFormat::Raw),
            secret_ref: Some(named("login")),
            cert_config_map: Some("ca".into()),
            secret_headers: vec![named("tokens")],
            ..web("https://example.com/a b.qcow2?sig=x%2By")
        });
        asked.pvc = Some(ImageClaim {
            volume_mode: Some(VolumeMode::Filesystem),
            access_modes: vec![],
            storage: Some(Quantity("2Gi".into())),
        });
        asked.preallocation = Some(true);
        assert_eq!(
            validate(&asked),
            Ok(Wanted {
                source: WantedSource {
                    place: WantedPlace::Http {
                        url: SourceUrl::new("https://example.com/a b.qcow2?sig=x%2By"),
                        headers: vec![],
                        secret_headers: vec!["tokens".into()],
                    },
                    secret: Some("login".into()),
                    ca: Some(CaReference {
                        name: "ca".into(),
                        key: None
                    }),
                },
                format: Some(ImageFormat::Raw),
                checksum: Some(digest),
                mode: VolumeMode::Filesystem,
                at_least: 2 << 30,
                preallocation: true,
            })
        );
    }

    #[test]
    fn an_object_may_be_where_its_claim_says() {
        let claim = BucketClaimReference {
            name: "images".into(),
        };
        let object = StoredObject {
            object_name: "a/b".into(),
            object_bucket_claim: Some(claim),
            ..StoredObject::default()
        };
        let asked = spec(ImageSource {
            object_store: Some(object),
            ..ImageSource::default()
        });
        let object = WantedObject {
            bucket: None,
            key: "a/b".into(),
            endpoint: None,
            region: None,
            path_style: None,
            claim: Some("images".into()),
        };
        assert_eq!(
            validate(&asked).unwrap().source.place,
            WantedPlace::Object(object)
        );
    }

    #[test]
    fn what_cannot_work_is_said() {
        let url = "http://example.com/x";
        let store = |bucket: Option<&str>, endpoint: Option<&str>| ImageSource {
            object_store: Some(StoredObject {
                bucket_name: bucket.map(Into::into),
                endpoint: endpoint.map(Into::into),
                ..StoredObject::default()
            }),
            ..ImageSource::default()
        };
        let header = ImageSource {
            headers: vec![Header {
                name: "hOST".into(),
                value: "inside".into(),
            }],
            ..web(url)
        };
        let digest = |text: &str| ImageSource {
            checksum: Some(text.into()),
            ..web(url)
        };
        let both = ImageSource {
            http: Some(url.into()),
            ..store(Some("abc"), None)
        };
        for source in [
            store(None, None),
            store(Some("abc"), Some("s3.example.com")),
            ImageSource::default(),
            both,
            web("file:///etc/passwd"),
            web("no address"),
            header,
            digest("md5:00"),
            digest("sha256:00"),
            digest(&format!("sha256:{}", "x".repeat(64))),
        ] {
            let invalid = validate(&spec(source.clone())).unwrap_err();
            assert_eq!(invalid.reason(), "SourceInvalid", "{source:?}");
        }
        let mut ten = spec(web(url));
        ten.pvc = Some(ImageClaim {
            storage: Some(Quantity("ten".into())),
            ..ImageClaim::default()
        });
        assert_eq!(validate(&ten).unwrap_err().reason(), "StorageInvalid");
    }
}
