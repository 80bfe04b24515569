//! What a specification asks for, once it is known to make sense. Pure.
//!
//! The API server refuses most nonsense by the schema; what is refused here
//! can never work with nothing changed, so it ends the import.

use hypercloud_api::{VirtualMachineImageSpec, VolumeMode, quantity};
use url::Url;

/// A specification that can be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Address of the source.
    pub url: String,
    /// Volume mode of the claim.
    pub mode: VolumeMode,
    /// Bytes that the claim is to have at least.
    pub at_least: u64,
}

/// Why a specification cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Object stores are named in the API but not read yet.
    #[error("images from an object store are not yet supported: serve the image over HTTP")]
    ObjectStoreNotSupported,
    /// No source is set.
    #[error("source.http is not set")]
    SourceMissing,
    /// The address is not one.
    #[error("source.http is not an http:// or https:// URL: {problem}")]
    SourceUrl {
        /// What is wrong with it.
        problem: String,
    },
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
            Self::ObjectStoreNotSupported => "ObjectStoreNotSupported",
            Self::SourceMissing | Self::SourceUrl { .. } => "SourceInvalid",
            Self::Storage { .. } => "StorageInvalid",
        }
    }
}

/// What `spec` asks for.
pub fn validate(spec: &VirtualMachineImageSpec) -> Result<Wanted, Invalid> {
    if spec.source.object_store.is_some() {
        return Err(Invalid::ObjectStoreNotSupported);
    }
    let text = spec.source.http.as_deref().ok_or(Invalid::SourceMissing)?;
    let url = Url::parse(text).map_err(|error| Invalid::SourceUrl {
        problem: error.to_string(),
    })?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(Invalid::SourceUrl {
            problem: format!("its scheme is {}", url.scheme()),
        });
    }
    let at_least = match spec.pvc.as_ref().and_then(|pvc| pvc.storage.as_ref()) {
        None => 0,
        Some(storage) => quantity::bytes(storage).map_err(|error| Invalid::Storage {
            problem: error.to_string(),
        })?,
    };
    Ok(Wanted {
        url: text.to_owned(),
        mode: spec.volume_mode(),
        at_least,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypercloud_api::{ImageClaim, ImageSource, ObjectStoreSource};
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

    fn spec(source: ImageSource) -> VirtualMachineImageSpec {
        VirtualMachineImageSpec {
            storage_class_name: None,
            source,
            pvc: None,
        }
    }

    fn http(url: &str) -> VirtualMachineImageSpec {
        spec(ImageSource {
            http: Some(url.into()),
            object_store: None,
        })
    }

    #[test]
    fn an_http_source_is_carried_out_as_written() {
        let mut wanted = http("https://example.com/a b.qcow2?sig=x%2By");
        wanted.pvc = Some(ImageClaim {
            volume_mode: Some(VolumeMode::Filesystem),
            access_modes: vec![],
            storage: Some(Quantity("2Gi".into())),
        });
        assert_eq!(
            validate(&wanted),
            Ok(Wanted {
                url: "https://example.com/a b.qcow2?sig=x%2By".into(),
                mode: VolumeMode::Filesystem,
                at_least: 2 << 30,
            })
        );
    }

    #[test]
    fn what_cannot_work_is_said() {
        let store = spec(ImageSource {
            http: None,
            object_store: Some(ObjectStoreSource::default()),
        });
        let mut ten = http("http://example.com/x");
        ten.pvc = Some(ImageClaim {
            storage: Some(Quantity("ten".into())),
            ..ImageClaim::default()
        });
        for (spec, reason) in [
            (store, "ObjectStoreNotSupported"),
            (spec(ImageSource::default()), "SourceInvalid"),
            (http("file:///etc/passwd"), "SourceInvalid"),
            (http("no address"), "SourceInvalid"),
            (ten, "StorageInvalid"),
        ] {
            assert_eq!(validate(&spec).unwrap_err().reason(), reason);
        }
    }
}
