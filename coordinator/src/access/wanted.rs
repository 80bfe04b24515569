//! What a specification names: where a source or an object is, and by which
//! objects it is reached. Values and names only, never what a Secret holds.
//! Pure.

use std::fmt;

use hypercloud_api::{CaReference, RESERVED_HEADERS, StoredObject};
use url::Url;

use super::store::Asked;
use crate::agents::source::SourceUrl;

/// A source, with the names of what lets in there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedSource {
    /// Where it is.
    pub place: WantedPlace,
    /// Name of the Secret that lets in.
    pub secret: Option<String>,
    /// ConfigMap with certificates to trust.
    pub ca: Option<CaReference>,
}

/// Where a source is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedPlace {
    /// At a web server.
    Http {
        /// Its address.
        url: SourceUrl,
        /// Headers that stand in the resource.
        headers: Vec<WantedHeader>,
        /// Names of the Secrets that hold further ones.
        secret_headers: Vec<String>,
    },
    /// In an object store.
    Object(WantedObject),
}

/// A header that stands in the resource.
#[derive(Clone, PartialEq, Eq)]
pub struct WantedHeader {
    /// Its name.
    pub name: String,
    /// Its value, which is not shown: it may be meant to be secret.
    pub value: String,
}

impl fmt::Debug for WantedHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WantedHeader")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// An object, as far as the resource says where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedObject {
    /// Name of the bucket.
    pub bucket: Option<String>,
    /// Key of the object.
    pub key: String,
    /// Address of the store.
    pub endpoint: Option<String>,
    /// Region that requests are signed for.
    pub region: Option<String>,
    /// Whether the bucket stands in the path.
    pub path_style: Option<bool>,
    /// Name of the ObjectBucketClaim that says the rest.
    pub claim: Option<String>,
}

/// An object in an object store, with the names of what lets in there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedStored {
    /// The object.
    pub object: WantedObject,
    /// Name of the Secret that lets in.
    pub secret: Option<String>,
    /// ConfigMap with certificates to trust.
    pub ca: Option<CaReference>,
}

impl WantedStored {
    pub(super) fn as_asked(&self) -> Asked<'_> {
        Asked {
            object: &self.object,
            secret: self.secret.as_deref(),
            ca: self.ca.as_ref(),
        }
    }
}

/// Why a specification names nothing that could be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Nothing says where the object is.
    #[error("objectStore names neither a bucket nor an ObjectBucketClaim")]
    BucketMissing,
    /// The address is not one.
    #[error("{field} is not an http:// or https:// URL: {problem}")]
    Address {
        /// Where it stands.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The name of a Secret or ConfigMap is none.
    #[error("a Secret, ConfigMap or ObjectBucketClaim is named {name:?}, which cannot be a name")]
    ReferenceName {
        /// What was named.
        name: String,
    },
}

/// The object that `object` names.
pub fn object(object: &StoredObject) -> Result<WantedObject, Unfit> {
    let claim = object.object_bucket_claim.as_ref();
    claim.map_or(Ok(()), |claim| judge_name(&claim.name))?;
    if object.bucket_name.is_none() && claim.is_none() {
        return Err(Unfit::BucketMissing);
    }
    if let Some(endpoint) = &object.endpoint {
        address("objectStore.endpoint", endpoint)?;
    }
    Ok(WantedObject {
        bucket: object.bucket_name.clone(),
        key: object.object_name.clone(),
        endpoint: object.endpoint.clone(),
        region: object.region.clone(),
        path_style: object.force_path_style,
        claim: claim.map(|claim| claim.name.clone()),
    })
}

/// Refuses what cannot be an object's name: it becomes part of a path to the
/// API server.
pub fn judge_name(name: &str) -> Result<(), Unfit> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_name = name.len() <= 253
        && name.chars().all(plain)
        && name.starts_with(edge)
        && name.ends_with(edge)
        && !name.contains("..");
    if is_name {
        Ok(())
    } else {
        Err(Unfit::ReferenceName {
            name: name.to_owned(),
        })
    }
}

/// Refuses what is no address of a web server.
pub fn address(field: &'static str, text: &str) -> Result<(), Unfit> {
    let url = Url::parse(text).map_err(|error| Unfit::Address {
        field,
        problem: error.to_string(),
    })?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(Unfit::Address {
            field,
            problem: format!("its scheme is {}", url.scheme()),
        });
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Unfit::Address {
            field,
            problem: "it holds credentials, which belong into a Secret: see secretRef".to_owned(),
        });
    }
    Ok(())
}

/// Whether a header is the transfer's own, or of one connection only.
pub fn is_reserved(name: &str) -> bool {
    RESERVED_HEADERS
        .iter()
        .any(|reserved| reserved.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_a_name_and_no_path() {
        assert_eq!(judge_name("web-access.v1"), Ok(()));
        for name in [
            "",
            "my secret",
            "../../kube-system/secrets/x",
            "a/b",
            "-a",
            "a..b",
            "A",
        ] {
            assert!(judge_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn an_address_holds_no_credentials() {
        assert_eq!(address("http", "https://a.example/x"), Ok(()));
        for text in [
            "https://me:word@a.example/x",
            "https://me@a.example/",
            "ftp://a.example/",
        ] {
            let error = address("http", text).unwrap_err().to_string();
            assert!(!error.contains("word"), "{error}");
        }
    }
}
